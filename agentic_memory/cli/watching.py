"""``agentic-memory watch``: the problems of a memory as they come and go while somebody types."""

import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agentic_memory.cli.checking import count_severities, print_problem
from agentic_memory.cli.options import MemoryDir, Workdir, with_store
from agentic_memory.cli.output import one_line, print_line, print_note

if TYPE_CHECKING:
    from agentic_memory.shelf import Snapshot
    from agentic_memory.store import MemoryStore
    from agentic_memory.values import Problem

POLL_SECONDS: Final = 2.0
"""A look is taken so often whatever the system reports: it tells nothing of a network drive, and the directory itself
may go away and come back. An unchanged memory costs one scan."""
QUIET_MS: Final = 250
"""How long nothing must change before a look: an editor that saves by renaming takes the file away for a moment."""
MAX_BUSY_MS: Final = 2_000
"""After which a look is taken although changes keep coming."""


def watch_memory(*, workdir: Workdir = ".", memory_dir: MemoryDir = "Memory") -> None:
    """Check as you type: print problems as they come and go, until Ctrl-C.

    At once with the extra agentic-memory[watch], else every two seconds.
    """
    try:
        with_store(workdir, memory_dir, _watch, history=False)
    except KeyboardInterrupt:
        print_note("")  # the terminal shows ^C on the line


async def _watch(store: "MemoryStore") -> None:
    import anyio.to_thread

    from agentic_memory.repair import check_snapshot

    root = await store.root()
    last: Snapshot | None = None
    known: list[Problem] = []
    trouble = ""
    async for _ in _occasions(root):
        found, said = await _look(store)
        if found is None:
            if said != trouble:
                print_note((one_line(said), "yellow"))
        elif found is not last or trouble:
            problems = await anyio.to_thread.run_sync(check_snapshot, found)
            if last is None or trouble:
                print_note(f"watching {root}: {count_severities(problems) if problems else 'nothing to mend.'}")
            _print_difference(known, problems)
            last, known = found, problems
        trouble = said
        sys.stdout.flush()


async def _look(store: "MemoryStore") -> "tuple[Snapshot | None, str]":
    """Return what is there, or why that cannot be told: what is known by then is kept."""
    from agentic_memory.errors import AgenticMemoryError

    try:
        snapshot = await store.load()
    except AgenticMemoryError as error:
        return None, str(error)
    return (snapshot, "") if snapshot.tree.exists else (None, f"{snapshot.root} is not there; waiting for it")


def _print_difference(before: "Iterable[Problem]", after: "Iterable[Problem]") -> None:
    """Print what is new and what is gone; a problem that only moved to another line is neither."""
    old, new = (Counter(_key(problem) for problem in problems) for problems in (before, after))
    for problem in before:
        if old[_key(problem)] > new[_key(problem)]:
            old[_key(problem)] -= 1
            print_line((one_line(problem.file), "cyan"), ": ", ("gone", "green"), f": {one_line(problem.message)}")
    for problem in after:
        if new[_key(problem)] > old[_key(problem)]:
            new[_key(problem)] -= 1
            print_problem(problem)


def _key(problem: "Problem") -> tuple[str, str, str]:
    return problem.code, problem.file, problem.message


async def _occasions(root: str) -> AsyncIterator[None]:
    """Yield whenever it is time to look: something changed, or some time has passed."""
    import anyio

    yield
    try:
        from watchfiles import awatch
    except ImportError:
        print_note(f'looking every {POLL_SECONDS:g} s; to see changes at once: pip install "agentic-memory[watch]"')
        while True:
            await anyio.sleep(POLL_SECONDS)
            yield
    while True:
        identity = _identity(root)
        if identity is not None:
            try:
                async for _ in awatch(
                    root,
                    watch_filter=_is_visible,
                    step=QUIET_MS,
                    debounce=MAX_BUSY_MS,
                    rust_timeout=int(POLL_SECONDS * 1000),
                    yield_on_timeout=True,
                ):
                    yield
                    if _identity(root) != identity:
                        break  # another directory stands in its place, which nobody watches
                continue
            except (OSError, RuntimeError):
                pass  # it went away just now, or the system watches no more directories
        await anyio.sleep(POLL_SECONDS)
        yield


def _is_visible(_: object, path: str) -> bool:
    return "/.history/" not in path and "/.trash/" not in path


def _identity(root: str) -> tuple[int, int] | None:
    try:
        found = Path(root).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
