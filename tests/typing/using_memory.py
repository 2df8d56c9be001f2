"""What Mem0's users and the users of the memory tools write type-checks."""

from agentscope.agent import Agent
from agentscope.model import ChatModelBase
from agentscope.tool import Toolkit

from agentic_memory import AgenticMemoryMiddleware, Memory, MemoryStore
from agentic_memory.tools import MemoryAdd, MemoryForget, MemorySearch, MemoryUpdate


async def as_with_mem0(model: ChatModelBase) -> list[str]:
    async with Memory(workdir="data", model=model) as memory:
        await memory.add([{"role": "user", "content": "I like tea."}], user_id="alice", metadata={"topic": "drinks"})
        found = await memory.search("tea", user_id="alice", limit=3)
        everything = await memory.get_all(filters={"user_id": "alice"})
        await memory.update(found["results"][0]["id"], "I like coffee.")
        await memory.history(found["results"][0]["id"])
        await memory.delete_all(user_id="alice")
        return [record["memory"] for record in everything["results"]]


async def with_tools(model: ChatModelBase) -> Agent:
    parameters = AgenticMemoryMiddleware.Parameters(mode="both", write_permission="ask")
    memory = AgenticMemoryMiddleware(workdir=".", parameters=parameters)
    return Agent(
        name="assistant",
        system_prompt="You help.",
        model=model,
        toolkit=Toolkit(tools=await memory.list_tools()),
        middlewares=[memory],
    )


def alone(store: MemoryStore) -> Toolkit:
    return Toolkit(
        tools=[
            MemorySearch(store, max_tokens=1_000, limit=3),
            MemoryAdd(store, permission="allow"),
            MemoryUpdate(store),
            MemoryForget(store, permission="deny"),
        ]
    )


def wrong(store: MemoryStore) -> None:
    MemoryAdd(store, permission="perhaps")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
