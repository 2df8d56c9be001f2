"""Three-way merge of memory files: what a writer made of the text it had read, and what the file has become meanwhile.

``base`` is what the writer had read, ``ours`` what it wants to write, ``theirs`` what is there now: a person's text more
often than not, and the one that never gives way. Encoding, byte order mark and line endings are always theirs.
"""

import unicodedata
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from typing import Final

from agentic_memory.document import Document, parse_document
from agentic_memory.encodings import decode, encode, replace_surrogates
from agentic_memory.errors import InvalidMemory
from agentic_memory.frontmatter import read_block
from agentic_memory.index import INDEX_FILENAME, parse_index
from agentic_memory.lines import count_breaks, dominant_ending
from agentic_memory.merge_lines import MAX_COMPARED, Clash, Line, join_lines, merge_lines, read_lines

__all__ = ["Clash", "Merge", "merge_documents", "merge_files", "merge_indexes"]

MAX_DIFF_LINES: Final = 60
"""Lines of a refusal: enough to repeat a change by, and not so many that a model loses sight of it."""
MAX_DIFF_CHARS: Final = 400
"""Characters shown of one line of it."""

_BOM: Final = "\ufeff"
_FENCES: Final = ("---", "...")


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge came to.

    Attributes:
        data: The merged file; None when something clashes, for then nothing must be written.
        clashes: What both sides changed differently.
    """

    data: bytes | None = field(repr=False)
    clashes: tuple[Clash, ...] = ()

    def as_diff(self, *, path: str) -> str:
        """Return the clashes as a unified diff from the file as it is to what was to be written, cut to 60 lines."""
        lines = [f"--- {path} as it is now", f"+++ {path} as you wanted it"]
        for clash in self.clashes:
            lines += (f"@@ {clash.place} @@", *_compare(clash.theirs, clash.ours))
        shown = [line if len(line) <= MAX_DIFF_CHARS else f"{line[:MAX_DIFF_CHARS]}…" for line in lines]
        if len(shown) > MAX_DIFF_LINES:
            shown[MAX_DIFF_LINES - 1 :] = [f"… {len(shown) - MAX_DIFF_LINES + 1} more lines"]
        return replace_surrogates("\n".join(shown))


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the three texts, as it was read and as lines without the byte order mark."""

    document: Document
    lines: list[Line]


_Key = tuple[Hashable, int]
"""What an item is known by, and the how manieth of that name it is."""


@dataclass(frozen=True, slots=True)
class _Item:
    """Lines that belong together: a field, an entry, or, without a key, other text. ``said``: a value on one line."""

    key: _Key | None
    lines: tuple[Line, ...]
    label: str = ""
    said: str | None = None


_Keyed = Mapping[_Key, _Item]


def merge_files(base: bytes, ours: bytes, theirs: bytes, *, filename: str) -> Merge:
    """Merge as ``merge_indexes`` does when ``filename`` is that of an index, else as ``merge_documents`` does."""
    if filename.rpartition("/")[2] == INDEX_FILENAME:
        return merge_indexes(base, ours, theirs)
    return merge_documents(base, ours, theirs, filename=filename)


def merge_documents(base: bytes, ours: bytes, theirs: bytes, *, filename: str = "") -> Merge:
    """Merge a memory file: the frontmatter field by field, the rest line by line. Never raises.

    A field that one side changed is taken from there; two changes to the same value are one. Where a side has no
    frontmatter, all of the file is lines. What is not text merges only when one side left it alone.
    """
    easy = _merge_wholes(base, ours, theirs)
    if easy is not None:
        return easy
    sides = _read(base, ours, theirs, filename)
    if any(side.document.encoding == "binary" for side in sides):
        return _refuse_whole("the whole file, which is not text")
    cuts = [cut for cut in map(_cut, sides) if cut is not None]
    if len(cuts) < len(sides):
        merged, clashes = merge_lines(*(side.lines for side in sides))
        return _finish(sides, merged, clashes)
    top, top_clashes = merge_lines(*(cut.top for cut in cuts))
    items, item_clashes = _merge_items(*(cut.items for cut in cuts))
    rest, rest_clashes = merge_lines(*(cut.rest for cut in cuts), first=1 + len(sides[2].lines) - len(cuts[2].rest))
    header = [line for item in items for line in item.lines]
    merge = _finish(sides, [*top, *header, *rest], [*top_clashes, *item_clashes, *rest_clashes])
    if merge.data is None:
        return merge
    again = _cut(_Side(read := parse_document(merge.data), read_lines(read.text.removeprefix(_BOM))))
    if again is None or [line for item in again.items for line in item.lines] != header:
        return _refuse_whole("the frontmatter, whose two changes make no frontmatter together")
    return merge


