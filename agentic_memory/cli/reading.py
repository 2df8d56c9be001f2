"""Commands that only look: list, show, search, status."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentic_memory.cli.options import AsJson, MemoryDir, Workdir, with_store
from agentic_memory.cli.output import (
    SEVERITY_STYLES,
    one_line,
    print_json,
    print_line,
    print_note,
    print_table,
    printable,
)

if TYPE_CHECKING:
    from agentic_memory.store import MemoryStore
    from agentic_memory.values import MemoryFile


def list_memories(
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    kind: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="Only memories of this type.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the memories: file, type, name, description."""

    async def work(store: "MemoryStore") -> tuple[str, "list[MemoryFile]"]:
        return await store.root(), await store.get_all(type=kind)

    root, files = with_store(workdir, memory_dir, work)
    if as_json:
        print_json([{key: value for key, value in file.as_dict().items() if key != "content"} for file in files])
    elif files:
        rows = [(file.filename, file.type, file.name, file.description) for file in files]
        print_table(("file", "type", "name", "description"), rows, styles=("cyan", "magenta", "bold", ""))
    else:
        print_note(f"No memories{f' of type {kind}' if kind else ''} in {root}.")


def show_memory(
    filename: Annotated[
        str, typer.Argument(metavar="FILE", help="File name, as list shows it; MEMORY.md is the index.")
    ],
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    as_json: AsJson = False,
) -> None:
    """Print one memory file.

    Byte for byte when the output is not a terminal.
    """
    from agentic_memory.backends import ABSENT
    from agentic_memory.document import parse_document
    from agentic_memory.errors import MemoryNotFound

    async def work(store: "MemoryStore") -> tuple[bytes, dict[str, Any]]:
        described = {} if filename == "MEMORY.md" else (await store.get(filename)).as_dict()
        record = await store.backend.fetch(await store.path_of(filename), within=await store.root())
        if record is ABSENT or record.data is None:
            raise MemoryNotFound(f"there is no memory {filename!r}; list the memories to see their file names")
        return record.data, described or {"filename": filename, "content": record.data.decode(errors="replace")}

    data, described = with_store(workdir, memory_dir, work)
    if as_json:
        print_json(described)
    elif sys.stdout.isatty():
        # As the agent sees it: whatever the file's encoding and line endings are.
        text = parse_document(data, filename=filename).text.replace("\r\n", "\n").replace("\r", "\n")
        sys.stdout.write(printable(text).rstrip("\n") + "\n")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def search_memories(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words to look for.")],
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most so many results.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Find memories by words, best first. Exit code 1 when there is none."""

    async def work(store: "MemoryStore") -> list[Any]:
        return list(await store.search(query, limit=limit))

    matches = with_store(workdir, memory_dir, work)
    if as_json:
        print_json([match.as_dict() for match in matches])
    for match in () if as_json else matches:
        title = f"  {one_line(match.name)}" if match.name else ""
        because = f"  ({match.because})" if match.because else ""
        print_line((f"{match.filename}:{match.line}", "cyan"), (title, "bold"), because)
        for line in match.passage.strip().splitlines():
            print_line("    ", line.rstrip())
    if not matches:
        if not as_json:
            print_note(f"Nothing in memory matches {query!r}.")
        raise typer.Exit(1)


def show_status(*, workdir: Workdir = ".", memory_dir: MemoryDir = "Memory", as_json: AsJson = False) -> None:
    """Tell where the memory is, what is in it, and the model of a chat."""
    from agentic_memory.models import InvalidModelChoice, choose_model

    async def work(store: "MemoryStore") -> dict[str, Any]:
        snapshot = await store.load()
        types: dict[str, int] = {}
        for file in snapshot.files:
            types[file.type or "(none)"] = types.get(file.type or "(none)", 0) + 1
        problems = await store.check()
        return {
            "root": await store.root(),
            "exists": snapshot.tree.exists,
            "files": len(snapshot.files),
            "bytes": sum(file.size for file in snapshot.files),
            "types": dict(sorted(types.items())),
            "index_entries": len(snapshot.index.entries),
            "history": (await store.usage()).as_dict(),
            "learning": await _learning(store),
            "problems": {
                severity: sum(problem.severity == severity for problem in problems) for severity in SEVERITY_STYLES
            },
        }

    status = with_store(workdir, memory_dir, work)
    try:
        choice = choose_model(os.environ)
        status["model"], because = (
            str(choice),
            f" (because of {choice.because})" if choice.because else " (no key is set)",
        )
    except InvalidModelChoice as error:
        status["model"], because = None, str(error)
    if as_json:
        print_json(status)
        return
    exists = "" if status["exists"] else "  (not there yet: it is made with the first memory)"
    types = ", ".join(f"{count} {kind}" for kind, count in status["types"].items())
    problems = ", ".join(f"{count} {severity}" for severity, count in status["problems"].items() if count)
    kept = status["history"]
    size = kept["version_bytes"] + kept["log_bytes"]
    lines = (
        ("memory", f"{status['root']}{exists}"),
        ("files", f"{status['files']}{f' ({types})' if types else ''}, {status['bytes']:,} bytes"),
        ("index", f"{status['index_entries']} entries"),
        ("history", f"{kept['versions']} versions, {kept['changes']} changes, {size:,} bytes on disk"),
        ("trash", f"{kept['trash_files']} files, {kept['trash_bytes']:,} bytes"),
        ("learning", _say_learning(status["learning"])),
        ("problems", f"{problems}; see agentic-memory check" if problems else "none"),
        ("model", f"{status['model'] or 'none: '}{because}"),
    )
    for label, value in lines:
        print_line((f"{label:<10}", "bold"), value)


async def _learning(store: "MemoryStore") -> dict[str, Any]:
    """Return what write-back has not done yet: turns that wait or were given up, proposals that wait for a person."""
    from agentic_memory.writeback.proposals import list_proposals
    from agentic_memory.writeback.queue import list_failed, look_at_queue

    waiting = (await look_at_queue(store)).waiting()
    proposals, unreadable = await list_proposals(store)
    return {
        "waiting": [{"key": found.turn.key, "error": found.turn.error} for found in waiting],
        "failed": [{"key": turn.key, "error": turn.error} for turn in await list_failed(store)],
        "proposals": len(proposals) + len(unreadable),
    }


def _say_learning(learning: dict[str, Any]) -> str:
    parts = []
    for state, name in (("waiting", "waiting"), ("failed", "given up, in .queue/failed")):
        if turns := learning[state]:
            error = f": {one_line(turns[-1]['error'])}" if turns[-1]["error"] else ""
            parts.append(f"{len(turns)} turns {name}{error}")
    if learning["proposals"]:
        parts.append(f"{learning['proposals']} proposals; see agentic-memory proposals")
    return ", ".join(parts) or "nothing waits"
