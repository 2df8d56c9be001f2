"""Find the memory files whose words answer a query: BM25 over fields and parts, in memory.

Why not a library: SQLite's FTS5 gives no weight at all to a word that more than half of the files have, which in a
store of five files is most words, and cannot say which share of a query a file covers; bm25s rebuilds for each change;
tantivy is a binary dependency. The numbers stand in docs/recall.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

from agentic_memory.selection.indexing import SegmentWriter
from agentic_memory.selection.passages import count_lines, widen_passage
from agentic_memory.selection.postings import Segment, merge_segments
from agentic_memory.selection.scoring import (
    Candidate,
    Collection,
    Level,
    Matches,
    QueryTerm,
    Shelf,
    add_passages,
    best_files,
    holds,
    make_collection,
    match_term,
    rarity,
    score_parts,
)
from agentic_memory.selection.vocabulary import Vocabulary
from agentic_memory.selection.words import is_unspaced, query_terms

if TYPE_CHECKING:
    from agentic_memory.document import Document

GUESS_WEIGHT: Final = 0.6
"""What a match counts that was only found by forgiving a typo, or by one character of a pair."""
MAX_QUERY_TERMS: Final = 64
"""Of a longer query the rarest terms are searched for: the rest adds time and no aim."""
MAX_GUESSED_TERMS: Final = 24
"""In a longer query no word is guessed at: a paste has many unknown words, and needs none of them."""
SHORTLIST: Final = 20
SHORTLIST_RATIO: Final = 4
"""How many files per wanted one are looked at passage by passage, and at least how many."""
PASSAGE_WEIGHT: Final = 0.3
"""What the best passage adds to the score of a part."""
MIN_COVERAGE: Final = 0.25
MIN_SINGLE_COVERAGE: Final = 0.5
"""What the best file must cover of a query: the second figure when all it has is one of several terms, for one word in
common is mostly chance. Chosen on the dev questions of benchmarks/recall, for at most one false answer in ten."""
MIN_RELATIVE_COVERAGE: Final = 0.2
"""What a further file must cover, relative to the file that covers most."""
CLEAR_COVERAGE: Final = 0.6
CLEAR_MARGIN: Final = 1.5
"""When the first hit stands out: it covers that much, and its score is so many times that of the second. On the dev
questions the file is then a right one in 98 of 100 cases."""
_MERGE_RATIO: Final = 2
_NOWHERE: Final = (-1,)
_NEIGHBOURS: Final = 4


@dataclass(frozen=True, slots=True)
class Hit:
    """One file that matched.

    Attributes:
        filename: Path relative to the memory directory.
        score: BM25 of the file's best part; comparable within one search only.
        coverage: 0 to 1: which share of the query's terms the file has, each weighed by its rarity.
        line: 1-based line of the file where ``passage`` begins.
        passage: The lines that match best.
        suffices: Whether that coverage is more than chance.
        via: The hit that links to this file, when the file is only here for that; empty when it matched by itself.
    """

    filename: str
    score: float
    coverage: float
    line: int
    passage: str = field(repr=False)
    suffices: bool = True
    via: str = ""


class LexicalIndex:
    """The words of a memory. Derived from content alone, in memory, and safe to throw away.

    Any thread may search while another updates: a search sees the files as one update left them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._vocabulary = Vocabulary()
        self._documents: Mapping[str, tuple[object, Document]] = {}
        self._collection = make_collection([])

    def __len__(self) -> int:
        return len(self._documents)

    def update(self, documents: Mapping[str, tuple[object, "Document"]]) -> None:
        """Make the index that of ``documents``: file name to a pair whose second is the document.

        Only files whose document is new are read; files that are no longer in ``documents`` go.
        """
        with self._lock:
            known = self._documents
            # Pairs that are the very same need no look inside: of ten thousand files, mostly one has changed.
            new = [(name, pair[1]) for name, pair in documents.items() if known.get(name) is not pair]
            changed = [(name, document) for name, document in new if not _is_same(known.get(name), document)]
            stale = {name for name, _ in changed if name in known}
            if len(known) + len(changed) - len(stale) > len(documents):
                stale.update(name for name in known if name not in documents)
            if changed or stale:
                shelves = [_drop_files(shelf, stale) for shelf in self._collection.shelves]
                if changed:
                    shelves.append(Shelf(self._index(changed), np.ones(len(changed), np.bool_)))
                self._collection = make_collection(_tidy(shelves))
            self._documents = dict(documents)

    def search(self, query: str, *, limit: int = 5) -> list[Hit]:
        """Return the files that answer ``query``, best first; none when none is relevant enough."""
        ranked = self.rank(query, limit=limit)
        if not any(hit.suffices for hit in ranked):
            return []
        floor = MIN_RELATIVE_COVERAGE * max(hit.coverage for hit in ranked)
        return [hit for hit in ranked if hit.coverage >= floor]

    def rank(self, query: str, *, limit: int) -> list[Hit]:
        """Return the files that share words with ``query``, best first, relevant or not."""
        collection = self._collection
        found = self._match(query, collection.parts)
        if not found or limit < 1:
            return []
        shortlist = best_files(
            collection, score_parts(collection.parts, found), max(SHORTLIST, SHORTLIST_RATIO * limit)
        )
        closer = [match_term(collection.passages, matches.term) for matches in found]
        candidates = add_passages(collection, shortlist, closer, PASSAGE_WEIGHT)[:limit]
        weights = [rarity(collection.parts, matches) for matches in found]
        return [_show(collection, candidate, _cover(collection, candidate, found, weights)) for candidate in candidates]

    def _index(self, files: Sequence[tuple[str, "Document"]]) -> Segment:
        writer = SegmentWriter(self._vocabulary)
        for filename, document in files:
            writer.add(filename, document)
        return writer.build()

    def _match(self, query: str, level: Level) -> list[Matches]:
        texts = query_terms(query)
        guess = len(texts) <= MAX_GUESSED_TERMS
        found = [matches for text in texts for matches in self._match_text(text, level, guess=guess)]
        if len(found) > MAX_QUERY_TERMS:
            found.sort(key=lambda matches: (not matches.frequency, matches.frequency))
            del found[MAX_QUERY_TERMS:]
        return found if any(matches.frequency for matches in found) else []

    def _match_text(self, text: str, level: Level, *, guess: bool) -> list[Matches]:
        """Find one term of the query; when no file has it, what it may have meant."""
        vocabulary = self._vocabulary
        number = vocabulary.find(text)
        if is_unspaced(text) and len(text) == 1:
            return [match_term(level, QueryTerm(vocabulary.find_containing(text) or _NOWHERE))]
        if number is not None:
            exact = match_term(level, QueryTerm((number,)))
            if exact.frequency:
                return [exact]
        if not guess:
            return [match_term(level, QueryTerm(_NOWHERE))]
        if is_unspaced(text):
            guesses = [vocabulary.find_containing(character) for character in text]
            return [match_term(level, QueryTerm(numbers or _NOWHERE, GUESS_WEIGHT / 2)) for numbers in guesses]
        return [match_term(level, QueryTerm(vocabulary.find_misspelt(text) or _NOWHERE, GUESS_WEIGHT))]


