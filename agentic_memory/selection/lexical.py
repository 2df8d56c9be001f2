"""Find the memory files whose words answer a query: BM25 over fields and parts, in memory.

Why not a library: SQLite's FTS5 gives no weight at all to a word that more than half of the files have, which in a
store of five files is most words, and cannot say which share of a query a file covers; bm25s rebuilds for each change;
tantivy is a binary dependency. The numbers stand in docs/recall.md.
"""

import posixpath
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

from agentic_memory.selection.passages import find_headings, find_passage, split_parts
from agentic_memory.selection.postings import Segment, SegmentWriter, merge_segments
from agentic_memory.selection.scoring import (
    Candidate,
    Collection,
    Matches,
    QueryTerm,
    Shelf,
    best_files,
    holds,
    make_collection,
    match_term,
    rarity,
    score_units,
)
from agentic_memory.selection.vocabulary import Vocabulary
from agentic_memory.selection.words import is_unspaced, query_terms

if TYPE_CHECKING:
    from agentic_memory.document import Document

NAME_WEIGHT: Final = 3
DESCRIPTION_WEIGHT: Final = 2
HEADING_WEIGHT: Final = 2
GUESS_WEIGHT: Final = 0.6
"""What a match counts that was only found by forgiving a typo, or by one character of a pair."""
MAX_QUERY_TERMS: Final = 64
"""Of a longer query the rarest terms are searched for: the rest adds time and no aim."""
MIN_COVERAGE: Final = 0.0
MIN_SCORE_RATIO: Final = 0.0
CLEAR_COVERAGE: Final = 0.6
CLEAR_MARGIN: Final = 1.5
_MERGE_RATIO: Final = 2


@dataclass(frozen=True, slots=True)
class Hit:
    """One file that matched.

    Attributes:
        filename: Path relative to the memory directory.
        score: BM25 of the file's best part; comparable within one search only.
        coverage: 0 to 1: which share of the query's terms the file has, each weighed by its rarity.
        line: 1-based line of the file where ``passage`` begins.
        passage: The lines that match best.
    """

    filename: str
    score: float
    coverage: float
    line: int
    passage: str = field(repr=False)


class LexicalIndex:
    """The words of a memory. Derived from content alone, in memory, and safe to throw away.

    Any thread may search while another updates: a search sees the files as one update left them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._vocabulary = Vocabulary()
        self._versions: dict[str, str] = {}
        self._collection = Collection()

    def __len__(self) -> int:
        return len(self._versions)

    def update(self, documents: Mapping[str, tuple[str, "Document"]]) -> None:
        """Make the index that of ``documents``: file name to version and document.

        Only files whose version is new are read; files that are no longer in ``documents`` go.
        """
        with self._lock:
            known = self._versions
            changed = [name for name, (version, _) in documents.items() if known.get(name) != version]
            stale = {name for name in changed if name in known}
            stale.update(name for name in known if name not in documents)
            if not changed and not stale:
                return
            shelves = [_drop_files(shelf, stale) for shelf in self._collection.shelves]
            if changed:
                segment = self._index([(name, documents[name][1]) for name in changed])
                shelves.append(Shelf(segment, np.ones(len(changed), np.bool_)))
            self._collection = make_collection(_tidy(shelves))
            self._versions = {name: version for name, (version, _) in documents.items()}

    def search(self, query: str, *, limit: int = 5) -> list[Hit]:
        """Return the files that answer ``query``, best first; none when none is relevant enough."""
        collection = self._collection
        found = self._match(query, collection)
        if not found or limit < 1:
            return []
        weights = [rarity(collection, matches) for matches in found]
        candidates = best_files(collection, score_units(collection, found), limit)
        total = sum(weights)
        hits: list[Hit] = []
        for candidate in candidates:
            has = [holds(collection, candidate, matches) for matches in found]
            covered = sum(
                weight * matches.term.weight
                for weight, matches, there in zip(weights, found, has, strict=True)
                if there
            )
            if covered / total < MIN_COVERAGE or candidate.score < MIN_SCORE_RATIO * candidates[0].score:
                continue
            wanted = {
                number: weight
                for weight, matches, there in zip(weights, found, has, strict=True)
                if there
                for number in matches.term.numbers
            }
            hits.append(self._show(collection, candidate, covered / total, wanted))
        return hits

    def _index(self, files: Sequence[tuple[str, "Document"]]) -> Segment:
        writer = SegmentWriter()
        add = self._vocabulary.add_text
        for filename, document in files:
            stem, _ = posixpath.splitext(filename)
            header = add(document.name) * NAME_WEIGHT + add(document.description) * DESCRIPTION_WEIGHT
            header += add(f"{document.type} {stem}")
            body = document.body
            headings = find_headings(body)
            for part in split_parts(body, headings):
                titles = [*part.path, *(item.title for item in headings if part.start <= item.start < part.end)]
                emphasis = add("\n".join(titles)) * (HEADING_WEIGHT - 1) if titles else array("i")
                writer.add_unit(header + emphasis + add(body[part.start : part.end]), start=part.start, end=part.end)
            writer.finish_file(filename, document)
        return writer.build()

    def _match(self, query: str, collection: Collection) -> list[Matches]:
        found = [
            match_term(collection, term) for text in query_terms(query) for term in self._resolve(text, collection)
        ]
        if len(found) > MAX_QUERY_TERMS:
            found.sort(key=lambda matches: (not matches.frequency, matches.frequency))
            del found[MAX_QUERY_TERMS:]
        return found if any(matches.frequency for matches in found) else []

    def _resolve(self, text: str, collection: Collection) -> list[QueryTerm]:
        """Return what stands for one term of the query; when no file has it, what it may have meant."""
        vocabulary = self._vocabulary
        number = vocabulary.find(text)
        if is_unspaced(text) and len(text) == 1:
            return [QueryTerm(vocabulary.find_containing(text) or (-1,), 1.0)]
        if number is not None:
            exact = QueryTerm((number,))
            if match_term(collection, exact).frequency:
                return [exact]
        if is_unspaced(text):
            return [QueryTerm(vocabulary.find_containing(character) or (-1,), GUESS_WEIGHT / 2) for character in text]
        return [QueryTerm(vocabulary.find_misspelt(text) or (-1,), GUESS_WEIGHT)]

    def _show(self, collection: Collection, candidate: Candidate, coverage: float, wanted: Mapping[int, float]) -> Hit:
        segment = collection.shelves[candidate.shelf].segment
        document = segment.documents[candidate.file]
        start, end = int(segment.starts[candidate.unit]), int(segment.ends[candidate.unit])
        passage, line = find_passage(
            document.body,
            start,
            end,
            weigh=lambda text: sum(wanted[number] for number in set(self._vocabulary.read_text(text)) & wanted.keys()),
            first_line=document.body_line,
        )
        if not passage:
            passage, line = document.description or document.name, 1
        return Hit(segment.filenames[candidate.file], candidate.score, coverage, line, passage)


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
    return len(hits) == 1 or hits[0].score >= CLEAR_MARGIN * hits[1].score
