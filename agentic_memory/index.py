"""The index: one Markdown list that names every memory, read leniently and edited line by line.

The usual line is ``- [Title](file.md) — hook``. People write others, so any bullet counts, any separator, several links
on a line, bare file names, ``[[wiki links]]`` and table rows. Headings, free text and code fences are left alone.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

from agentic_memory.lines import dominant_ending, each_line, one_line, split_lines, strip_ending
from agentic_memory.problems import make_problem
from agentic_memory.tokens import count_bytes, max_bytes_for
from agentic_memory.values import Problem

INDEX_FILENAME: Final = "MEMORY.md"
MAX_LINE_CHARS: Final = 150
"""How long a line of the index should be at most: it is in every prompt."""
TRUNCATION_MARK: Final = "<<<TRUNCATED>>>"
"""The line that stands where lines were left out."""

_MIN_TITLE_CHARS: Final = 20
_BULLET: Final = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_START: Final = re.compile(r"[ \t>]*(?=\[|\|)")
_LINK: Final = re.compile(
    r"""!?\[(?P<title>(?:\\.|[^\[\]\\]|\[[^\[\]]*\])*+)\]
        \([ \t]*(?:<(?P<angled>[^<>\r\n]*)>|(?P<target>(?:\\.|[^()\\\r\n]|\([^()\r\n]*\))*?))
        (?:[ \t]+(?:"[^"\r\n]*"|'[^'\r\n]*'))?[ \t]*\)""",
    re.VERBOSE,
)
_BARE: Final = re.compile(
    r"""(?P<open>\*\*|`|)(?:\[\[(?P<wiki>[^\[\]|#\r\n]+)(?:[|#][^\[\]\r\n]*)?\]\]
        |(?P<path>(?<=[`*])[^`*\r\n]+?\.md|[^\s`*\[\]()<>|,;:—]+\.md))(?P=open)(?=[\s:：,;|—–-]|$)""",
    re.VERBOSE | re.IGNORECASE,
)
# The usual line, which holds nothing that has to be decoded; a store of thousands has thousands of them.
_USUAL: Final = re.compile(
    r"- \[([^\[\]\\\r\n]*[^\[\]\\\s])\]\(([\w-][\w./-]*\.md)\)(?:( — )([^\s*`—–―:：|,;，、\\\[-](?:[^\[\\\r\n]*[^\[\\\s|])?))?[\r\n]*"
)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|#|//")
_SEPARATOR: Final = re.compile(r"[ \t*`]*(?:[—–―:：|,;，、-]+[ \t]*)*")
_FENCE: Final = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_ESCAPE: Final = re.compile(r"\\([\\`*_{}\[\]()<>#+.!|~-])")
_UNSAFE_IN_TARGET: Final = " ()<>[]%#?\\\"'`*|"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One memory the index names.

    Attributes:
        title: The link's text, without escapes; the file's stem when there is none.
        filename: Decoded, without ``./``, with ``/`` between parts.
        hook: What the line says about it; empty when it says nothing.
        line: 1-based.
    """

    title: str
    filename: str
    hook: str
    line: int


@dataclass(frozen=True, slots=True)
class Index:
    """An index as it was read. ``entries`` are in the order of the text, a file may occur twice."""

    text: str = field(repr=False)
    entries: tuple[IndexEntry, ...]
    problems: tuple[Problem, ...] = ()
    _by_filename: Mapping[str, IndexEntry] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Keep the first entry of each file at hand."""
        first = {_normal(entry.filename): entry for entry in reversed(self.entries)}
        object.__setattr__(self, "_by_filename", MappingProxyType(first))

    def find(self, filename: str) -> IndexEntry | None:
        """Return the first entry for ``filename``, whichever way its accents are encoded."""
        return self._by_filename.get(_normal(filename))


@dataclass(frozen=True, slots=True)
class FittedIndex:
    """What of an index fits a budget.

    Attributes:
        text: Whole lines, with ``TRUNCATION_MARK`` as a line of its own where lines are missing.
        cut: The entries on the lines left out.
        cut_lines: Those lines, as 1-based inclusive ranges.
    """

    text: str
    cut: tuple[IndexEntry, ...] = ()
    cut_lines: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where an entry stands: offsets into its line."""

    entry: IndexEntry
    start: int
    title: tuple[int, int] | None
    target: tuple[int, int]
    end: int
    hook: tuple[int, int]
    stop: int


# --------------------------------------------------------------------------- reading


def parse_index(text: str) -> Index:
    """Read an index, whatever its form; never raises."""
    entries: list[IndexEntry] = []
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for number, _, spots in _scan(text):
        for spot in spots:
            entry = spot.entry
            entries.append(entry)
            line = first.setdefault(_normal(entry.filename), number)
            if line != number:
                problems.append(
                    make_problem("duplicate-entry", INDEX_FILENAME, number, filename=entry.filename, first=line)
                )
    return Index(text, tuple(entries), tuple(problems))


def _normal(filename: str) -> str:
    return filename if filename.isascii() else unicodedata.normalize("NFC", filename)


def _scan(text: str) -> Iterator[tuple[int, str, list[_Spot]]]:
    """Yield every line with its number and the entries on it."""
    for number, line, hidden in _scan_lines(text):
        yield number, line, [] if hidden else _find_spots(line, number)


def _scan_lines(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield every line with its number and whether it belongs to a code fence or an HTML comment."""
    fence = ""
    commented = False
    for number, line in enumerate(each_line(text), 1):
        mark = _FENCE.match(line)
        hidden = True
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
        elif commented:
            commented = "-->" not in line
        elif mark:
            fence = mark[1]
        elif line.lstrip().startswith("<!--"):
            commented = "-->" not in line
        else:
            hidden = False
        yield number, line, hidden


def _find_spots(line: str, number: int) -> list[_Spot]:
    usual = _USUAL.fullmatch(line)
    if usual is None or usual[2][-9:].lower() == INDEX_FILENAME.lower():
        return _find_any_spots(line, number)
    title, filename, separator, hook = usual.groups()
    start, end = usual.start(1) - 1, usual.end(2) + 1
    entry = IndexEntry(title.strip(), filename, hook or "", number)
    hook_span = usual.span(4) if separator else (end, end)
    return [_Spot(entry, start, usual.span(1), usual.span(2), end, hook_span, len(strip_ending(line)))]


def _find_any_spots(line: str, number: int) -> list[_Spot]:
    bullet = _BULLET.match(line)
    start = bullet or _START.match(line)
    if start is None:
        return []
    end = len(strip_ending(line))
    links = [found for found in _LINK.finditer(line, start.end(), end) if _read_target(found)]
    if not links:
        bare = _BARE.match(line, start.end(), end) if bullet else None
        filename = _read_bare(bare) if bare else ""
        if bare is None or not filename:
            return []
        hook = _hook_span(line, bare.end(), end)
        name = "wiki" if bare["wiki"] else "path"
        entry = IndexEntry(_stem(filename), filename, line[slice(*hook)], number)
        return [_Spot(entry, bare.start(), None, bare.span(name), bare.end(), hook, end)]
    spots: list[_Spot] = []
    for at, link in enumerate(links):
        stop = links[at + 1].start() if at + 1 < len(links) else end
        hook = _hook_span(line, link.end(), stop)
        filename = _read_target(link)
        title = _ESCAPE.sub(r"\1", link["title"]).strip() or _stem(filename)
        entry = IndexEntry(title, filename, _ESCAPE.sub(r"\1", line[slice(*hook)]), number)
        target = link.span("target") if link["angled"] is None else (link.start("angled") - 1, link.end("angled") + 1)
        spots.append(_Spot(entry, link.start(), link.span("title"), target, link.end(), hook, stop))
    return spots


def _hook_span(line: str, start: int, stop: int) -> tuple[int, int]:
    separator = _SEPARATOR.match(line, start, stop)
    begin = separator.end() if separator else start
    text = line[begin:stop].rstrip(" \t|")
    if stop < len(strip_ending(line)):
        text = text.rstrip(" \t|,;，、—–-:：")
        if not text:
            return start, start  # what stands here separates two links
    return begin, begin + len(text)


def _read_target(link: re.Match[str]) -> str:
    """Return the file a link names; empty when it names no Markdown file here."""
    raw = link["angled"] if link["angled"] is not None else link["target"]
    if _SCHEME.match(raw):
        return ""
    return _clean_path(raw.split("#", 1)[0])


def _read_bare(bare: re.Match[str]) -> str:
    if bare["wiki"]:
        name = bare["wiki"].strip()
        return _clean_path(name if name.lower().endswith(".md") else f"{name}.md")
    return "" if _SCHEME.match(bare["path"]) else _clean_path(bare["path"])


def _clean_path(raw: str) -> str:
    path = _ESCAPE.sub(r"\1", raw.strip()).replace("\\", "/")
    if "%" in path:
        try:
            path = unquote(path, errors="strict")
        except UnicodeDecodeError:
            pass
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    if not path.lower().endswith(".md") or any(char in path for char in "\0\r\n"):
        return ""
    return "" if path.rpartition("/")[2].lower() == INDEX_FILENAME.lower() else path


def _stem(filename: str) -> str:
    return filename.rpartition("/")[2][: -len(".md")]


# --------------------------------------------------------------------------- writing


def render_entry(*, title: str, filename: str, hook: str) -> str:
    """Return the line for a memory, without a line break: ``- [Title](file.md) — hook``.

    Whatever would end the link or the line is escaped, and the hook is shortened so that the line stays within 150
    characters, at a word where the script has words.
    """
    target = _write_target(filename)
    shown = _write_title(title, filename)
    room = MAX_LINE_CHARS - len(f"- []({target})")
    if len(shown) > room:
        shown = _write_title(_shorten(one_line(title), max(room, _MIN_TITLE_CHARS)), filename)
    link = f"- [{shown}]({target})"
    text = _write_hook(hook, MAX_LINE_CHARS - len(link) - len(" — "))
    return f"{link} — {text}" if text else link


def is_own_hook(entry: IndexEntry, description: str) -> bool:
    """Tell whether the hook is what ``render_entry`` made of ``description``, so that nobody worded it otherwise."""
    line = render_entry(title=entry.title, filename=entry.filename, hook=description)
    return any(own.hook == entry.hook for own in parse_index(line).entries)


def _write_title(title: str, filename: str) -> str:
    return re.sub(r"([\[\]\\])", r"\\\1", one_line(title) or _stem(filename))


def _write_target(filename: str) -> str:
    return "".join(quote(char) if char in _UNSAFE_IN_TARGET or not char.isprintable() else char for char in filename)


def _write_hook(hook: str, room: int) -> str:
    text = one_line(hook)
    separator = _SEPARATOR.match(text)
    text = text[separator.end() :] if separator else text
    return _shorten(text.replace("](", r"]\("), room).rstrip(" \t|")


def _shorten(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    if room <= 1:
        return ""
    cut = text[: room - 1]
    # Only look for a space nearby: Chinese has none, and an address must not take the whole hook with it.
    space = cut.rfind(" ", len(cut) * 2 // 3) if text[room - 1] != " " else len(cut)
    return (cut[:space] if space > 0 else cut).rstrip(" ,;:，、。") + "…"


def add_entry(text: str, *, title: str, filename: str, hook: str) -> str:
    """Return the index with one more entry, behind the last one; unchanged when the file is listed already."""
    return add_entries(text, {filename: render_entry(title=title, filename=filename, hook=hook)})


def add_entries(text: str, entries: Mapping[str, str]) -> str:
    """Return the index with more entries, file name to rendered line; those of files listed already are left out."""
    last = 0
    listed: set[str] = set()
    for number, _, spots in _scan(text):
        listed.update(_normal(spot.entry.filename) for spot in spots)
        last = number if spots else last
    new = {filename: entry for filename, entry in entries.items() if _normal(filename) not in listed}
    if not new:
        return text
    lines, ending = split_lines(text), dominant_ending(text)
    item = ending.join(new.values())
    added = _insert_item(lines, _end_of_item(lines, last) if last else len(lines), item, ending)
    if parse_index(added).find(next(iter(new))) is not None:
        return added
    # The text ends in a fence or a comment that nothing closes: the entry must stand above it.
    shown = [number for number, _, hidden in _scan_lines(text) if not hidden]
    return _insert_item(lines, shown[-1] if shown else 0, item, ending)


def _insert_item(lines: list[str], at: int, entry: str, ending: str) -> str:
    above, below = lines[:at], lines[at:]
    if above and above[-1][-1] not in "\r\n":
        above[-1] += ending  # the text did not end its last line, so neither does the entry
    else:
        entry += ending
    return "".join((*above, entry, *below))


def _end_of_item(lines: list[str], number: int) -> int:
    """Return the line behind the entry on line ``number`` and the indented text or table rows that belong to it."""
    at = number
    table = lines[number - 1].lstrip().startswith("|")
    while at < len(lines) and lines[at].strip() and (lines[at][0] in " \t" or (table and lines[at][0] == "|")):
        at += 1
    return at


def change_entry(
    text: str, filename: str, *, title: str | None = None, hook: str | None = None, new_filename: str | None = None
) -> str:
    """Return the index with the entry of ``filename`` changed: its first line only, the parts not given as they were.

    A new file name is written wherever the old one was listed. Unchanged when the file is not listed.
    """
    lines: list[str] = []
    done = False
    for _, line, spots in _scan(text):
        changed = line
        for spot in reversed(spots):
            if _normal(spot.entry.filename) != _normal(filename):
                continue
            if not done:
                changed = _change_spot(changed, spot, title, hook, new_filename)
            elif new_filename is not None:
                changed = _change_spot(changed, spot, None, None, new_filename)
        done = done or any(_normal(spot.entry.filename) == _normal(filename) for spot in spots)
        lines.append(changed)
    return "".join(lines)


def _change_spot(line: str, spot: _Spot, title: str | None, hook: str | None, new_filename: str | None) -> str:
    entry = spot.entry
    tail = line[spot.end :]
    if hook is not None and one_line(hook) != entry.hook:
        begin, end = spot.hook
        separator = line[spot.end : begin] if line[spot.end : begin].strip() else " — "
        room = MAX_LINE_CHARS - len(line[: spot.end]) - len(separator)
        written = _write_hook(hook, max(room, _MIN_TITLE_CHARS))
        tail = (separator + written if written else "") + line[end:]
    if spot.title is None:
        if title is None and new_filename is None:
            return line[: spot.end] + tail
        name = new_filename or entry.filename
        return line[: spot.start] + f"[{_write_title(title or entry.title, name)}]({_write_target(name)})" + tail
    shown, target = line[slice(*spot.title)], line[slice(*spot.target)]
    if title is not None and one_line(title) != entry.title:
        shown = _write_title(title, entry.filename)
    if new_filename is not None and new_filename != entry.filename:
        target = _write_target(new_filename)
    middle = line[spot.title[1] : spot.target[0]]
    return line[: spot.title[0]] + shown + middle + target + line[spot.target[1] : spot.end] + tail


def drop_entry(text: str, filename: str) -> str:
    """Return the index without the entries of ``filename``; other links on the same line stay."""
    return drop_entries(text, {filename})


def drop_entries(text: str, filenames: Collection[str]) -> str:
    """Return the index without the entries of those files; other links on the same lines stay."""
    unwanted = {_normal(filename) for filename in filenames}
    lines: list[str] = []
    for _, line, spots in _scan(text):
        gone = [spot for spot in spots if _normal(spot.entry.filename) in unwanted]
        if not gone:
            lines.append(line)
        elif len(gone) < len(spots):
            lines.append(_drop_spots(line, spots, gone))
        else:
            _leave_out(line, lines)
    left = "".join(lines)
    if left == text or not any(_normal(entry.filename) in unwanted for entry in parse_index(left).entries):
        return left
    return drop_entries(left, filenames)  # where brackets stand askew, what is left on a line may read as such a link


def drop_repeats(text: str) -> str:
    """Return the index without the lines that say nothing new: one entry, listed before with that title and hook.

    A line that indented text hangs on stays.
    """
    first: dict[str, IndexEntry] = {}
    lines: list[str] = []
    scanned = list(_scan(text))
    following = [*(line for _, line, _ in scanned), ""][1:]
    for (_, line, spots), below in zip(scanned, following, strict=True):
        hangs = below[:1] in {" ", "\t"} and below.strip()
        earlier = first.get(_normal(spots[0].entry.filename)) if len(spots) == 1 else None
        if earlier is not None and not hangs and _repeats(spots[0], earlier, line):
            _leave_out(line, lines)
            continue
        for spot in spots:
            first.setdefault(_normal(spot.entry.filename), spot.entry)
        lines.append(line)
    return "".join(lines)


def _repeats(spot: _Spot, earlier: IndexEntry, line: str) -> bool:
    entry = spot.entry
    bullet = _BULLET.match(line)
    begins = bullet is not None and bullet.end() == spot.start
    ends = not line[spot.hook[1] :].strip()
    return begins and ends and entry.title == earlier.title and entry.hook in {"", earlier.hook}


def _leave_out(line: str, lines: list[str]) -> None:
    """Take care that the text still ends as it did when ``line``, which does not follow ``lines``, was its last."""
    if lines and strip_ending(line) == line:
        lines[-1] = strip_ending(lines[-1])


def _drop_spots(line: str, spots: list[_Spot], gone: list[_Spot]) -> str:
    for spot in reversed(gone):
        at = spots.index(spot)
        if at + 1 < len(spots):
            line = line[: spot.start] + line[spot.stop :]
        else:
            line = line[: max(spots[at - 1].end, spots[at - 1].hook[1])] + line[spot.stop :]
    return line


# --------------------------------------------------------------------------- fitting


def fit_index(index: Index, *, max_tokens: int) -> FittedIndex:
    """Return as much of the index as fits.

    The rule: an index that fits is unchanged. Otherwise whole lines are kept from the top and from the bottom in turn,
    headings and preamble among those of the top, until a line of that side does not fit; what falls out is the middle,
    so that neither the oldest nor the newest entry is the first to go. A line that is longer than the budget by itself
    is passed over and does not end its side. One line ``<<<TRUNCATED>>>`` stands in the gap.
    """
    if max_tokens > 0 and count_bytes(index.text) <= max_bytes_for(max_tokens):
        return FittedIndex(index.text)
    lines = split_lines(index.text)
    mark = TRUNCATION_MARK + dominant_ending(index.text)
    room = max_bytes_for(max_tokens) - len(mark)
    sizes = [count_bytes(line) for line in lines]
    if room < 0:
        return _fitted(index, "", range(len(lines)))
    budget = room
    order = [number for number, size in enumerate(sizes) if size <= budget]
    kept: set[int] = set()
    top, bottom = 0, len(order) - 1
    sides = {"top", "bottom"}
    turn = "top"
    while top <= bottom and sides:
        number = order[top if turn == "top" else bottom]
        if turn in sides:
            if sizes[number] <= room:
                room -= sizes[number]
                kept.add(number)
                top, bottom = (top + 1, bottom) if turn == "top" else (top, bottom - 1)
            else:
                sides.discard(turn)
        turn = "bottom" if turn == "top" else "top"
    # The gap is where the two sides met; when only overlong lines are missing, where the first of them stood.
    missing = [number for number in range(len(lines)) if number not in kept]
    gap = order[top] if top <= bottom else missing[0]
    text = "".join(
        (*(lines[at] for at in sorted(kept) if at < gap), mark, *(lines[at] for at in sorted(kept) if at > gap))
    )
    return _fitted(index, text, missing)


def _fitted(index: Index, text: str, missing: Iterable[int]) -> FittedIndex:
    ranges: list[tuple[int, int]] = []
    for number in missing:
        line = number + 1
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1] = (ranges[-1][0], line)
        else:
            ranges.append((line, line))
    lost = {line for start, end in ranges for line in range(start, end + 1)}
    return FittedIndex(text, tuple(entry for entry in index.entries if entry.line in lost), tuple(ranges))
