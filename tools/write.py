"""The Write tool."""

from typing import Final

import agentscope.tool
from agentscope.state import AgentState
from agentscope.tool import BackendBase, ToolBase, ToolChunk, ToolMiddlewareBase

from agentic_memory.backends import ABSENT, version_of
from agentic_memory.bases import BaseSource, remember_base
from agentic_memory.encodings import decode
from agentic_memory.errors import Conflict
from agentic_memory.tools.answers import Refusal, answer, answers_errors
from agentic_memory.tools.backend import choose_backend
from agentic_memory.tools.cache import drop_cache, refresh_cache, show_text
from agentic_memory.tools.diffs import unified_diff
from agentic_memory.tools.guarding import (
    SECRETS_LEFT_OUT,
    leave_out_secrets,
    objections_of_tool,
    refuse_harm,
    remarks_of_tool,
)
from agentic_memory.tools.inputs import check_absolute, check_text
from agentic_memory.tools.keeping import replace_file
from agentic_memory.tools.merging import describe_merged, merge_newer
from agentic_memory.tools.newlines import is_uniformly_crlf
from agentic_memory.tools.reads import note_read
from agentic_memory.tools.seen import Seen, find_seen, how_seen, was_seen

MAX_ATTEMPTS: Final = 5
"""How often a write is tried when the file keeps changing underneath it."""

_BOM: Final = "\ufeff"


class Write(agentscope.tool.Write):
    """AgentScope's Write, which replaces only bytes the agent knows and creates only where nothing is.

    A file the agent never read is left alone. One that changed since gets what the agent changed in the text it knew,
    if the changes do not meet; otherwise it is left alone too, and the answer shows where they do. An empty file may
    always be written, and writing what is there already always succeeds.
    """

    bases: BaseSource | None = None
    """Where else to look for a text that the agent has read and this process does not keep: a history. An attribute,
    because the constructor takes AgentScope's arguments and no others."""

    def __init__(
        self,
        dangerous_files: list[str] = ToolBase.dangerous_files,
        dangerous_directories: list[str] = ToolBase.dangerous_directories,
        middlewares: list[ToolMiddlewareBase] | None = None,
        backend: BackendBase | None = None,
    ) -> None:
        """Take the arguments of AgentScope's Write; ``backend`` may be any AgentScope backend, ours or not."""
        self._place = choose_backend(backend)
        super().__init__(dangerous_files, dangerous_directories, middlewares, self._place)

    @answers_errors
    async def call(self, file_path: str, content: str, _agent_state: AgentState | None = None) -> ToolChunk:
        """Write the file: one round trip for a new one, two for one that is there."""
        check_absolute(file_path)
        check_text(content, "content")
        seen_before = was_seen(_agent_state, file_path)
        # To an agent that never saw the path, creating is tried at once: if something is there after all, the conflict
        # brings its bytes along. What a guard objects to may be the file's own, though, which takes a look to tell.
        look = seen_before or bool(objections_of_tool(_agent_state, file_path, b"", content.encode()))
        current = await self._look(file_path) if look else None
        for _ in range(MAX_ATTEMPTS):
            sent = data = content.encode()
            known = b""
            if current is not None:
                sent = data = _follow_conventions(content, decode(current)[0]).encode()
                if data == current:
                    return await self._report(file_path, current, data, _agent_state)
                known = await self._known(file_path, current, _agent_state)
            sent = leave_out_secrets(_agent_state, file_path, known, data)
            note, data = SECRETS_LEFT_OUT if sent != data else "", sent
            note += remarks_of_tool(_agent_state, file_path, known, data)
            refuse_harm(_agent_state, file_path, known, data, call={"file_path": file_path, "content": content})
            if current is not None and known != current:
                data = await merge_newer(file_path, base=known, ours=sent, theirs=current)
            try:
                await replace_file(self._place, file_path, data, before=current, why="written")
            except Conflict as conflict:
                current = conflict.current
            else:
                return await self._report(file_path, current, data, _agent_state, sent=sent, note=note)
        raise Conflict(file_path, expected="the bytes just seen", current=current)

    async def _look(self, path: str) -> bytes | None:
        record = await self._place.fetch(path)
        return None if record is ABSENT else record.data

    async def _known(self, path: str, current: bytes, state: AgentState | None) -> bytes:
        """Return the bytes that the agent knows, ``current`` or older ones; refuse when there are none to go by."""
        if not current.removeprefix(_BOM.encode()).strip():
            return current  # nothing is there that could be lost
        seen = how_seen(state, path, current)
        if seen is Seen.CURRENT:
            return current
        if seen is Seen.NEVER:
            raise Refusal(
                f"File {path} exists but has not been read yet. You must read the file first before writing to it."
            )
        known = await find_seen(state, path, elsewhere=self.bases)
        if known is None:
            raise Refusal(
                f"File {path} changed since you read it, so nothing was written. Read it again, and keep what others "
                "changed; for a small change use Edit."
            )
        return known

    async def _report(
        self,
        path: str,
        before: bytes | None,
        after: bytes,
        state: AgentState | None,
        *,
        sent: bytes | None = None,
        note: str = "",
    ) -> ToolChunk:
        if before is None and was_seen(state, path):
            note += " It had been removed since you read it, so it was created anew."
        if state is not None and sent is not None and sent != after:
            # The agent goes on from what it sent. If the merged text counted as read, a next Write without what others
            # added would take that out again; so it is merged once more.
            note += describe_merged(path, sent=sent, written=after)
            note_read(state, path, remember_base(sent))
            drop_cache(state, path)
        elif state is not None:
            note_read(state, path, remember_base(after))
            await refresh_cache(state, path, version_of(after), self._place)
        text = show_text(after)
        return answer(
            f"The file {path} has been written successfully ({len(text.splitlines())} lines).{note}",
            diff=unified_diff(show_text(before or b""), text, path=path, created=before is None),
            file_path=path,
            occurrences=1,
        )


def _follow_conventions(content: str, old: str) -> str:
    if "\r" not in content and is_uniformly_crlf(old):
        content = content.replace("\n", "\r\n")
    return _BOM + content if old.startswith(_BOM) and not content.startswith(_BOM) else content
