"""Segments: immutable blocks of postings in numpy arrays, built once and merged.

A memory of 100,000 files must answer in milliseconds beside an event loop, so the work per query is a few array
operations per term. Segments never change once built: a search needs no lock, and an update adds a small segment
instead of touching a large one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from agentic_memory.document import Document

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Counts = NDArray[np.uint16]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

MAX_COUNT: Final = np.iinfo(np.uint16).max
_EMPTY_ROWS: Final[Ints] = np.empty(0, np.int32)
_EMPTY_COUNTS: Final[Counts] = np.empty(0, np.uint16)
_ROW_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class Postings:
    """Which rows (parts or passages) have which terms.

    Attributes:
        lengths: By row: number of terms.
        terms: Sorted distinct term numbers.
        offsets: By position in ``terms``, and one more at the end: where its postings start.
        rows: Row numbers, ascending within a term.
        counts: How often the row has the term.
    """

    lengths: Ints
    terms: Ints
    offsets: Longs
    rows: Ints
    counts: Counts

    def find(self, term: int) -> tuple[Ints, Counts]:
        """Return the rows that have ``term``, and how often each has it."""
        at = int(self.terms.searchsorted(np.int32(term)))  # a plain int would have the whole array converted
        if at == len(self.terms) or self.terms[at] != term:
            return _EMPTY_ROWS, _EMPTY_COUNTS
        start, end = int(self.offsets[at]), int(self.offsets[at + 1])
        return self.rows[start:end], self.counts[start:end]


@dataclass(frozen=True, slots=True)
class Segment:
    """The postings of some files, at two levels.

    A file has parts, a part has passages; those of one file, or one part, follow each other.

    Attributes:
        filenames, documents: By file number.
        first_part: By file number, and one more at the end.
        file_of: By part: its file number.
        first_passage: By part, and one more at the end.
        starts, ends: By passage: its slice of the document's body.
        parts, passages: The postings.
    """

    filenames: tuple[str, ...]
    documents: tuple["Document", ...]
    first_part: Ints
    file_of: Ints
    first_passage: Ints
    starts: Ints
    ends: Ints
    parts: Postings
    passages: Postings


def make_keys(terms: Ints, rows: Ints) -> Longs:
    """Return one number per pair, that sorts by term and then by row."""
    return (terms.astype(np.int64) << _ROW_BITS) | rows


def count_keys(lengths: Ints, keys: Longs) -> Postings:
    """Make postings of sorted keys, one per occurrence; ``lengths``: by row, the number of terms."""
    first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    at = np.flatnonzero(first)
    counts = np.diff(at, append=len(keys))
    return _group(lengths, keys[at], np.minimum(counts, MAX_COUNT).astype(np.uint16))


def _group(lengths: Ints, keys: Longs, counts: Counts) -> Postings:
    """Make postings of sorted keys: term number above, row number below."""
    of_key = keys >> _ROW_BITS
    starts = np.flatnonzero(np.diff(of_key, prepend=-1))
    return Postings(
        lengths=lengths,
        terms=of_key[starts].astype(np.int32),
        offsets=np.append(starts, len(keys)).astype(np.int64),
        rows=(keys & ((1 << _ROW_BITS) - 1)).astype(np.int32),
        counts=counts,
    )


def merge_segments(segments: Sequence[Segment], alive: Sequence[Flags]) -> Segment:
    """Return one segment of the files that are ``alive`` (by segment, by file number)."""
    parts = [living[segment.file_of] for segment, living in zip(segments, alive, strict=True)]
    passages = [
        np.repeat(living, np.diff(segment.first_passage)) for segment, living in zip(segments, parts, strict=True)
    ]
    filenames: list[str] = []
    documents: list[Document] = []
    for segment, living in zip(segments, alive, strict=True):
        numbers = np.flatnonzero(living).tolist()
        filenames.extend(segment.filenames[number] for number in numbers)
        documents.extend(segment.documents[number] for number in numbers)
    parts_per_file = _keep([np.diff(segment.first_part) for segment in segments], alive)
    return Segment(
        filenames=tuple(filenames),
        documents=tuple(documents),
        first_part=_running_total(parts_per_file),
        file_of=np.repeat(np.arange(len(filenames), dtype=np.int32), parts_per_file),
        first_passage=_running_total(_keep([np.diff(segment.first_passage) for segment in segments], parts)),
        starts=_keep([segment.starts for segment in segments], passages),
        ends=_keep([segment.ends for segment in segments], passages),
        parts=_merge_postings([segment.parts for segment in segments], parts),
        passages=_merge_postings([segment.passages for segment in segments], passages),
    )


def _keep(columns: Sequence[Ints], alive: Sequence[Flags]) -> Ints:
    return np.concatenate([column[living] for column, living in zip(columns, alive, strict=True)]).astype(np.int32)


def _running_total(sizes: Ints) -> Ints:
    return np.append(0, np.cumsum(sizes)).astype(np.int32)


def _merge_postings(postings: Sequence[Postings], alive: Sequence[Flags]) -> Postings:
    keys: list[Longs] = []
    counts: list[Counts] = []
    before = 0
    for block, living in zip(postings, alive, strict=True):
        renumbered = np.cumsum(living, dtype=np.int64) - 1 + before
        kept = living[block.rows]
        terms = np.repeat(block.terms.astype(np.int64), np.diff(block.offsets))
        keys.append(((terms << _ROW_BITS) | renumbered[block.rows])[kept])
        counts.append(block.counts[kept])
        before += int(np.count_nonzero(living))
    joined = np.concatenate(keys)
    order = np.argsort(joined, kind="stable")  # the blocks are sorted runs: a stable sort only has to merge them
    return _group(_keep([block.lengths for block in postings], alive), joined[order], np.concatenate(counts)[order])
