"""Commands that look after a memory: check, repair."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from agentic_memory.cli.options import AsJson, MemoryDir, Workdir, with_store
from agentic_memory.cli.output import (
    DIFF_STYLES,
    SEVERITY_STYLES,
    one_line,
    print_json,
    print_line,
    print_note,
    printable,
)

if TYPE_CHECKING:
    from agentic_memory.store import MemoryStore
    from agentic_memory.values import Problem, Repair, Severity

SEVERITIES: Final = ("error", "warning", "info")
"""The worst first."""


def check_memory(
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    form: Annotated[
        Literal["text", "json", "sarif", "github"],
        typer.Option("--format", help="For people, for programs, for code scanning, as annotations of a workflow."),
    ] = "text",
    as_json: AsJson = False,
    fail_on: Annotated[
        Literal["error", "warning", "info"],
        typer.Option("--fail-on", help="Severity from which a problem makes the exit code 1."),
    ] = "warning",
) -> None:
    """List what a person should look at.

    Exit codes: 0 nothing at or above --fail-on, 1 something, 2 wrong use, 3 it cannot be told.
    """
    from agentic_memory.cli.reports import as_github, as_sarif

    async def work(store: "MemoryStore") -> "tuple[str, int, list[Problem]]":
        files = len((await store.load()).files)
        return await store.root(), files, await store.check()

    root, files, problems = with_store(workdir, memory_dir, work)
    if as_json or form == "json":
        print_json([problem.as_dict() for problem in problems])
    elif form == "sarif":
        print_json(as_sarif(problems, root=root))
    else:
        for line in as_github(problems, root=root) if form == "github" else ():
            sys.stdout.write(f"{line}\n")
        for problem in problems if form == "text" else ():
            print_problem(problem)
        print_note(
            f"{files} {'memory' if files == 1 else 'memories'} in {root}: "
            + (count_severities(problems) if problems else "nothing to mend.")
        )
    if any(is_at_least(problem.severity, fail_on) for problem in problems):
        raise typer.Exit(1)


def repair_memory(
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    apply: Annotated[bool, typer.Option("--apply", help="Write it. Without this, only show it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Mend what needs no decision: show the change as a diff, and make it with --apply.

    It is one change that undo takes back; a second run changes nothing. Exit code 1 when there is something to mend and
    --apply is not given.
    """
    repair: Repair = with_store(workdir, memory_dir, lambda store: store.repair(apply=apply))
    if as_json:
        print_json(repair.as_dict())
    else:
        _show_repair(repair)
    if repair.changes and not apply:
        raise typer.Exit(1)


def _show_repair(repair: "Repair") -> None:
    for line in repair.diff.splitlines():
        print_line((line, DIFF_STYLES.get(line[:1], "")) if sys.stdout.isatty() else printable(line))
    if repair.transaction:
        how = f"{_count(repair.mended)} mended in {', '.join(map(one_line, repair.changes))}"
        print_note(f"{how}; to take it back: agentic-memory undo {repair.transaction}")
    elif repair.changes:
        print_note(f"{_count(repair.mended)} can be mended; --apply writes it.")
    else:
        print_note("Nothing to mend without a decision.")
    if repair.left:
        print_note(f"{_count(repair.left)} left for a person; see agentic-memory check.")


def print_problem(problem: "Problem") -> None:
    """Print one problem, with what to do about it below."""
    place = one_line(problem.file) if problem.line is None else f"{one_line(problem.file)}:{problem.line}"
    print_line(
        (place, "cyan"),
        ": ",
        (problem.severity, SEVERITY_STYLES[problem.severity]),
        f": {one_line(problem.message)}",
        (f" [{problem.code}]", "dim"),
    )
    print_line("    ", one_line(problem.fix))


def count_severities(problems: "Sequence[Problem]") -> str:
    """Return how many there are of each severity, in words."""
    counts = ((severity, sum(problem.severity == severity for problem in problems)) for severity in SEVERITIES)
    return ", ".join(f"{count} {severity}" for severity, count in counts if count) + "."


def is_at_least(severity: "Severity", limit: str) -> bool:
    """Tell whether a severity is ``limit`` or worse."""
    return SEVERITIES.index(severity) <= SEVERITIES.index(limit)


def _count(problems: "Sequence[Problem]") -> str:
    return f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
