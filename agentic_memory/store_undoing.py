"""The part of a store that brings back what the memory was."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from agentic_memory.backends import ABSENT, version_of
from agentic_memory.draft import Draft
from agentic_memory.errors import Conflict, InvalidMemory, MemoryNotFound
from agentic_memory.history import archive
from agentic_memory.history.entries import Entry
from agentic_memory.history.past import state_of
from agentic_memory.history.undoing import Step, files_at, steps_to_undo
from agentic_memory.index import INDEX_FILENAME
from agentic_memory.merge import merge_files
from agentic_memory.operations import Reversal, Rewrite, Trashed
from agentic_memory.planning import TRASH, put_file
from agentic_memory.shelf import written_file
from agentic_memory.store_reading import not_found
from agentic_memory.store_writing import StoreWriting, file_of
from agentic_memory.values import MemoryFile


class StoreUndoing(StoreWriting):
    """Going back to what a memory was. See ``MemoryStore``."""

    async def restore(self, filename: str, version: str | None = None) -> MemoryFile:
        """Make a file again what it was at ``version``, byte for byte. This is a change too, and can be undone alike.

        What is there now is kept in the history first. A file that was forgotten or deleted comes back with its line in
        MEMORY.md.

        Args:
            filename: Which; it need not exist. ``MEMORY.md`` is the index.
            version: One that ``history`` names. None: a file that is gone becomes what it was last; out of the trash when
                it is there, which needs no history.

        Raises:
            MemoryNotFound: nobody kept that version.
            Conflict: without ``version``, and the file is there.
        """
        filename = self._writable(filename, index=True)
        if version is None:
            return await self._bring_back(filename)
        data = await self.read_version(version)
        operation = Rewrite(filename=filename, data=data, expected=None)
        return file_of(await self._apply([operation], why=f"restored {version[:12]}", policy=None))

    async def trash(self) -> list[Trashed]:
        """List what was forgotten and not brought back, newest first; one round trip."""
        tree = await self._backend.snapshot(
            self._backend.join_path(await self.root(), TRASH), known=self._shelf.known.keys() if self._shelf else ()
        )
        found = []
        for file in tree.files:
            when, _, filename = file.path.partition("/")
            if filename:
                found.append(Trashed(filename, f"{TRASH}/{file.path}", when, file.version, file.size))
        return sorted(found, key=lambda one: one.when, reverse=True)

    async def undo(self, name: str, *, why: str = "") -> Reversal:
        """Undo everything that one reply did, or one transaction, in one transaction that can be undone alike.

        What others changed since in other lines or fields stays. What has to come back is taken from the history; a file
        that was forgotten comes out of the trash.

        Args:
            name: The id of a reply, or ``Version.transaction``.
            why: The reason the history shows.

        Raises:
            MemoryNotFound: the history knows of no change of that name, or the bytes are not kept any more.
            Conflict: a file was changed since in the same place; it is named, and nothing was changed.
        """
        _, entries = await self._look_back()
        steps = steps_to_undo(entries, name)
        if not steps and not any(name in {one.version.reply, one.version.transaction} for one in entries):
            raise MemoryNotFound(f"the history knows of no reply and no transaction {name!r}")
        data = await self._read_all({v for step in steps for v in (step.before, step.after) if v}, entries)
        places = await self._places_in_trash({step.filename for step in steps if step.after is None})

        def plan(draft: Draft) -> None:
            for step in steps:
                _undo_step(draft, step, data, places)

        _, draft, transaction = await self._change(plan, why=why or self._reason(f"undid {name}"))
        return Reversal(transaction, tuple(draft.results()))

    async def restore_all(self, when: datetime, *, why: str = "") -> Reversal:
        """Make the whole memory what it was at ``when``, in one transaction that can be undone alike.

        What the history has never seen to change stays as it is.

        Args:
            when: With a time zone.
            why: The reason the history shows.

        Raises:
            InvalidMemory: ``when`` has no time zone.
            MemoryNotFound: bytes that are needed are not kept any more; nothing was changed.
        """
        if when.tzinfo is None:
            raise InvalidMemory(f"{when} is in no time zone: give one, as in 2026-11-30T08:00+01:00")
        snapshot, entries = await self._look_back()
        past = files_at(entries, when)
        states = {name: state_of(snapshot, name) for name in past.versions}
        now = {name: state.version for name, state in states.items() if state is not None}
        wanted = {version for name, version in past.versions.items() if version and version != now.get(name)}
        data = await self._read_all(wanted, entries)
        places = await self._places_in_trash({name for name, version in past.versions.items() if version} - now.keys())

        def plan(draft: Draft) -> None:
            for filename, version in past.versions.items():
                current = draft.read(filename)
                if version is None and current is not None:
                    draft.remove(filename)
                elif version is not None and (current is None or version_of(current) != version):
                    if version not in data:  # as it was when we looked, and another now
                        raise Conflict(filename, expected=version, current=current, advice="try again")
                    _put_back(draft, filename, data[version], places)

        _, draft, transaction = await self._change(plan, why=why or self._reason(f"restored as of {when.isoformat()}"))
        return Reversal(transaction, tuple(draft.results()), past.unknown)

    # ------------------------------------------------------------------ inside

    async def _bring_back(self, filename: str) -> MemoryFile:
        found = next((one for one in await self.trash() if one.filename == filename), None)
        version = found.version if found is not None else await self._last_version(filename)
        data = await self.read_version(version) if found is None else await self._read_trashed(found)

        def plan(draft: Draft) -> None:
            if draft.is_taken(filename):
                current = draft.read(filename)
                raise Conflict(filename, expected="absent", current=current, advice="name the version to restore")
            put_file(draft, filename, data)
            if found is not None:
                draft.fetch(found.place, filename, data)

        await self._change(plan, why=self._reason(f"restored {version[:12]}"))
        return written_file(filename, data)

    async def _last_version(self, filename: str) -> str:
        versions = (one.version for one in await self.history(filename))
        version = next((one for one in versions if one is not None), None)
        if version is None:
            raise not_found(filename)
        return version

    async def _read_trashed(self, trashed: Trashed) -> bytes:
        root = await self.root()
        record = await self._backend.fetch(self._backend.join_path(root, trashed.place), within=root)
        if record is ABSENT or record.data is None:
            raise not_found(trashed.filename)
        return record.data

    async def _read_all(self, wanted: set[str], entries: Sequence[Entry]) -> dict[str, bytes]:
        """Return the bytes of versions, from the history or from what is not written there yet."""
        known = {one for entry in entries for one in (entry.version.version, entry.version.previous) if one is not None}
        found = await archive.read_versions(await self._archive(), wanted, others=known)
        return found | {version: await self.read_version(version) for version in wanted - found.keys()}

    async def _places_in_trash(self, filenames: Collection[str]) -> dict[tuple[str, str], str]:
        """Return where the trash has these files, by name and version; no round trip for none."""
        if not filenames:
            return {}
        return {(one.filename, one.version): one.place for one in await self.trash() if one.filename in filenames}


_Places = Mapping[tuple[str, str], str]
"""Where the trash has a file, by name and version."""


def _put_back(draft: Draft, filename: str, data: bytes, places: _Places) -> None:
    """Let a file hold ``data``, and take it out of the trash for that where it is gone and lies there."""
    place = places.get((filename, version_of(data)))
    if place is not None and draft.read(filename) is None:
        draft.fetch(place, filename, data)
    else:
        draft.write(filename, data)


def _undo_step(draft: Draft, step: Step, data: Mapping[str, bytes], places: _Places) -> None:
    """Take one change out of a file, and leave in it what came after."""
    before = None if step.before is None else data[step.before]
    after = None if step.after is None else data[step.after]
    if step.filename == INDEX_FILENAME:
        before, after = before or b"", after or b""
    current = draft.read(step.filename)
    if step.filename == INDEX_FILENAME:
        current = current or b""
    if current == before:
        return
    wanted = before
    if current != after:
        merged = None
        if before is not None and after is not None and current is not None:
            merged = merge_files(after, before, current, filename=step.filename).data
        if merged is None:
            raise Conflict(
                step.filename,
                expected=step.after or "absent",
                current=current,
                advice="somebody changed it since in the same place, so nothing was undone; restore a version of it, or "
                "undo the later change first",
            )
        wanted = merged
    if wanted is None:
        draft.remove(step.filename)
    else:
        _put_back(draft, step.filename, wanted, places)
