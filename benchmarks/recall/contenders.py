"""What is compared: ways of choosing up to five files for a question, each made for one store."""

import math
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from datasets import Store

from agentic_memory.document import parse_document
from agentic_memory.selection.lexical import LexicalIndex
from agentic_memory.selection.relations import with_neighbour
from agentic_memory.selection.stemming import stem
from agentic_memory.selection.stopwords import ENGLISH

LIMIT = 5
Select = Callable[[str], Sequence[str]]
"""From a question to file names, best first."""
NEWEST = 200


def make_ours(store: Store) -> Select:
    """Return this package's search as it is used without a model: empty when nothing is relevant."""
    return _make_ours(store, relations=True)


def make_ours_without_relations(store: Store) -> Select:
    """Return the same, but nothing comes along because another file links to it."""
    return _make_ours(store, relations=False)


def _make_ours(store: Store, *, relations: bool) -> Select:
    documents = {name: ("1", parse_document(data, filename=name)) for name, data in store.files.items()}
    index = LexicalIndex()
    index.update(documents)

    def select(question: str) -> list[str]:
        hits = index.search(question, limit=LIMIT)
        if relations:
            hits = with_neighbour(documents, hits, question)[:LIMIT]
        return [hit.filename for hit in hits]

    return select


def make_ours_always(store: Store) -> Select:
    """Return what the ranking of words alone puts first, relevant or not: for comparison with peers without a threshold."""
    index = LexicalIndex()
    index.update({name: ("1", parse_document(data, filename=name)) for name, data in store.files.items()})
    return lambda question: [hit.filename for hit in index.rank(question, limit=LIMIT)]


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def make_grep(store: Store) -> Select:
    """Return what a person with grep gets: files by how many of the question's words they hold, then how often."""
    texts = {name: _text(data).lower() for name, data in store.files.items()}

    def select(question: str) -> list[str]:
        words = {word for word in _words(question) if word not in ENGLISH}
        found = {
            name: (sum(word in text for word in words), sum(map(text.count, words))) for name, text in texts.items()
        }
        best = sorted(
            (name for name, (distinct, _) in found.items() if distinct), key=lambda name: (*found[name], name)
        )
        return best[::-1][:LIMIT]

    return select


def make_bm25(store: Store) -> Select:
    """Return a plain BM25 over whole files: stop words, light stemming, k1 1.2, b 0.75, words split at spaces."""

    def terms(text: str) -> list[str]:
        return [stem(word) for word in _words(text) if word not in ENGLISH]

    counts = {name: Counter(terms(_text(data))) for name, data in store.files.items()}
    lengths = {name: sum(count.values()) for name, count in counts.items()}
    mean = sum(lengths.values()) / len(lengths)
    frequency = Counter(term for count in counts.values() for term in count)

    def select(question: str) -> list[str]:
        scores: defaultdict[str, float] = defaultdict(float)
        for term in set(terms(question)):
            idf = math.log1p((len(counts) - frequency[term] + 0.5) / (frequency[term] + 0.5))
            for name, count in counts.items():
                if often := count[term]:
                    scores[name] += idf * often * 2.2 / (often + 1.2 * (0.25 + 0.75 * lengths[name] / mean))
        return [name for name, _ in sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:LIMIT]]

    return select


def make_fts5(store: Store) -> Select:
    """Return SQLite's full-text search with its Porter stemmer, any word of the question."""
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table memory using fts5(name, body, tokenize='porter unicode61')")
    database.executemany(
        "insert into memory values (?, ?)", ((name, _text(data)) for name, data in store.files.items())
    )

    def select(question: str) -> list[str]:
        words = [f'"{word}"' for word in _words(question) if word not in ENGLISH]
        if not words:
            return []
        rows = database.execute(
            "select name from memory where memory match ? order by bm25(memory), name limit ?",
            (" OR ".join(words), LIMIT),
        )
        return [name for (name,) in rows]

    return select


def make_newest_with_oracle(store: Store) -> Select:
    """Return the best that choosing among the newest 200 headers can do: a selector that is never wrong."""
    shown = list(store.files)[-NEWEST:]
    needed = {question.text: question.needed for question in store.questions}
    return lambda question: [name for name in shown if name in needed[question]][:LIMIT]


SELECTORS: dict[str, Callable[[Store], Select]] = {
    "agentic-memory, lexical": make_ours,
    "the same, without relations": make_ours_without_relations,
    "the same, always five": make_ours_always,
    "BM25, whole files": make_bm25,
    "SQLite FTS5": make_fts5,
    "grep": make_grep,
    "newest 200, perfect selector": make_newest_with_oracle,
}
