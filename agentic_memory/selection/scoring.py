"""BM25 over segments, at two levels: which files match a query's terms, where in them, and which of the terms they have."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agentic_memory.selection.postings import MAX_COUNT, Counts, Flags, Floats, Ints, Longs, Postings, Segment

K1: Final = 1.2
B: Final = 0.5
BACKGROUND_ROWS: Final = 100
"""Parts without any of the query's terms that a term's rarity is smoothed with when coverage is computed: in a store of
two files every word would be common."""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One thing searched for: the term numbers that stand for it, and what a match of it counts (1 is full)."""

    numbers: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Shelf:
    """A segment, and by file number whether the file still counts."""

    segment: Segment
    alive: Flags

    @property
    def living_files(self) -> int:
        """How many files still count."""
        return int(np.count_nonzero(self.alive))

    @property
    def living_parts(self) -> Flags:
        """By part: whether it still counts."""
        return self.alive[self.segment.file_of]

    @property
    def living_passages(self) -> Flags:
        """By passage: whether it still counts."""
        return np.repeat(self.living_parts, np.diff(self.segment.first_passage))


@dataclass(frozen=True, slots=True)
class Level:
    """The postings of one level on every shelf, with what BM25 needs to know of them.

    Attributes:
        postings: By shelf.
        alive: By shelf: which rows still count, or None when all do.
        norms: By shelf and row: the part of BM25's denominator that only depends on the row's length.
        rows: How many rows count.
    """

    postings: tuple[Postings, ...]
    alive: tuple[Flags | None, ...]
    norms: tuple[Floats, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Collection:
    """What one search looks at: never changed, only replaced."""

    shelves: tuple[Shelf, ...]
    parts: Level
    passages: Level


def make_collection(shelves: Sequence[Shelf]) -> Collection:
    """Return the collection of ``shelves`` with its statistics."""
    return Collection(
        shelves=tuple(shelves),
        parts=_make_level([shelf.segment.parts for shelf in shelves], [shelf.living_parts for shelf in shelves]),
        passages=_make_level(
            [shelf.segment.passages for shelf in shelves], [shelf.living_passages for shelf in shelves]
        ),
    )


def _make_level(postings: Sequence[Postings], alive: Sequence[Flags]) -> Level:
    rows = sum(int(np.count_nonzero(flags)) for flags in alive)
    total = sum(int(block.lengths[flags].sum()) for block, flags in zip(postings, alive, strict=True))
    mean = max(total / max(rows, 1), 1.0)
    norms = tuple((K1 * (1 - B + B * block.lengths / mean)).astype(np.float32) for block in postings)
    return Level(tuple(postings), tuple(None if flags.all() else flags for flags in alive), norms, rows)


@dataclass(frozen=True, slots=True)
class Matches:
    """Where one query term is on one level: by shelf the rows (ascending) and how often, living ones only."""

    term: QueryTerm
    rows: tuple[Ints, ...]
    counts: tuple[Counts, ...]

    @property
    def frequency(self) -> int:
        """In how many rows."""
        return sum(len(rows) for rows in self.rows)


def match_term(level: Level, term: QueryTerm) -> Matches:
    """Find one query term on every shelf."""
    rows: list[Ints] = []
    counts: list[Counts] = []
    for postings, alive in zip(level.postings, level.alive, strict=True):
        found, often = _join([postings.find(number) for number in term.numbers])
        if alive is not None and len(found):
            living = alive[found]
            found, often = found[living], often[living]
        rows.append(found)
        counts.append(often)
    return Matches(term, tuple(rows), tuple(counts))


def _join(postings: Sequence[tuple[Ints, Counts]]) -> tuple[Ints, Counts]:
    if len(postings) == 1:
        return postings[0]
    rows, inverse = np.unique(np.concatenate([found for found, _ in postings]), return_inverse=True)
    counts = np.bincount(inverse, weights=np.concatenate([often for _, often in postings]), minlength=len(rows))
    return rows, np.minimum(counts, MAX_COUNT).astype(np.uint16)


def inverse_frequency(level: Level, matches: Matches) -> float:
    """Return BM25's weight of a term; above zero also for one that every row has."""
    frequency = matches.frequency
    return math.log1p((level.rows - frequency + 0.5) / (frequency + 0.5))


def rarity(level: Level, matches: Matches) -> float:
    """Return what the term says about relevance, in stores of any size."""
    frequency = matches.frequency
    return math.log1p((level.rows + BACKGROUND_ROWS - frequency + 0.5) / (frequency + 0.5))


def score_parts(level: Level, found: Sequence[Matches]) -> list[Floats]:
    """Return by shelf and part the BM25 score."""
    scores = [np.zeros(len(norms), np.float32) for norms in level.norms]
    for matches in found:
        weight = np.float32(matches.term.weight * inverse_frequency(level, matches))
        for at, (rows, counts) in enumerate(zip(matches.rows, matches.counts, strict=True)):
            if len(rows):
                scores[at][rows] += weight * counts / (counts + level.norms[at][rows])
    return scores


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file that matched: where it is, and its best passage so far as it is known."""

    shelf: int
    file: int
    score: float
    passage: int = 0


def best_files(collection: Collection, scores: Sequence[Floats], limit: int) -> list[Candidate]:
    """Return the ``limit`` best files by their best part, best first; equal scores in the order of their names."""
    found = [
        Candidate(at, number, score)
        for at, (shelf, parts) in enumerate(zip(collection.shelves, scores, strict=True))
        for number, score in _top(_by_file(shelf.segment, parts), limit)
    ]
    return sort_candidates(collection, found)[:limit]


def sort_candidates(collection: Collection, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates best first; equal scores in the order of their names."""
    shelves = collection.shelves
    return sorted(candidates, key=lambda item: (-item.score, shelves[item.shelf].segment.filenames[item.file]))


def _by_file(segment: Segment, parts: Floats) -> Floats:
    if len(parts) == len(segment.filenames):
        return parts
    return np.maximum.reduceat(parts, segment.first_part[:-1])


def _top(scores: Floats, limit: int) -> Iterator[tuple[int, float]]:
    """Yield the best positions above zero, and all that tie with the last of them."""
    floor = 0.0
    if len(scores) > limit:
        floor = float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
    numbers = np.flatnonzero(scores >= floor) if floor > 0 else np.flatnonzero(scores > 0)
    return zip(numbers.tolist(), scores[numbers].tolist(), strict=True)


def add_passages(
    collection: Collection, candidates: Sequence[Candidate], found: Sequence[Matches], weight: float
) -> list[Candidate]:
    """Return the candidates with ``weight`` times the score of their best passage added, best first."""
    level = collection.passages
    raised: list[Candidate] = []
    for at, shelf in enumerate(collection.shelves):
        here = [candidate for candidate in candidates if candidate.shelf == at]
        if not here:
            continue
        files = np.array([candidate.file for candidate in here])
        first_passage, first_part = shelf.segment.first_passage, shelf.segment.first_part
        low, high = first_passage[first_part[files]], first_passage[first_part[files + 1]]
        bases = np.append(0, np.cumsum(high - low))
        scores = _score_ranges(level, at, found, low, high, bases)
        for candidate, base, end, start in zip(here, bases[:-1], bases[1:], low, strict=True):
            best = int(np.argmax(scores[base:end]))
            score = candidate.score + weight * float(scores[base + best])
            raised.append(Candidate(at, candidate.file, score, int(start) + best))
    return sort_candidates(collection, raised)


def _score_ranges(
    level: Level, at: int, found: Sequence[Matches], low: Ints, high: Ints, bases: Longs
) -> NDArray[np.float64]:
    """Return the BM25 scores of the rows ``low`` to ``high`` of each file, one file after the other from ``bases`` on."""
    edges = np.concatenate([low, high])
    places: list[Longs] = []
    gains: list[NDArray[np.floating[Any]]] = []
    for matches in found:
        rows, counts = matches.rows[at], matches.counts[at]
        cuts = rows.searchsorted(edges)
        left = cuts[: len(low)]
        sizes = cuts[len(low) :] - left
        ends = sizes.cumsum()
        if not ends[-1]:
            continue
        picked = np.arange(ends[-1]) + (left - ends + sizes).repeat(sizes)
        chosen, often = rows[picked], counts[picked]
        idf = np.float32(matches.term.weight * inverse_frequency(level, matches))
        places.append(chosen + (bases[:-1] - low).repeat(sizes))
        gains.append(idf * often / (often + level.norms[at][chosen]))
    if not places:
        return np.zeros(int(bases[-1]))
    size = int(bases[-1])
    return np.asarray(np.bincount(np.concatenate(places), weights=np.concatenate(gains), minlength=size), np.float64)


def holds(collection: Collection, candidate: Candidate, matches: Matches) -> bool:
    """Tell whether the candidate's file has the term, in any of its parts."""
    first_part = collection.shelves[candidate.shelf].segment.first_part
    rows = matches.rows[candidate.shelf]
    at = int(rows.searchsorted(first_part[candidate.file]))
    return at < len(rows) and int(rows[at]) < int(first_part[candidate.file + 1])
