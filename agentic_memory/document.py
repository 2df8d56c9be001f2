"""One memory file as text: read leniently, edited in place, written strictly.

Reading never fails: what is odd about a file is in ``Document.problems``. Editing changes the one value it is asked to
change and leaves every other byte alone, because no YAML writer gives a person's file back as it was.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from agentic_memory.encodings import GIT_CRYPT_MAGIC, Encoding, decode, encode
from agentic_memory.errors import InvalidMemory
from agentic_memory.frontmatter import KNOWN_KEYS, PLAIN, SIMPLE_LINE, Block, Field, is_key, read_block
from agentic_memory.lines import count_breaks, dominant_ending, one_line, split_lines, strip_ending
from agentic_memory.problems import make_problem
from agentic_memory.rendering import FIELD_ORDER, memory_filename, render_document, write_field, write_value
from agentic_memory.values import Problem

__all__ = ["Document", "edit_body", "edit_field", "memory_filename", "parse_document", "render_document", "write_over"]

_MAX_NOTES: Final = 20  # a header of a million odd lines has one remedy
_BOM: Final = "\ufeff"
_FENCE: Final = re.compile(r"-{3,}[ \t]*(?:\r\n|\r|\n|\Z)")
_CLOSING: Final = re.compile(r"(?<=[\r\n])(?:-{3,}|\.\.\.)[ \t]*(?:\r\n|\r|\n|\Z)")
_PREAMBLE: Final = re.compile(r"(?:\s*<!--(?s:.*?)-->)*\s*")
_BLANKS: Final = re.compile(r"\s*")
_BLANK_LINE: Final = re.compile(r"\r\n|\r|\n")
_USUAL: Final = re.compile(rf"---\nname: ({PLAIN})\ndescription: ({PLAIN})\ntype: ({PLAIN})\n---\n\n?(?!\s*---)")
_SECOND_FENCE: Final = re.compile(r"\s*---")
_QUOTES: Final = frozenset("\"'")
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Document:
    """A memory file as it was read.

    Attributes:
        text: All of it, lossless: ``document.encode(document.text)`` gives the bytes it came from. A byte order mark is
            its first character; a byte that is not UTF-8 stands as a lone surrogate (``replace_surrogates`` shows it).
        encoding: How ``encode`` turns text into bytes; ``binary`` when the file is not text.
        name, description, type: Without blanks around them, empty when absent. ``type`` may have been read from under
            ``metadata``.
        fields: Every top-level field that is one string, as a string; a list in brackets is the text of it.
        header: ``text[start:end]`` are the lines between the fences; None without frontmatter.
        body_start: Where the body begins in ``text``: after the closing fence and the blank line that may follow it, or
            after the byte order mark.
        problems: What is odd about the file.
    """

    text: str = field(repr=False)
    encoding: Encoding
    name: str
    description: str
    type: str
    fields: Mapping[str, str]
    header: tuple[int, int] | None = field(repr=False)
    body_start: int = field(repr=False)
    problems: tuple[Problem, ...] = ()

    @property
    def body(self) -> str:
        """The text after the frontmatter; all of it when there is none, nothing when the file is not text."""
        return self.text[self.body_start :]

    @property
    def body_line(self) -> int:
        """The 1-based line on which the body starts."""
        return count_breaks(self.text, 0, self.body_start) + 1

    def encode(self, text: str) -> bytes:
        """Return ``text`` as bytes in this file's encoding; ``InvalidMemory`` when that cannot hold it."""
        return encode(text, self.encoding)


# --------------------------------------------------------------------------- reading


def parse_document(data: bytes, *, filename: str = "") -> Document:
    """Read a memory file, whatever its bytes; never raises.

    Args:
        data: The whole file.
        filename: What the problems name as their file.
    """
    text, encoding = decode(data)
    if encoding == "utf-8":
        return _read_usual(text) or _read_simple(text) or _read(text, encoding, filename, [])
    if encoding == "binary":
        code = "git-crypt" if data.startswith(GIT_CRYPT_MAGIC) else "binary"
        return Document(text, encoding, "", "", "", _NO_FIELDS, None, len(text), (make_problem(code, filename),))
    problems = []
    if encoding == "surrogateescape":
        at = re.search("[\udc80-\udcff]", text)
        bad = at.start() if at else 0
        line = count_breaks(text, 0, bad) + 1
        problems.append(make_problem("not-utf8", filename, line, byte=f"0x{ord(text[bad]) - 0xDC00:02X}"))
    else:
        problems.append(make_problem("other-encoding", filename, encoding=encoding.upper()))
    return _read(text, encoding, filename, problems)


