"""Commands that change the memory: add, edit, forget."""

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentic_memory.cli.options import MemoryDir, Workdir, with_store
from agentic_memory.cli.output import one_line, print_line, print_note

if TYPE_CHECKING:
    from agentic_memory.store import MemoryStore
    from agentic_memory.values import MemoryFile

INDEX = "MEMORY.md"


def add_memory(
    content: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; standard input when left out or -.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="TEXT", help="Short title; made from the text when left out.")
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", metavar="TEXT", help="When to read it; the first line when left out.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--type", metavar="TYPE", help="user, feedback, project or reference; told from the text when left out."
        ),
    ] = None,
    filename: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="File name; made from the title when left out.")
    ] = None,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Add a memory, and its line in MEMORY.md."""
    from agentic_memory.errors import InvalidMemory
    from agentic_memory.offline.intent import describe_fact

    if content is None and sys.stdin.isatty():
        print_note("Type the memory; end with Ctrl-D.")
    text = _read_stdin() if content in {None, "-"} else str(content)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if not first:
        raise InvalidMemory("there is nothing to add: give the text as an argument or on standard input")
    guess = describe_fact(first)

    async def work(store: "MemoryStore") -> "MemoryFile":
        return await store.add(
            name=name or guess.title,
            description=description or guess.hook,
            type=kind or guess.type,
            content=text if text.endswith("\n") else text + "\n",
            filename=filename,
        )

    added = with_store(workdir, memory_dir, work)
    print_line("added ", (added.filename, "cyan"), f" ({one_line(added.type)}): {one_line(added.name)}")


def forget_memories(
    filenames: Annotated[list[str], typer.Argument(metavar="FILE", help="File names, as list shows them.")],
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Move memories to the trash, and take their lines out of MEMORY.md: all or none, and undone as one."""
    from agentic_memory.operations import Forget

    async def work(store: "MemoryStore") -> list[str]:
        done = await store.apply([Forget(filename=filename) for filename in dict.fromkeys(filenames)])
        root = await store.root()
        return [store.backend.join_path(root, outcome.filename) for outcome in done.outcomes]

    for filename, place in zip(dict.fromkeys(filenames), with_store(workdir, memory_dir, work), strict=True):
        print_line("forgot ", (filename, "cyan"), f"; it is now {place}")


def edit_memory(
    filename: Annotated[
        str, typer.Argument(metavar="FILE", help="File name, as list shows it; MEMORY.md is the index.")
    ],
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
) -> None:
    """Edit a memory file in $VISUAL or $EDITOR.

    When somebody changed the file meanwhile, both versions are kept.
    """
    from agentic_memory.backends import ABSENT
    from agentic_memory.backends.values import version_of
    from agentic_memory.errors import AgenticMemoryError, Conflict, MemoryNotFound

    async def fetch(store: "MemoryStore") -> bytes:
        if filename != INDEX:
            await store.get(filename)
        record = await store.backend.fetch(await store.path_of(filename), within=await store.root())
        if record is ABSENT or record.data is None:
            raise MemoryNotFound(f"there is no memory {filename!r}; list the memories to see their file names")
        return record.data

    before = with_store(workdir, memory_dir, fetch)
    with tempfile.TemporaryDirectory(prefix="agentic-memory-") as place:
        copy = Path(place) / Path(filename).name
        copy.write_bytes(before)
        _run_editor(copy)
        after = copy.read_bytes()
    if after == before:
        print_note(f"{filename} is unchanged.")
        return

    async def save(store: "MemoryStore") -> None:
        expected = version_of(before)
        if filename == INDEX:
            await store.backend.replace(await store.path_of(INDEX), after, expected=expected, within=await store.root())
        else:
            await store.put(filename, after, expected=expected)

    async def set_aside(store: "MemoryStore") -> str:
        aside = f".conflicts/{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}/{filename}"
        path = store.backend.join_path(await store.root(), aside)
        await store.backend.replace(path, after, expected=ABSENT, within=await store.root())
        return path

    try:
        with_store(workdir, memory_dir, save)
    except AgenticMemoryError as error:
        # An hour of writing must outlive whatever went wrong, a place that cannot be written included.
        kept = _keep_copy(lambda: with_store(workdir, memory_dir, set_aside), Path(filename).name, after)
        if isinstance(error, Conflict):
            print_note((f"{filename} was changed by somebody else while you edited it; ", "bold red"), "both are kept.")
            print_note(f"  theirs: {with_store(workdir, memory_dir, lambda store: store.path_of(filename))}")
            print_note(f"  yours:  {kept}")
            print_note("Put them together by hand, then delete yours.")
            raise typer.Exit(1) from error
        print_note(f"Your version is kept: {kept}")
        raise
    print_line("saved ", (filename, "cyan"))


def _run_editor(path: Path) -> None:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        # The editor is the user's own choice; no text of a memory gets into the command.
        done = subprocess.run([*shlex.split(command), str(path)], check=False)  # noqa: S603
    except OSError as error:
        print_note(
            f"agentic-memory: cannot run the editor {command!r}: {error.strerror}; set EDITOR to one that is there"
        )
        raise typer.Exit(2) from error
    if done.returncode != 0:
        print_note(f"agentic-memory: the editor {command!r} ended with {done.returncode}; nothing was changed")
        raise typer.Exit(1)


def _keep_copy(set_aside: Callable[[], str], name: str, data: bytes) -> str:
    from agentic_memory.errors import AgenticMemoryError

    try:
        return set_aside()
    except AgenticMemoryError:
        kept = Path(tempfile.mkdtemp(prefix="agentic-memory-kept-")) / name
        kept.write_bytes(data)
        return str(kept)


def _read_stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "replace")
