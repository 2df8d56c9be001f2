"""What the command line prints: tables for people, lines for pipes, JSON for programs."""

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

WIDE: Final = 10_000
"""Columns when nobody looks: a pipe must not get wrapped lines."""

SEVERITY_STYLES: Final = {"error": "bold red", "warning": "yellow", "info": "dim"}
DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return ``text`` with control characters made visible: a memory file must not drive somebody's terminal.

    So are the lone surrogates that undecodable names arrive as, which no terminal takes.
    """
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Return ``text`` as one printable line."""
    return printable(" ".join(text.split()))


def console(*, stderr: bool = False) -> Console:
    """Return a console on the stream as it is now; colours only where a terminal shows them."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDE
    return Console(file=stream, highlight=False, soft_wrap=True, width=width, emoji=False, markup=False)


def print_json(value: Any) -> None:
    """Print ``value`` as JSON."""
    # Undecodable bytes in names arrive as lone surrogates, which UTF-8 output would refuse.
    text = json.dumps(value, ensure_ascii=False, indent=2)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")


def print_line(*parts: str | tuple[str, str]) -> None:
    """Print one line of parts; a part may be (text, style). Control characters are made visible."""
    console().print(assemble(parts))


def print_note(*parts: str | tuple[str, str]) -> None:
    """Print one line to standard error, where it does not mix with what a program reads."""
    console(stderr=True).print(assemble(parts))


def assemble(parts: Iterable[str | tuple[str, str]]) -> Text:
    """Return ``parts`` as one styled text, made printable."""
    return Text.assemble(*((part, "") if isinstance(part, str) else part for part in _safe(parts)))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, styles: Sequence[str] = ()) -> None:
    """Print rows: as a table on a terminal, tab-separated and without headings in a pipe."""
    if not sys.stdout.isatty():
        for row in rows:
            sys.stdout.write("\t".join(one_line(cell) for cell in row) + "\n")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for at, heading in enumerate(headings):
        last = at == len(headings) - 1
        table.add_column(
            heading,
            style=styles[at] if at < len(styles) else "",
            overflow="ellipsis" if last else "fold",
            no_wrap=last,
        )
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    console().print(table, soft_wrap=False)


def _safe(parts: Iterable[str | tuple[str, str]]) -> Iterable[str | tuple[str, str]]:
    for part in parts:
        if isinstance(part, str):
            yield printable(part)
        else:
            yield printable(part[0]), part[1]