def _read_usual(text: str) -> Document | None:
    """Read the shape that this package writes itself, with one match; agrees with ``_read_simple``."""
    match = _USUAL.match(text)
    if match is None:
        return None
    name, description, kind = match.groups()
    return Document(
        text,
        "utf-8",
        name.strip(),
        description.strip(),
        kind.strip(),
        MappingProxyType({"name": name, "description": description, "type": kind}),
        (4, match.end(3) + 1),
        match.end(),
    )


def _read_simple(text: str) -> Document | None:
    """Read the common shape without YAML: every line ``key: value``, at most one level under an empty key.

    Nine of ten files look so, and a store of thousands is read at every start. Anything else is left to ``_read``,
    with which this agrees wherever it answers. The body is not looked at.
    """
    if not text.startswith(("---\n", "---\r\n")):
        return None
    start = text.index("\n") + 1
    end = text.find("\n---", start) + 1
    after = text.find("\n", end) + 1
    if not (start < end < after) or text[end:after] not in {"---\n", "---\r\n"}:
        return None
    lines = SIMPLE_LINE.findall(text, start, end - 1)
    if len(lines) != text.count("\n", start, end):
        return None
    fields: dict[str, str] = {}
    nested: dict[str, str] = {}
    parent = last = depth = kind = ""
    for indent, key, written in lines:
        value = written[1:-1] if written[:1] in _QUOTES else written
        if not indent:
            if key in fields or key == parent:
                return None
            fields[key] = value
            last, depth = ("" if written else key), ""
            continue
        if last:
            # A key without a value that lines are nested under: no string, so no field.
            if nested:
                return None
            parent, depth, last = last, indent, ""
            del fields[parent]
        if indent != depth or key in nested:
            return None
        nested[key] = value
    if parent == "metadata":
        kind = nested.get("type", "")
    body_start = _after_blank_line(text, after)
    if _SECOND_FENCE.match(text, body_start):
        return None
    return Document(
        text,
        "utf-8",
        fields.get("name", "").strip(),
        fields.get("description", "").strip(),
        (fields.get("type") or kind).strip(),
        MappingProxyType(fields),
        (start, end),
        body_start,
    )


@dataclass(frozen=True, slots=True)
class _Header:
    """A frontmatter block: ``text[start:end]`` are its fields, ``text[after:]`` is what follows it."""

    start: int
    end: int
    after: int
    block: Block
    closed: bool


def _read(text: str, encoding: Encoding, filename: str, problems: list[Problem]) -> Document:
    first = _find_first_header(text, filename, problems)
    if first is None:
        begin = 1 if text.startswith(_BOM) else 0
        return Document(text, encoding, "", "", "", _NO_FIELDS, None, begin, tuple(problems))
    header, fields = first, list(first.block.fields)
    at = _end_of(_BLANKS, text, first.after)
    second = _find_header(text, at) if first.closed and at < len(text) else None
    if second is not None and second.closed and any(found.key in KNOWN_KEYS for found in second.block.fields):
        problems.append(make_problem("second-block", filename, count_breaks(text, 0, at) + 1))
        if not fields:
            header, fields = second, list(second.block.fields)
        else:
            fields += _missing_from(fields, second.block.fields)
    problems += _explain(header, text, filename)
    strings = {found.key: found.value for found in fields if _is_string(found)}
    return Document(
        text,
        encoding,
        strings.get("name", "").strip(),
        strings.get("description", "").strip(),
        (strings.get("type") or _nested_type(fields)).strip(),
        MappingProxyType(strings),
        (header.start, header.end),
        _after_blank_line(text, header.after),
        tuple(problems),
    )


def _find_first_header(text: str, filename: str, problems: list[Problem]) -> _Header | None:
    begin = 1 if text.startswith(_BOM) else 0
    if _FENCE.match(text, begin):
        return _find_header(text, begin)
    at = _end_of(_PREAMBLE, text, begin)
    if at == begin or text[at - 1] not in "\r\n":
        return None
    header = _find_header(text, at)
    if header is None or not any(found.key in KNOWN_KEYS for found in header.block.fields):
        return None
    problems.append(make_problem("frontmatter-not-first", filename, 1))
    return header


