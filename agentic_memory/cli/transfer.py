"""Commands that bring memories in from other programs, and take them out: import, export."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentic_memory.cli.options import AsJson, MemoryDir, Workdir, with_store
from agentic_memory.cli.output import print_json, print_note, print_table

if TYPE_CHECKING:
    from agentic_memory.shelf import Snapshot
    from agentic_memory.store import MemoryStore
    from agentic_memory.transfer.importing import ImportReport

_MARKS = {"new": "+", "imported before": "=", "same text": "=", "refused": "!"}


def import_memories(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A directory, a zip or a file.")],
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FORMAT",
            help="mem0, reme, claude-code, openclaw, basic-memory, chatgpt, claude or agentic-memory; found out when "
            "left out.",
        ),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--source-user", metavar="ID", help="Of a source with several users: whose memories.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write them. Without it only what would be done is shown.")
    ] = False,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    as_json: AsJson = False,
) -> None:
    """Import the memories of another program.

    Nothing is overwritten, and what was imported before is not imported again. All of it is one change in the history.
    Exit code 1 when a part of the source could not be taken.
    """
    from agentic_memory.errors import InvalidMemory
    from agentic_memory.transfer.formats import PARSERS, detect_format
    from agentic_memory.transfer.importing import choose_owner, import_items
    from agentic_memory.transfer.items import Parsed
    from agentic_memory.transfer.sources import read_source

    if form is not None and form not in PARSERS:
        raise InvalidMemory(f"there is no format {form!r}; there are {', '.join(PARSERS)}")
    files, unread = read_source(source)
    chosen = form or detect_format(files)
    parsed = PARSERS[chosen](files)
    parsed = Parsed(choose_owner(parsed.items, owner), (*unread, *parsed.problems))

    async def work(store: "MemoryStore") -> "ImportReport":
        return await import_items(store, parsed, apply=apply, why=f"imported from {chosen}")

    report = with_store(workdir, memory_dir, work, who="tool")  # somebody else's text: the guards look at it
    if as_json:
        print_json({"format": chosen, **report.as_dict()})
    else:
        _show(report, chosen)
    if any(arrival.status == "refused" for arrival in report.arrivals) or any(
        problem.severity == "error" for problem in report.problems
    ):
        raise typer.Exit(1)


def _show(report: "ImportReport", form: str) -> None:
    rows: list[tuple[str, str, str, str]] = [
        (_MARKS[one.status], one.status, one.filename or "-", one.reason or one.title) for one in report.arrivals
    ]
    rows += [
        ("!" if problem.severity == "error" else " ", "left out", problem.file, problem.message)
        for problem in report.problems
    ]
    if rows:
        print_table(("", "what", "file", "title"), rows, styles=("bold", "magenta", "cyan", ""))
    count = len(report.new)
    told = "1 memory" if count == 1 else f"{count} memories"
    if not count:
        print_note(f"Nothing to import from this {form} source.")
    elif report.applied:
        print_note(f"Imported {told} from {form}.")
    else:
        print_note(f"Would import {told} from {form}; nothing was written. Do it with --apply.")


def export_memories(
    target: Annotated[
        str, typer.Argument(metavar="FILE", help="Where to; a name in .zip gives a zip, - standard output.")
    ] = "-",
    *,
    form: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="json or zip; told from the name when left out.")
    ] = None,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Export every memory: as JSON, or as a zip of the files as they are. History and trash stay behind."""
    from agentic_memory.errors import InvalidMemory
    from agentic_memory.transfer.exporting import export_json, export_zip

    chosen = form or ("zip" if target.lower().endswith(".zip") else "json")
    if chosen not in {"json", "zip"}:
        raise InvalidMemory(f"there is no format {chosen!r}; there are json and zip")

    async def work(store: "MemoryStore") -> "Snapshot":
        return await store.load()

    snapshot = with_store(workdir, memory_dir, work)
    data = export_zip(snapshot) if chosen == "zip" else export_json(snapshot).encode()
    if target == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    try:
        with Path(target).open("xb") as file:  # never over anything
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InvalidMemory(f"{target}: not written: {error.strerror or error}") from error
    print_note(f"Exported {len(snapshot.documents)} memories to {target}.")
