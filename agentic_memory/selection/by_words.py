"""``LexicalSelector``: words decide."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import anyio.to_thread

from agentic_memory.selection.lexical import Hit, stands_out
from agentic_memory.selection.selector import Request, Selection

LEVEL: Final = 0.001
"""Scores that differ by so little, relative to the higher, are level: then the file that was used more often comes first,
and of those used alike the one that was changed last."""


class LexicalSelector:
    """Chooses by the words that question and file share, in about a millisecond and without a model."""

    async def select(self, request: Request) -> Selection:
        """Return what matches; nothing when nothing is relevant."""
        hits = await anyio.to_thread.run_sync(lambda: request.words().search(request.query, limit=request.limit))
        there = break_ties([hit for hit in hits if hit.filename in request.documents], request)
        return Selection(tuple(there), clear=stands_out(there))


def break_ties(hits: Sequence[Hit], request: Request) -> list[Hit]:
    """Put of neighbours with level scores the one used more first, or else the newer; no other order changes."""

    def rank(hit: Hit) -> tuple[int, int]:
        return request.uses.get(hit.filename, 0), request.documents[hit.filename][0].mtime_ns

    ordered = list(hits)
    for at in range(len(ordered) - 1):
        better, next_one = ordered[at : at + 2]
        if better.score - next_one.score <= LEVEL * abs(better.score) and rank(next_one) > rank(better):
            ordered[at : at + 2] = replace(next_one, score=better.score), better
    return ordered
