"""The part of a store that tells what the memory was."""

import logging
from collections.abc import Mapping
from typing import Final

import anyio.to_thread

from agentic_memory.backends import FileRecord
from agentic_memory.errors import AgenticMemoryError, MemoryNotFound
from agentic_memory.filenames import checked_file
from agentic_memory.history import archive, tidying
from agentic_memory.history.diffs import diff_versions
from agentic_memory.history.entries import Entry, Version, entries_by_file, versions_of, with_present
from agentic_memory.history.past import state_of
from agentic_memory.history.retention import Retention
from agentic_memory.history.tidying import Usage
from agentic_memory.planning import TRASH
from agentic_memory.shelf import Snapshot
from agentic_memory.store_reading import StoreReading, not_found

logger = logging.getLogger("agentic_memory")

MAX_WROTE: Final = 10_000
"""Versions of which this process remembers who wrote them."""


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

    async def histories(self) -> dict[str, list[Version]]:
        """List what every memory was that there is now, as ``history`` does; two round trips for all."""
        snapshot, entries = await self._look_back()
        told: dict[str, list[Entry]] = {}
        for entry in entries:
            told.setdefault(entry.version.filename, []).append(entry)
        return {
            name: with_present(versions_of(name, told.get(name, ())), name, state_of(snapshot, name))
            for name in snapshot.documents
        }

    async def changes(self) -> list[Version]:
        """List what happened to all files, newest first. What has one ``transaction`` was done, or noticed, together."""
        _, entries = await self._look_back()
        by_file = entries_by_file(entries)
        found = [version for filename, own in by_file.items() for version in versions_of(filename, own)]
        return sorted(found, key=lambda version: version.when, reverse=True)

    async def who_wrote(self, wanted: Mapping[str, str]) -> dict[str, Version]:
        """Return what the history knows of the present version of each file.

        One round trip at most, and none for a version that was asked for before in this process.

        Args:
            wanted: File names and their versions.
        """
        if not wanted or not self._keeps_history:
            return {}
        past = (await self._shelf_here()).past
        if any(item not in past.wrote for item in wanted.items()):
            log = await archive.read_log(await self._archive(), past=past)
            entries = [*log.entries, *(change.entry() for change in past.pending())]
            for filename, version in wanted.items():
                known = (one for one in versions_of(filename, entries) if one.version == version)
                past.wrote[filename, version] = next(known, None)
        found = {filename: past.wrote[filename, version] for filename, version in wanted.items()}
        while len(past.wrote) > MAX_WROTE:
            del past.wrote[next(iter(past.wrote))]
        return {filename: version for filename, version in found.items() if version is not None}

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

    async def record_history(self) -> int:
        """Write down the changes by others that loads have noticed; return their number. No round trip without any.

        Raises:
            BackendUnavailable, UnsafePath: it could not be written; it will be tried again with the next change.
        """
        if not self._keeps_history:
            return 0
        written = await archive.record(await self._archive(), past=(await self._shelf_here()).past)
        if written:
            await self._tidy_when_due()
        return written

    async def writes(self) -> int:
        """Return how often programs of this process wrote to the memory: what ``written_since`` takes."""
        return (await self._shelf_here()).writes

    def written_since(self, writes: int = 0) -> dict[str, str | None]:
        """Return the last version that programs of this process made of each file; None: they took it away."""
        return {} if self._shelf is None else self._shelf.written_since(writes)

    async def usage(self) -> Usage:
        """Tell what the history and the trash take on disk, in three round trips."""
        place, root = await self._archive(), await self.root()
        log = await archive.read_log(place, past=(await self._shelf_here()).past)
        objects = await tidying.see_objects(place, log)
        trash = await self._backend.snapshot(self._backend.join_path(root, TRASH), known=self._known_versions(log))
        return tidying.usage_of(log, objects, trash)

    async def tidy_history(self, retention: Retention | None = None) -> int:
        """Remove the versions that the bounds let go; return how many. What a file is now never goes.

        The store does so itself now and then when it was made with bounds.

        Args:
            retention: Other bounds than the store's own.
        """
        snapshot = await self._look()
        present = {name: record.version for name, (record, _) in snapshot.documents.items()}
        if isinstance(snapshot.index_record, FileRecord):
            present[snapshot.index_record.path] = snapshot.index_record.version
        past = (await self._shelf_here()).past
        return await tidying.tidy(
            await self._archive(), present=present, retention=retention or self._retention, past=past
        )

    async def _tidy_when_due(self) -> None:
        """Now and then keep a bounded history to its bounds, and any log in few files."""
        past = (await self._shelf_here()).past
        if not past.is_tidying_due(at_once=self._retention.bounded):
            return
        try:
            if self._retention.bounded:
                await self.tidy_history()
            place = await self._archive()
            await archive.pack(place, await archive.read_log(place, past=past))
        except AgenticMemoryError as error:
            logger.info("memory: the history was not tidied, it is tried again: %s", error)

    @staticmethod
    def _known_versions(log: archive.Log) -> set[str]:
        both = ((entry.version.version, entry.version.previous) for entry in log.entries)
        return {one for pair in both for one in pair if one is not None}

    async def _look_back(self) -> tuple[Snapshot, list[Entry]]:
        """See what is there and all that is known of what was, in two round trips; pack a log of many small files."""
        snapshot = await self._look()
        place, past = await self._archive(), (await self._shelf_here()).past
        log = await archive.read_log(place, past=past)
        if self._keeps_history:
            await archive.pack(place, log)
        return snapshot, [*log.entries, *(change.entry() for change in past.pending())]
