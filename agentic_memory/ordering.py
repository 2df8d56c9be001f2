"""The order of the index: what is used most comes first, and everything that is no plain entry stays where it stands."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from agentic_memory.index import parse_index
from agentic_memory.lines import split_lines, strip_ending

_ITEM: Final = re.compile(r"([-*+])[ \t]")


def order_by_use(text: str, uses: Mapping[str, int]) -> str:
    """Return the index with the entries of each unbroken run of one-line entries in the order of their use.

    Entries that are used alike keep their order. An entry that goes on on the next line, names several files, is indented or
    numbered stays, and so does whatever is no entry; none of them is passed.

    Args:
        text: The index.
        uses: File name to how often it was used; one that is not there was not.
    """
    lines = split_lines(text)
    named: dict[int, list[str]] = {}
    for entry in parse_index(text).entries:
        named.setdefault(entry.line - 1, []).append(entry.filename)
    used = {at: uses.get(names[0], 0) for at, names in named.items() if len(names) == 1 and _is_whole(lines, at)}
    begin = 0
    while begin < len(lines):
        end = begin
        while end in used and lines[end][0] == lines[begin][0]:
            end += 1
        order = sorted(range(begin, end), key=lambda at: -used[at])
        bodies = [strip_ending(lines[at]) for at in order]
        # Line endings stay in their places: the last line may have none.
        lines[begin:end] = [
            body + line[len(strip_ending(line)) :] for body, line in zip(bodies, lines[begin:end], strict=True)
        ]
        begin = max(end, begin + 1)
    return "".join(lines)


def _is_whole(lines: Sequence[str], at: int) -> bool:
    """Tell whether the list item on a line is that line and no more."""
    if not _ITEM.match(lines[at]):
        return False
    below = at + 1
    while below < len(lines) and not lines[below].strip():
        below += 1
    if below == len(lines):
        return True
    if below > at + 1:  # behind a blank line only indented text still belongs to it
        return lines[below][0] not in " \t"
    return lines[below][0] == "#" or _ITEM.match(lines[below]) is not None
