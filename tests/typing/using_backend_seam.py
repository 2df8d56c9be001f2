"""A third party's backend: what has to be written, and that the rest is derived."""

from collections.abc import Collection, Hashable

from agentscope.tool import Glob, Grep

from agentic_memory import Conflict, MemoryStore
from agentic_memory.backends import ABSENT, Backend, FileRecord, LocalBackend, Tree, version_of
from agentic_memory.backends.values import MAX_FILE_BYTES, Absent, Changes
from agentic_memory.tools import Edit


class AuditedBackend(LocalBackend):
    """Overrides with the exact signatures of the seam have to be accepted."""

    @property
    def cache_key(self) -> Hashable:
        return ("audited", super().cache_key)

    async def snapshot(
        self,
        root: str,
        *,
        known: Collection[str] = frozenset(),
        suffix: str = "",
        hidden: bool = False,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> Tree:
        return await super().snapshot(root, known=known, suffix=suffix, hidden=hidden, max_bytes=max_bytes)

    async def fetch(
        self, path: str, *, within: str | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> FileRecord | Absent:
        return await super().fetch(path, within=within, max_bytes=max_bytes)

    async def transact(self, changes: Changes, *, within: str | None = None) -> None:
        await super().transact(changes, within=within)


async def append(backend: Backend, path: str, line: bytes) -> str:
    record = await backend.fetch(path)
    if record is ABSENT:
        return await backend.replace(path, line, expected=ABSENT)
    # After the check above it is a record, and a record that was fetched has its bytes or None.
    data = (record.data or b"") + line
    try:
        return await backend.replace(path, data, expected=record.version)
    except Conflict as conflict:
        return version_of(conflict.current or b"")


def agentscope_tools_run_on_it(backend: Backend) -> tuple[Glob, Grep, Edit, MemoryStore]:
    return (
        Glob(backend=backend),
        Grep(backend=backend),
        Edit(backend=backend),
        MemoryStore(workdir="/m", backend=backend),
    )
