"""Whole replies of an agent with its memory in an E2B sandbox, while the service fails at one call after the other.

After each: every byte is old or new, MEMORY.md has not shrunk, the reply went on, and the next one has its memory back.
"""

import itertools
import os
from dataclasses import dataclass

import pytest
from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.permission import AdditionalWorkingDirectory, PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from e2b import AsyncSandbox

from agentic_memory import AgenticMemoryMiddleware
from agentic_memory.backends import ABSENT, E2BBackend, Put
from agentic_memory.models import model_from_environment
from agentic_memory.tools import Edit, Read, Write

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b

HOME = "/home/user"
START = "POST /process.Process/Start"
NOT_FOUND = '{"sandboxId": "x", "message": "The sandbox was not found", "code": 502}'
INDEX = "- [Location](user_location.md) — I live in Hangzhou\n"
LOCATION = "---\nname: Location\ndescription: Where the user lives\ntype: user\n---\n\nI live in Hangzhou\n"
CALLS = 6
"""Calls to the sandbox in one such reply without a fault, those of the history included; a test counts them."""

TROUBLES = {
    "429": {"status": 429},
    "500": {"status": 500},
    "502 not found": {"status": 502, "body": NOT_FOUND},
    "503": {"status": 503},
    "504 after the work": {"status": 504, "after": True},
    "reply lost": {"drop": True, "after": True},
    "reply cut": {"cut_reply": 60},
    "paused": {"state": "pause"},
}


@dataclass
class Conversation:
    """A memory in a directory of its own, and the agents that come to it one after the other."""

    backend: E2BBackend
    workdir: str

    def agent(self) -> tuple[Agent, AgenticMemoryMiddleware]:
        memory = AgenticMemoryMiddleware(workdir=self.workdir, backend=self.backend)
        allowed = AdditionalWorkingDirectory(path=self.workdir, source="test")
        context = PermissionContext(mode=PermissionMode.ACCEPT_EDITS, working_directories={self.workdir: allowed})
        agent = Agent(
            name="Friday",
            system_prompt="You are a helpful assistant.",
            model=model_from_environment(os.environ),
            toolkit=Toolkit(tools=[tool(backend=self.backend) for tool in (Read, Write, Edit)]),
            middlewares=[memory],
            state=AgentState(permission_context=context),
        )
        return agent, memory

    async def files(self) -> dict[str, str]:
        tree = await self.backend.snapshot(f"{self.workdir}/Memory")
        return {record.path: (record.data or b"").decode() for record in tree.files}


@pytest.fixture
async def conversation(local_sandbox: AsyncSandbox, place: str, monkeypatch: pytest.MonkeyPatch) -> Conversation:
    monkeypatch.setenv("AGENTIC_MEMORY_MODEL", "offline")
    backend = E2BBackend(local_sandbox, HOME, timeout=10)
    memory = {"MEMORY.md": INDEX, "user_location.md": LOCATION}
    await backend.transact([Put(f"{place}/Memory/{name}", text.encode(), ABSENT) for name, text in memory.items()])
    return Conversation(backend, place)


REMEMBER = UserMsg("user", "Remember that I prefer concise Chinese answers.")
RECALL = UserMsg("user", "What do you know about where I live?")


async def test_a_reply_without_a_fault_makes_as_many_calls_as_are_tried_below(faults, conversation):
    agent, memory = conversation.agent()
    await agent.reply(REMEMBER)
    assert len(await faults.calls()) == CALLS
    receipt = memory.receipt(agent)
    assert receipt is not None
    assert not receipt.failed
    files = await conversation.files()
    assert sorted(files) == ["MEMORY.md", "feedback_answer_style.md", "user_location.md"]
    assert files["MEMORY.md"].startswith(INDEX)


@pytest.mark.parametrize(("number", "name"), list(itertools.product(range(CALLS), TROUBLES)))
async def test_a_fault_at_any_call_of_a_reply_loses_nothing(faults, conversation, local_sandbox, number, name):
    agent, memory = conversation.agent()
    await faults.fault(START, skip=number, **TROUBLES[name])
    reply = await agent.reply(REMEMBER)
    assert reply.get_text_content()
    receipt = memory.receipt(agent)
    assert receipt is not None
    if number == 0:
        assert receipt.failed
    await faults.clear()
    if name == "paused":
        await local_sandbox.connect(timeout=600)

    files = await conversation.files()
    assert files["MEMORY.md"].startswith(INDEX)
    assert files["user_location.md"] == LOCATION
    assert files.get("feedback_answer_style.md", "concise Chinese answers\n").endswith("concise Chinese answers\n")
    assert set(files) <= {"MEMORY.md", "user_location.md", "feedback_answer_style.md"}

    agent, memory = conversation.agent()
    reply = await agent.reply(RECALL)
    assert "Hangzhou" in (reply.get_text_content() or "")
    receipt = memory.receipt(agent)
    assert receipt is not None
    assert not receipt.failed


@pytest.mark.parametrize("number", [0, CALLS - 2])
async def test_a_reply_goes_on_when_its_sandbox_is_killed(faults, conversation, new_sandbox, number):
    conversation.backend = E2BBackend(await new_sandbox(), HOME, timeout=10)
    agent, memory = conversation.agent()
    await faults.fault(START, skip=number, state="kill")
    reply = await agent.reply(REMEMBER)
    assert reply.get_text_content()
    receipt = memory.receipt(agent)
    assert receipt is not None
    assert number or "is gone" in receipt.failed[0].error
