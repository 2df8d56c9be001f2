"""The Edit tool."""

from typing import Final

import agentscope.tool
from agentscope.state import AgentState
from agentscope.tool import BackendBase, ToolBase, ToolChunk, ToolMiddlewareBase

from agentic_memory.backends import ABSENT, version_of
from agentic_memory.bases import BaseSource, remember_base
from agentic_memory.encodings import decode, encode
from agentic_memory.errors import Conflict
from agentic_memory.tools.answers import Refusal, answer, answers_errors
from agentic_memory.tools.backend import choose_backend
from agentic_memory.tools.cache import drop_cache, refresh_cache, show_text
from agentic_memory.tools.diffs import unified_diff
from agentic_memory.tools.guarding import SECRETS_LEFT_OUT, leave_out_secrets, refuse_harm, remarks_of_tool
from agentic_memory.tools.inputs import check_absolute, check_text
from agentic_memory.tools.keeping import replace_file
from agentic_memory.tools.merging import merge_newer
from agentic_memory.tools.reads import note_read
from agentic_memory.tools.replacement import Replacement, explain_no_match, replace_text
from agentic_memory.tools.seen import Seen, find_seen, how_seen, keep_as_seen_before

MAX_ATTEMPTS: Final = 5
"""How often an edit is tried when the file keeps changing underneath it."""
MAX_LINES_NAMED: Final = 10
"""Line numbers named when an ``old_string`` matches many times."""


class Edit(agentscope.tool.Edit):
    """AgentScope's Edit, made on the bytes that are there now and on none but those it replaces.

    Somebody else's change does not stand in the way as long as ``old_string`` still matches as it must: both changes
    are kept, and the answer says so. Where it matches no more, the edit is made in the text the agent knew and merged.
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
        """Take the arguments of AgentScope's Edit; ``backend`` may be any AgentScope backend, ours or not."""
        self._place = choose_backend(backend)
        super().__init__(dangerous_files, dangerous_directories, middlewares, self._place)

    @answers_errors
    async def call(
        self,
        file_path: str,
        old_string: str,
        new_string: str,
        replace_all: bool = False,  # noqa: FBT001, FBT002 - AgentScope's signature
        _agent_state: AgentState | None = None,
    ) -> ToolChunk:
        """Replace the text, in two round trips as long as nobody else writes at the same moment."""
        if not old_string:
            raise Refusal("old_string must not be empty. Use the Write tool to populate an empty file.")
        check_absolute(file_path)
        check_text(new_string, "new_string")
        if old_string == new_string:
            raise Refusal("old_string and new_string are identical. No changes to make.")
        record = await self._place.fetch(file_path)
        current = None if record is ABSENT else record.data
        for _ in range(MAX_ATTEMPTS):
            if current is None:
                raise Refusal(f"File not found: {file_path}")
            seen = how_seen(_agent_state, file_path, current)
            if seen is Seen.NEVER:
                raise Refusal(
                    f"To edit a file, you must first read it using the Read tool. {file_path} was not read yet."
                )
            text, encoding = decode(current)
            if encoding == "binary":
                raise Refusal(f"{file_path} holds NUL bytes, so it is no text and cannot be edited.")
            known = edited = None
            if seen is Seen.BEFORE:
                known = await find_seen(_agent_state, file_path, elsewhere=self.bases)
                edited = None if known is None else _edit_known(known, old_string, new_string, replace_all=replace_all)
            result = replace_text(text, old_string, new_string)
            count = len(result.lines)
            if not count and known is not None and edited is not None:
                data = await merge_newer(file_path, base=known, ours=edited[0], theirs=current)
                count = edited[1]
            else:
                _check_matches(file_path, result, text, old_string, replace_all=replace_all, seen=seen)
                data = encode(result.text, encoding)
            # What is taken out in so many words was not cut off; of the rest the guards judge.
            kept = leave_out_secrets(_agent_state, file_path, current, data)
            note, data = SECRETS_LEFT_OUT if kept != data else "", kept
            note += remarks_of_tool(_agent_state, file_path, current, data)
            call = {"file_path": file_path, "old_string": old_string, "new_string": new_string}
            refuse_harm(_agent_state, file_path, current, data, call=call, deletes=not new_string)
            try:
                await replace_file(self._place, file_path, data, before=current, why="edited")
            except Conflict as conflict:
                current = conflict.current
                continue
            if _agent_state is not None:
                await self._remember(file_path, data, _agent_state, seen, None if edited is None else edited[0])
            replaced = f"all {count} occurrences" if replace_all else "1 occurrence"
            return answer(
                f"Successfully replaced {replaced} in {file_path}{_CHANGED if seen is Seen.BEFORE else ''}{note}",
                diff=unified_diff(show_text(current), show_text(data), path=file_path),
                file_path=file_path,
                occurrences=count,
            )
        raise Conflict(file_path, expected="the bytes just seen", current=current)

    async def _remember(self, path: str, data: bytes, state: AgentState, seen: Seen, edited: bytes | None) -> None:
        if seen is Seen.CURRENT:
            note_read(state, path, remember_base(data))
            await refresh_cache(state, path, version_of(data), self._place)
            return
        # The agent has not seen what the other one changed; if the new version counted as read, its next Write would
        # undo that. It goes on from the text it knows, with its own edit in it.
        if edited is None:
            keep_as_seen_before(state, path)
        else:
            note_read(state, path, remember_base(edited))
        drop_cache(state, path)


_CHANGED: Final = (
    ". The file had changed since you read it: your edit was made in its current text, and both changes are kept. "
    "Read it again before you rely on the rest of it."
)


def _edit_known(known: bytes, old: str, new: str, *, replace_all: bool) -> tuple[bytes, int] | None:
    """Make the edit in the text the agent knew; None when it could not have been made there either."""
    text, encoding = decode(known)
    result = replace_text(text, old, new)
    count = len(result.lines)
    if encoding == "binary" or not count or (count > 1 and not replace_all):
        return None
    return encode(result.text, encoding), count


def _check_matches(path: str, result: Replacement, text: str, old: str, *, replace_all: bool, seen: Seen) -> None:
    count = len(result.lines)
    if count == 0:
        reason = f"old_string not found in {path}"
        if seen is Seen.BEFORE:
            reason += ", which changed since you read it. Nothing was written; Read it again"
        raise Refusal(f"{reason}. {explain_no_match(text, old)}".rstrip())
    if count > 1 and not replace_all:
        named = ", ".join(map(str, result.lines[:MAX_LINES_NAMED])) + (", ..." if count > MAX_LINES_NAMED else "")
        raise Refusal(
            f"old_string appears {count} times in {path} (on lines {named}). Set replace_all=true to replace all "
            "occurrences, or make old_string more specific."
        )
