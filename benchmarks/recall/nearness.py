"""Measure the vectors of a memory: ``python benchmarks/recall/nearness.py [--files 200 10000]``.

The files of ``speed.py``, with vectors drawn at random: making real ones is the model's time, this is ours.
"""

import argparse
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from speed import clock, make_corpus

from agentic_memory.selection.embedding import Scale
from agentic_memory.selection.fusion import POOL, fuse
from agentic_memory.selection.lexical import LexicalIndex
from agentic_memory.selection.nearness import NearnessIndex
from agentic_memory.selection.vectors import VectorCache, as_stored

DIMENSIONS = 512


def measure(count: int) -> dict[str, float]:
    """Fill an index of ``count`` files, then search, fuse, and edit one file after the other."""
    corpus, rnd = make_corpus(count), np.random.default_rng(1)
    documents: dict[str, Any] = {
        name: (SimpleNamespace(version=f"{name} {version}"), document)
        for name, (version, document) in corpus.files.items()
    }
    index, words = NearnessIndex(), LexicalIndex()
    words.update(documents)
    texts = index.update(documents)
    vectors = dict(
        zip(texts, map(as_stored, rnd.normal(size=(len(texts), DIMENSIONS)).astype(np.float32)), strict=True)
    )
    figures = {"passages": float(len(texts)), "fill, s": clock(lambda: index.put(vectors)) / 1000}
    figures["memory, MB"] = sum(vector.nbytes for vector in vectors.values()) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        cache = VectorCache("random", Path(folder))
        figures["to disk, s"] = clock(lambda: cache.put(vectors)) / 1000
        figures["disk, MB"] = cache.path.stat().st_size / 1e6
        figures["from disk, s"] = clock(lambda: cache.get(texts)) / 1000
    question = as_stored(rnd.normal(size=DIMENSIONS).astype(np.float32))
    took = []
    for query in corpus.queries[:50]:
        ranked = words.rank(query, limit=POOL)
        took.append(clock(partial(fuse, documents, ranked, question, scale=Scale(0.0, 0.04), index=index, limit=5)))
    figures["nearness and fusion p50, ms"] = statistics.median(took)
    edits = []
    for number, (name, document) in enumerate(corpus.edits[:20]):
        documents = documents | {name: (SimpleNamespace(version=f"edit {number}"), document)}

        def edit(now: dict[str, Any] = documents) -> None:
            missing = index.update(now)
            index.put(dict.fromkeys(missing, question))

        edits.append(clock(edit))
    return figures | {"one edit, ms": statistics.median(edits)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[200, 10_000])
    rows = [(count, measure(count)) for count in parser.parse_args().files]
    columns = list(rows[0][1])
    sys.stdout.write(f"| files | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}\n")
    for count, figures in rows:
        sys.stdout.write(f"| {count:,} | {' | '.join(f'{figures[column]:,.2f}' for column in columns)} |\n")


if __name__ == "__main__":
    main()
