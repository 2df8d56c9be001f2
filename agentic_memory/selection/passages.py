"""Parts of a long body, and the lines of it that answer.

A body is cut at blank lines and headings, so that each part can be ranked and shown by itself; offsets are kept, so
that a part is always a slice of the text it came from.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

PART_CHARS: Final = 2400
"""Size a part grows to. A body up to twice as long stays whole: see docs/recall.md for how it was chosen."""
PASSAGE_CHARS: Final = 600
"""Size a shown passage grows to."""

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


def split_parts(body: str, headings: Sequence[Heading], *, size: int = PART_CHARS) -> list[Part]:
    """Cut ``body`` into parts of about ``size`` characters at headings and blank lines, else at line ends."""
    if len(body) <= 2 * size:
        return [Part(0, len(body))]
    cuts = [0]
    for start, end in _blocks(body, headings, size):
        if end - cuts[-1] > size and start > cuts[-1]:
            cuts.append(start)
    cuts.append(len(body))
    paths = _paths(headings, cuts)
    return [Part(start, end, path) for start, end, path in zip(cuts, cuts[1:], paths, strict=False) if start < end]


def _blocks(body: str, headings: Sequence[Heading], size: int) -> Iterator[tuple[int, int]]:
    edges = sorted(
        {0, *(gap.end() for gap in _BLANK.finditer(body)), *(heading.start for heading in headings), len(body)}
    )
    for start, end in pairwise(edges):
        yield from _pieces(body, start, end, size)


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


def find_passage(
    body: str, start: int, end: int, *, weigh: Callable[[str], float], first_line: int = 1
) -> tuple[str, int]:
    """Return the best lines of ``body[start:end]`` by ``weigh``, and the line number they begin at.

    The lines are whole unless one alone is longer than a passage may be.

    Args:
        body: The text.
        start: Where to look, as an offset.
        end: Where to stop.
        weigh: Says of a piece of text how well it answers.
        first_line: The number of the body's first line.
    """
    blocks = [block for block in _blocks(body[start:end], (), PASSAGE_CHARS) if block[0] < block[1]]
    if not blocks:
        return "", first_line
    text = body[start:end]
    weights = [weigh(text[left:right]) for left, right in blocks] if len(text) > PASSAGE_CHARS else [0.0] * len(blocks)
    first = last = max(range(len(blocks)), key=weights.__getitem__)
    # Neighbours come along while they fit: what follows first, since an answer tends to go on.
    while last + 1 < len(blocks) and blocks[last + 1][1] - blocks[first][0] <= PASSAGE_CHARS:
        last += 1
    while first and blocks[last][1] - blocks[first - 1][0] <= PASSAGE_CHARS:
        first -= 1
    left, right = blocks[first][0], blocks[last][1]
    shown = text[left:right]
    left += len(shown) - len(shown.lstrip())
    return shown.strip(), count_lines(body, start + left, first=first_line)


def count_lines(body: str, offset: int, *, first: int = 1) -> int:
    """Return the line number of ``offset`` when the body's first line has number ``first``."""
    if "\r" not in body:
        return first + body.count("\n", 0, offset)
    return first + sum(1 for _ in _LINE_END.finditer(body, 0, offset))
