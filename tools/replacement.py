r"""Replace one piece of text by another and leave every other byte of the file alone.

A model sees a file with ``\n`` at the end of every line, whatever the bytes say, so that is how its ``old_string`` is
matched and counted. What goes in gets the ending most lines of the file have.
"""

import difflib
import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from agentic_memory.encodings import replace_surrogates
from agentic_memory.lines import dominant_ending, normalise_newlines
from agentic_memory.tools.diffs import common_length
from agentic_memory.tools.newlines import NewlineMap

_NUMBERED: Final = re.compile(r"\s*\d+\t")
MAX_LINES_SEARCHED: Final = 1_000
"""How far into a file the line nearest to an ``old_string`` without a match is looked for; comparing is slow."""
MAX_LINE_SHOWN: Final = 200
"""Characters of a line that are compared and shown."""
MIN_SIMILARITY: Final = 0.6
"""``difflib``'s ratio from which two lines count as similar; the default of its ``get_close_matches``."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What replacing came to.

    Attributes:
        text: The whole text afterwards; the text as it was when nothing matched.
        lines: The 1-based line each match begins on, as Read numbers them.
    """

    text: str
    lines: tuple[int, ...]


def replace_text(text: str, old: str, new: str) -> Replacement:
    r"""Replace every ``old`` in ``text`` by ``new``; the caller decides by ``lines`` whether it wants that.

    Where the two differ in nothing but line endings, those are what is edited, so both are taken literally.
    """
    if old != new and normalise_newlines(old) == normalise_newlines(new):
        places = _find_all(text, old)
        return Replacement(text.replace(old, new), _lines_of(text, places))
    old, new = normalise_newlines(old), normalise_newlines(new)
    seen = NewlineMap(text)
    places = _find_all(seen.normal, old)
    if not places:
        return Replacement(text, ())
    # Only where old and new differ is anything replaced, so lines that old merely quotes keep their own endings.
    head, tail = _common_ends(old, new)
    middle = new[head : len(new) - tail].replace("\n", dominant_ending(text))
    parts: list[str] = []
    done = 0
    for place in places:
        parts += text[done : seen.raw(place + head)], middle
        done = seen.raw(place + len(old) - tail)
    parts.append(text[done:])
    return Replacement(_join(parts), _lines_of(seen.normal, places))


def explain_no_match(text: str, old: str) -> str:
    """Say in a sentence or two why ``old`` may not have matched ``text``; empty when there is no good guess."""
    shown, sought = normalise_newlines(text), normalise_newlines(old)
    lines = sought.splitlines()
    if lines and all(_NUMBERED.match(line) for line in lines):
        return "old_string begins with the line numbers that Read prints; leave them and the tab after them out."
    if "\ufffd" in sought and replace_surrogates(shown) != shown:
        return "The file has bytes that are not UTF-8, shown as \ufffd; choose an old_string without them."
    words = sought.split()
    if words and (place := re.search(r"\s+".join(map(re.escape, words)), shown)):
        line = _lines_of(shown, [place.start()])[0]
        return f"It differs in white space from what begins on line {line}; copy that exactly."
    near = _nearest_line(shown, next((line.strip() for line in lines if line.strip()), ""))
    return f"The nearest line is {near[0]}: {replace_surrogates(near[1])}" if near else ""


def _nearest_line(text: str, line: str) -> tuple[int, str] | None:
    # Letters in threes are compared first, because difflib takes seconds for a thousand long lines.
    line = line[:MAX_LINE_SHOWN]
    sought = _threes(line)
    best, number, nearest = 0.0, 0, ""
    for at, candidate in enumerate(text.splitlines()[:MAX_LINES_SEARCHED], start=1):
        stripped = candidate.strip()[:MAX_LINE_SHOWN]
        found = _threes(stripped)
        shared = len(sought & found) / (len(sought | found) or 1)
        if shared > best:
            best, number, nearest = shared, at, stripped
    alike = difflib.SequenceMatcher(None, line, nearest).ratio() >= MIN_SIMILARITY
    return (number, nearest) if alike and nearest else None


def _threes(text: str) -> set[str]:
    return {text[at : at + 3] for at in range(len(text) - 2)} or {text}


def _find_all(text: str, piece: str) -> list[int]:
    places = []
    at = text.find(piece)
    while at >= 0:
        places.append(at)
        at = text.find(piece, at + len(piece))
    return places


def _common_ends(old: str, new: str) -> tuple[int, int]:
    head = common_length(old, new)
    tail = common_length(old[head:][::-1], new[head:][::-1])
    return head, tail


def _join(parts: list[str]) -> str:
    r"""Join, keeping a line's end a line's end: a ``\r`` and a ``\n`` that come to stand side by side would be one."""
    text: list[str] = []
    last = ""
    for part in parts:
        if not part:
            continue
        if last == "\r" and part[0] == "\n":
            text.append("\r")
        text.append(part)
        last = part[-1]
    return "".join(text)


def _lines_of(text: str, places: list[int]) -> tuple[int, ...]:
    # Counted as str.splitlines does, since that is how Read numbers lines.
    starts = [0, *accumulate(map(len, text.splitlines(keepends=True)))]
    return tuple(bisect_right(starts, place) for place in places)
