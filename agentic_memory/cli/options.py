"""Options that every command of the command line shares, and how it opens a memory."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

if TYPE_CHECKING:
    from agentic_memory.history.entries import Who
    from agentic_memory.store import MemoryStore

Result = TypeVar("Result")

Workdir = Annotated[
    str,
    typer.Option(
        "--workdir", "-C", metavar="DIR", help="Directory that holds the memory directory.", show_default=True
    ),
]
MemoryDir = Annotated[
    str, typer.Option("--memory-dir", metavar="DIR", help="Memory directory below it.", show_default=True)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.", show_default=False)]


def with_store(
    workdir: str,
    memory_dir: str,
    work: "Callable[[MemoryStore], Awaitable[Result]]",
    *,
    history: bool = True,
    who: "Who" = "person",
) -> Result:
    """Open the memory, do ``work`` on it and return what that returns.

    What a ``person`` writes is not guarded; what comes from elsewhere is.
    """
    from agentic_memory.store import MemoryStore

    async def run() -> Result:
        async with MemoryStore(workdir=workdir, memory_dir=memory_dir, who=who, history=history) as store:
            return await work(store)

    return asyncio.run(run())