@dataclass(frozen=True, slots=True)
class _Cover:
    """How much of a query one file has: the share by weight, and how many of how many terms."""

    share: float
    matched: int
    asked: int

    @property
    def suffices(self) -> bool:
        """Tell whether that is more than chance."""
        alone = self.matched == 1 and self.asked > 1
        return self.share >= (MIN_SINGLE_COVERAGE if alone else MIN_COVERAGE)


def _cover(collection: Collection, candidate: Candidate, found: Sequence[Matches], weights: Sequence[float]) -> _Cover:
    there = [
        weight * matches.term.weight
        for weight, matches in zip(weights, found, strict=True)
        if holds(collection, candidate, matches)
    ]
    return _Cover(sum(there) / sum(weights), len(there), len(found))


def _show(collection: Collection, candidate: Candidate, cover: _Cover) -> Hit:
    segment = collection.shelves[candidate.shelf].segment
    filename, document = segment.filenames[candidate.file], segment.documents[candidate.file]
    body = document.body
    first, last = segment.first_passage[segment.first_part[candidate.file : candidate.file + 2]].tolist()
    first, last = max(first, candidate.passage - _NEIGHBOURS), min(last, candidate.passage + _NEIGHBOURS + 1)
    slices = zip(segment.starts[first:last].tolist(), segment.ends[first:last].tolist(), strict=True)
    start, end = widen_passage(list(slices), candidate.passage - first)
    shown = body[start:end]
    if not shown.strip():
        return Hit(filename, candidate.score, cover.share, 1, document.description or document.name, cover.suffices)
    start += len(shown) - len(shown.lstrip())
    line = count_lines(body, start, first=document.body_line)
    return Hit(filename, candidate.score, cover.share, line, shown.strip(), cover.suffices)


def _is_same(known: tuple[object, "Document"] | None, document: "Document") -> bool:
    return known is not None and (known[1] is document or known[1].text == document.text)


def _drop_files(shelf: Shelf, filenames: set[str]) -> Shelf:
    stale = [number for number, name in enumerate(shelf.segment.filenames) if name in filenames] if filenames else []
    if not stale:
        return shelf
    alive = shelf.alive.copy()
    alive[stale] = False
    return Shelf(shelf.segment, alive)


def _tidy(shelves: Sequence[Shelf]) -> list[Shelf]:
    """Merge the newest shelves while they are of like size, and drop dead files where they are the half.

    So there are never more than log2(files) shelves, and an edit costs what the edited file costs, not what all do.
    """
    kept = [shelf for shelf in shelves if shelf.living_files]
    while len(kept) > 1 and kept[-2].living_files <= _MERGE_RATIO * kept[-1].living_files:
        kept[-2:] = [_merge(kept[-2:])]
    return [shelf if 2 * shelf.living_files >= len(shelf.alive) else _merge([shelf]) for shelf in kept]


def _merge(shelves: Sequence[Shelf]) -> Shelf:
    segment = merge_segments([shelf.segment for shelf in shelves], [shelf.alive for shelf in shelves])
    return Shelf(segment, np.ones(len(segment.filenames), np.bool_))


def stands_out(hits: Sequence[Hit]) -> bool:
    """Tell whether the first hit is so clear that no model needs to be asked which file is meant."""
    if not hits or hits[0].coverage < CLEAR_COVERAGE:
        return False
    others = [hit.score for hit in hits[1:] if not hit.via]
    return not others or hits[0].score >= CLEAR_MARGIN * others[0]


def first_of(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """Return the first hit and the file that is only there because it links to it."""
    return tuple(hit for hit in hits[:2] if hit is hits[0] or hit.via == hits[0].filename)
