"""Commands over what the memory was: history, diff, restore, undo, purge."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from agentic_memory.cli.options import AsJson, MemoryDir, Workdir, with_store
from agentic_memory.cli.output import DIFF_STYLES, print_json, print_line, print_note, print_table, printable

if TYPE_CHECKING:
    from datetime import datetime

    from agentic_memory.history.entries import Version
    from agentic_memory.history.purging import Purged
    from agentic_memory.history.tidying import Usage
    from agentic_memory.operations import Reversal
    from agentic_memory.store import MemoryStore

SHOWN_DIGITS = 12
MIN_DIGITS = 4
"""Digits of a version that people must type at least: fewer hit the wrong one too easily."""

File = Annotated[
    str, typer.Argument(metavar="FILE", help="File name, also of a memory that is gone; MEMORY.md is the index.")
]
MAX_SHOWN = 100
"""Changes listed when no file is named."""


def show_history(
    filename: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="File name, also of a memory that is gone; all files when left out."),
    ] = None,
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    as_json: AsJson = False,
) -> None:
    """List the versions of a memory file, or the last changes of all, newest first.

    Changes with the same id in the first column were made together; undo takes it.
    """
    if filename is None:
        changes = with_store(workdir, memory_dir, lambda store: store.changes())
        if as_json:
            print_json([change.as_dict() for change in changes])
            return
        rows = [(change.transaction or "-", *_row(change)[1:3], change.filename, change.why) for change in changes]
        print_table(("id", "when", "who", "file", "why"), rows[:MAX_SHOWN], styles=("cyan", "", "magenta", "", ""))
        if len(rows) > MAX_SHOWN:
            print_note(f"{len(rows) - MAX_SHOWN} older changes are not shown; --json has them all.")
        return
    name = filename
    versions = with_store(workdir, memory_dir, lambda store: store.history(name))
    if as_json:
        print_json([version.as_dict() for version in versions])
        return
    headings = ("version", "when", "who", "bytes", "why")
    print_table(headings, [_row(version) for version in versions], styles=("cyan", "", "magenta", "", ""))


def _row(version: "Version") -> tuple[str, ...]:
    return (
        "(gone)" if version.version is None else version.version[:SHOWN_DIGITS],
        f"{version.when.astimezone():%Y-%m-%d %H:%M:%S}",
        version.who,
        str(version.size),
        version.why,
    )


def show_diff(
    filename: File,
    old: Annotated[
        str | None,
        typer.Argument(metavar="OLD", help="First digits of a version; the one before the present when left out."),
    ] = None,
    new: Annotated[
        str | None, typer.Argument(metavar="NEW", help="First digits of a version; the present when left out.")
    ] = None,
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Show what changed in a memory file between two versions."""

    async def work(store: "MemoryStore") -> str:
        versions = await store.history(filename)
        before = _before_present(versions, filename) if old is None else find_version(versions, old)
        return await store.diff(filename, before, None if new is None else find_version(versions, new))

    diff = with_store(workdir, memory_dir, work)
    for line in diff.splitlines():
        print_line((line, DIFF_STYLES.get(line[:1], "")) if sys.stdout.isatty() else printable(line))
    if not diff:
        print_note("No difference.")


def restore_memory(
    filename: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="File name, also of a memory that is gone; MEMORY.md is the index."),
    ] = None,
    version: Annotated[
        str | None,
        typer.Argument(
            metavar="VERSION",
            help="First digits of a version, as history shows it; what it was last when left out and the file is gone.",
        ),
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="The whole memory; needs --at.", show_default=False)
    ] = False,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="With --all: as in 2026-11-30T08:00, or 2026-11-30 08:00+01:00."),
    ] = None,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Make a memory file, or the whole memory, again what it was.

    What is there now stays in the history, so this can be undone alike.
    """
    if everything != (filename is None) or everything != (at is not None):
        print_note("agentic-memory: give either FILE, or --all and --at TIME")
        raise typer.Exit(2)
    if at is not None:
        when = _parse_time(at)
        _print_reversal(with_store(workdir, memory_dir, lambda store: store.restore_all(when)))
        return
    name = str(filename)

    async def work(store: "MemoryStore") -> str:
        whole = None if version is None else find_version(await store.history(name), version)
        return (await store.restore(name, whole)).version

    restored = with_store(workdir, memory_dir, work)
    print_line("restored ", (name, "cyan"), f" to {restored[:SHOWN_DIGITS]}")


def undo_changes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="First digits of what history shows, or the id of a reply; the last change when left out.",
        ),
    ] = None,
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Undo all that was done together: by one command, one tool call, one look, or one reply of an agent.

    What was changed since in other lines stays. The undo is a change too, and can be undone alike.
    """

    async def work(store: "MemoryStore") -> "Reversal":
        return await store.undo(_find_name(await store.changes(), name))

    _print_reversal(with_store(workdir, memory_dir, work))


