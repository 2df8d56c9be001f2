"""Three-way merge of lines.

A line is its text; the break that ends it is carried along and never compared, so a file that an editor gave other
line endings merges as if it had not. Two changes are in each other's way only where both replace the same line.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final

from agentic_memory.lines import split_lines, strip_ending

MAX_COMPARED: Final = 100_000
"""Old lines times new lines between two lines that occur once on either side, up to which the best match is sought. The
search is quadratic at best; beyond it such a stretch counts as replaced as a whole, which may refuse but loses nothing."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line's text and the break behind it; empty where there was none."""

    text: str
    ending: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Clash:
    """Where both sides changed the same thing differently.

    Attributes:
        place: For people: ``line 12`` (of the newer file) or ``field description``.
        base, ours, theirs: The lines, without line breaks; empty where a side has none.
    """

    place: str
    base: tuple[str, ...]
    ours: tuple[str, ...]
    theirs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """``old[start:end]`` became ``new[at:until]``. Between two changes at least one line stayed."""

    start: int
    end: int
    at: int
    until: int

    @property
    def inserts(self) -> bool:
        """Whether nothing was taken away."""
        return self.start == self.end

    def precedes(self, other: "Change") -> bool:
        """Tell whether this one lies before ``other``, a change of the same lines; touching is not overlapping."""
        return self.end <= other.start and not (self.inserts and other.inserts and self.start == other.start)


def read_lines(text: str) -> list[Line]:
    """Split ``text``; only the last line may come without a break."""
    return [Line(bare := strip_ending(line), line[len(bare) :]) for line in split_lines(text)]


def join_lines(lines: Sequence[Line], *, ending: str, closed: bool) -> str:
    r"""Put lines together. ``ending`` stands in for a break that a line lacks; ``closed``: whether the last gets one."""
    parts: list[str] = []
    before = ""
    for line in lines:
        own = line.ending or ending
        if before == "\r" and own == "\n" and not line.text:
            own = "\r"  # else the two would be one break, and a line less
        parts += line.text, own
        before = own
    if parts and not closed:
        parts.pop()
    return "".join(parts)


def merge_lines(
    base: Sequence[Line], ours: Sequence[Line], theirs: Sequence[Line], *, first: int = 1
) -> tuple[list[Line], list[Clash]]:
    """Bring both sides' changes of ``base`` together.

    What both insert at one place is kept from both, theirs first; where one side's insertion begins with the other's,
    it is there once. A side that only inserts is never in the way of what happens to the lines around it.

    Args:
        base, ours, theirs: The lines.
        first: The number of the first of their lines, for the clashes.

    Returns:
        The merged lines, with theirs wherever there is a clash, and the clashes.
    """
    mine = find_changes([line.text for line in base], [line.text for line in ours])
    yours = find_changes([line.text for line in base], [line.text for line in theirs])
    merged: list[Line] = []
    clashes: list[Clash] = []
    at = place = 0  # in the base and in theirs
    for our, their in _group(mine, yours):
        start, end = min(change.start for change in our + their), max(change.end for change in our + their)
        begin = place + start - at
        until = _side(their, start, end)[1] if their else begin + end - start
        merged += theirs[place:begin]
        old = theirs[begin:until]
        new = ours[slice(*_side(our, start, end))] if our else old
        if not their:
            merged += new
        elif list(old) == list(new):
            merged += old
        elif start == end:
            merged += _both(old, new)
        else:
            merged += old
            clashes.append(Clash(f"line {first + begin}", _texts(base[start:end]), _texts(new), _texts(old)))
        at, place = end, until
    merged += theirs[place:]
    return merged, clashes


def find_changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """Return what turns ``old`` into ``new``, in order."""
    changes: list[Change] = []
    at_old = at_new = 0
    for start, begin, length in (*_match(old, new), (len(old), len(new), 0)):
        if start > at_old or begin > at_new:
            changes.append(Change(at_old, start, at_new, begin))
        at_old, at_new = start + length, begin + length
    return changes


