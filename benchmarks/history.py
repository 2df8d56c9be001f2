"""What the history costs: bringing back any of 1,000 versions, its log, writing, and a reply on top of 10,000 versions.

On the local disk, through the store as a program uses it. Of a reply only the history's part is measured: the look that
finds nothing, and the recording that has nothing to do. Disk use is a line to read, not to bound.
"""

import asyncio
import random
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from _measure import Row, arguments, report, timed_async

from agentic_memory import MemoryStore, shelf
from agentic_memory.backends import LocalBackend
from agentic_memory.history.archive import FOLDER, Archive, puts_of
from agentic_memory.history.entries import Author, Change, State
from agentic_memory.history.past import Past

VERSIONS = 1_000
OLD_VERSIONS = 10_000
RESTORED = 40


def content(number: int) -> bytes:
    """Return 2 kB that differ from number to number."""
    return f"---\nname: Log\ndescription: What was measured\ntype: project\n---\n\n{number}\n".encode() + b"word " * 400


def write_plainly(path: Path, data: bytes) -> None:
    """Write a file of the past."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


async def plant(backend: LocalBackend, root: str, count: int, *, together: int = 50) -> list[str]:
    """Write a history of ``count`` versions of one file, ``together`` a log file; return the versions, the last in place."""
    from datetime import UTC, datetime, timedelta

    start = datetime.now(UTC) - timedelta(days=365)
    states = [State.of(content(number), when=start + timedelta(minutes=number)) for number in range(count)]
    past, archive = Past(), Archive(backend, f"{root}/{FOLDER}", root)
    for at in range(0, count, together):
        changes = [
            Change("log.md", states[n - 1] if n else None, states[n], states[n].when, Author("agent"), "changed")
            for n in range(at, min(at + together, count))
        ]
        for put in puts_of(changes, archive, past=past):  # not through the backend, which waits for the disk each time
            await asyncio.to_thread(write_plainly, Path(put.path), put.data)
        past.note_kept(changes)
    await backend.write_file(f"{root}/log.md", states[-1].data)
    return [state.version for state in states]


async def measure_restore(workdir: Path) -> list[Row]:
    """Restore versions drawn at random, each five times, the fastest of which stands for what it costs."""
    backend = LocalBackend()
    store = MemoryStore(workdir=str(workdir), backend=backend)
    versions = await plant(backend, await store.root(), VERSIONS)
    listed = await timed_async(lambda: store.history("log.md"))
    drawn = random.Random(1).sample(versions, RESTORED)
    times = dict.fromkeys(drawn, 1e9)
    for _ in range(5):
        for version in drawn:
            times[version] = min(times[version], await timed_async(partial(store.restore, "log.md", version)))
    return [
        Row("restore, slowest", max(times.values()) * 1e3, "ms", 50, f"of {RESTORED} drawn from {VERSIONS} versions"),
        Row("restore, median", sorted(times.values())[len(times) // 2] * 1e3, "ms"),
        Row("history, first call", listed * 1e3, "ms", None, f"{VERSIONS} versions"),
    ]


async def measure_log(workdir: Path) -> list[Row]:
    """Read a log of 10,000 files of one line, which packs them, and then as a program that starts anew."""
    backend = LocalBackend()
    store = MemoryStore(workdir=str(workdir), backend=backend)
    await plant(backend, await store.root(), OLD_VERSIONS, together=1)
    loose = await timed_async(lambda: store.history("log.md"))
    anew = []
    for _ in range(3):
        shelf.shelves.clear()
        again = MemoryStore(workdir=str(workdir), backend=LocalBackend())
        anew.append(await timed_async(partial(again.history, "log.md")))
    return [
        Row("log of one-line files, first read", loose * 1e3, "ms", None, f"{OLD_VERSIONS} files, packing included"),
        Row("log when packed, first read", min(anew) * 1e3, "ms", None, "in a new process"),
        Row("packed over loose", min(anew) / loose, "x", 0.5),
    ]


async def measure_writes(workdir: Path) -> list[Row]:
    medians = []
    for history in (False, True):
        store = MemoryStore(workdir=str(workdir / str(history)), history=history)
        await store.add(name="Log", description="d", type="project", content="0")
        times = [
            await timed_async(partial(store.update, "log.md", content=f"{number}\n" * 200)) for number in range(60)
        ]
        medians.append(sorted(times)[len(times) // 2] * 1e3)
    return [
        Row("update without history", medians[0], "ms"),
        Row("update with history", medians[1], "ms"),
        Row("history on a write", medians[1] / medians[0], "x", 4, "objects and log in the same transaction"),
    ]


async def measure_reply(workdir: Path) -> list[Row]:
    """Time what a reply adds when nothing changed: 500 files and 10,000 versions lie there."""
    backend = LocalBackend()
    store = MemoryStore(workdir=str(workdir), backend=backend)
    root = await store.root()
    await plant(backend, root, OLD_VERSIONS)
    for number in range(500):
        await backend.write_file(f"{root}/f{number}.md", content(number))
    plain = MemoryStore(workdir=str(workdir), backend=backend, history=False)
    await asyncio.sleep(3)  # younger files are read again

    async def reply(of: MemoryStore) -> None:
        await of.load()
        await of.record_history()

    for one in (plain, store):
        await reply(one)
    best = [1e9, 1e9]
    for _ in range(20):
        for at, one in enumerate((plain, store)):
            best[at] = min(best[at], await timed_async(partial(reply, one)))
    files = [path for path in (workdir / "Memory" / ".history").rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    return [
        Row(
            "history in a reply", (best[1] - best[0]) * 1e3, "ms", 2, f"nothing changed, {OLD_VERSIONS} versions there"
        ),
        Row("history on disk", size / 1e6, "MB", None, f"{len(files)} files, {len(content(0))} bytes a version"),
    ]


async def run() -> list[Row]:
    rows: list[Row] = []
    for measure in (measure_restore, measure_log, measure_writes, measure_reply):
        workdir = Path(tempfile.mkdtemp(prefix="agentic-memory-history-"))
        try:
            rows += await measure(workdir)
        finally:
            shutil.rmtree(workdir)
    return rows


def main() -> int:
    options = arguments(__doc__).parse_args()
    since = time.perf_counter()
    rows = asyncio.run(run())
    print(f"took {time.perf_counter() - since:.0f} s", file=sys.stderr)
    return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