def _find_header(text: str, at: int) -> _Header | None:
    """Read the block whose opening fence stands at ``at``; None when that is a rule, with text below it."""
    fence = _FENCE.match(text, at)
    if fence is None:
        return None
    start = fence.end()
    closing = _CLOSING.search(text, start)
    if closing is None:
        block = read_block(text[start:], closed=False)
        end = start + block.length
        known = any(found.key in KNOWN_KEYS for found in block.fields)
        return _Header(start, end, end, block, closed=False) if known else None
    inside = text[start : closing.start()]
    block = read_block(inside)
    if not block.fields:
        empty = all(not line.strip() or line.lstrip()[0] == "#" for line in split_lines(inside))
        return _Header(start, closing.start(), closing.end(), block, closed=True) if empty else None
    if not any(found.key in KNOWN_KEYS for found in block.fields) and any(" " in found.key for found in block.fields):
        return None  # a sentence with a colon in it, between two rules
    if block.length < len(inside):
        end = start + block.length
        return _Header(start, end, end, block, closed=False)
    return _Header(start, closing.start(), closing.end(), block, closed=True)


def _explain(header: _Header, text: str, filename: str) -> Iterator[Problem]:
    lines_above = count_breaks(text, 0, header.start)
    for note in header.block.notes[:_MAX_NOTES]:
        yield make_problem(note.code, filename, lines_above + note.line, **note.details)
    if not header.closed:
        line = count_breaks(text, 0, header.end)
        yield make_problem("frontmatter-unterminated", filename, line)


def _missing_from(fields: list[Field], more: tuple[Field, ...]) -> Iterator[Field]:
    """Yield what a second block adds: name, description and type where the first says nothing of them."""
    have = {
        "type" if _is_nested_type(found) else found.key
        for found in fields
        if not found.parent or _is_nested_type(found)
    }
    for found in more:
        nested = _is_nested_type(found)
        if (nested and "type" not in have) or (not found.parent and found.key in FIELD_ORDER and found.key not in have):
            yield found


def _is_nested_type(found: Field) -> bool:
    return (found.parent, found.key) == ("metadata", "type")


def _is_string(found: Field) -> bool:
    return not found.parent and (found.style != "collection" or bool(found.value))


def _nested_type(fields: list[Field]) -> str:
    return next((found.value for found in reversed(fields) if _is_nested_type(found)), "")


def _after_blank_line(text: str, at: int) -> int:
    return _end_of(_BLANK_LINE, text, at)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


# --------------------------------------------------------------------------- editing


def edit_field(document: Document, key: str, value: str) -> bytes:
    """Return the file with one field changed and every other byte as it was.

    The value is folded into one line. A field that is not there is added, with a header when there is none; ``type`` is
    changed where it stands, also under ``metadata``. An empty value blanks the field. Quotes and comments stay.

    Raises:
        InvalidMemory: the file is not text, ``key`` is no key, the field is a list or a mapping, or the value cannot be
            stored so that it reads back the same.
    """
    if document.encoding == "binary":
        raise InvalidMemory("the file is not text, so no field of it can be changed: restore or delete it")
    if _value_of(document, key) in {value, one_line(value)}:
        return document.encode(document.text)
    value = one_line(value)
    if key not in document.fields and not is_key(key):
        raise InvalidMemory(f"{key!r} is no key for a field: use letters, digits, '_' and '-'")
    for text in _edits(document, key, value):
        data = document.encode(text)
        if _differs_only_in(parse_document(data), document, key, value):
            return data
    raise InvalidMemory(
        f"{key!r} cannot be set to {value[:60]!r} without changing more of the file: change it in an editor"
    )


def edit_body(document: Document, body: str) -> bytes:
    r"""Return the file with another body and its header as it was.

    Lines that did not change keep their line endings; new lines that end in ``\n`` get the file's own ending. Without a
    header the body is the whole file, so one that begins with a header gives the file that header.

    Raises:
        InvalidMemory: the file is not text, or the body holds a NUL or half a surrogate pair.
    """
    if document.encoding == "binary":
        raise InvalidMemory("the file is not text, so its body cannot be changed: restore or delete it")
    if "\0" in body:
        raise InvalidMemory("the body holds a NUL character, which would make the file unreadable: remove it")
    head, old = document.text[: document.body_start], document.body
    ending = dominant_ending(document.text)
    if body and document.header and not head.endswith(("\r", "\n")):
        head += ending
    if document.header and body[:1] in {"\r", "\n"} and old[:1] not in {"\r", "\n"} and not _ends_blank(head):
        head += ending
    text = head + _keep_endings(old, body, ending)
    if document.header and document.body_start == document.header[1] and _read_again(text).body_start != len(head):
        # Nothing closes the header, and the new text would be taken for more fields.
        text = f"{head}---{ending}{ending}{text[len(head) :]}"
    return document.encode(text)


def _read_again(text: str) -> Document:
    return _read(text, "utf-8", "", [])