def purge_memory(
    filename: File,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="VERSION", help="Only this old version: its first digits, as history shows it."
        ),
    ] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)] = False,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Remove every copy of a memory: file, index, history, trash, caches.

    It cannot be undone. Everything is read again afterwards; exit code 3 when something is still there.
    """
    what = f"every copy of {filename}" if version is None else f"version {version} of {filename}"
    if not yes:
        if not sys.stdin.isatty():
            print_note("agentic-memory: a purge cannot be undone, and there is nobody to ask: give --yes")
            raise typer.Exit(2)
        typer.confirm(f"Remove {what}? This cannot be undone.", abort=True)

    async def work(store: "MemoryStore") -> "Purged":
        whole = None if version is None else find_version(await store.history(filename), version)
        return await store.purge(filename, version=whole)

    purged = with_store(workdir, memory_dir, work)
    for line in purged.removed:
        print_line("removed ", (line, "cyan"))
    for line in purged.kept:
        print_note(line)
    for line in purged.remaining:
        print_note((f"still there: {line}", "bold red"))
    if purged.remaining:
        raise typer.Exit(3)
    print_note(f"Read again: no copy of {filename} is left." if version is None else "Read again: it is gone.")


def tidy_history(
    max_age_days: Annotated[
        float | None, typer.Option("--max-age-days", metavar="N", help="Drop versions that were replaced longer ago.")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", metavar="N", help="Drop what was replaced first until so much is left.")
    ] = None,
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Make the history smaller. What a file is, and what it was last within a week, always stays."""

    async def work(store: "MemoryStore") -> "tuple[int, Usage]":
        from agentic_memory.history.retention import Retention

        gone = await store.tidy_history(Retention(max_age_days, max_bytes))
        return gone, await store.usage()

    gone, usage = with_store(workdir, memory_dir, work)
    print_line(f"dropped {gone} versions; {usage.versions} are left, {usage.bytes:,} bytes on disk")


def _find_name(changes: "list[Version]", digits: str | None) -> str:
    from agentic_memory.errors import InvalidMemory, MemoryNotFound

    names = list(dict.fromkeys(change.transaction for change in changes if change.transaction))
    if digits is None:
        if not names:
            raise MemoryNotFound("the history knows of no change that could be undone")
        return names[0]
    if any(digits in {change.reply, change.transaction} for change in changes):
        return digits
    found = [name for name in names if name.startswith(digits)] if len(digits) >= MIN_DIGITS else []
    if len(found) > 1:
        raise InvalidMemory(f"{len(found)} changes begin with {digits!r}: give more of its digits")
    if not found:
        raise MemoryNotFound(f"no change begins with {digits!r}; see agentic-memory history")
    return found[0]


def _print_reversal(reversal: "Reversal") -> None:
    for filename in reversal.filenames:
        print_line("restored ", (filename, "cyan"))
    for filename in reversal.unknown:
        print_note(f"{filename} stays: nobody knows what it was then.")
    if reversal.id is None:
        print_note("Nothing had to be changed.")
    else:
        print_note(f"To take that back: agentic-memory undo {reversal.id}")


def _parse_time(text: str) -> "datetime":
    from datetime import datetime

    from agentic_memory.errors import InvalidMemory

    try:
        when = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidMemory(f"{text!r} is no time: give one as in 2026-11-30T08:00") from error
    return when.astimezone() if when.tzinfo is None else when


def find_version(versions: "list[Version]", digits: str) -> str:
    """Return the one version that begins with ``digits``."""
    from agentic_memory.errors import InvalidMemory, MemoryNotFound

    if len(digits) < MIN_DIGITS:
        raise InvalidMemory(f"{digits!r} is too short for a version: give at least {MIN_DIGITS} of its digits")
    found = {one.version for one in versions if one.version is not None and one.version.startswith(digits.lower())}
    if len(found) > 1:
        raise InvalidMemory(f"{len(found)} versions begin with {digits!r}: give more of its digits")
    if not found:
        raise MemoryNotFound(f"no version of {versions[0].filename} begins with {digits!r}; see its history")
    return found.pop()


def _before_present(versions: "list[Version]", filename: str) -> str:
    from agentic_memory.errors import MemoryNotFound

    earlier = next((one.version for one in versions[1:] if one.version not in {None, versions[0].version}), None)
    if earlier is None:
        raise MemoryNotFound(f"{filename} has no version before the present one")
    return earlier
