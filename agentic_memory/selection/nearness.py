"""Vectors of a memory's windows, and which files are near to a question's vector: exact, in numpy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from agentic_memory.selection.windows import Window, split_windows

if TYPE_CHECKING:
    from agentic_memory.document import Document

Vector = NDArray[np.float32]
Vectors = NDArray[np.float32]

PAGE_ROWS: Final = 8_192
"""Vectors that stand in one array: an edit copies so many at most, 16 MB of 512 numbers each."""


@dataclass(slots=True)
class _Block:
    """The windows of one content, whichever files have it. Without ``vectors`` it takes no part in searches yet."""

    starts: Sequence[int]
    windows: Sequence[Window] = ()
    loose: dict[str, Vector] = field(default_factory=dict)
    vectors: Vectors | None = None

    def lacks(self) -> Iterator[str]:
        """Yield the texts that have no vector yet."""
        return (window.text for window in self.windows if window.text not in self.loose)

    def settle(self) -> None:
        """Become searchable once every window has its vector."""
        if self.windows and len(self.loose) >= len({window.text for window in self.windows}):
            self.vectors = np.stack([self.loose[window.text] for window in self.windows])
            self.windows, self.loose = (), {}


@dataclass(frozen=True, slots=True, eq=False)
class _Page:
    """Vectors of some contents, one content after the other.

    Attributes:
        versions: Which contents.
        vectors: One row per window.
        starts: By row: the offset into the body where the window begins.
        first: By content: its first row.
    """

    versions: tuple[str, ...]
    vectors: Vectors
    starts: NDArray[np.intp]
    first: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near every content is to one vector.

    Attributes:
        cosines: Mean cosine of the best two windows, by position.
        positions: By version.
        names: The files of each position.
        best_rows, pages: Where the best window of each position stands.
    """

    cosines: Vector
    positions: Mapping[str, int]
    names: Sequence[Sequence[str]]
    best_rows: NDArray[np.intp]
    pages: tuple[_Page, ...]

    def nearest(self, limit: int) -> list[str]:
        """Return the names of the files with the ``limit`` nearest contents, in no order."""
        at = range(len(self.names))
        chosen = at if len(at) <= limit else np.argpartition(-self.cosines, limit)[:limit].tolist()
        return [name for position in chosen for name in self.names[position]]

    def vector(self, version: str) -> Vector:
        """Return the vector of the best window of a content."""
        page, row = self._locate(version)
        vector: Vector = page.vectors[row]
        return vector

    def start(self, version: str) -> int:
        """Return the offset into the body where the best window of a content begins."""
        page, row = self._locate(version)
        return int(page.starts[row])

    def _locate(self, version: str) -> tuple[_Page, int]:
        row = int(self.best_rows[self.positions[version]])
        for page in self.pages:
            if row < len(page.vectors):
                return page, row
            row -= len(page.vectors)
        raise KeyError(version)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """What one search looks at: never changed, only replaced."""

    pages: tuple[_Page, ...] = ()
    positions: Mapping[str, int] = field(default_factory=dict)
    names: Sequence[Sequence[str]] = ()


class NearnessIndex:
    """The vectors of one memory by one model. Derived from content alone, in memory, and safe to throw away.

    Any thread may search while another updates: a search sees the files as one update left them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._documents: Mapping[str, tuple[Any, Document]] = {}
        self._blocks: dict[str, _Block] = {}
        self._table = _Table()

    def __len__(self) -> int:
        return len(self._table.positions)

    def update(self, documents: Mapping[str, tuple[Any, "Document"]]) -> list[str]:
        """Make the index that of ``documents`` (file name to record and document) and return the texts without a vector.

        A file takes part in searches as soon as all its windows have vectors.
        """
        with self._lock:
            if documents is not self._documents:
                wanted = {record.version: document for record, document in documents.values()}
                self._blocks = {version: block for version, block in self._blocks.items() if version in wanted}
                for version, document in wanted.items():
                    if version not in self._blocks:
                        windows = split_windows(document)
                        self._blocks[version] = _Block([window.start for window in windows], windows)
                self._documents = documents
                self._arrange()
            return list(dict.fromkeys(text for block in self._blocks.values() for text in block.lacks()))

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Take the vectors of texts that ``update`` returned, all or some of them."""
        with self._lock:
            for block in self._blocks.values():
                if block.windows:
                    block.loose |= {text: vectors[text] for text in block.lacks() if text in vectors}
                    block.settle()
            self._arrange()

    def search(self, vector: Vector) -> Nearness:
        """Compare ``vector`` with every window there is."""
        table = self._table
        cosines: list[Vector] = [np.empty(0, np.float32)]
        rows: list[NDArray[np.intp]] = [np.empty(0, np.intp)]
        before = 0
        for page in table.pages:
            values = page.vectors @ vector
            best, at = _best_two(values, page.first)
            cosines.append(best)
            rows.append(at + before)
            before += len(values)
        return Nearness(np.concatenate(cosines), table.positions, table.names, np.concatenate(rows), table.pages)

    def _arrange(self) -> None:
        """Put new contents on pages and take gone ones off; full pages that nothing happened to stay as they are."""
        ready = {version for version, block in self._blocks.items() if block.vectors is not None}
        pages = self._table.pages
        kept = [page for page in pages if len(page.vectors) >= PAGE_ROWS // 2 and ready.issuperset(page.versions)]
        settled = {version for page in kept for version in page.versions}
        loose = ready - settled
        pages = (*kept, *self._paginate([version for version in self._blocks if version in loose]))
        positions = {version: at for at, version in enumerate(version for page in pages for version in page.versions)}
        names: list[list[str]] = [[] for _ in positions]
        for name, (record, _) in self._documents.items():
            if (at := positions.get(record.version)) is not None:
                names[at].append(name)
        self._table = _Table(pages, positions, names)

    def _paginate(self, versions: Sequence[str]) -> Iterator[_Page]:
        batch: list[str] = []
        rows = 0
        for version in versions:
            batch.append(version)
            rows += len(self._blocks[version].starts)
            if rows >= PAGE_ROWS:
                yield self._page(batch)
                batch, rows = [], 0
        if batch:
            yield self._page(batch)

    def _page(self, versions: Sequence[str]) -> _Page:
        parts = [part for version in versions if (part := self._blocks[version].vectors) is not None]
        first = np.cumsum([0, *(len(part) for part in parts[:-1])])
        starts = np.array([start for version in versions for start in self._blocks[version].starts], np.intp)
        page = _Page(tuple(versions), np.concatenate(parts), starts, first)
        for version, start, part in zip(versions, first.tolist(), parts, strict=True):
            self._blocks[version].vectors = page.vectors[start : start + len(part)]  # one copy in memory, not two
        return page


def _best_two(values: Vector, first: NDArray[np.intp]) -> tuple[Vector, NDArray[np.intp]]:
    """Return per content the mean of its two highest values (the one value where there is one), and the row of the best."""
    sizes = np.diff(np.append(first, len(values)))
    best = np.maximum.reduceat(values, first)
    is_best = np.flatnonzero(values == np.repeat(best, sizes))
    owner = np.searchsorted(first, is_best, side="right") - 1
    _, earliest = np.unique(owner, return_index=True)
    rows = is_best[earliest]
    rest = values.copy()
    rest[rows] = -np.inf
    second = np.maximum.reduceat(rest, first)
    return np.where(np.isneginf(second), best, (best + second) / 2).astype(np.float32), rows