def _ends_blank(head: str) -> bool:
    lines = split_lines(head)
    return not lines[-1].strip()


def _keep_endings(old: str, new: str, ending: str) -> str:
    before, after = split_lines(old), split_lines(new)
    head = 0
    while head < min(len(before), len(after)) and _same_line(before[head], after[head]):
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and _same_line(before[-1 - tail], after[-1 - tail]):
        tail += 1
    middle = after[head : len(after) - tail]
    if ending != "\n":
        middle = [strip_ending(line) + ending if line[-1] == "\n" and line[-2:] != "\r\n" else line for line in middle]
    return "".join((*before[:head], *middle, *before[len(before) - tail :]))


def _same_line(old: str, new: str) -> bool:
    """Tell whether two lines differ in nothing but which line break ends them."""
    return old == new or (strip_ending(old) == strip_ending(new) and old[-1:] in "\r\n" and new[-1:] in "\r\n")


def _value_of(document: Document, key: str) -> str:
    if key in FIELD_ORDER:
        return str(getattr(document, key))
    return document.fields.get(key, "")


def _differs_only_in(new: Document, old: Document, key: str, value: str) -> bool:
    """Prove an edit by reading it back."""
    return (
        _value_of(new, key) == value
        and new.body == old.body
        and all(_value_of(new, known) == _value_of(old, known) for known in FIELD_ORDER if known != key)
        and {k: v for k, v in new.fields.items() if k != key} == {k: v for k, v in old.fields.items() if k != key}
    )


def _edits(document: Document, key: str, value: str) -> Iterator[str]:
    """Yield the texts that might be the edited file, the nicest first."""
    text, ending = document.text, dominant_ending(document.text)
    if document.header is None:
        begin = 1 if text.startswith(_BOM) else 0
        for written in write_value(value, "plain"):
            line = write_field(key, written)
            gap = ending if len(text) > begin else ""
            yield f"{text[:begin]}---{ending}{line}{ending}---{ending}{gap}{text[begin:]}"
        return
    start, end = document.header
    header = read_block(text[start:end])
    spots = [found for found in header.fields if found.key == key and not found.parent]
    if key == "type":
        spots += [found for found in header.fields if _is_nested_type(found)]
        spots.sort(key=lambda found: bool(found.value))
    if any(found.style == "collection" for found in spots):
        raise InvalidMemory(f"{key!r} is a list or a mapping here: change it in an editor")
    for spot in reversed(spots):
        yield from write_over(text, start, spot, value)
    if len(spots) > 1:
        # One of several lines may not be enough: a blank one lets the next be read.
        yield from _replace_all(text, start, spots, value)
    if not spots:
        for at in _insertion_points(document, header, key):
            for written in write_value(value, "plain"):
                line = write_field(key, written)
                indent = _indent_of(text[start:end])
                glue = "" if at == start or text[at - 1] in "\r\n" else ending
                yield f"{text[:at]}{glue}{indent}{line}{ending}{text[at:]}"


def write_over(text: str, offset: int, spot: Field, value: str) -> Iterator[str]:
    """Yield ``text`` with another value for a field of the block at ``offset``, the nicest way to write it first."""
    start, end = offset + spot.start, offset + spot.end
    for written in write_value(value, spot.style):
        before = text[:start]
        if before.rstrip(" \t")[-1:] == "：":
            # YAML would take the colons of the new value for this field's.
            before = before.rstrip(" \t")[:-1] + ":"
        if not written:
            before = before.rstrip(" \t")
        elif before[-1:] == ":":
            before += " "
        yield before + written + text[end:]


def _replace_all(text: str, offset: int, spots: list[Field], value: str) -> Iterator[str]:
    for spot in sorted(spots, key=lambda found: found.start, reverse=True):
        text = next(write_over(text, offset, spot, value))
    yield text


def _insertion_points(document: Document, header: Block, key: str) -> Iterator[int]:
    """Yield where a new line may stand: in the usual order name, description, type, the rest; else last or first."""
    start, end = document.header or (0, 0)
    if key == "name":
        yield start
    elif key in FIELD_ORDER:
        above = FIELD_ORDER[: FIELD_ORDER.index(key)]
        ends = [
            found.end
            for found in header.fields
            if not found.parent and found.key in above and found.style != "collection"
        ]
        if ends:
            line_end = _BLANK_LINE.search(document.text, start + max(ends))
            yield line_end.end() if line_end else end
    yield end
    yield start


def _indent_of(block: str) -> str:
    first = next((line for line in split_lines(block) if line.strip()), "")
    return first[: len(first) - len(first.lstrip(" \t"))]
