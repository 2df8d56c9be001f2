"""The part of a store that tells what the memory was."""

import anyio.to_thread

from agentic_memory.errors import MemoryNotFound
from agentic_memory.filenames import checked_file
from agentic_memory.history import archive
from agentic_memory.history.diffs import diff_versions
from agentic_memory.history.entries import Entry, Version, versions_of, with_present
from agentic_memory.history.past import state_of
from agentic_memory.shelf import Snapshot
from agentic_memory.store_reading import StoreReading, not_found


class StorePast(StoreReading):
    """Looking at what a memory was. See ``MemoryStore``."""

    async def history(self, filename: str) -> list[Version]:
        """List what a file was, newest first, whoever changed it and with whatever tool.

        Two round trips. The present content stands first, also when nobody has recorded it yet.

        Raises:
            MemoryNotFound: there is no such file and never was, as far as the history knows.
            BackendUnavailable: it cannot be told.
        """
        filename = checked_file(filename)
        snapshot, entries = await self._look_back()
        versions = with_present(versions_of(filename, entries), filename, state_of(snapshot, filename))
        if not versions:
            raise not_found(filename)
        return versions

    async def changes(self) -> list[Version]:
        """List what happened to all files, newest first. What has one ``transaction`` was done, or noticed, together."""
        _, entries = await self._look_back()
        filenames = dict.fromkeys(entry.version.filename for entry in entries)
        found = [version for filename in filenames for version in versions_of(filename, entries)]
        return sorted(found, key=lambda version: version.when, reverse=True)

    async def read_version(self, version: str) -> bytes:
        """Return the bytes of a version that ``history`` names.

        Raises:
            MemoryNotFound: nobody kept it.
        """
        place = await self._archive()
        data = await archive.read_version(place, version)
        if data is not None:
            return data
        snapshot = await self._look()
        state = (await self._shelf_here()).past.find(version, snapshot)
        if state is None:
            raise MemoryNotFound(f"version {version[:12]} is not in the history under {place.directory}")
        return state.data

    async def diff(self, filename: str, old: str, new: str | None = None) -> str:
        """Return the unified diff between two versions of a file; ``new`` is the present content when None.

        Raises:
            MemoryNotFound: a version nobody kept, or there is no present content.
        """
        filename = checked_file(filename)
        before = await self.read_version(old)
        if new is None:
            state = state_of(await self._look(), filename)
            if state is None:
                raise not_found(filename)
            after, label = state.data, "now"
        else:
            after, label = await self.read_version(new), new[:12]
        return await anyio.to_thread.run_sync(
            lambda: diff_versions(before, after, filename=filename, labels=(old[:12], label))
        )

    async def _look_back(self) -> tuple[Snapshot, list[Entry]]:
        """See what is there and all that is known of what was, in two round trips; pack a log of many small files."""
        snapshot = await self._look()
        place, past = await self._archive(), (await self._shelf_here()).past
        log = await archive.read_log(place, past=past)
        if self._keeps_history:
            await archive.pack(place, log)
        return snapshot, [*log.entries, *(change.entry() for change in past.pending())]
