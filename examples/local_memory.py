"""An agent that remembers across conversations, on the local disk.

One import differs from the same program with AgentScope's own middleware. Run it twice: the second run recalls what
the first one wrote. With no key set, an offline stand-in takes the model's place.
"""

import asyncio
import os
import sys
from pathlib import Path

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.permission import AdditionalWorkingDirectory, PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import Edit, Read, Toolkit, Write

from agentic_memory import AgenticMemoryMiddleware  # was: from agentscope.middleware import AgenticMemoryMiddleware
from agentic_memory.models import model_from_environment


def make_agent(workdir: Path) -> Agent:
    """Return an agent that keeps its memory in ``workdir``/Memory and may write there without asking."""
    allowed = AdditionalWorkingDirectory(path=str(workdir), source="example")
    return Agent(
        name="Friday",
        system_prompt="You are a helpful assistant named Friday.",
        model=model_from_environment(os.environ),
        toolkit=Toolkit(tools=[Read(), Write(), Edit()]),
        middlewares=[AgenticMemoryMiddleware(workdir=str(workdir))],
        state=AgentState(
            permission_context=PermissionContext(
                mode=PermissionMode.ACCEPT_EDITS, working_directories={str(workdir): allowed}
            )
        ),
    )


async def main(workdir: Path) -> None:
    for message in (
        "Remember that I live in Hangzhou and prefer concise Chinese answers.",
        "Do you remember my location and answer style preference?",
    ):
        # A new agent each time, as after a restart: only the files connect the two.
        reply = await make_agent(workdir).reply(UserMsg("user", message))
        print(f"user: {message}\nFriday: {reply.get_text_content()}\n")
    for file in sorted((workdir / "Memory").glob("*.md")):
        print(f"{file}\n{file.read_text(encoding='utf-8')}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "workspace").absolute()))
