"""What a parser makes of another program's memory."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from agentic_memory.encodings import decode
from agentic_memory.fence import printable
from agentic_memory.titles import describe, title_of
from agentic_memory.values import Problem

Files = Mapping[str, bytes]
"""A source: path relative to it, ``/`` between parts -> bytes. A single file is its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One memory as another program kept it.

    Attributes:
        key: What names it in its source for ever (``mem0:<id>``): what was imported once is known by it.
        name, description, type, content: As in a memory file.
        filename: The file name it had, where it had one that can stay.
        owner: The user it belongs to, where the source holds several.
        fields: More frontmatter fields.
    """

    key: str
    content: str = field(repr=False)
    name: str = ""
    description: str = ""
    type: str = "user"
    filename: str = ""
    owner: str = ""
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        """Its name, or its first words."""
        return self.name.strip() or title_of(self.content)

    @property
    def hook(self) -> str:
        """Its description, or its first line."""
        return self.description.strip() or describe(self.content)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The memories of a source, in its order, and what of it could not be taken or is no memory."""

    items: tuple[Item, ...]
    problems: tuple[Problem, ...] = ()


Parser = Callable[[Files], Parsed]


def unreadable(file: str, reason: str, *, line: int | None = None) -> Problem:
    """Return the problem of a part of a source that cannot be understood."""
    return Problem("import-unreadable", file, line, reason, "mend it in the source, or go on without it", "error")


def left_out(file: str, reason: str) -> Problem:
    """Return the note on a part of a source that is deliberately not taken."""
    return Problem("import-left-out", file, None, reason, "copy by hand what you want to keep of it", "info")


def text_of(data: bytes) -> str:
    r"""Return the text of a file, with ``\n`` at the ends of its lines."""
    return printable(decode(data)[0])


_HEADING: Final = re.compile(r"^(?:#{1,2}[ \t]+(?P<title>.+?)[ \t#]*|\*\*(?P<bold>[^*\n]+?):?\*\*:?[ \t]*)$")
_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)")


def split_sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield (title, text) of each part under a heading of the first two levels or a line in bold; none is empty."""
    title, lines, fenced = "", list[str](), False
    for line in [*text.split("\n"), "## "]:
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if heading is None and line != "## ":
            lines.append(line)
            continue
        body = "\n".join(lines).strip()
        if body:
            yield title, body
        lines = []
        if heading is not None:
            title = (heading["title"] or heading["bold"]).strip()


_LISTED: Final = re.compile(r"^\s*(?:[-*+•]|\d+[.)])?\s*(?:\[(?P<date>[^\]\n]{4,25})\]\s*(?:[-–—:]\s*)?)?(?P<text>.+)$")


def split_list(text: str) -> Iterator[tuple[str, str]]:
    """Yield (date, fact) of each line of a list of facts; headings, fences and empty lines are passed over."""
    for line in text.split("\n"):
        match = _LISTED.match(line)
        if match and not line.lstrip().startswith("#") and not _FENCE.match(line):
            known = match["date"] or ""
            if fact := match["text"].strip():
                yield (known if re.match(r"\d{4}-\d\d", known) else "", fact)
