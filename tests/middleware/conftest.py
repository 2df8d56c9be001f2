"""A memory on disk with a few files, and agents that use it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from agentscope.agent import Agent
from agentscope.middleware import MiddlewareBase
from agentscope.permission import AdditionalWorkingDirectory, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from scripted import ScriptedModel

from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.tools.edit import Edit
from agentic_memory.tools.read import Read
from agentic_memory.tools.write import Write

PROFILE = """---
name: User profile
description: When the answer depends on where the user lives or how they like answers
type: user
---
Lives in Hangzhou. Prefers concise Chinese answers.
"""
DEPLOY = """---
name: Deploy rules
description: Before deploying the billing service
type: project
---
Never deploy the billing service on a Friday.
"""
INDEX = """- [User profile](user_profile.md) — home and answer style
- [Deploy rules](deploy.md) — before a deploy of billing
"""


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    memory = tmp_path / "Memory"
    memory.mkdir()
    (memory / "user_profile.md").write_text(PROFILE, encoding="utf-8")
    (memory / "deploy.md").write_text(DEPLOY, encoding="utf-8")
    (memory / "MEMORY.md").write_text(INDEX, encoding="utf-8")
    return tmp_path


@pytest.fixture
def make_memory(workdir: Path) -> Callable[..., AgenticMemoryMiddleware]:
    def make(*, at: Path = workdir, **parameters: Any) -> AgenticMemoryMiddleware:
        return AgenticMemoryMiddleware(workdir=str(at), parameters=AgenticMemoryMiddleware.Parameters(**parameters))

    return make


@pytest.fixture
def make_agent(workdir: Path) -> Callable[..., Agent]:
    def make(
        model: ScriptedModel,
        memory: AgenticMemoryMiddleware,
        *,
        name: str = "assistant",
        state: AgentState | None = None,
        allow: bool = True,
        more: Sequence[MiddlewareBase] = (),
        **kwargs: Any,
    ) -> Agent:
        agent = Agent(
            name=name,
            system_prompt="You are a helpful assistant.",
            model=model,
            toolkit=Toolkit(tools=[Read(), Write(), Edit()]),
            middlewares=[memory, *more],
            state=state,
            **kwargs,
        )
        if allow:
            agent.state.permission_context.mode = PermissionMode.ACCEPT_EDITS
            agent.state.permission_context.working_directories[str(workdir)] = AdditionalWorkingDirectory(
                path=str(workdir), source="test"
            )
        return agent

    return make
