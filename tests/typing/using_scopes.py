"""Many people on one instance, and memories that are read together."""

from agentscope.agent import Agent
from agentscope.app import create_app
from agentscope.app.message_bus import MessageBus
from agentscope.app.storage import StorageBase
from agentscope.app.workspace_manager import WorkspaceManagerBase

from agentic_memory import AgenticMemoryMiddleware, Identity, Layer, MemoryStore
from agentic_memory.service import MemoryMiddlewareFactory, ServiceSettings


def whose(agent: Agent) -> Identity:
    return Identity(user_id=agent.name)


def build() -> list[AgenticMemoryMiddleware]:
    return [
        AgenticMemoryMiddleware(workdir="data", scope="user", identity=Identity(user_id="alice")),
        AgenticMemoryMiddleware(workdir="data", scope="tenants/{project_id}/{user_id}", identity=whose),
        AgenticMemoryMiddleware(
            workdir="data",
            layers=[Layer("user"), Layer("team", "teams/{project_id}"), Layer("project", ".", workdir="repository")],
            identity=Identity(user_id="alice", project_id="billing"),
        ),
    ]


def stores(memory: AgenticMemoryMiddleware, agent: Agent) -> list[MemoryStore]:
    return [memory.store, memory.store_of(agent), memory.store_of(agent.state)]


def serve(storage: StorageBase, bus: MessageBus, workspaces: WorkspaceManagerBase) -> None:
    factory = MemoryMiddlewareFactory(ServiceSettings(workdir="/srv/memory"))
    app = create_app(storage=storage, message_bus=bus, workspace_manager=workspaces, extra_agent_middlewares=factory)
    factory.attach_to_app(app)
