"""Segments: immutable blocks of postings in numpy arrays, built, merged and scored.

A memory of 100,000 files must answer in milliseconds beside an event loop, so the work per query is a few array
operations per term. Segments never change once built: a search needs no lock, and an update adds a small segment
instead of touching a large one.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from agentic_memory.document import Document

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

_EMPTY_INTS: Final[Ints] = np.empty(0, np.int32)
_EMPTY_FLOATS: Final[Floats] = np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Segment:
    """Postings of some files.

    A *unit* is what is ranked: a whole file, or one part of a long one. The units of a file follow each other.

    Attributes:
        filenames, documents: By file number.
        first_unit: By file number, and one more at the end: where a file's units start.
        file_of: By unit: the file number.
        starts, ends: By unit: the slice of the document's body.
        lengths: By unit: number of terms, weighted as they were indexed.
        terms: Sorted distinct term numbers.
        offsets: By position in ``terms``, and one more at the end: where its postings start.
        units, counts: The postings: unit numbers (ascending per term) and weighted term frequencies.
    """

    filenames: tuple[str, ...]
    documents: tuple["Document", ...]
    first_unit: Ints
    file_of: Ints
    starts: Ints
    ends: Ints
    lengths: Ints
    terms: Ints
    offsets: Longs
    units: Ints
    counts: Floats

    def postings(self, term: int) -> tuple[Ints, Floats]:
        """Return the units that have ``term`` and how often."""
        at = int(np.searchsorted(self.terms, term))
        if at == len(self.terms) or self.terms[at] != term:
            return _EMPTY_INTS, _EMPTY_FLOATS
        start, end = int(self.offsets[at]), int(self.offsets[at + 1])
        return self.units[start:end], self.counts[start:end]


class SegmentWriter:
    """Collects units and turns them into a segment."""

    def __init__(self) -> None:
        self._filenames: list[str] = []
        self._documents: list[Document] = []
        self._first_unit = array("i", [0])
        self._file_of = array("i")
        self._starts = array("i")
        self._ends = array("i")
        self._lengths = array("i")
        self._tokens = array("i")

    def add_unit(self, terms: "array[int]", *, start: int, end: int) -> None:
        """Add one unit of the file that ``finish_file`` closes."""
        self._file_of.append(len(self._filenames))
        self._starts.append(start)
        self._ends.append(end)
        self._lengths.append(len(terms))
        self._tokens.extend(terms)

    def finish_file(self, filename: str, document: "Document") -> None:
        """Say whose units the last ones were."""
        self._filenames.append(filename)
        self._documents.append(document)
        self._first_unit.append(len(self._file_of))

    def build(self) -> Segment:
        """Return the segment."""
        lengths = _as_array(self._lengths)
        units = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        keys = (_as_array(self._tokens).astype(np.int64) << 32) | units
        keys, counts = np.unique(keys, return_counts=True)
        terms, offsets = _group(keys >> 32)
        return Segment(
            filenames=tuple(self._filenames),
            documents=tuple(self._documents),
            first_unit=_as_array(self._first_unit),
            file_of=_as_array(self._file_of),
            starts=_as_array(self._starts),
            ends=_as_array(self._ends),
            lengths=lengths,
            terms=terms,
            offsets=offsets,
            units=(keys & 0xFFFFFFFF).astype(np.int32),
            counts=counts.astype(np.float32),
        )


def _as_array(values: "array[int]") -> Ints:
    return np.array(values, dtype=np.int32)


def _group(sorted_terms: Longs) -> tuple[Ints, Longs]:
    """Return the distinct values and where each begins, plus the end."""
    if not len(sorted_terms):
        return _EMPTY_INTS, np.zeros(1, np.int64)
    starts = np.flatnonzero(np.r_[True, sorted_terms[1:] != sorted_terms[:-1]])
    return sorted_terms[starts].astype(np.int32), np.r_[starts, len(sorted_terms)].astype(np.int64)


def merge_segments(segments: Sequence[Segment], alive: Sequence[Flags]) -> Segment:
    """Return one segment of the files that are ``alive`` (by segment, by file number)."""
    filenames: list[str] = []
    documents: list[Document] = []
    columns: dict[str, list[NDArray[np.generic]]] = {
        name: [] for name in ("file", "start", "end", "length", "key", "count")
    }
    units_before = 0
    for segment, living in zip(segments, alive, strict=True):
        new_file = np.cumsum(living, dtype=np.int32) - 1 + len(filenames)
        living_units = living[segment.file_of]
        new_unit = np.cumsum(living_units, dtype=np.int64) - 1 + units_before
        columns["file"].append(new_file[segment.file_of][living_units])
        columns["start"].append(segment.starts[living_units])
        columns["end"].append(segment.ends[living_units])
        columns["length"].append(segment.lengths[living_units])
        kept = living_units[segment.units]
        terms = np.repeat(segment.terms.astype(np.int64), np.diff(segment.offsets))
        columns["key"].append(((terms << 32) | new_unit[segment.units])[kept])
        columns["count"].append(segment.counts[kept])
        numbers = np.flatnonzero(living).tolist()
        filenames.extend(segment.filenames[number] for number in numbers)
        documents.extend(segment.documents[number] for number in numbers)
        units_before += int(living_units.sum())
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(joined["key"], kind="stable")
    keys = joined["key"][order]
    distinct, offsets = _group(keys >> 32)
    file_of = joined["file"].astype(np.int32)
    return Segment(
        filenames=tuple(filenames),
        documents=tuple(documents),
        first_unit=np.searchsorted(file_of, np.arange(len(filenames) + 1)).astype(np.int32),
        file_of=file_of,
        starts=joined["start"].astype(np.int32),
        ends=joined["end"].astype(np.int32),
        lengths=joined["length"].astype(np.int32),
        terms=distinct,
        offsets=offsets,
        units=(keys & 0xFFFFFFFF).astype(np.int32),
        counts=joined["count"][order].astype(np.float32),
    )
