"""The command that tidies a memory up while nobody uses it: dream."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from agentic_memory.cli.options import AsJson, MemoryDir, Workdir, with_store
from agentic_memory.cli.output import one_line, print_json, print_line, print_note

if TYPE_CHECKING:
    from agentic_memory.store import MemoryStore
    from agentic_memory.writeback.dreaming import DreamReport


def dream_memory(
    *,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make the changes, all in one transaction; else they are only told.")
    ] = False,
    with_model: Annotated[
        bool,
        typer.Option(
            "--with-model", help="Also ask the model that chat uses: merge near duplicates, improve descriptions."
        ),
    ] = False,
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="Changes at most.", show_default=True)] = 20,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    as_json: AsJson = False,
) -> None:
    """Tidy the memory up: archive what expired, drop copies, write dates out, take long files apart.

    Text that a person wrote is not changed, and what is pinned or locked stays. An index that only programs wrote in comes into
    the order of use. Nothing is changed without --apply.
    """
    from agentic_memory.models import model_from_environment
    from agentic_memory.writeback.dreaming import dream

    model = model_from_environment(os.environ) if with_model else None

    async def work(store: "MemoryStore") -> "DreamReport":
        return await dream(store, model=model, apply=apply, most=most)

    report = with_store(workdir, memory_dir, work)
    if as_json:
        print_json(report.as_dict())
        return
    for change in report.changes:
        files = ", ".join(map(one_line, change.filenames))
        print_line((change.kind, "cyan"), f" {files}: {one_line(change.why)}")
    for change in report.overtaken:
        print_note(f"not done, {one_line(change.filenames[0])} was changed meanwhile: {change.kind}")
    for line in report.left:
        print_note(f"left to you: {one_line(line)}")
    if not report.changes:
        print_note("There is nothing to tidy up.")
    elif report.applied:
        print_note(f"Done; take it back with: agentic-memory undo {report.transaction}")
    else:
        print_note("Nothing was changed; do it with --apply.")
