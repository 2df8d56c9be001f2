"""Agents of people, each with a model that says what the test tells it to."""

from collections.abc import Callable, Sequence

import pytest
from agentscope.agent import Agent
from agentscope.permission import PermissionMode
from agentscope.state import AgentState
from agentscope.tool import Glob, Grep, ToolBase, Toolkit
from scripted import ScriptedModel

from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.tools import Edit, Read, Write


@pytest.fixture
def make_agent() -> Callable[..., Agent]:
    def make(
        model: ScriptedModel,
        memory: AgenticMemoryMiddleware,
        *,
        name: str = "assistant",
        session: str = "s",
        tools: Sequence[ToolBase] = (),
    ) -> Agent:
        agent = Agent(
            name=name,
            system_prompt="You help.",
            model=model,
            toolkit=Toolkit(tools=[*tools] or [Read(), Write(), Edit(), Glob(), Grep()]),
            middlewares=[memory],
            state=AgentState(session_id=session),
        )
        agent.state.permission_context.mode = PermissionMode.BYPASS
        return agent

    return make
