"""The memory as it shall be: thought out on one snapshot, and turned into changes that hold only while that is true."""

import posixpath
from collections.abc import Iterator

from agentic_memory.backends import ABSENT, Change, Delete, FileRecord, Move, Obstacle, Put, version_of
from agentic_memory.check import is_memory_path
from agentic_memory.document import Document, parse_document
from agentic_memory.errors import BackendUnavailable, MemoryNotFound
from agentic_memory.index import INDEX_FILENAME, Index, IndexEntry, add_entries, parse_index, render_entry
from agentic_memory.shelf import Snapshot, obstacle_problem


class Draft:
    """A snapshot with changes on top of it, in memory. File names are relative to the memory directory."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._index_text = snapshot.index_document.text
        self._unlisted: dict[str, str] = {}
        """Lines that MEMORY.md gets when somebody looks at it: all at once, for each look reads all of it."""
        self._index_document = snapshot.index_document
        self._files: dict[str, bytes | None] = {}
        self._origins: dict[str, str] = {}
        """Of a file that was moved and not written since: its name in the snapshot."""
        self._fetched: dict[str, tuple[str, str]] = {}
        """Of a file that comes back from where no memories are: its name there, and its version."""
        self._parsed: tuple[str, Index] | None = None

    # ------------------------------------------------------------------ reading

    @property
    def index_text(self) -> str:
        """MEMORY.md as it shall be."""
        if self._unlisted:
            self._index_text = add_entries(self._index_text, self._unlisted)
            self._unlisted = {}
        return self._index_text

    @index_text.setter
    def index_text(self, text: str) -> None:
        self._unlisted = {}
        self._index_text = text

    def read(self, filename: str) -> bytes | None:
        """Return the bytes of a file as it shall be; None when there shall be none.

        Raises:
            BackendUnavailable: something is there that cannot be opened.
        """
        if filename == INDEX_FILENAME:
            absent = self.snapshot.index_record is ABSENT and not self.index_text
            return None if absent else self._index_document.encode(self.index_text)
        if filename in self._files:
            return self._files[filename]
        held = self.snapshot.documents.get(filename)
        if held is not None:
            return held[1].encode(held[1].text)
        there = self.snapshot.tree.find(filename)
        if isinstance(there, Obstacle):
            problem = obstacle_problem(there)
            raise BackendUnavailable(f"{self.snapshot.root}/{there.path}: {problem.message}; {problem.fix}")
        return None

    def document(self, filename: str) -> Document:
        """Return a memory as it shall be; ``MemoryNotFound`` when there shall be none."""
        held = self.snapshot.documents.get(filename)
        if held is not None and filename not in self._files:
            return held[1]
        data = self.read(filename)
        if data is None:
            raise MemoryNotFound(f"there is no memory {filename!r}; list the memories to see their file names")
        return parse_document(data, filename=filename)

    def is_taken(self, filename: str) -> bool:
        """Tell whether anything is at ``filename``, openable or not."""
        if filename in self._files:
            return self._files[filename] is not None
        return self.snapshot.tree.find(filename) is not ABSENT

    def taken(self) -> Iterator[str]:
        """Every name in use, those of files that are no memories included."""
        yield from (record.path for record in self.snapshot.tree.files)
        yield from (obstacle.path for obstacle in self.snapshot.tree.obstacles)
        yield from self._files

    def entry(self, filename: str) -> IndexEntry | None:
        """Return the line of a file in MEMORY.md as it shall be."""
        if self._parsed is None or self._parsed[0] is not self.index_text:
            self._parsed = (self.index_text, parse_index(self.index_text))
        return self._parsed[1].find(filename)

    # ------------------------------------------------------------------ changing

    def write(self, filename: str, data: bytes) -> None:
        """Let a file, or MEMORY.md, hold ``data``."""
        if filename == INDEX_FILENAME:
            self._index_document = parse_document(data, filename=filename)
            self.index_text = self._index_document.text
            return
        self._put(filename, data)

    def list_file(self, filename: str, *, title: str, hook: str) -> None:
        """Let MEMORY.md have a line for a file, unless it has one."""
        self._unlisted.setdefault(filename, render_entry(title=title, filename=filename, hook=hook))

    def remove(self, filename: str) -> None:
        """Let there be no such file; MEMORY.md becomes empty."""
        if filename == INDEX_FILENAME:
            self.index_text = ""
            return
        self._put(filename, None)

    def fetch(self, place: str, filename: str, data: bytes) -> None:
        """Let ``filename`` be the file at ``place``, where no memories are, whose bytes are ``data``."""
        self._put(filename, data)
        self._fetched[filename] = (place, version_of(data))

    def _put(self, filename: str, data: bytes | None) -> None:
        self._files[filename] = data
        self._origins.pop(filename, None)
        self._fetched.pop(filename, None)

    def move(self, source: str, target: str) -> None:
        """Let ``target`` be what ``source`` was, which is there no more."""
        origin = self._origins.get(source, None if source in self._files else source)
        self._files[target] = self.read(source)
        self.remove(source)
        if origin is not None:
            self._origins[target] = origin

    def changes(self, *, moves: bool = True) -> list[Change]:
        """Return what must be changed of the snapshot, each with the demand that it still is what was seen.

        Args:
            moves: Whether a moved file is moved, which keeps its owner, mode and time, or written anew and removed.

        Raises:
            BackendUnavailable: the index would have to be changed, and what is in its place cannot be opened.
        """
        versions = {name: record.version for name in self._files if (record := self._record(name)) is not None}
        gone = {name for name in versions if self._files[name] is None}
        changes: list[Change] = []
        for name, data in self._files.items():
            if data is None:
                continue
            origin = self._origins.get(name)
            if name in versions:
                if version_of(data) != versions[name]:
                    changes.append(Put(self._absolute(name), data, versions[name]))
            elif moves and origin is not None and origin in gone:
                gone.remove(origin)
                changes.append(Move(self._absolute(origin), self._absolute(name), versions[origin]))
            elif moves and name in self._fetched:
                place, version = self._fetched[name]
                changes.append(Move(self._absolute(place), self._absolute(name), version))
            else:
                changes.append(Put(self._absolute(name), data, ABSENT))
        changes += [Delete(self._absolute(name), versions[name]) for name in sorted(gone)]
        return [*changes, *self._index_changes()]

    def results(self) -> dict[str, bytes | None]:
        """Return what became of each memory file, and of MEMORY.md, that is another now; None: it is gone."""
        found: dict[str, bytes | None] = {}
        for name, data in self._files.items():
            record = self._record(name)
            same = data is None if record is None else data is not None and version_of(data) == record.version
            if is_memory_path(name) and not same:
                found[name] = data
        for change in self._index_changes():
            found[INDEX_FILENAME] = change.data
        return found

    def _index_changes(self) -> Iterator[Put]:
        same_text = self.index_text == self.snapshot.index_document.text
        if same_text and self._index_document is self.snapshot.index_document:
            return
        record, path = self.snapshot.index_record, self._absolute(INDEX_FILENAME)
        if isinstance(record, Obstacle):
            problem = obstacle_problem(record)
            raise BackendUnavailable(
                f"{path}: {problem.message}; the index cannot be changed, so nothing was. To mend it: {problem.fix}"
            )
        data = self._index_document.encode(self.index_text)
        if record is ABSENT or version_of(data) != record.version:
            yield Put(path, data, ABSENT if record is ABSENT else record.version)

    def _record(self, filename: str) -> FileRecord | None:
        held = self.snapshot.documents.get(filename)
        return None if held is None else held[0]

    def _absolute(self, filename: str) -> str:
        return posixpath.join(self.snapshot.root, filename)
