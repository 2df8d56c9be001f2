"""``docs/faults.md``: what the run found, kept in the repository and compared with every run.

By default a sample of the cases is played, and each is compared with its cell. The variable ``AGENTIC_MEMORY_FAULTS``
plays them all: ``all`` to compare, ``write`` to write the page anew.
"""

import os
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from faults.case import Fault
from faults.conversation import Call

PAGE = Path(__file__).resolve().parents[2] / "docs" / "faults.md"
PROSE = Path(__file__).with_name("prose.md")
MODE = os.environ.get("AGENTIC_MEMORY_FAULTS", "")
EVERYTHING = MODE in {"all", "write"}
OURS, NEXT, THEIRS = "fault", "next reply", "AgentScope's own"
NOTHING = "\N{EN DASH}"

Cells = dict[tuple[str, str, str], str]
"""What stands where: by place, fault and column."""

found: Cells = {}


def note(place: str, fault: str, column: str, cell: str) -> None:
    """Keep what was found for the page; when the page is not being written anew, it must say the same."""
    found[place, fault, column] = cell
    if MODE != "write" and PAGE.exists():
        written = read_page().get((place, fault, column), "nothing")
        assert cell == written, (
            f"{place}, {fault}, {column}: {cell!r}, but docs/faults.md says {written!r}; if this is meant, write it "
            "anew: AGENTIC_MEMORY_FAULTS=write scripts/test -n 0 tests/faults"
        )


def note_case(place: str, fault: Fault, call: Call, cell: str) -> None:
    """Keep what became of a case; that the next reply works was looked at on the way."""
    note(place, fault.name, call.name, cell)
    note(place, fault.name, NEXT, "the memory is gone" if fault.lasting else "works")


@cache
def read_page() -> Cells:
    """Return the cells of the page."""
    cells: Cells = {}
    place, columns = "", []
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            place, columns = line.removeprefix("## "), []
        elif place and line.startswith("|") and not line.startswith("| -"):
            words = [word.strip() for word in re.split(r"(?<!\\)\|", line.strip("|"))]
            if not columns:
                columns = words[1:]
            else:
                cells |= {(place, words[0], column): cell for column, cell in zip(columns, words[1:], strict=True)}
    return {where: cell for where, cell in cells.items() if cell != NOTHING}


def render_page(cells: Cells) -> str:
    """Return the page: faults and columns in the order in which they were found."""
    places: dict[str, dict[str, None]] = defaultdict(dict)
    columns: dict[str, dict[str, None]] = defaultdict(dict)
    for place, fault, column in cells:
        places[place][fault] = None
        columns[place][column] = None
    parts = [PROSE.read_text("utf-8").rstrip()]
    for place, faults in places.items():
        last = [column for column in (NEXT, THEIRS) if column in columns[place]]
        order = [*(column for column in columns[place] if column not in last), *last]
        rows = [[OURS, *order], ["-" * 3] * (len(order) + 1)]
        rows += [[fault, *(cells.get((place, fault, column), NOTHING) for column in order)] for fault in faults]
        parts.append(f"## {place}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(parts) + "\n"