# --------------------------------------------------------------------------- bringing changes together


def _group(mine: list[Change], yours: list[Change]) -> Iterator[tuple[list[Change], list[Change]]]:
    """Yield the changes in order, those that overlap or insert at one place together."""
    i = j = 0
    while i < len(mine) or j < len(yours):
        if j == len(yours) or (i < len(mine) and mine[i].precedes(yours[j])):
            yield [mine[i]], []
            i += 1
            continue
        if i == len(mine) or yours[j].precedes(mine[i]):
            yield [], [yours[j]]
            j += 1
            continue
        our, their = [mine[i]], [yours[j]]
        i, j = i + 1, j + 1
        end = max(our[0].end, their[0].end)
        growing = True
        while growing:
            growing = False
            if i < len(mine) and mine[i].start < end:
                our.append(mine[i])
                end, i, growing = max(end, mine[i].end), i + 1, True
            if j < len(yours) and yours[j].start < end:
                their.append(yours[j])
                end, j, growing = max(end, yours[j].end), j + 1, True
        yield our, their


def _side(changes: list[Change], start: int, end: int) -> tuple[int, int]:
    """Return which lines of a side stand where ``base[start:end]`` stood."""
    return changes[0].at - (changes[0].start - start), changes[-1].until + (end - changes[-1].end)


def _both(theirs: Sequence[Line], ours: Sequence[Line]) -> list[Line]:
    """Return what two insertions at one place come to."""
    if list(theirs[: len(ours)]) == list(ours):
        return [*theirs]
    rest = ours[len(theirs) :] if list(ours[: len(theirs)]) == list(theirs) else ours
    return [*theirs, *rest]


def _texts(lines: Sequence[Line]) -> tuple[str, ...]:
    return tuple(line.text for line in lines)


# --------------------------------------------------------------------------- finding what stayed


def _match(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield runs of equal lines: where they begin in either, and how many.

    Lines that occur once on either side are matched first, so a long file is compared piece by piece and a paragraph is
    not torn apart for the sake of a blank line.
    """
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    if head:
        yield 0, 0, head
    end_old, end_new = len(old) - tail, len(new) - tail
    anchors = _find_anchors(old[head:end_old], new[head:end_new])
    stops = [(head - 1, head - 1), *((head + a, head + b) for a, b in anchors), (end_old, end_new)]
    for (a, b), (next_a, next_b) in pairwise(stops):
        if a >= head:
            yield a, b, 1
        yield from _match_closely(old[a + 1 : next_a], new[b + 1 : next_b], a + 1, b + 1)
    if tail:
        yield end_old, end_new, tail


def _match_closely(old: Sequence[str], new: Sequence[str], at: int, begin: int) -> Iterator[tuple[int, int, int]]:
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    if head:
        yield at, begin, head
    inner_old, inner_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if 0 < len(inner_old) * len(inner_new) <= MAX_COMPARED:
        for a, b, length in SequenceMatcher(None, inner_old, inner_new, autojunk=False).get_matching_blocks():
            if length:
                yield at + head + a, begin + head + b, length
    if tail:
        yield at + len(old) - tail, begin + len(new) - tail, tail


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _find_anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest run, in the order of both, of lines that occur exactly once in either."""
    times_old, times_new = Counter(old), Counter(new)
    places = {line: at for at, line in enumerate(new) if times_new[line] == 1}
    pairs = [(at, places[line]) for at, line in enumerate(old) if times_old[line] == 1 and line in places]
    # The longest increasing run: the smallest last place for each length, and for each pair the one before it.
    lasts: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(lasts, place)
        before.append(ends[length - 1] if length else -1)
        lasts[length : length + 1] = [place]
        ends[length : length + 1] = [number]
    run: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        run.append(pairs[number])
        number = before[number]
    return run[::-1]
