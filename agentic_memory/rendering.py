"""New memory files: values written so that they read back, and names for the files."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from yaml import ScalarNode
from yaml.resolver import Resolver

from agentic_memory.encodings import encode
from agentic_memory.errors import InvalidMemory
from agentic_memory.frontmatter import PLAIN, Style, is_key
from agentic_memory.lines import one_line

MAX_FILENAME_BYTES: Final = 255
"""What common file systems allow for one name."""
FIELD_ORDER: Final = ("name", "description", "type")

_PLAIN: Final = re.compile(PLAIN)
_RESOLVER: Final = Resolver()
_STRING_TAG: Final = "tag:yaml.org,2002:str"
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_UNDERSCORES: Final = re.compile("_+")
_MAX_BYTE: Final = 0xFF
_RESERVED_STEMS: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"{device}{number}" for device in ("com", "lpt") for number in range(1, 10)))
)
_NO_FIELDS: Final[Mapping[str, str]] = MappingProxyType({})


def render_document(
    *,
    name: str,
    description: str,
    type: str,  # noqa: A002 - the frontmatter field's name
    content: str,
    extra: Mapping[str, str] = _NO_FIELDS,
) -> bytes:
    """Return a new memory file that reads back as what it was made of.

    Values are folded into one line and quoted only where YAML would read something else than this very string. The
    content keeps its lines and ends with one line break.

    Raises:
        InvalidMemory: a key of ``extra`` is no key or one of the three, or a character cannot be stored.
    """
    for key in extra:
        if key in FIELD_ORDER or key == "metadata" or not is_key(key):
            raise InvalidMemory(f"{key!r} cannot be an extra field: use another key of letters, digits, '_' and '-'")
    if "\0" in content:
        raise InvalidMemory("the content holds a NUL character, which would make the file unreadable: remove it")
    fields = {"name": name, "description": description, "type": type, **extra}
    lines = [write_field(key, next(write_value(one_line(value), "plain"))) for key, value in fields.items()]
    body = content.rstrip("\r\n")
    return encode("\n".join(("---", *lines, "---", *(("", body) if body else ()), "")), "utf-8")


def write_field(key: str, written: str) -> str:
    """Return the line of a field whose value is written already; ``no`` and the like are keys only in quotes."""
    if not _is_string_to_yaml(key):
        key = f'"{key}"'
    return f"{key}: {written}".rstrip()


def write_value(value: str, style: Style) -> Iterator[str]:
    """Yield ways to write ``value`` on one line, the nicest first; the first is always right in a valid block."""
    double = '"' + _UNPRINTABLE.sub(_escape, value.replace("\\", "\\\\").replace('"', '\\"')) + '"'
    single = "'" + value.replace("'", "''") + "'"
    printable = _UNPRINTABLE.search(value) is None
    if style == "single" and printable:
        yield single
    if style not in {"single", "double"} and (not value or _is_plain(value)):
        yield value
    if printable and ('"' in value or "\\" in value) and style != "double":
        yield single
    yield double
    if printable:
        # Where a block is not read as YAML, the text as it stands is what reads back.
        yield value


def _is_plain(value: str) -> bool:
    """Tell whether YAML reads ``value`` as this string when it stands without quotes."""
    return _PLAIN.fullmatch(value) is not None and _is_string_to_yaml(value)


def _is_string_to_yaml(plain: str) -> bool:
    """Tell whether strict YAML takes this for a string, not for a number, a date, a boolean or nothing."""
    tag: str = _RESOLVER.resolve(ScalarNode, plain, (True, False))  # type: ignore[no-untyped-call]  # its stub has no types
    return tag == _STRING_TAG


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02X}" if code <= _MAX_BYTE else f"\\u{code:04X}"


# --------------------------------------------------------------------------- naming


def memory_filename(name: str) -> str:
    """Return a file name for a memory called ``name``: ``User profile`` gives ``user_profile.md``.

    Letters of any script stay (in NFC); everything else becomes ``_``. Never hidden, never the index, never empty, at
    most 255 bytes. Two names may give one file name.
    """
    stem = unicodedata.normalize("NFC", name.strip()).lower().removesuffix(".md")
    kept = "".join(char if char in "-." or unicodedata.category(char)[0] in "LNM" else "_" for char in stem)
    stem = unicodedata.normalize("NFC", _UNDERSCORES.sub("_", kept)).strip("._-") or "untitled"
    if stem in {"memory", *_RESERVED_STEMS}:
        stem += "_note"
    stem = stem.replace("conflict-", "conflict_")  # else it could be a sync tool's name, which is never a memory
    raw = stem.encode()[: MAX_FILENAME_BYTES - len(".md")]
    return raw.decode("utf-8", "ignore").rstrip("._-") + ".md"
