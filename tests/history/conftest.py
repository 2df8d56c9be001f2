"""A memory, and an agent on it whose tools are AgentScope's own."""

from collections.abc import Callable
from typing import Any

import agentscope.tool
import pytest
from agentscope.agent import Agent
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import ToolBase, Toolkit
from scripted import ScriptedModel

from agentic_memory.backends import InMemoryBackend, LocalBackend
from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.store import MemoryStore

FACT = {"description": "When travel is planned", "type": "user", "content": "Prefers trains."}


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path) -> MemoryStore:
    backend = InMemoryBackend() if request.param == "memory" else LocalBackend()
    return MemoryStore(workdir=str(tmp_path), backend=backend)


@pytest.fixture
def make_agent() -> Callable[..., Agent]:
    def make(model: ScriptedModel, memory: AgenticMemoryMiddleware, *extra: ToolBase, session: str = "s1") -> Agent:
        backend: Any = memory.store.backend
        tools = [agentscope.tool.Bash(), agentscope.tool.Write(backend=backend), agentscope.tool.Read(backend=backend)]
        state = AgentState(session_id=session, permission_context=PermissionContext(mode=PermissionMode.BYPASS))
        return Agent(
            name="assistant",
            system_prompt="Be brief.",
            model=model,
            toolkit=Toolkit(tools=[*tools, *extra]),
            middlewares=[memory],
            state=state,
        )

    return make


async def write(store: MemoryStore, filename: str, data: bytes) -> None:
    """Write as a program does that knows nothing of this package."""
    await store.backend.write_file(f"{await store.root()}/{filename}", data)


async def told(store: MemoryStore, filename: str) -> list[tuple[str, str]]:
    """Return who did what to a file, newest first."""
    return [(version.who, version.why) for version in await store.history(filename)]
