"""The part of a store that leaves no copy of a memory anywhere."""

import posixpath
from collections.abc import Mapping
from typing import Final

from agentic_memory.backends import ABSENT, ANY, Change, Delete, FileRecord, Put, Tree, version_of
from agentic_memory.bases import base_of, forget_base
from agentic_memory.document import Document
from agentic_memory.draft import Draft
from agentic_memory.errors import Conflict, InvalidMemory
from agentic_memory.forgetting import forget_versions
from agentic_memory.history import archive
from agentic_memory.history.archive import Archive, Log
from agentic_memory.history.entries import Author, State
from agentic_memory.history.entries import Change as FileChange
from agentic_memory.history.past import when_of
from agentic_memory.history.purging import (
    Purged,
    is_copy_of,
    is_like,
    rewrite_log,
    versions_of_file,
    versions_of_others,
    without_entry,
)
from agentic_memory.index import INDEX_FILENAME, drop_entry
from agentic_memory.store_reading import not_found
from agentic_memory.store_undoing import StoreUndoing

MAX_ATTEMPTS: Final = 5
"""How often a purge begins anew when others write to the very files."""


class StorePurging(StoreUndoing):
    """Purging a memory. See ``MemoryStore``."""

    async def purge(self, filename: str, *, version: str | None = None) -> Purged:
        """Remove every copy of a memory, or of one of its old versions, and read everything back. It cannot be undone.

        Gone are the file, its line in MEMORY.md and in every old version of that, its versions and log lines in the history,
        its copies in the trash and among conflicts, and what this process and the caches on disk hold of it. A version that
        another file has or had too stays, and is named. Purge a memory under each name that it had.

        Args:
            filename: Which; it may be gone already.
            version: Only this one; the log keeps its line, without a text.

        Raises:
            MemoryNotFound: nothing is known of such a file or version.
            InvalidMemory: ``version`` is what the file is now: change it first.
            Conflict: others kept writing to the files that have to go.
        """
        filename = self._writable(filename)
        for attempt in range(MAX_ATTEMPTS):
            try:
                return await self._purge(filename, version)
            except Conflict:
                if attempt == MAX_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    async def _purge(self, filename: str, version: str | None) -> Purged:
        draft = Draft(await self._look())
        snapshot, place, past = draft.snapshot, await self._archive(), (await self._shelf_here()).past
        log = await archive.read_log(place, past=past)
        entries = [*log.entries, *(change.entry() for change in past.pending())]
        trees = await self._all_files(place, log)
        doomed = versions_of_file(filename, entries, trees.values())
        if version is not None:
            doomed &= {version}
        if not doomed:
            raise not_found(filename if version is None else f"{filename} at {version[:12]}")
        held = snapshot.documents.get(filename)
        if version is not None and held is not None and held[0].version == version:
            raise InvalidMemory(f"{version[:12]} is what {filename} is now: change it first, or purge all of it")
        shared = versions_of_others(filename, entries, snapshot.tree)
        gone = frozenset(doomed - shared.keys())
        kept = [f"version {one[:12]} stays: {shared[one]} has or had it too" for one in sorted(doomed & shared.keys())]
        removed: list[str] = []
        memory: list[Change] = []
        history: list[Change] = []
        for root, tree in trees.items():
            changes = history if place.apart and root == place.directory else memory
            for file in tree.files:
                if file.version in gone or (version is None and is_copy_of(filename, file.path)):
                    changes.append(Delete(posixpath.join(root, file.path), file.version))
                    removed.append(file.path)
                elif is_like(filename, file.path):
                    kept.append(
                        f"{file.path} stays: it looks like what an editor left of {filename}; look at it yourself"
                    )
        texts = await self._read_doomed(gone, log, trees, place)
        renamed: dict[str, str] = {}
        if version is None:
            index = drop_entry(draft.index_text, filename)
            if index != draft.index_text:
                draft.index_text = index
                memory += draft.changes()
                removed.append(f"{INDEX_FILENAME}: its line")
            renamed, puts = await self._indexes_without(filename, log, place)
            rewritten, lines = rewrite_log(place, log, filename, renamed)
            (history if place.apart else memory).extend([*puts, *rewritten])
            for root, tree in trees.items():
                old = [file for file in tree.files if file.version in renamed and file.path != INDEX_FILENAME]
                changes = history if place.apart and root == place.directory else memory
                changes += [Delete(posixpath.join(root, file.path), file.version) for file in old]
            removed += [f"{archive.FOLDER}/log: {lines} lines"] if lines else []
            removed += [f"{archive.FOLDER}/objects: its line in {len(renamed)} versions of {INDEX_FILENAME}"] * bool(
                renamed
            )
        gone |= renamed.keys() | _index_versions(draft)
        (history if place.apart else memory).append(await self._tombstone(place, gone))
        with past.writing(_unnoticed(filename, draft, whole=version is None)):
            if memory:
                await self._backend.transact(memory, within=snapshot.root)
            if history:
                await place.backend.transact(history, within=place.within)
        removed += self._forget_here(filename, gone)
        removed += await forget_versions(self._backend, snapshot.root, texts)
        if version is None and await self._forget_use(filename):
            removed.append("counts of use: how often it was shown")
        return Purged(
            filename, tuple(removed), tuple(kept), tuple(await self._remaining(filename, version, gone, place))
        )

    async def _all_files(self, place: Archive, log: Log) -> dict[str, Tree]:
        """See every file under the memory directory, the hidden ones too, and under the history where that is apart."""
        known = self._known_versions(log)
        known |= {file.version for file, _ in log.files} | {*(await self._shelf_here()).known}
        roots = {await self.root(): self._backend}
        if place.apart:
            roots[place.directory] = place.backend
        return {root: await backend.snapshot(root, known=known, hidden=True) for root, backend in roots.items()}

    async def _read_doomed(
        self, gone: frozenset[str], log: Log, trees: Mapping[str, Tree], place: Archive
    ) -> dict[str, bytes]:
        """Return the bytes of what is to go, for caches that know texts by what they say."""
        files = [file for tree in trees.values() for file in tree.files]
        texts = {file.version: file.data for file in files if file.version in gone and file.data is not None}
        shelf = await self._shelf_here()
        for change in shelf.past.pending():
            for state in (change.before, change.after):
                if state is not None and state.version in gone:
                    texts[state.version] = state.data
        parsed = shelf.known
        for version in gone & parsed.keys():
            document = parsed[version]
            if isinstance(document, Document):
                texts[version] = document.encode(document.text)
        known = self._known_versions(log)
        return texts | await archive.read_versions(place, (gone & known) - texts.keys(), others=known)

    async def _indexes_without(self, filename: str, log: Log, place: Archive) -> tuple[dict[str, str], list[Put]]:
        """Return what old versions of MEMORY.md are without the file's line, by version, and the objects to write."""
        versions = {
            one
            for entry in log.entries
            if entry.version.filename == INDEX_FILENAME
            for one in (entry.version.version, entry.version.previous)
            if one is not None
        }
        found = await archive.read_versions(place, versions, others=self._known_versions(log))
        renamed: dict[str, str] = {}
        puts: dict[str, Put] = {}
        stem = posixpath.basename(filename).removesuffix(".md").encode()
        for version, data in found.items():
            if stem not in data and b"%" not in data and stem.isascii():
                continue
            new = without_entry(data, filename)
            if new != data:
                renamed[version] = version_of(new)
                puts[renamed[version]] = Put(place.object_path(renamed[version]), new, ANY)
        return renamed, [*puts.values()]

    async def _tombstone(self, place: Archive, gone: frozenset[str]) -> Change:
        record = await place.backend.fetch(place.purged, within=place.within)
        old = b"" if record is ABSENT or record.data is None else record.data
        lines = {*old.decode("ascii", "replace").split(), *gone}
        return Put(
            place.purged,
            "".join(f"{line}\n" for line in sorted(lines)).encode(),
            ABSENT if record is ABSENT else record.version,
        )

    def _forget_here(self, filename: str, gone: frozenset[str]) -> list[str]:
        held = sum(base_of(version) is not None for version in gone)
        for version in gone:
            forget_base(version)
        if self._shelf is not None:
            self._shelf.forget()
            self._shelf.past.forget(filename, gone)
        return [f"this process: {held} versions kept for merging, the parsed file and the search index"]

    async def _remaining(self, filename: str, version: str | None, gone: frozenset[str], place: Archive) -> list[str]:
        snapshot = await self._look()
        log = await archive.read_log(place, past=(await self._shelf_here()).past)
        trees = await self._all_files(place, log)
        found = [file.path for tree in trees.values() for file in tree.files if file.version in gone]
        if version is None:
            found += [file.path for tree in trees.values() for file in tree.files if is_copy_of(filename, file.path)]
            if snapshot.index.find(filename) is not None:
                found.append(f"{INDEX_FILENAME}: its line")
            if any(entry.version.filename == filename for entry in log.entries):
                found.append(f"{archive.FOLDER}/log: its lines")
        return list(dict.fromkeys(found))


def _index_versions(draft: Draft) -> set[str]:
    """Return the version of MEMORY.md that had the line, which another program may have seen and nobody kept yet."""
    record = draft.snapshot.index_record
    changed = draft.index_text != draft.snapshot.index_document.text
    return {record.version} if changed and isinstance(record, FileRecord) else set()


def _unnoticed(filename: str, draft: Draft, *, whole: bool) -> list[FileChange]:
    """Return what is changed past the history, so that the next look does not take it for a change by somebody else."""
    if not whole:
        return []
    record, index = draft.snapshot.index_record, draft.read(INDEX_FILENAME)
    when = when_of(getattr(record, "mtime_ns", 0))
    state = None if index is None else State.of(index, when=when)
    return [
        FileChange(name, None, after, when, Author(), "purged")
        for name, after in ((filename, None), (INDEX_FILENAME, state))
    ]
