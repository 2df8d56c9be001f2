"""The selectors that need vectors: this package's hybrid, and its encoder without any words. Extra ``embeddings``."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
from contenders import LIMIT, Select
from datasets import Store

from agentic_memory.document import Document, parse_document
from agentic_memory.selection import HybridSelector, LocalEmbeddingModel, Request
from agentic_memory.selection.lexical import LexicalIndex
from agentic_memory.selection.relations import with_neighbour
from agentic_memory.selection.windows import split_windows

PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Record:
    """As much of a file record as a selector looks at."""

    version: str
    mtime_ns: int


def documents_of(store: Store) -> dict[str, tuple[Record, Document]]:
    """Parse a store; its files were written in the order they stand in."""
    return {
        name: (Record(sha256(data).hexdigest(), at * 10**9), parse_document(data, filename=name))
        for at, (name, data) in enumerate(store.files.items(), 1)
    }


def asking(store: Store) -> Callable[[str], Request]:
    """Return what makes requests about a store."""
    documents = documents_of(store)
    words = LexicalIndex()
    words.update(documents)
    request = Request(query="", limit=LIMIT, documents=documents, words=lambda: words, kept={}, patience=PATIENCE)
    return lambda query: replace(request, query=query)


def make_hybrid(store: Store) -> Select:
    """Return words and meaning together, with all vectors made beforehand."""
    ask, runner = asking(store), asyncio.Runner()
    selector = HybridSelector(LocalEmbeddingModel())
    runner.run(selector.embed(ask("")))

    def select(question: str) -> list[str]:
        request = ask(question)
        hits = with_neighbour(request.documents, runner.run(selector.select(request)).hits, question)
        return [hit.filename for hit in hits][:LIMIT]

    return select


def make_encoder(store: Store) -> Select:
    """Return the encoder alone: always the five files with the nearest window."""
    model = LocalEmbeddingModel()
    runner = asyncio.Runner()

    def encode(texts: list[str]) -> np.ndarray:
        return np.array(runner.run(model(texts)).embeddings)

    files = {
        name: encode([window.text for window in split_windows(document)])
        for name, (_, document) in documents_of(store).items()
    }

    def select(question: str) -> list[str]:
        [vector] = encode([question])
        return sorted(files, key=lambda name: -float((files[name] @ vector).max()))[:LIMIT]

    return select
