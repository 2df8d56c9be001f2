"""One import changed: what worked with AgentScope's class type-checks with ours."""

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatModelBase
from agentscope.tool import BackendBase, Toolkit
from agentscope.workspace import WorkspaceBase

from agentic_memory import AgenticMemoryMiddleware, MemoryStore, Receipt
from agentic_memory.tools import Edit, Read, Write


def build(model: ChatModelBase, workdir: str, backend: BackendBase | None = None) -> Agent:
    memory = AgenticMemoryMiddleware(
        workdir=workdir,
        memory_dir="Memory",
        parameters=AgenticMemoryMiddleware.Parameters(
            memory_max_tokens=4_000,
            memory_instructions="Keep notes in {memory_dir}.",
            retrieval_async=True,
            retrieval_model=model,
            retrieval_max_tokens_per_md=2_000,
            retrieval_max_files=200,
            retrieval_max_tokens_per_frontmatter=256,
            retrieval_instructions="Pick what helps.",
        ),
        backend=backend,
    )
    middlewares: list[MiddlewareBase] = [memory]
    return Agent(
        name="assistant",
        system_prompt="You help.",
        model=model,
        toolkit=Toolkit(tools=[Read(), Write(), Edit()]),
        middlewares=middlewares,
    )


def over_a_workspace(workspace: WorkspaceBase) -> list[AgenticMemoryMiddleware]:
    return [
        AgenticMemoryMiddleware(workdir=workspace.workdir, backend=workspace.get_backend()),
        AgenticMemoryMiddleware(workdir=workspace.workdir, backend=workspace.get_backend),
    ]


def tuned() -> AgenticMemoryMiddleware:
    return AgenticMemoryMiddleware(
        workdir="~",
        parameters=AgenticMemoryMiddleware.Parameters(first_step_wait=0, on_error="raise", language="zh"),
    )


async def what_was_recalled(agent: Agent, memory: AgenticMemoryMiddleware) -> list[str]:
    await agent.reply(UserMsg("user", "Where do I live?"))
    receipt: Receipt | None = memory.receipt(agent)
    store: MemoryStore = memory.store
    files = {file.filename for file in await store.get_all()}
    return [] if receipt is None else [loaded.filename for loaded in receipt.loaded if loaded.filename in files]


def wrong() -> None:
    AgenticMemoryMiddleware("Memory")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
