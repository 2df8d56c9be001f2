"""AgentScope's own read cache, kept true so that its tools and ours can be mixed.

AgentScope proves "the agent has read this" by lines kept in ``state.tool_context`` beside a modification time. Its
Edit writes those lines back, so a cache entry that is older than the file would undo someone's change: an entry is
only ever filled from one look that saw bytes and time together.
"""

from typing import Final

from agentscope.state import AgentState
from agentscope.tool import BackendBase

from agentic_memory.backends import Backend, FileRecord
from agentic_memory.backends.local import LocalBackend
from agentic_memory.encodings import decode
from agentic_memory.errors import AgenticMemoryError
from agentic_memory.lines import normalise_newlines

_FOREIGN: Final = frozenset({"gb18030", "utf-16-le", "utf-16-be"})


def show_text(data: bytes) -> str:
    r"""Return a file's text as a model is shown it: ``\n`` only, bytes of an unknown encoding as U+FFFD."""
    text, encoding = decode(data)
    # AgentScope knows UTF-8 only. What it would show as a row of U+FFFD, it would also write back as that.
    return normalise_newlines(text) if encoding in _FOREIGN else show_as_utf8(data)


def show_as_utf8(data: bytes) -> str:
    """Return a file's text as AgentScope's own Read shows and caches it."""
    return normalise_newlines(data.decode("utf-8", errors="replace"))


def cached_text(state: AgentState, path: str) -> str | None:
    """Return the text of ``path`` AgentScope's cache holds, current or not, or None.

    The entry's time is not looked at: whoever asks compares the text with the bytes at hand, which proves more.
    """
    for entry in state.tool_context.read_file_cache:
        if entry.file_path == path:
            return "".join(entry.lines)
    return None


async def fill_cache(state: AgentState, path: str, record: FileRecord, backend: Backend) -> None:
    """Put what ``record`` holds into AgentScope's cache, stamped as its tools will ask ``backend`` for the time."""
    if record.data is not None:
        lines = show_text(record.data).splitlines(keepends=True)
        await state.tool_context.cache_file(path, lines, mtime=_stamp(record.mtime_ns, backend))


async def refresh_cache(state: AgentState, path: str, version: str, backend: Backend) -> None:
    """Bring AgentScope's cache up to date after ``version`` was written to ``path``.

    That takes one more look at the file. On a local disk it is free; elsewhere it is a round trip, made only when
    AgentScope's cache knew the file before. Should the look fail, or see another writer's bytes, the entry is dropped.
    """
    known = drop_cache(state, path)
    if not known and not isinstance(backend, LocalBackend):
        return
    try:
        record = await backend.fetch(path)
    except (AgenticMemoryError, OSError):
        return  # the write itself succeeded and is what gets reported
    if isinstance(record, FileRecord) and record.version == version:
        await fill_cache(state, path, record, backend)


def drop_cache(state: AgentState, path: str) -> bool:
    """Take ``path`` out of AgentScope's cache, and say whether it was there."""
    kept = [entry for entry in state.tool_context.read_file_cache if entry.file_path != path]
    dropped = len(kept) < len(state.tool_context.read_file_cache)
    state.tool_context.read_file_cache = kept
    return dropped


def _stamp(mtime_ns: int, backend: Backend) -> float:
    """Return the float by which ``backend.stat_mtime`` tells this time; AgentScope compares the two for equality."""
    seconds, nanoseconds = divmod(mtime_ns, 1_000_000_000)
    if isinstance(backend, LocalBackend):
        return seconds + 1e-9 * nanoseconds  # the very sum os.stat rounds; a division may differ in the last bit
    if type(backend).stat_mtime is BackendBase.stat_mtime:
        return float(seconds)  # it asks ``stat -c %Y``, which knows whole seconds only
    return mtime_ns / 1e9
