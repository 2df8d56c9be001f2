"""The block between the fences: which fields it holds, and where each value stands.

YAML is asked first. Where YAML fails, the block is taken apart line by line and YAML is asked about each field alone,
so that one broken value costs nothing but its own quoting. Everything is a string: no dates, no booleans.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml
from frontmatter.default_handlers import YAMLHandler

from agentic_memory.lines import each_line, split_lines, strip_ending

if TYPE_CHECKING:
    from yaml import CBaseLoader as BaseLoader
else:
    try:
        from yaml import CBaseLoader as BaseLoader
    except ImportError:  # PyYAML without libyaml: slower, and stricter about tabs; the same values
        from yaml import BaseLoader

MAX_YAML_CHARS: Final = 64 * 1024
"""Longer blocks are read line by line without YAML."""
MAX_DEPTH: Final = 16
"""Deeper nesting is no frontmatter anyone wrote by hand."""

Style = Literal["plain", "double", "single", "block", "raw", "collection"]
"""How a value is written; ``raw`` is one that YAML could not read, ``collection`` one that is no string."""

MAX_KEY_CHARS: Final = 100
KNOWN_KEYS: Final = ("name", "description", "type", "metadata")
_PROSE_KEYS: Final = frozenset({"name", "description"})
_STYLES: Final[dict[str | None, Style]] = {'"': "double", "'": "single", "|": "block", ">": "block"}
_QUOTES: Final[tuple[tuple[str, Style], ...]] = (('"', "double"), ("'", "single"))
# YAML 1.1 ends a line at these; people and editors do not.
_FOREIGN_BREAKS: Final = re.compile("[\x85\u2028\u2029]")
# A byte that was not UTF-8 stands as a lone surrogate, which YAML refuses: show it a private-use character instead.
_SURROGATES: Final = {0xDC80 + byte: 0x10FF00 + byte for byte in range(0x80)}
_SURROGATES_BACK: Final = {stand_in: surrogate for surrogate, stand_in in _SURROGATES.items()}

_SAFE: Final = r"\x21\x22\x24-\x39\x3b-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
_START: Final = r"0-9A-Za-z_(/$+.;^\\<~\xa1-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff"
PLAIN: Final = rf"[{_START}](?:[{_SAFE}#]++|:(?![ \r\n]|\Z)|\x20++(?![#\r\n]|\Z))*+"
"""A plain scalar that YAML reads as it stands, wherever a block mapping holds it."""
SIMPLE_LINE: Final = re.compile(
    rf"^(\x20*+)([A-Za-z_][A-Za-z0-9_-]{{0,99}}+):(?:\x20++({PLAIN}|\"[^\"\\\x00-\x1f\x7f-\x9f\ud800-\udfff"
    rf"\u2028\u2029\ufeff\ufffe\uffff]*+\"|'[^'\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\ufeff\ufffe\uffff]*+'))?\x20*+\r?$",
    re.MULTILINE,
)
"""A whole line ``key: value`` that needs no YAML to be read."""

_KEY: Final = r"[^\W][\w./-]*(?:\x20[\w./-]+){0,5}"
_KEY_LINE: Final = re.compile(rf"""[ \t]*(["']?)(?P<key>{_KEY})\1[ \t]*(?P<colon>[:：])[ \t]*""")
_REST_OF_LINE: Final = re.compile(r"[^\r\n]*")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a block.

    Attributes:
        key, value: As YAML reads them; the value of a collection is its text when it stands on one line, else empty.
        style: How the value is written.
        start, end: ``block[start:end]`` is the value as written, quotes and all.
        line: 1-based line of the block.
        parent: The key it is nested under; empty at the top level.
    """

    key: str
    value: str
    style: Style
    start: int
    end: int
    line: int
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A problem in a block; ``line`` counts within the block."""

    code: str
    line: int
    details: dict[str, object]


@dataclass(frozen=True, slots=True)
class Block:
    """What was read. ``length`` is where the fields end: less than the block when text began without a fence."""

    fields: tuple[Field, ...]
    notes: tuple[Note, ...]
    length: int


class _Refused(Exception):
    """The block is YAML, but of a kind that is not expanded."""


class _NoMapping(Exception):
    """The block is YAML, but holds no fields."""


class _FieldLoader(BaseLoader):
    """Walks YAML's events: no recursion, no alias ever followed, and every value with its place in the text."""

    def get_single_data(self) -> list[Field]:
        self.get_event()
        if isinstance(self._next(), yaml.StreamEndEvent):
            return []
        first = self._next()
        if not isinstance(first, yaml.MappingStartEvent):
            raise _NoMapping
        _check_node(first)
        fields = list(self._read_mapping(""))
        if first.flow_style and not any(field.key in KNOWN_KEYS for field in fields):
            raise _NoMapping
        self.get_event()
        if not isinstance(self._next(), yaml.StreamEndEvent):
            raise _Refused("more than one document")
        return fields

    def _next(self) -> Any:
        """Return the next event; untyped, because the stubs say of every part of it that it may be missing."""
        return self.get_event()

    def _read_mapping(self, parent: str) -> Iterator[Field]:
        while True:
            key = self._next()
            line = key.start_mark.line + 1
            if isinstance(key, yaml.MappingEndEvent):
                return
            _check_node(key)
            if not isinstance(key, yaml.ScalarEvent):
                raise _Refused("a key that is no string")
            value = self._next()
            _check_node(value)
            start, end = value.start_mark.index, value.end_mark.index
            if isinstance(value, yaml.ScalarEvent):
                style = _STYLES.get(value.style, "plain")
                yield Field(key.value, value.value, style, start, end, line, parent)
                continue
            if not parent and key.value == "metadata" and isinstance(value, yaml.MappingStartEvent):
                yield Field(key.value, "", "collection", start, start, line)
                yield from self._read_mapping(key.value)
                continue
            end = self._skip_collection()
            yield Field(key.value, "", "collection", start, end if value.flow_style else start, line, parent)

    def _skip_collection(self) -> int:
        depth, end = 1, 0
        while depth:
            event = self._next()
            end = event.end_mark.index
            _check_node(event)
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise _Refused(f"more than {MAX_DEPTH} levels")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
        return end


_HANDLER: Final = YAMLHandler()


def _check_node(event: Any) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise _Refused("an alias")
    if getattr(event, "anchor", None) is not None:
        raise _Refused("an anchor")
    tag = getattr(event, "tag", None)
    if tag is not None and not tag.startswith("tag:yaml.org,2002:"):
        raise _Refused("a tag")


def is_key(key: str) -> bool:
    """Tell whether ``key`` can stand in front of a colon and be read back without quotes."""
    return len(key) <= MAX_KEY_CHARS and re.fullmatch(_KEY, key) is not None


def read_block(block: str, *, closed: bool = True) -> Block:
    """Read the text between the fences; never raises.

    Args:
        block: The lines between the fences, or everything after the opening fence when no fence closes it.
        closed: Whether a fence closes it. Without one the fields end at the first line that is none.
    """
    if not closed:
        return _read_lines(block, [], closed=False)
    if len(block) > MAX_YAML_CHARS:
        return _read_lines(block, [Note("frontmatter-too-long", 1, {"limit": MAX_YAML_CHARS})])
    if _FOREIGN_BREAKS.search(block):
        return _read_lines(block, [])
    notes: list[Note] = []
    try:
        return _finish(_read_yaml(block), notes, block, len(block))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        notes.append(Note("frontmatter-not-yaml", line, {"reason": error.problem or "unreadable"}))
    except _Refused as error:
        notes.append(Note("frontmatter-refused", 1, {"reason": str(error)}))
    except _NoMapping:
        pass
    except (yaml.YAMLError, ValueError, OverflowError):
        notes.append(Note("frontmatter-not-yaml", 1, {"reason": "a character that YAML does not allow"}))
    return _read_lines(block, notes)


def _read_yaml(block: str) -> list[Field]:
    shown = block if _is_encodable(block) else block.translate(_SURROGATES)
    fields: list[Field] = _HANDLER.load(shown, Loader=_FieldLoader)
    if shown is block:
        return fields
    return [
        replace(field, key=field.key.translate(_SURROGATES_BACK), value=field.value.translate(_SURROGATES_BACK))
        for field in fields
    ]


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _finish(fields: list[Field], notes: list[Note], block: str, length: int) -> Block:
    """Complete what YAML leaves out, and note what is odd about it."""
    finished = [_complete(field, block, notes) for field in fields]
    last = {(field.parent, field.key): field for field in finished}
    if len(last) < len(finished):
        times = Counter((field.parent, field.key) for field in finished)
        notes += [
            Note("duplicate-key", field.line, {"key": field.key}) for place, field in last.items() if times[place] > 1
        ]
    return Block(tuple(finished), tuple(notes), length)


def _complete(field: Field, block: str, notes: list[Note]) -> Field:
    text = block[field.start : field.end]
    if field.style == "collection":
        return field if "\n" in text or "\r" in text else replace(field, value=text)
    if field.style == "block":
        return replace(field, end=_end_of_block_scalar(block, field))
    if field.style != "plain" or field.parent or field.key not in _PROSE_KEYS:
        return field
    rest = _REST_OF_LINE.match(block, field.end)
    tail = rest[0].rstrip() if rest else ""
    if not tail.strip():
        return field
    # Only a comment can follow a plain scalar, and in a name or a description `#` is more likely part of the text.
    notes.append(Note("comment-in-value", field.line, {"key": field.key}))
    end = field.end + len(tail)
    start = field.start if field.value else end - len(tail.lstrip())
    return replace(field, value=(field.value + tail).strip(), style="raw", start=start, end=end)


def _end_of_block_scalar(block: str, field: Field) -> int:
    """Find the last line of text; YAML says where the next token begins, past blank lines that are not the field's."""
    end = at = field.start
    for number, line in enumerate(split_lines(block[field.start : field.end])):
        if number == 0 or (line.strip() and line[0] in " \t"):
            end = at + len(strip_ending(line))
        at += len(line)
    return end


# --------------------------------------------------------------------------- line by line


@dataclass(slots=True)
class _Chunk:
    """The lines of one field: ``block[start:end]``, without the blanks in front of its key."""

    key: str
    colon: str
    value_at: int
    start: int
    end: int
    line: int


def _read_lines(block: str, notes: list[Note], *, closed: bool = True, parent: str = "") -> Block:
    with_yaml = len(block) <= MAX_YAML_CHARS
    chunks, length = _split_fields(block, closed=closed)
    fields: list[Field] = []
    for chunk in chunks:
        fields += (with_yaml and _read_chunk_as_yaml(chunk, block, parent)) or _read_chunk(chunk, block, parent, notes)
    return _finish(fields, notes, block, length)


def _match_key(line: str) -> re.Match[str] | None:
    match = _KEY_LINE.match(line)
    if match is None:
        return None
    spaced = match["colon"] == ":" and line[match.end("colon") : match.end("colon") + 1] in {"", " ", "\t", "\r", "\n"}
    return match if spaced or match["key"] in KNOWN_KEYS else None


def _split_fields(block: str, *, closed: bool) -> tuple[list[_Chunk], int]:
    """Take ``block`` apart into the lines of each field, and tell where the fields end and the text begins."""
    chunks: list[_Chunk] = []
    base = end = 0
    after_blank = False
    loose: int | None = None  # where the comments since the last field begin: they are headings if text follows
    for number, line in enumerate(each_line(block), 1):
        start, end = end, end + len(line)
        bare = line.strip()
        indent = len(line) - len(line.lstrip(" \t"))
        if not bare:
            after_blank = True
            continue
        base = base if chunks else indent
        match = _match_key(line) if indent <= base else None
        if match and (closed or not after_blank or match["key"] in KNOWN_KEYS):
            chunks.append(_Chunk(match["key"], match["colon"], start + match.end(), start + indent, end, number))
        elif chunks and (indent > base or (closed and not after_blank and loose is None and bare[0] != "#")):
            chunks[-1].end = end
        elif closed and bare[0] == "#":
            loose = start if loose is None else loose
            continue
        else:
            return chunks, start if loose is None else loose
        after_blank, loose = False, None
    return chunks, len(block)


def _read_chunk_as_yaml(chunk: _Chunk, block: str, parent: str) -> list[Field]:
    """Ask YAML about one field alone; an empty list when it cannot read it."""
    try:
        fields = _read_yaml(block[chunk.start : chunk.end])
    except (yaml.YAMLError, _Refused, _NoMapping, ValueError, OverflowError):
        return []
    return [
        replace(
            field,
            start=field.start + chunk.start,
            end=field.end + chunk.start,
            line=field.line + chunk.line - 1,
            parent=parent or field.parent,
        )
        for field in fields
    ]


def _read_chunk(chunk: _Chunk, block: str, parent: str, notes: list[Note]) -> list[Field]:
    """Read one field as it stands."""
    text = block[chunk.value_at : chunk.end]
    if chunk.colon == "：":
        notes.append(Note("full-width-colon", chunk.line, {"key": chunk.key}))
    elif text.strip() and block[chunk.value_at - 1] == ":" and text[0] not in "\r\n":
        notes.append(Note("missing-space", chunk.line, {"key": chunk.key}))
    first, *rest = split_lines(text) or [""]
    if chunk.key == "metadata" and not parent and not first.strip():
        return _read_metadata(chunk, "".join(rest), notes)
    start, end = chunk.value_at, chunk.value_at + len(text.rstrip())
    value = " ".join(piece for piece in (line.strip() for line in (first, *rest)) if piece)
    style: Style = "raw" if value else "plain"
    for quote, quoted in _QUOTES:
        if len(value) > 1 and value[0] == value[-1] == quote and quote not in value[1:-1] and "\\" not in value:
            value, style = value[1:-1], quoted
    return [Field(chunk.key, value, style, start, max(start, end), chunk.line, parent)]


def _read_metadata(chunk: _Chunk, text: str, notes: list[Note]) -> list[Field]:
    start = chunk.end - len(text)
    found: list[Note] = []
    nested = _read_lines(text, found, parent="metadata")
    notes += [replace(note, line=note.line + chunk.line) for note in found]
    return [
        Field("metadata", "", "collection", start, start, chunk.line),
        *(
            replace(field, start=field.start + start, end=field.end + start, line=field.line + chunk.line)
            for field in nested.fields
        ),
    ]
