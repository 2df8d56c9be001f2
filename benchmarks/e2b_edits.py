"""A memory in one E2B sandbox: eight agents that edit the same index at once, and what reading it costs.

Compared in the same run with AgentScope's own E2B backend, on the same service. That is the E2B cloud when E2B_API_KEY
is a real key, another one when E2B_API_URL says so, and else the stand-in that the tests use, where a call takes
milliseconds: there the calls count, not the seconds.
"""

import asyncio
import os
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _measure import Row, arguments, report, timed_async
from agentscope.workspace._e2b._e2b_backend import E2BBackend as UpstreamBackend

from agentic_memory.backends import ABSENT, E2BBackend, Put, version_of
from agentic_memory.errors import Conflict

if TYPE_CHECKING:
    from e2b import AsyncSandbox

AGENTS, EDITS = 8, 25
FILES = 100
HOME = "/home/user"

Edit = Callable[[str, bytes], Awaitable[None]]


@contextmanager
def service() -> Iterator[str]:
    """Give the name of the service to measure on; it is in the environment meanwhile."""
    if os.environ.get("E2B_API_URL"):
        yield os.environ["E2B_API_URL"]
    elif os.environ.get("E2B_API_KEY", "").startswith("e2b_"):
        yield "the E2B cloud"
    else:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
        from e2b_standin.control import StandIn, why_unavailable

        if why := why_unavailable():
            print(f"set E2B_API_KEY to a real key; {why}", file=sys.stderr)
            raise SystemExit(2)
        with StandIn() as server:
            os.environ.update(server.environment)
            yield "the stand-in"


def our_edit(sandbox: "AsyncSandbox") -> Edit:
    """Return an edit by compare-and-swap, made anew when somebody else was faster."""
    backend = E2BBackend(sandbox, HOME)

    async def edit(path: str, line: bytes) -> None:
        text = await backend.read_file(path)
        while True:
            try:
                await backend.transact([Put(path, text + line, version_of(text))])
            except Conflict as conflict:
                text = conflict.current or b""
            else:
                return

    return edit


def upstream_edit(sandbox: "AsyncSandbox") -> Edit:
    """Return an edit as AgentScope's tools make it: read, change, write."""
    backend = UpstreamBackend(sandbox, HOME)

    async def edit(path: str, line: bytes) -> None:
        await backend.write_file(path, await backend.read_file(path) + line)

    return edit


async def edits_lost(sandbox: "AsyncSandbox", make: Callable[["AsyncSandbox"], Edit]) -> tuple[int, float]:
    """Return how many of the agents' lines are missing in the end, and the seconds it took."""
    path = f"{HOME}/{uuid.uuid4().hex}/MEMORY.md"
    await sandbox.files.write(path, b"")

    async def agent(number: int) -> None:
        edit = make(await type(sandbox).connect(sandbox.sandbox_id, timeout=600))
        for count in range(EDITS):
            await edit(path, b"- [%d-%d](%d-%d.md)\n" % (number, count, number, count))

    seconds = await timed_async(lambda: asyncio.gather(*(agent(number) for number in range(AGENTS))))
    lines = set(bytes(await sandbox.files.read(path, format="bytes")).splitlines())
    wanted = {b"- [%d-%d](%d-%d.md)" % (n, c, n, c) for n in range(AGENTS) for c in range(EDITS)}
    return len(wanted - lines), seconds


async def upstream_scan(backend: UpstreamBackend, root: str) -> None:
    """Read every file as AgentScope's scan has to: a listing, and a call for each file's time and for its bytes."""
    for name in await backend.list_dir(root):
        await backend.stat_mtime(f"{root}/{name}")
        await backend.read_file(f"{root}/{name}")


async def measure(where: str) -> list[Row]:
    """Measure everything in one sandbox."""
    from e2b import AsyncSandbox

    sandbox: Any = await AsyncSandbox.create(timeout=600, idempotency_key=uuid.uuid4().hex)
    try:
        ours, our_seconds = await edits_lost(sandbox, our_edit)
        theirs, their_seconds = await edits_lost(sandbox, upstream_edit)
        root = f"{HOME}/{uuid.uuid4().hex}"
        backend = E2BBackend(sandbox, HOME)
        await backend.transact([Put(f"{root}/{i}.md", b"x" * 2048, ABSENT) for i in range(FILES)])
        start = backend.round_trips
        cold = await timed_async(lambda: backend.snapshot(root))
        calls = backend.round_trips - start
        known = {record.version for record in (await backend.snapshot(root)).files}
        warm = await timed_async(lambda: backend.snapshot(root, known=known))
        scan = await timed_async(lambda: upstream_scan(UpstreamBackend(sandbox, HOME), root))
    finally:
        await sandbox.kill()
    return [
        Row(f"{AGENTS} agents x {EDITS} edits: edits lost", ours, "edits", 0, f"in {our_seconds:.1f} s, on {where}"),
        Row("  the same with AgentScope's backend", theirs, "edits", note=f"in {their_seconds:.1f} s"),
        Row(f"{FILES} files of 2 kB, read anew", calls, "calls", 1, f"in {cold * 1000:.0f} ms"),
        Row("  seconds, against AgentScope's scan", cold / scan, "x", 0.2, f"its scan took {scan:.2f} s"),
        Row("  nothing changed, against AgentScope's scan", warm / scan, "x", 0.2, f"in {warm * 1000:.0f} ms"),
    ]


def main() -> int:
    options = arguments(__doc__).parse_args()
    with service() as where:
        rows = asyncio.run(measure(where))
    return report(rows, options)


if __name__ == "__main__":
    raise SystemExit(main())
