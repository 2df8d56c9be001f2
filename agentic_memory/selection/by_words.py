"""``LexicalSelector``: words decide."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio.to_thread

from agentic_memory.selection.lexical import Hit, stands_out
from agentic_memory.selection.selector import Request, Selection

LEVEL: Final = 0.001
"""Scores that differ by so little, relative to the higher, are level: then the file that was changed last comes first."""


class LexicalSelector:
    """Chooses by the words that question and file share, in about a millisecond and without a model."""

    async def select(self, request: Request) -> Selection:
        """Return what matches; nothing when nothing is relevant."""
        hits = await anyio.to_thread.run_sync(lambda: request.words().search(request.query, limit=request.limit))
        there = newest_first([hit for hit in hits if hit.filename in request.documents], request.documents)
        return Selection(tuple(there), clear=stands_out(there))


def newest_first(hits: Sequence[Hit], documents: Mapping[str, tuple[Any, object]]) -> list[Hit]:
    """Put of neighbours with level scores the newer one first; no other order changes."""
    ordered = list(hits)
    for at in range(len(ordered) - 1):
        better, next_one = ordered[at : at + 2]
        if better.score - next_one.score <= LEVEL * abs(better.score):
            newer = documents[next_one.filename][0].mtime_ns > documents[better.filename][0].mtime_ns
            if newer:
                ordered[at : at + 2] = replace(next_one, score=better.score), better
    return ordered
