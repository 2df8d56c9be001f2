"""The Read tool."""

import posixpath
from typing import Final

import agentscope.tool
from agentscope.state import AgentState
from agentscope.tool import BackendBase, ToolChunk, ToolMiddlewareBase

from agentic_memory.backends import ABSENT
from agentic_memory.bases import remember_base
from agentic_memory.tools.answers import Refusal, answer, answers_errors
from agentic_memory.tools.backend import choose_backend
from agentic_memory.tools.cache import fill_cache, show_text
from agentic_memory.tools.inputs import check_absolute
from agentic_memory.tools.reads import note_read

MEDIA_SUFFIXES: Final = frozenset(
    {".pdf", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tiff", ".tif", ".ico"},
)
"""Names that AgentScope's Read does not show as text."""


class Read(agentscope.tool.Read):
    """AgentScope's Read, with fresh bytes each time and a clear answer where the file cannot be seen.

    Reading any part of a file counts as having read it, as it does with AgentScope: the agent may then edit or
    replace the whole, as long as nobody else changed it meanwhile.
    """

    def __init__(
        self,
        max_line_characters: int = 2000,
        model_input_types: list[str] | None = None,
        middlewares: list[ToolMiddlewareBase] | None = None,
        backend: BackendBase | None = None,
    ) -> None:
        """Take the arguments of AgentScope's Read; ``backend`` may be any AgentScope backend, ours or not."""
        self._place = choose_backend(backend)
        super().__init__(max_line_characters, model_input_types, middlewares, self._place)

    @answers_errors
    async def call(
        self,
        file_path: str,
        offset: int = 1,
        limit: int = 2000,
        pages: str | None = None,
        _agent_state: AgentState | None = None,
    ) -> ToolChunk:
        """Show the file, in one round trip unless it is an image or a PDF."""
        check_absolute(file_path)
        record = await self._place.fetch(file_path)
        if record is ABSENT or record.data is None:
            raise Refusal(f"File does not exist: {file_path}")
        if posixpath.splitext(file_path)[1].lower() in MEDIA_SUFFIXES:
            return await super().call(file_path, offset, limit, pages, _agent_state)
        lines = show_text(record.data).splitlines(keepends=True)
        if _agent_state is not None:
            note_read(_agent_state, file_path, remember_base(record.data, version=record.version))
            await fill_cache(_agent_state, file_path, record, self._place)
        first = max(offset, 1)
        shown = enumerate(lines[first - 1 : first - 1 + limit], start=first)
        return answer("\n".join(f"{number:6d}\t{self._cut(line)}" for number, line in shown))

    def _cut(self, line: str) -> str:
        line = line.rstrip("\n")
        return line if len(line) <= self._max_line_characters else f"{line[: self._max_line_characters]}[truncated]"
