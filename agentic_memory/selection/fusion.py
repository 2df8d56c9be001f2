"""Words and meaning put together: one order, and what of it is relevant."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from agentic_memory.selection.embedding import Scale
from agentic_memory.selection.lexical import MIN_RELATIVE_COVERAGE, Hit
from agentic_memory.selection.nearness import Nearness, NearnessIndex
from agentic_memory.selection.passages import SHOWN_CHARS, count_lines
from agentic_memory.selection.vectors import Vector

if TYPE_CHECKING:
    from agentic_memory.document import Document

Documents = Mapping[str, tuple[Any, "Document"]]

POOL: Final = 60
"""Files that words and meaning each put forward."""
NEARNESS_WEIGHT: Final = 0.75
"""What one spread of nearness adds to a BM25 score."""
FEEDBACK: Final = 0.8
"""How far the question is moved towards the passage that answers it best before it is asked again: what belongs with that
passage comes nearer too."""
NEAR: Final = 3.9
"""Spreads from which meaning alone makes a file relevant."""
NEAR_BESIDE: Final = 3.0
"""Spreads from which a file is shown beside another one that is relevant."""
WORTHWHILE_COVERAGE: Final = 0.25
"""From here on a file is shown from where its words match, below it from where its meaning does."""


def relevant_words(words: Sequence[Hit], limit: int) -> list[Hit]:
    """Return of ranked hits what is an answer by words alone."""
    best = words[:limit]
    if not any(hit.suffices for hit in best):
        return []
    floor = MIN_RELATIVE_COVERAGE * max(hit.coverage for hit in best)
    return [hit for hit in best if hit.coverage >= floor]


def fuse(
    documents: Documents, words: Sequence[Hit], question: Vector, *, scale: Scale, index: NearnessIndex, limit: int
) -> list[Hit]:
    """Return the files that answer by words or by meaning, best first. CPU-bound.

    Scores are added, not ranks: a question of many rare words keeps to the files that have them, one of few common words
    leaves more to the meaning. Where words say nothing, meaning decides alone, and may say nothing too.
    """
    nearness = index.search(question)
    near = _measure(documents, words, nearness, scale)
    if not (answer := relevant_words(words, limit)):
        return _by_meaning(documents, near, nearness, limit)
    by_name = {hit.filename: hit for hit in words}
    scores = _add(by_name, near)
    best = max(scores, key=lambda name: scores[name])
    if (vector := _vector_of(documents, best, nearness)) is not None:
        moved = question + FEEDBACK * vector
        again = index.search((moved / np.linalg.norm(moved)).astype(np.float32))
        scores = _add(by_name, _measure(documents, words, again, scale))
    floor = MIN_RELATIVE_COVERAGE * max(hit.coverage for hit in answer)
    return [
        _hit(documents, name, scores[name], by_name.get(name), nearness)
        for name in sorted(scores, key=lambda name: (-scores[name], name))[:limit]
        if near.get(name, 0.0) >= NEAR_BESIDE or (name in by_name and by_name[name].coverage >= floor)
    ]


def _measure(documents: Documents, words: Sequence[Hit], nearness: Nearness, scale: Scale) -> dict[str, float]:
    """Return in spreads how near the candidates are; one without vectors counts as neither near nor far."""
    if not len(nearness.cosines):
        return {hit.filename: 0.0 for hit in words}
    values = scale.measure(nearness.cosines)
    middle = float(np.median(values))
    names = [hit.filename for hit in words] + nearness.nearest(POOL)
    positions = {name: nearness.positions.get(documents[name][0].version) for name in names if name in documents}
    return {name: middle if at is None else float(values[at]) for name, at in positions.items()}


def _add(words: Mapping[str, Hit], near: Mapping[str, float]) -> dict[str, float]:
    return {
        name: (words[name].score if name in words else 0.0) + NEARNESS_WEIGHT * spreads
        for name, spreads in near.items()
    }


def _by_meaning(documents: Documents, near: Mapping[str, float], nearness: Nearness, limit: int) -> list[Hit]:
    best = sorted(near, key=lambda name: (-near[name], name))[:limit]
    if not best or near[best[0]] < NEAR:
        return []
    return [_hit(documents, name, near[name], None, nearness) for name in best if near[name] >= NEAR_BESIDE]


def _vector_of(documents: Documents, filename: str, nearness: Nearness) -> Vector | None:
    version = documents[filename][0].version
    return nearness.vector(version) if version in nearness.positions else None


def _hit(documents: Documents, filename: str, score: float, words: Hit | None, nearness: Nearness) -> Hit:
    record, document = documents[filename]
    if words is not None and (words.coverage >= WORTHWHILE_COVERAGE or record.version not in nearness.positions):
        return replace(words, score=score)
    coverage = words.coverage if words is not None else 0.0
    body, start = document.body, nearness.start(record.version)
    passage = body[start : start + SHOWN_CHARS].strip() or document.description or document.name
    return Hit(filename, score, coverage, count_lines(body, start, first=document.body_line), passage)
