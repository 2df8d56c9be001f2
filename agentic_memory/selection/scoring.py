"""BM25 over segments: which files match a query's terms, and which of the terms they have."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agentic_memory.selection.postings import Flags, Floats, Ints, Segment

K1: Final = 1.2
B: Final = 0.75
BACKGROUND_UNITS: Final = 100
"""Units without any of the query's terms that a term's rarity is smoothed with when coverage is computed: in a store of
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
    def living_units(self) -> Flags:
        """By unit: whether it still counts."""
        return self.alive[self.segment.file_of]


@dataclass(frozen=True, slots=True)
class Collection:
    """What one search looks at: never changed, only replaced.

    Attributes:
        shelves: The segments.
        norms: By shelf and unit: the part of BM25's denominator that only depends on the unit's length.
        units: How many units count.
    """

    shelves: tuple[Shelf, ...] = ()
    norms: tuple[Floats, ...] = ()
    units: int = 0


def make_collection(shelves: Sequence[Shelf]) -> Collection:
    """Return the collection of ``shelves`` with its statistics."""
    living = [shelf.living_units for shelf in shelves]
    units = sum(int(np.count_nonzero(flags)) for flags in living)
    total = sum(int(shelf.segment.lengths[flags].sum()) for shelf, flags in zip(shelves, living, strict=True))
    mean = max(total / max(units, 1), 1.0)
    norms = tuple((K1 * (1 - B + B * shelf.segment.lengths / mean)).astype(np.float32) for shelf in shelves)
    return Collection(tuple(shelves), norms, units)


@dataclass(frozen=True, slots=True)
class Matches:
    """Where one query term is: by shelf the units (ascending) and weighted frequencies, living ones only."""

    term: QueryTerm
    units: tuple[Ints, ...]
    counts: tuple[Floats, ...]

    @property
    def frequency(self) -> int:
        """In how many units."""
        return sum(len(units) for units in self.units)


def match_term(collection: Collection, term: QueryTerm) -> Matches:
    """Find one query term on every shelf."""
    units: list[Ints] = []
    counts: list[Floats] = []
    for shelf in collection.shelves:
        found, often = _join([shelf.segment.postings(number) for number in term.numbers])
        if len(found) and not shelf.alive.all():
            living = shelf.alive[shelf.segment.file_of[found]]
            found, often = found[living], often[living]
        units.append(found)
        counts.append(often)
    return Matches(term, tuple(units), tuple(counts))


def _join(postings: Sequence[tuple[Ints, Floats]]) -> tuple[Ints, Floats]:
    if len(postings) == 1:
        return postings[0]
    units, inverse = np.unique(np.concatenate([found for found, _ in postings]), return_inverse=True)
    counts = np.bincount(inverse, weights=np.concatenate([often for _, often in postings]), minlength=len(units))
    return units, counts.astype(np.float32)


def inverse_frequency(collection: Collection, matches: Matches) -> float:
    """Return BM25's weight of a term; above zero also for one that every unit has."""
    frequency = matches.frequency
    return math.log1p((collection.units - frequency + 0.5) / (frequency + 0.5))


def rarity(collection: Collection, matches: Matches) -> float:
    """Return what the term says about relevance, in stores of any size."""
    frequency = matches.frequency
    return math.log1p((collection.units + BACKGROUND_UNITS - frequency + 0.5) / (frequency + 0.5))


def score_units(collection: Collection, found: Sequence[Matches]) -> list[Floats]:
    """Return by shelf and unit the BM25 score."""
    scores = [np.zeros(len(norms), np.float32) for norms in collection.norms]
    for matches in found:
        weight = np.float32(matches.term.weight * inverse_frequency(collection, matches))
        for at, (units, counts) in enumerate(zip(matches.units, matches.counts, strict=True)):
            if len(units):
                scores[at][units] += weight * counts / (counts + collection.norms[at][units])
    return scores


@dataclass(frozen=True, slots=True)
class Candidate:
    """One file that matched, by its best unit."""

    shelf: int
    file: int
    unit: int
    score: float


def best_files(collection: Collection, scores: Sequence[Floats], limit: int) -> list[Candidate]:
    """Return the ``limit`` best files, best first; equal scores in the order of their names."""
    found: list[tuple[float, str, Candidate]] = []
    for at, (shelf, units) in enumerate(zip(collection.shelves, scores, strict=True)):
        segment = shelf.segment
        for number, score in _top(_by_file(segment, units), limit):
            first, end = int(segment.first_unit[number]), int(segment.first_unit[number + 1])
            unit = first + int(np.argmax(units[first:end]))
            found.append((-score, segment.filenames[number], Candidate(at, number, unit, score)))
    found.sort(key=lambda item: item[:2])
    return [candidate for _, _, candidate in found[:limit]]


def _by_file(segment: Segment, units: Floats) -> Floats:
    if len(units) == len(segment.filenames):
        return units
    return np.maximum.reduceat(units, segment.first_unit[:-1])


def _top(scores: Floats, limit: int) -> Iterator[tuple[int, float]]:
    """Yield the best positions above zero, and all that tie with the last of them."""
    floor = 0.0
    if len(scores) > limit:
        floor = float(np.partition(scores, len(scores) - limit)[len(scores) - limit])
    numbers = np.flatnonzero(scores >= floor) if floor > 0 else np.flatnonzero(scores > 0)
    return zip(numbers.tolist(), scores[numbers].tolist(), strict=True)


def holds(collection: Collection, candidate: Candidate, matches: Matches) -> bool:
    """Tell whether the candidate's file has the term, in any of its parts."""
    first_unit = collection.shelves[candidate.shelf].segment.first_unit
    units = matches.units[candidate.shelf]
    at = int(np.searchsorted(units, first_unit[candidate.file]))
    return at < len(units) and int(units[at]) < int(first_unit[candidate.file + 1])
