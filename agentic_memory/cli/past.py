"""Commands over what the memory was: history, diff, restore."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from agentic_memory.cli.options import AsJson, MemoryDir, Workdir, with_store
from agentic_memory.cli.output import print_json, print_line, print_note, print_table, printable

if TYPE_CHECKING:
    from agentic_memory.history.entries import Version
    from agentic_memory.store import MemoryStore

SHOWN_DIGITS = 12
MIN_DIGITS = 4
"""Digits of a version that people must type at least: fewer hit the wrong one too easily."""

File = Annotated[
    str, typer.Argument(metavar="FILE", help="File name, also of a memory that is gone; MEMORY.md is the index.")
]
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def show_history(
    filename: File, *, workdir: Workdir = ".", memory_dir: MemoryDir = "Memory", as_json: AsJson = False
) -> None:
    """List the versions of a memory file, newest first."""
    versions = with_store(workdir, memory_dir, lambda store: store.history(filename))
    if as_json:
        print_json([version.as_dict() for version in versions])
        return
    rows = [
        (
            "(gone)" if version.version is None else version.version[:SHOWN_DIGITS],
            f"{version.when.astimezone():%Y-%m-%d %H:%M:%S}",
            version.who,
            str(version.size),
            version.why,
        )
        for version in versions
    ]
    print_table(("version", "when", "who", "bytes", "why"), rows, styles=("cyan", "", "magenta", "", ""))


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
    filename: File,
    version: Annotated[str, typer.Argument(metavar="VERSION", help="First digits of a version, as history shows it.")],
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Make a memory file again what it was.

    What is there now stays in the history, so this can be undone alike.
    """

    async def work(store: "MemoryStore") -> str:
        whole = find_version(await store.history(filename), version)
        return (await store.restore(filename, whole)).version

    restored = with_store(workdir, memory_dir, work)
    print_line("restored ", (filename, "cyan"), f" to {restored[:SHOWN_DIGITS]}")


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
