"""What has been read of one memory, kept between replies and shared by every store of the same place.

A shelf holds only what a content hash proves: documents by version, and the last snapshot with the identity of the
tree it came from. It is derived, disposable, and never consulted instead of the backend.
"""

import time
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock
from types import MappingProxyType
from typing import Any, Final

from agentic_memory.backends import FileRecord, Obstacle, Tree
from agentic_memory.backends.values import Absent, version_of
from agentic_memory.check import is_memory_path
from agentic_memory.document import Document, parse_document
from agentic_memory.history.past import Past
from agentic_memory.index import Index, parse_index
from agentic_memory.selection.lexical import Hit, LexicalIndex
from agentic_memory.selection.relations import best_passage, successor_of
from agentic_memory.uses import Uses, memory_key
from agentic_memory.values import Match, MemoryFile, Problem

INDEX_FILENAME: Final = "MEMORY.md"
MAX_SHELVES: Final = 256
"""Memories kept in one process. An agent service has one per user; the least recently used gives way."""
MAX_WRITTEN: Final = 1_000
"""Files remembered as written by this process; one that is forgotten is taken for somebody else's."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The whole memory at one moment. Compared by identity: an unchanged memory is the same snapshot.

    Attributes:
        root: Absolute path of the memory directory.
        tree: What the backend saw.
        documents: Memory file name -> (record, document), sorted by name.
        index_record: MEMORY.md as a file, the obstacle in its place, or ABSENT.
        index_document: MEMORY.md as text, for changing it in its own encoding.
        unnameable: Files whose names are not UTF-8: no model can name them and no session can be saved with them.
    """

    root: str
    tree: Tree
    documents: Mapping[str, tuple[FileRecord, Document]] = field(repr=False)
    index_record: FileRecord | Obstacle | Absent
    index_document: Document = field(repr=False)
    unnameable: tuple[str, ...] = ()

    @cached_property
    def index(self) -> Index:
        """MEMORY.md, parsed when it is first asked for; empty when there is none."""
        return parse_index(self.index_document.text)

    @property
    def files(self) -> tuple[MemoryFile, ...]:
        """Every memory, sorted by file name."""
        return tuple(self.file(filename) for filename in self.documents)

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong with single files and in places that could not be opened. ``MemoryStore.check`` finds more."""
        found = [problem for _, document in self.documents.values() for problem in document.problems]
        found += self.place_problems
        return tuple(found)

    @property
    def place_problems(self) -> tuple[Problem, ...]:
        """What could not be opened, and what cannot be named."""
        return (
            *(obstacle_problem(obstacle) for obstacle in self.tree.obstacles),
            *(_unnameable_problem(path) for path in self.unnameable),
        )

    def file(self, filename: str) -> MemoryFile:
        """Return one memory by its exact name; ``KeyError`` when there is none."""
        record, document = self.documents[filename]
        return as_memory_file(filename, record, document)

    def path_of(self, filename: str) -> str:
        """Return the absolute path of a file by its name here."""
        return f"{self.root}/{filename}"

    def scope_of(self, filename: str) -> str:  # noqa: ARG002 - several memories read together differ by file
        """Return the name of the layer that a file belongs to; empty where there are none."""
        return ""

    def successor_of(self, filename: str) -> str:
        """Return the file that took the place of ``filename`` as its frontmatter says; itself when there is none."""
        return successor_of(self.documents, filename)


def as_memory_file(filename: str, record: FileRecord, document: Document) -> MemoryFile:
    """Put together what a user sees of one memory file."""
    return MemoryFile(
        filename=filename,
        name=document.name,
        description=document.description,
        type=document.type,
        content=document.body,
        version=record.version,
        size=record.size,
        mtime_ns=record.mtime_ns,
        fields=document.fields,
        problems=document.problems,
    )


def written_file(filename: str, data: bytes) -> MemoryFile:
    """Put together what a user sees of a memory file that was just written as ``data``."""
    record = FileRecord(path=filename, size=len(data), mtime_ns=time.time_ns(), version=version_of(data), data=None)
    return as_memory_file(filename, record, parse_document(data, filename=filename))


def as_matches(snapshot: Snapshot, hits: Sequence[Hit], query: str) -> list[Match]:
    """Put together what a user sees of the files that a search found: successors in place of what they supersede."""
    matches: dict[str, Match] = {}
    for hit in hits:
        filename = snapshot.successor_of(hit.filename)
        document = snapshot.documents[filename][1]
        match = Match(
            filename=filename,
            score=hit.score,
            passage=hit.passage,
            line=hit.line,
            name=document.name,
            description=document.description,
            type=document.type,
            because=f"linked from {hit.via}" if hit.via else "",
        )
        if filename != hit.filename:
            passage, line = best_passage(document, query)
            match = replace(match, passage=passage, line=line, because=f"supersedes {hit.filename}")
        if filename not in matches:
            matches[filename] = match
        elif match.because and not matches[filename].because:
            matches[filename] = replace(matches[filename], because=match.because)
    return list(matches.values())


_OBSTACLE_FIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "outside": "replace the link by the file itself, or link to a place inside the memory directory",
        "dangling": "remove the link or bring back what it points to",
        "loop": "remove the link",
        "special": "remove it: only ordinary files can be memories",
        "directory": "rename the directory so that it does not look like a file",
        "unreadable": "give the agent's user the right to read it",
        "too_large": "split it into smaller files by subject",
    }
)


def obstacle_problem(obstacle: Obstacle) -> Problem:
    """Say of something that was not opened what it is and what to do."""
    detail = f": {obstacle.detail}" if obstacle.detail else ""
    return Problem(
        code=f"path-{obstacle.kind.replace('_', '-')}",
        file=_spelled(obstacle.path),
        line=None,
        message=f"not opened, {obstacle.kind.replace('_', ' ')}{detail}",
        fix=_OBSTACLE_FIXES[obstacle.kind],
        severity="error",
    )


def _spelled(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _unnameable_problem(path: str) -> Problem:
    return Problem(
        code="path-not-utf8",
        file=_spelled(path),
        line=None,
        message="not used, its name is not UTF-8",
        fix="rename it",
        severity="error",
    )


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


class Shelf:
    """The last known state of one memory directory."""

    def __init__(self, root: str, *, uses: Uses) -> None:
        self.root = root
        self.uses = uses
        self.past = Past()
        self.lexical = LexicalIndex()
        self.kept: dict[str, Any] = {}
        self._documents: dict[str, Document] = {}
        self._snapshot: Snapshot | None = None
        self._searchable: Snapshot | None = None
        self._lock = Lock()
        self._written: OrderedDict[str, tuple[int, str | None]] = OrderedDict()
        self._writes = 0

    def note_written(self, versions: Mapping[str, str | None]) -> None:
        """Remember that a program's store made these versions of files; None: it took the file away."""
        with self._lock:
            self._writes += 1
            for filename, version in versions.items():
                self._written[filename] = (self._writes, version)
                self._written.move_to_end(filename)
            while len(self._written) > MAX_WRITTEN:
                self._written.popitem(last=False)

    @property
    def writes(self) -> int:
        """How often ``note_written`` was called."""
        return self._writes

    def written_since(self, writes: int) -> dict[str, str | None]:
        """Return the last version written of each file after so many writes."""
        with self._lock:
            return {filename: version for filename, (at, version) in self._written.items() if at > writes}

    @property
    def known(self) -> Mapping[str, object]:
        """The versions whose bytes need not be sent again, as keys."""
        return self._documents

    def take(self, tree: Tree) -> Snapshot:
        """Turn a tree into a snapshot, parsing only what was not parsed before. CPU-bound; safe in any thread.

        Raises:
            KeyError: the tree leaves out the bytes of a version that another thread dropped meanwhile; ask again.
        """
        with self._lock:
            last = self._snapshot
            if last is not None and last.tree is tree:
                return last
            kept: dict[str, Document] = {}
            documents: dict[str, tuple[FileRecord, Document]] = {}
            index_record: FileRecord | Obstacle | Absent = tree.find(INDEX_FILENAME)
            index_document = parse_document(b"", filename=INDEX_FILENAME)
            unnameable: list[str] = []
            before = {} if last is None else last.documents
            for record in tree.files:
                held = before.get(record.path)
                if held is not None and held[0] is record:
                    # As it was: the same pair again, so that one edit in ten thousand files makes no garbage of the rest.
                    documents[record.path] = held
                    kept[record.version] = held[1]
                    continue
                if not (record.path.isascii() or _is_utf8(record.path)):
                    unnameable.append(record.path)
                    continue
                is_index = record.path == INDEX_FILENAME
                if not is_index and not is_memory_path(record.path):
                    continue
                document = self._document(record, kept)
                if is_index:
                    index_document = document
                else:
                    documents[record.path] = (record, document)
            snapshot = Snapshot(
                root=self.root,
                tree=tree,
                documents=MappingProxyType(documents),
                index_record=index_record,
                index_document=index_document,
                unnameable=tuple(unnameable),
            )
            self._documents = kept
            self._snapshot = snapshot
            return snapshot

    def _document(self, record: FileRecord, kept: dict[str, Document]) -> Document:
        document = kept.get(record.version) or self._documents.get(record.version)
        if document is None:
            if record.data is None:
                raise KeyError(record.version)
            document = parse_document(record.data, filename=record.path)
        elif document.problems and any(problem.file != record.path for problem in document.problems):
            # Problems name their file; the same bytes under another name need their own.
            document = parse_document(document.encode(document.text), filename=record.path)
        kept[record.version] = document
        return document

    def forget(self) -> None:
        """Drop every text that was read: one of them was purged."""
        with self._lock:
            self._documents, self._snapshot, self._searchable, self.kept = {}, None, None, {}
            self.lexical = LexicalIndex()

    def index_for_search(self, snapshot: Snapshot) -> LexicalIndex:
        """Bring the lexical index up to ``snapshot``. CPU-bound; safe in any thread."""
        if self._searchable is not snapshot:
            self.lexical.update(snapshot.documents)
            self._searchable = snapshot
        return self.lexical


shelves: OrderedDict[tuple[Hashable, str], Shelf] = OrderedDict()
"""Those of this process, by place and root, the one used longest ago first. Disposable: what is dropped is read again."""
_shelves_lock = Lock()


def shelf_for(place: Hashable, root: str) -> Shelf:
    """Return the shelf of one memory directory, the same for every store of that place in this process.

    Process-wide on purpose: an agent service builds a new middleware for every turn, and reading the whole memory
    again each time is what makes that slow.
    """
    key = (place, root)
    with _shelves_lock:
        shelf = shelves.get(key)
        if shelf is None:
            shelf = shelves[key] = Shelf(root, uses=Uses(memory_key(place, root)))
            while len(shelves) > MAX_SHELVES:
                shelves.popitem(last=False)
        else:
            shelves.move_to_end(key)
        return shelf


def find_shelf(place: Hashable, path: str) -> Shelf | None:
    """Return the shelf of the memory directory that ``path`` (absolute) is in; None when no store here knows one."""
    with _shelves_lock:
        roots = [root for known, root in shelves if known == place and path.startswith(f"{root.rstrip('/')}/")]
        return shelves[place, max(roots, key=len)] if roots else None
