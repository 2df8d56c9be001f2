"""The reading part of a store: single memories, problems."""

import anyio.to_thread

from agentic_memory.backends import ABSENT
from agentic_memory.bases import remember_base
from agentic_memory.document import parse_document
from agentic_memory.errors import MemoryNotFound
from agentic_memory.filenames import checked_memory
from agentic_memory.history.archive import log_problems
from agentic_memory.repair import check_snapshot
from agentic_memory.shelf import as_memory_file
from agentic_memory.store_searching import StoreSearching
from agentic_memory.values import MemoryFile, Problem


class StoreReading(StoreSearching):
    """Reading a memory. See ``MemoryStore``."""

    async def get(self, filename: str) -> MemoryFile:
        """Read one memory by its file name.

        Raises:
            MemoryNotFound: there is none.
            UnsafePath: the name leaves the memory directory, or what is there is not a file.
            BackendUnavailable: it cannot be told.
        """
        filename = checked_memory(filename)
        record = await self._backend.fetch(await self.path_of(filename), within=await self.root())
        if record is ABSENT or record.data is None:
            raise not_found(filename)
        remember_base(record.data, version=record.version)  # an update from this version can be merged later
        return as_memory_file(filename, record, parse_document(record.data, filename=filename))

    async def get_all(self, *, type: str | None = None) -> list[MemoryFile]:  # noqa: A002 - the frontmatter field's name
        """Read every memory, sorted by file name; only those of one ``type`` when given."""
        return [file for file in (await self.load()).files if type is None or file.type == type]

    async def check(self) -> list[Problem]:
        """List everything in the memory that a person should look at."""
        snapshot = await self._look()
        found = await anyio.to_thread.run_sync(check_snapshot, snapshot)
        if self._keeps_history:
            found += await log_problems(await self._archive(), past=(await self._shelf_here()).past)
        return found


def not_found(filename: str) -> MemoryNotFound:
    """Return the error that says that there is no such memory."""
    return MemoryNotFound(f"there is no memory {filename!r}; list the memories to see their file names")
