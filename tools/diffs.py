"""The difference between two texts, for people to look at."""

import difflib
import re
from collections.abc import Sequence
from io import StringIO
from typing import Final

CONTEXT_LINES: Final = 3
MAX_COMPARED: Final = 1_000_000
"""Old lines times new lines up to which a minimal difference is sought: the search is quadratic and the event loop
waits for it. Beyond, what differs is shown as one block removed and one added."""

_HUNK: Final = re.compile(r"@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@")


def unified_diff(before: str, after: str, *, path: str, created: bool = False) -> str:
    """Return the unified diff from ``before`` to ``after``, empty when they are equal.

    Whatever the size, the lines that both texts begin and end with are skipped first, so a small edit of a huge file
    costs little.
    """
    old, new = _split(before), _split(after)
    if old == new:
        return ""
    head = common_length(old, new)
    tail = common_length(old[head:][::-1], new[head:][::-1])
    start = max(0, head - CONTEXT_LINES)
    old, new = (lines[start : len(lines) - max(0, tail - CONTEXT_LINES)] for lines in (old, new))
    names = "/dev/null" if created else f"a/{path}", f"b/{path}"
    if old and new and len(old) * len(new) <= MAX_COMPARED:
        lines = [_shift(line, start) for line in difflib.unified_diff(old, new, *names, n=CONTEXT_LINES)]
    else:
        lines = _one_hunk(old, new, head=head - start, tail=min(tail, CONTEXT_LINES), names=names, start=start)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _split(text: str) -> list[str]:
    # At \n alone: str.splitlines also splits at form feeds and the like, which no reader of a diff does.
    return list(StringIO(text, newline="\n"))


def common_length(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the items, lines or characters, that ``one`` and ``other`` both begin with."""
    for count, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return count
    return min(len(one), len(other))


def _one_hunk(old: list[str], new: list[str], *, head: int, tail: int, names: tuple[str, str], start: int) -> list[str]:
    return [
        f"--- {names[0]}\n",
        f"+++ {names[1]}\n",
        f"@@ -{_range(start, len(old))} +{_range(start, len(new))} @@\n",
        *(f" {line}" for line in old[:head]),
        *(f"-{line}" for line in old[head : len(old) - tail]),
        *(f"+{line}" for line in new[head : len(new) - tail]),
        *(f" {line}" for line in old[len(old) - tail :]),
    ]


def _range(start: int, count: int) -> str:
    # Lines are counted from 1; where there is none, the format names the line before.
    return f"{start + (count > 0)},{count}" if count != 1 else f"{start + 1}"


def _shift(line: str, start: int) -> str:
    # Content lines begin with a blank, + or -, so only the header of a hunk matches at the line's start.
    at = _HUNK.match(line)
    return f"@@ -{int(at[1]) + start}{at[2]} +{int(at[3]) + start}{at[4]} @@\n" if at else line
