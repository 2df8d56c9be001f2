"""Measure the index itself: ``python benchmarks/recall/speed.py [--files 200 10000]``.

Synthetic files of about 2 kB whose words are as unevenly common as in real text. SQLite's FTS5 does the same work in the same
run: machines differ, the ratio does less.
"""

import argparse
import random
import sqlite3
import statistics
import string
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from peers import measure_peer

from agentic_memory.document import Document, parse_document, render_document
from agentic_memory.selection.lexical import LexicalIndex
from agentic_memory.selection.postings import Postings

WORDS = 30_000
WORDS_PER_FILE = 330
QUERIES = 200
EDITS = 50
SEED = 7


@dataclass(frozen=True, slots=True)
class Corpus:
    """Files by name, and queries."""

    files: dict[str, tuple[str, Document]]
    queries: list[str]
    edits: list[tuple[str, Document]]


def make_corpus(count: int) -> Corpus:
    """Make ``count`` files; word frequencies fall off with the rank."""
    rnd = random.Random(SEED)
    words = ["".join(rnd.choices(string.ascii_lowercase, k=rnd.randint(3, 9))) for _ in range(WORDS)]
    weights = [1 / rank for rank in range(1, WORDS + 1)]

    def document() -> Document:
        said = rnd.choices(words, weights, k=WORDS_PER_FILE)
        sentences = [" ".join(said[at : at + 11]).capitalize() + "." for at in range(0, WORDS_PER_FILE, 11)]
        paragraphs = [" ".join(sentences[at : at + 4]) for at in range(0, len(sentences), 4)]
        description = " ".join(said[:8])
        body = "\n\n".join(paragraphs)
        return parse_document(render_document(name=said[0], description=description, type="project", content=body))

    return Corpus(
        files={f"m{number}.md": ("1", document()) for number in range(count)},
        queries=[" ".join(rnd.choices(words, weights, k=8)) for _ in range(QUERIES)],
        edits=[(f"m{rnd.randrange(count)}.md", document()) for _ in range(EDITS)],
    )


def clock(work: Callable[[], object]) -> float:
    """Return the milliseconds of processor time that ``work`` took: neighbours on the machine count less."""
    started = time.thread_time()
    work()
    return (time.thread_time() - started) * 1000


def measure_ours(corpus: Corpus) -> dict[str, float]:
    """Build, search, edit."""
    index = LexicalIndex()
    figures = {"build, s": clock(lambda: index.update(corpus.files)) / 1000}
    took = [clock(partial(index.search, query)) for query in corpus.queries]
    figures |= {"query p50, ms": statistics.median(took), "query p95, ms": statistics.quantiles(took, n=20)[-1]}
    files = dict(corpus.files)
    edits = []
    for version, (name, document) in enumerate(corpus.edits):
        files[name] = (f"edit {version}", document)
        edits.append(clock(lambda: index.update(files)))
    shelves = index._collection.shelves  # pyright: ignore[reportPrivateUsage] - what it holds is what is measured
    size = sum(_bytes(level) for shelf in shelves for level in (shelf.segment.parts, shelf.segment.passages))
    return figures | {"one edit, ms": statistics.median(edits), "postings, MB": size / 1e6}


def _bytes(postings: Postings) -> int:
    return sum(getattr(postings, field).nbytes for field in postings.__slots__)


def measure_fts5(corpus: Corpus) -> dict[str, float]:
    """Do the same with SQLite's full-text index in memory."""
    database = sqlite3.connect(":memory:", isolation_level=None)
    database.execute("create virtual table memory using fts5(name, description, body, tokenize='porter unicode61')")
    insert = "insert or replace into memory (rowid, name, description, body) values (?, ?, ?, ?)"

    def row(name: str, document: Document) -> tuple[int, str, str, str]:
        return int(name[1:-3]), document.name, document.description, document.body

    def build() -> None:
        database.execute("begin")
        database.executemany(insert, (row(name, document) for name, (_, document) in corpus.files.items()))
        database.execute("commit")

    figures = {"build, s": clock(build) / 1000}

    def search(words: str) -> list[tuple[int]]:
        return database.execute(best, (" OR ".join(words.split()),)).fetchall()

    best = "select rowid from memory where memory match ? order by bm25(memory, 3, 2, 1) limit 5"
    took = [clock(partial(search, query)) for query in corpus.queries]
    figures |= {"query p50, ms": statistics.median(took), "query p95, ms": statistics.quantiles(took, n=20)[-1]}
    edits = [clock(partial(database.execute, insert, row(name, new))) for name, new in corpus.edits]
    return figures | {"one edit, ms": statistics.median(edits)}


def measure_peer_on(corpus: Corpus, peer: str, python: Path) -> dict[str, float]:
    """Have a peer do the same in its own environment."""
    files = {name: document.text for name, (_, document) in corpus.files.items()}
    edits = {name: document.text for name, document in corpus.edits}
    return measure_peer(python, peer, files, corpus.queries, edits)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[200, 10_000])
    parser.add_argument("--peers", type=Path, help="Python of an environment with requirements-peers.txt")
    options = parser.parse_args()
    columns = ["build, s", "query p50, ms", "query p95, ms", "one edit, ms", "postings, MB"]
    print(f"| files | index | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}")
    for count in options.files:
        corpus = make_corpus(count)
        measures = {"agentic-memory": measure_ours, "SQLite FTS5": measure_fts5}
        if options.peers:
            measures |= {
                peer: partial(measure_peer_on, peer=peer, python=options.peers) for peer in ("tantivy", "bm25s")
            }
        for name, measure in measures.items():
            figures = measure(corpus)
            cells = [f"{figures[column]:.2f}" if column in figures else "-" for column in columns]
            print(f"| {count:,} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
