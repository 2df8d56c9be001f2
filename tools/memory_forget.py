"""The MemoryForget tool."""

from typing import ClassVar

from agentscope.state import AgentState
from agentscope.tool import ToolChunk

from agentic_memory.tools.answers import answer, answers_errors
from agentic_memory.tools.cache import drop_cache
from agentic_memory.tools.memory_tool import MemoryTool, find_filename
from agentic_memory.tools.reads import forget_read


class MemoryForget(MemoryTool):
    """Move a memory to the trash and take its line out of MEMORY.md, together or not at all."""

    name = "MemoryForget"
    prompt = "tool_memory_forget"
    arguments: ClassVar = {"filename": {"type": "string"}}
    required = ("filename",)

    @answers_errors
    async def call(self, filename: str = "", _agent_state: AgentState | None = None) -> ToolChunk:
        """Forget it, in three round trips."""
        store = self._store_of(_agent_state)
        snapshot = await store.load()
        found = find_filename(snapshot, filename)
        trashed = await store.forget(found)
        if _agent_state is not None:
            path = snapshot.path_of(found)
            forget_read(_agent_state, path)
            drop_cache(_agent_state, path)
        return answer(f"Forgot {found}. A person can bring it back from {trashed}.", filename=found, trashed=trashed)