def merge_indexes(base: bytes, ours: bytes, theirs: bytes) -> Merge:
    """Merge MEMORY.md: entry by entry, each known by the file it names, and other text line by line. Never raises.

    The order of theirs is kept. An entry that ours added follows the one it followed there, behind what theirs added at
    that place. What one side took out is gone if the other left it as it was.
    """
    easy = _merge_wholes(base, ours, theirs)
    if easy is not None:
        return easy
    sides = _read(base, ours, theirs, INDEX_FILENAME)
    if any(side.document.encoding == "binary" for side in sides):
        return _refuse_whole("the whole file, which is not text")
    base_items, our_items, their_items = (_split_index(side) for side in sides)
    if _free_text(base_items) == _free_text(our_items):
        items, clashes = _merge_items(base_items, our_items, their_items)
        return _finish(sides, [line for item in items for line in item.lines], clashes)
    merged, clashes = _weave(base_items, our_items, their_items)
    return _finish(sides, merged, clashes)


# --------------------------------------------------------------------------- whole files


def _merge_wholes(base: bytes, ours: bytes, theirs: bytes) -> Merge | None:
    if ours in {base, theirs}:
        return Merge(theirs)
    return Merge(ours) if theirs == base else None


def _refuse_whole(place: str) -> Merge:
    return Merge(None, (Clash(place, (), (), ()),))


def _read(base: bytes, ours: bytes, theirs: bytes, filename: str) -> tuple[_Side, _Side, _Side]:
    sides = [parse_document(data, filename=filename) for data in (base, ours, theirs)]
    read = [_Side(side, read_lines(side.text.removeprefix(_BOM))) for side in sides]
    # A line of ours ends as theirs do; what is theirs keeps its own break.
    read[1].lines[:] = [Line(line.text) for line in read[1].lines]
    return read[0], read[1], read[2]


def _finish(sides: Sequence[_Side], lines: Sequence[Line], clashes: Sequence[Clash]) -> Merge:
    """Put a merged text together as theirs is written, and prove that it reads back."""
    if clashes:
        return Merge(None, tuple(clashes))
    base, ours, theirs = (side.document for side in sides)
    was_closed, we_close, they_close = (side.text.endswith(("\r", "\n")) for side in (base, ours, theirs))
    closed = we_close if they_close == was_closed else they_close
    text = join_lines(lines, ending=dominant_ending(theirs.text or ours.text), closed=closed)
    if theirs.text.startswith(_BOM):
        text = _BOM + text
    encoding = theirs.encoding
    if encoding == "utf-8" and any(side.encoding == "surrogateescape" for side in (base, ours)):
        encoding = "surrogateescape"
    try:
        data = encode(text, encoding)
    except InvalidMemory:
        return _refuse_whole(f"a character that {encoding} cannot hold")
    if decode(data)[0] != text:
        return _refuse_whole("bytes that would be read as another encoding")
    return Merge(data)


def _compare(theirs: Sequence[str], ours: Sequence[str]) -> Iterator[str]:
    if len(theirs) * len(ours) <= MAX_COMPARED:
        yield from list(unified_diff(theirs, ours, n=len(theirs), lineterm=""))[3:]
        return
    yield from (f"-{line}" for line in theirs)
    yield from (f"+{line}" for line in ours)


# --------------------------------------------------------------------------- frontmatter


@dataclass(frozen=True, slots=True)
class _Cut:
    """A memory file in parts: what stands above its fields, the fields, and everything from the closing fence on."""

    top: list[Line]
    items: list[_Item]
    rest: list[Line]


def _cut(side: _Side) -> _Cut | None:
    """Take a file apart; None when it has no frontmatter, or one whose fields do not stand on lines of their own."""
    document = side.document
    if document.header is None:
        return None
    start, end = document.header
    if not document.text.startswith(_FENCES, end):
        return None  # nothing closes it
    first, last = (count_breaks(document.text, 0, at) for at in (start, end))
    lines = side.lines[first:last]
    fields = [found for found in read_block(document.text[start:end]).fields if not found.parent]
    places = [found.line - 1 for found in fields]
    if places != sorted(set(places)) or (places and places[-1] >= len(lines)):
        return None
    items: list[_Item] = []
    times: Counter[str] = Counter()
    if lines and (not places or places[0]):
        items.append(_Item(("", 0), tuple(lines[: places[0] if places else len(lines)]), "the top of the frontmatter"))
    for number, found in enumerate(fields):
        times[found.key] += 1
        until = places[number + 1] if number + 1 < len(places) else len(lines)
        own = tuple(lines[places[number] : until])
        plain = len(own) == 1 and found.style in {"plain", "single", "double"} and " #" not in own[0].text
        items.append(
            _Item((f":{found.key}", times[found.key]), own, f"field {found.key}", found.value if plain else None)
        )
    return _Cut(side.lines[:first], items, side.lines[last:])


# --------------------------------------------------------------------------- the index


def _split_index(side: _Side) -> list[_Item]:
    """Take an index apart: an entry is its line and the indented ones below it, any other line is text of its own."""
    names: dict[int, list[str]] = {}
    for entry in parse_index("\n".join(line.text for line in side.lines)).entries:
        names.setdefault(entry.line, []).append(unicodedata.normalize("NFC", entry.filename))
    items: list[_Item] = []
    times: Counter[tuple[str, ...]] = Counter()
    for number, line in enumerate(side.lines, 1):
        key = tuple(names.get(number, ()))
        if key:
            times[key] += 1
            items.append(_Item((key, times[key]), (line,), f"the entry of {', '.join(key)}"))
        elif items and items[-1].key is not None and line.text[:1] in {" ", "\t"} and line.text.strip():
            items[-1] = replace(items[-1], lines=(*items[-1].lines, line))
        else:
            items.append(_Item(None, (line,)))
    return items


