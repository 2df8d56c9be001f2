"""An agent whose memory lives in an E2B sandbox, and is read back from a second session of it.

Needs ``pip install "agentic-memory[e2b]"`` and E2B_API_KEY. The agent's tools and its memory work in the same sandbox;
between the two sessions it is paused, as it would be overnight. With no key for a model set, an offline stand-in takes
the model's place.
"""

import asyncio
import os
import sys
import uuid

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.permission import AdditionalWorkingDirectory, PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import Toolkit

from agentic_memory import AgenticMemoryMiddleware
from agentic_memory.backends import E2BBackend
from agentic_memory.models import model_from_environment
from agentic_memory.tools import Edit, Read, Write

WORKDIR = "/home/user/workspace"
SANDBOX_SECONDS = 300


def make_agent(backend: E2BBackend) -> Agent:
    """Return an agent that works in the sandbox and may write there without asking."""
    allowed = AdditionalWorkingDirectory(path=WORKDIR, source="example")
    return Agent(
        name="Friday",
        system_prompt="You are a helpful assistant named Friday.",
        model=model_from_environment(os.environ),
        toolkit=Toolkit(tools=[Read(backend=backend), Write(backend=backend), Edit(backend=backend)]),
        middlewares=[AgenticMemoryMiddleware(workdir=WORKDIR, backend=backend)],
        state=AgentState(
            permission_context=PermissionContext(
                mode=PermissionMode.ACCEPT_EDITS, working_directories={WORKDIR: allowed}
            )
        ),
    )


async def ask(backend: E2BBackend, message: str) -> None:
    """Let a new agent answer, as after a restart: only the files in the sandbox connect one with the next."""
    reply = await make_agent(backend).reply(UserMsg("user", message))
    print(f"user: {message}\nFriday: {reply.get_text_content()}\n")


async def main() -> None:
    from e2b import AsyncSandbox

    # The key makes one sandbox of a request that had to be repeated, and with "pause" its files outlive the timeout.
    sandbox = await AsyncSandbox.create(
        timeout=SANDBOX_SECONDS, lifecycle={"on_timeout": "pause"}, idempotency_key=uuid.uuid4().hex
    )
    try:
        await sandbox.files.make_dir(WORKDIR)
        await ask(E2BBackend(sandbox, WORKDIR), "Remember that I live in Hangzhou and prefer concise Chinese answers.")
        await sandbox.pause()

        second = E2BBackend(await AsyncSandbox.connect(sandbox.sandbox_id, timeout=SANDBOX_SECONDS), WORKDIR)
        await ask(second, "Do you remember my location and answer style preference?")
        tree = await second.snapshot(f"{WORKDIR}/Memory", suffix=".md")
        for record in tree.files:
            print(f"{tree.root}/{record.path}\n{(record.data or b'').decode()}")
    finally:
        await sandbox.kill()


if __name__ == "__main__":
    if not os.environ.get("E2B_API_KEY"):
        print("This example makes a sandbox in the E2B cloud: set E2B_API_KEY to your key.", file=sys.stderr)
        sys.exit(2)
    asyncio.run(main())
