"""What the benchmarks share: timing things side by side, and a table with bounds.

Everything is measured in one run on one machine, and what counts is the ratio: absolute times differ between machines,
ratios much less. Of several rounds the fastest stands for what the code costs; the rest is what else the machine did.
"""

import argparse
import json
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        what: What was measured.
        value: How much.
        unit: Of the value: ``s``, ``ms``, ``x`` (a ratio) or ``calls``.
        bound: The value must not exceed it; None for a line that is only there to compare with.
        note: What a reader has to know to believe the number.
    """

    what: str
    value: float
    unit: str
    bound: float | None = None
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the value is within its bound."""
        return self.bound is None or self.value <= self.bound


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that ``action`` took."""
    since = time.perf_counter()
    action()
    return time.perf_counter() - since


async def timed_async(action: Callable[[], Awaitable[object]]) -> float:
    """Return the seconds that awaiting ``action()`` took."""
    since = time.perf_counter()
    await action()
    return time.perf_counter() - since


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=(description or "").split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--assert", dest="strict", action="store_true", help="exit 1 when a bound is exceeded")
    return parser


def report(rows: Sequence[Row], options: argparse.Namespace) -> int:
    """Print the rows and return the exit code."""
    if options.json:
        print(json.dumps([{**asdict(row), "holds": row.holds} for row in rows], indent=2))
    else:
        width = max(len(row.what) for row in rows)
        for row in rows:
            bound = "" if row.bound is None else f"at most {row.bound:g} {row.unit}"
            verdict = "" if row.bound is None else "ok  " if row.holds else "OVER"
            print(f"{row.what:<{width}}  {row.value:>9.3f} {row.unit:<5}  {bound:<18} {verdict:<4} {row.note}".rstrip())
    over = [row.what for row in rows if not row.holds]
    if over and options.strict:
        print(f"over the bound: {', '.join(over)}", file=sys.stderr)
        return 1
    return 0