def _free_text(items: Sequence[_Item]) -> list[Line]:
    return [line for item in items if item.key is None for line in item.lines]


def _weave(base: Sequence[_Item], ours: Sequence[_Item], theirs: Sequence[_Item]) -> tuple[list[Line], list[Clash]]:
    """Merge an index whose other text changed too: line by line, each entry standing there as one line of its own."""
    keyed = [{item.key: item for item in side if item.key is not None} for side in (base, ours, theirs)]
    settled, clashes = _settle_all(*keyed)
    merged, more = merge_lines(*([_as_line(item) for item in side] for side in (base, ours, theirs)))
    shown = {_as_line(item).text: key for side in keyed for key, item in side.items()}
    clashes += [
        replace(
            clash,
            base=_spell(clash.base, shown, keyed[0]),
            ours=_spell(clash.ours, shown, keyed[1]),
            theirs=_spell(clash.theirs, shown, keyed[2]),
        )
        for clash in more
    ]
    lines: list[Line] = []
    for line in merged:
        key = shown.get(line.text)
        if key is None:
            lines.append(line)
        else:
            found = settled.pop(key, None)  # once: both may have moved it
            lines += found.lines if found else ()
    if not clashes:
        # Should moves and changed text together have taken an entry along, that is no merge.
        clashes += [Clash(item.label, (), _texts(item), ()) for item in settled.values() if item is not None]
    return lines, clashes


def _as_line(item: _Item) -> Line:
    # No text holds a NUL, so an entry cannot be taken for a line of text.
    return item.lines[0] if item.key is None else Line(f"\0{item.key!r}")


def _spell(texts: Sequence[str], shown: Mapping[str, _Key], side: _Keyed) -> tuple[str, ...]:
    spelled: list[str] = []
    for text in texts:
        spelled += _texts(side[shown[text]]) if text in shown else [text]
    return tuple(spelled)


# --------------------------------------------------------------------------- item by item


def _merge_items(
    base: Sequence[_Item], ours: Sequence[_Item], theirs: Sequence[_Item]
) -> tuple[list[_Item], list[Clash]]:
    """Bring ours into theirs item by item; text without a key is theirs."""
    old, our, their = ({item.key: item for item in side if item.key is not None} for side in (base, ours, theirs))
    settled, clashes = _settle_all(old, our, their)
    merged = [found for item in theirs if (found := item if item.key is None else settled[item.key]) is not None]
    fresh = their.keys() - old.keys() - our.keys()
    order = [item.key for item in ours if item.key is not None]
    for number, key in enumerate(order):
        found = settled[key]
        if found is not None and key not in their:
            merged.insert(_place_for(number, order, [item.key for item in merged], fresh), found)
    return merged, clashes


def _place_for(
    number: int,
    order: Sequence[_Key],
    there: Sequence[_Key | None],
    fresh: Collection[_Key],
) -> int:
    """Return where item ``number`` of ``order`` belongs: behind the one before it and what theirs added there."""
    places = {key: at for at, key in enumerate(there) if key is not None}
    for key in reversed(order[:number]):
        if key in places:
            at = places[key] + 1
            while at < len(there) and there[at] in fresh:
                at += 1
            return at
    return next((places[key] for key in order[number + 1 :] if key in places), len(there))


def _settle_all(base: _Keyed, ours: _Keyed, theirs: _Keyed) -> tuple[dict[_Key, _Item | None], list[Clash]]:
    settled: dict[_Key, _Item | None] = {}
    clashes: list[Clash] = []
    for key in dict.fromkeys((*theirs, *ours)):
        settled[key] = _settle(base.get(key), ours.get(key), theirs.get(key), clashes)
    return settled, clashes


def _settle(base: _Item | None, ours: _Item | None, theirs: _Item | None, clashes: list[Clash]) -> _Item | None:
    """Return what becomes of one item, None when it goes; what clashes is noted and stays as theirs."""
    sides = base, ours, theirs
    was, we, they = (None if side is None else side.lines for side in sides)
    if we in (they, was):
        return theirs
    if they == was:
        return ours
    if ours is not None and theirs is not None:
        if ours.said is not None and ours.said == theirs.said:
            return theirs
        if base is not None and max(map(len, (ours.lines, theirs.lines))) > 1:
            lines, more = merge_lines(base.lines, ours.lines, theirs.lines)
            if not more:
                return replace(theirs, lines=tuple(lines))
    label = next(side.label for side in sides if side is not None)
    clashes.append(Clash(label, *(() if side is None else _texts(side) for side in sides)))
    return theirs


def _texts(item: _Item) -> tuple[str, ...]:
    return tuple(line.text for line in item.lines)
