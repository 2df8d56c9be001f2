"""Commands for what was learnt and waits for a person: proposals, accept, reject."""

from typing import TYPE_CHECKING, Annotated

import typer

from agentic_memory.cli.options import AsJson, MemoryDir, Workdir, with_store
from agentic_memory.cli.output import one_line, print_json, print_line, print_note

if TYPE_CHECKING:
    from agentic_memory.store import MemoryStore

Ids = Annotated[list[str], typer.Argument(metavar="ID", help="Names of proposals, as proposals lists them.")]


def list_waiting(
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    as_json: AsJson = False,  # noqa: FBT002 - the form of a typer option
) -> None:
    """List what was learnt and waits for you, each with what it would change.

    A proposal is a Markdown file in .proposals/ of the memory directory: edit what stands below its header before you
    accept it.
    """
    from agentic_memory.history.diffs import diff_versions
    from agentic_memory.writeback.proposals import Proposal, list_proposals

    async def work(store: "MemoryStore") -> tuple[list[tuple[Proposal, str]], list[str]]:
        proposals, wrong = await list_proposals(store)
        documents = (await store.load()).documents
        shown: list[tuple[Proposal, str]] = []
        for proposal in proposals:
            held = documents.get(proposal.file)
            before = held[1].encode(held[1].text) if held else b""
            after = proposal.text.encode("utf-8", "surrogateescape")
            diff = diff_versions(before, after, filename=proposal.file or "new memory", labels=("now", "proposed"))
            shown.append((proposal, diff if proposal.text else ""))
        return shown, wrong

    shown, wrong = with_store(workdir, memory_dir, work)
    if as_json:
        print_json([{**proposal.as_dict(), "diff": diff} for proposal, diff in shown])
    else:
        for proposal, diff in shown:
            what = proposal.file or "new memory"
            print_line((proposal.id, "cyan"), f"  {proposal.operation} {one_line(what)}: {one_line(proposal.title)}")
            if proposal.reason:
                print_line(f"  {one_line(proposal.reason)}")
            for filename in proposal.forgets:
                print_line(f"  to the trash: {one_line(filename)}")
            for line in diff.splitlines():
                print_line(f"    {one_line(line)}")
    for line in wrong:
        print_note(line)
    if not shown and not wrong and not as_json:
        print_note("Nothing waits for you.")


def accept_proposals(ids: Ids, workdir: Workdir = ".", memory_dir: MemoryDir = "Memory") -> None:
    """Carry out proposals, as their files stand now. A memory that changed meanwhile is merged."""
    from agentic_memory.writeback.proposals import accept

    async def work(store: "MemoryStore") -> None:
        for name in ids:
            done = await accept(store, name)
            changed = ", ".join(one_line(outcome.filename) for outcome in done.outcomes)
            print_line("accepted ", (name, "cyan"), f": {changed}")

    with_store(workdir, memory_dir, work)


def reject_proposals(ids: Ids, workdir: Workdir = ".", memory_dir: MemoryDir = "Memory") -> None:
    """Move proposals to the trash; the memory stays as it is."""
    from agentic_memory.writeback.proposals import reject

    async def work(store: "MemoryStore") -> None:
        for name in ids:
            trashed = await reject(store, name)
            print_line("rejected ", (name, "cyan"), f"; it is now {one_line(trashed)}")

    with_store(workdir, memory_dir, work)
