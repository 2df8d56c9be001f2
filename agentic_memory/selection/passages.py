"""Parts and passages of a body.

A body is cut at blank lines and headings, so that each piece can be ranked and shown by itself; only offsets are kept,
so that a piece is always a slice of the text it came from.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import pairwise
from typing import Final

PART_CHARS: Final = 2400
"""Size of a part: what competes with other files. A long file must not lose by its length alone."""
PASSAGE_CHARS: Final = 300
"""Size of a passage: a few sentences. 150 to 1,200 were tried, see docs/recall.md."""
SHOWN_CHARS: Final = 600
"""Size up to which a passage is shown with its neighbours."""

_MARKED_LINE: Final = re.compile(
    r"^ {0,3}(?:(?P<fence>`{3,}|~{3,})|(?P<level>#{1,6})[ \t]+(?P<title>[^\r\n]+))", re.MULTILINE
)
_BLANK: Final = re.compile(r"(?:\r\n|\n|\r)[ \t]*(?:\r\n|\n|\r)\s*")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading. ``start`` is the offset of its line."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Part:
    """``body[start:end]``, and the titles it stands under, outermost first."""

    start: int
    end: int
    path: tuple[str, ...] = ()


def find_headings(body: str) -> list[Heading]:
    """Return the ATX headings of ``body``; a ``#`` line inside a code fence is none."""
    if "#" not in body:
        return []
    headings: list[Heading] = []
    fence = ""
    for mark in _MARKED_LINE.finditer(body):
        if opening := mark["fence"]:
            if not fence:
                fence = opening
            elif opening[0] == fence[0] and len(opening) >= len(fence):
                fence = ""
        elif not fence:
            headings.append(Heading(mark.start(), len(mark["level"]), mark["title"].strip(" \t#")))
    return headings


def split_parts(body: str, headings: Sequence[Heading]) -> list[Part]:
    """Cut ``body`` into parts at headings and blank lines, else at line ends; a body of usual length is one part."""
    cuts = _cut(body, 0, len(body), headings, PART_CHARS)
    paths = _paths(headings, cuts) if len(cuts) > 2 else [()]
    return [Part(start, end, path) for (start, end), path in zip(pairwise(cuts), paths, strict=False)]


def split_passages(body: str, part: Part, headings: Sequence[Heading]) -> list[tuple[int, int]]:
    """Cut a part into passages by the same rule; the offsets are into ``body``."""
    return list(pairwise(_cut(body, part.start, part.end, headings, PASSAGE_CHARS)))


def split_blocks(body: str, headings: Sequence[Heading], size: int) -> list[tuple[int, int]]:
    """Return the paragraphs of ``body``, those longer than ``size`` in pieces."""
    edges = pairwise(_edges(body, 0, len(body), headings))
    return [
        piece for start, end in edges for piece in _pieces(body, start, end, size) if body[piece[0] : piece[1]].strip()
    ]


def _cut(body: str, start: int, end: int, headings: Sequence[Heading], size: int) -> list[int]:
    """Return where pieces of about ``size`` characters begin, and the end. Up to twice the size is not cut."""
    if end - start <= 2 * size:
        return [start, end]
    cuts = [start]
    for left, right in pairwise(_edges(body, start, end, headings)):
        for piece_start, piece_end in _pieces(body, left, right, size):
            if piece_end - cuts[-1] > size and piece_start > cuts[-1]:
                cuts.append(piece_start)
    cuts.append(end)
    return cuts


def _edges(body: str, start: int, end: int, headings: Sequence[Heading]) -> Iterator[int]:
    """Yield in order where a block begins, and the end. Lazily: sorting them all would hold up other threads."""
    gaps = (gap.end() for gap in _BLANK.finditer(body, start, end))
    titles = (heading.start for heading in headings if start < heading.start < end)
    last = start
    yield start
    for edge in merge(gaps, titles):
        if last < edge < end:
            yield edge
            last = edge
    yield end


def _pieces(body: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    while end - start > size:
        limit = start + size
        cut = max(body.rfind("\n", start, limit), body.rfind("\r", start, limit)) + 1
        if cut <= start:
            cut = body.rfind(" ", start, limit) + 1
        if cut <= start:
            cut = limit
        yield start, cut
        start = cut
    yield start, end


def _paths(headings: Sequence[Heading], cuts: Sequence[int]) -> list[tuple[str, ...]]:
    """Return for each cut the titles above it; a heading on the cut itself is in the part's own text."""
    paths: list[tuple[str, ...]] = []
    stack: list[Heading] = []
    rest = iter(headings)
    upcoming = next(rest, None)
    for cut in cuts:
        while upcoming is not None and upcoming.start < cut:
            while stack and stack[-1].level >= upcoming.level:
                stack.pop()
            stack.append(upcoming)
            upcoming = next(rest, None)
        paths.append(tuple(heading.title for heading in stack))
    return paths


def widen_passage(passages: Sequence[tuple[int, int]], at: int) -> tuple[int, int]:
    """Return the slice of ``passages[at]`` and its neighbours while they fit: what follows first, then what leads up."""
    first = last = at
    while last + 1 < len(passages) and passages[last + 1][1] - passages[first][0] <= SHOWN_CHARS:
        last += 1
    while first and passages[last][1] - passages[first - 1][0] <= SHOWN_CHARS:
        first -= 1
    return passages[first][0], passages[last][1]


def count_lines(body: str, offset: int, *, first: int = 1) -> int:
    """Return the line number of ``offset`` when the body's first line has number ``first``."""
    if "\r" not in body:
        return first + body.count("\n", 0, offset)
    return first + sum(1 for _ in _LINE_END.finditer(body, 0, offset))
