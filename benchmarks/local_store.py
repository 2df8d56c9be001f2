"""The memory on local disk: loading it, loading it again, and what it adds to one reply.

Compared in the same run with AgentScope's own scan over its own local backend, with reading and hashing the same files in
a plain loop, and with one pass of ``scandir`` and ``stat``: what a reload cannot do without.
"""

import argparse
import asyncio
import gc
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from _measure import Row, arguments, report, timed, timed_async
from agentscope.agent import Agent
from agentscope.credential import CredentialBase
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock, UserMsg
from agentscope.middleware import AgenticMemoryMiddleware as UpstreamMiddleware
from agentscope.model import ChatModelBase, ChatResponse, StructuredResponse

from agentic_memory import AgenticMemoryMiddleware, MemoryStore

FILE_BYTES = 2048
SETTLE_SECONDS = 3.0
"""A file younger than a clock tick or two cannot be told from one that changes again; a store reads it again."""
QUERY = "pension violin 77"
WORDS = "harbour ledger turbine orchard compiler glacier pension violin satellite vaccine railway copper".split()


class InstantModel(ChatModelBase):
    """Answers at once, so that what is left is memory's work. It notes when it was first called."""

    def __init__(self) -> None:
        super().__init__(
            CredentialBase(), "instant", self.Parameters(), stream=False, max_retries=0, context_size=10**6
        )
        self.formatter = OpenAIChatFormatter()
        self.called_at = 0.0

    async def _call_api(
        self, model_name: str, messages: list[Msg], tools: Any = None, tool_choice: Any = None, **kwargs: Any
    ) -> ChatResponse:
        self.called_at = self.called_at or time.perf_counter()
        return ChatResponse(content=[TextBlock(text="Noted.")], is_last=True)

    async def generate_structured_output(self, *args: Any, **kwargs: Any) -> StructuredResponse:
        return StructuredResponse(content={"selected_files": ["topic_00007.md"]})


def write_memory(root: Path, count: int) -> None:
    """Make a memory of ``count`` files of 2 kB, spread over folders as people do, and the index to them."""
    memory = root / "Memory"
    lines = []
    for number in range(count):
        subject = f"{WORDS[number % len(WORDS)]} {number}"
        header = f"---\nname: Notes on {subject}\ndescription: When the {subject} comes up\ntype: project\n---\n\n"
        body = f"The {subject} was decided on day {number}. " + " ".join(WORDS[(number + i) % 12] for i in range(400))
        name = f"topic_{number:05}.md" if number % 10 else f"team/topic_{number:05}.md"
        path = memory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((header + body).encode()[:FILE_BYTES])
        lines.append(f"- [Notes on {subject}]({name}) — when it comes up\n")
    (memory / "MEMORY.md").write_text("".join(lines), encoding="utf-8")


def read_and_hash(root: str) -> int:
    """Do the least that a cold load has to: read every file and hash it."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:  # noqa: PTH118, PTH123 - the bare calls are the point
                data = file.read()
            sha256(data).hexdigest()
            total += len(data)
    return total


def scan_and_stat(root: str) -> int:
    """Do the least that a reload has to: look at every entry once."""
    total, folders = 0, [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


@contextmanager
def loop_steps() -> Iterator[list[float]]:
    """Collect how long each step of the event loop took, in seconds."""
    steps: list[float] = []
    run = asyncio.Handle._run

    def timed_run(handle: asyncio.Handle) -> None:
        since = time.perf_counter()
        try:
            run(handle)
        finally:
            steps.append(time.perf_counter() - since)

    asyncio.Handle._run = timed_run  # type: ignore[assignment,method-assign]
    try:
        yield steps
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]


async def time_changed(store: MemoryStore, path: Path) -> float:
    """Edit one file behind the store's back, and return the seconds until it is found by a new word of it."""
    word = f"quagga{time.monotonic_ns()}"
    with path.open("ab") as file:
        file.write(f"\n{word}\n".encode())
    since = time.perf_counter()
    matches = await store.search(word)
    took = time.perf_counter() - since
    if [match.filename for match in matches] != [path.name]:
        raise RuntimeError(f"{word} was written to {path.name} and found in {matches}")
    return took


async def measure_loads(base: Path, options: argparse.Namespace) -> list[Row]:
    """Time cold and warm loads of ``options.files`` files against what they are compared with."""
    at = base / "load-0"
    write_memory(at, options.files)
    upstream_at = base / "upstream"
    write_memory(upstream_at, options.upstream_files)
    await asyncio.sleep(SETTLE_SECONDS)
    scale = options.files / options.upstream_files

    upstream: list[float] = []
    plain: list[float] = []
    cold: list[float] = []
    warm: list[float] = []
    found: list[float] = []
    changed: list[float] = []
    scan: list[float] = []
    for number in range(options.rounds):
        # Under a new name nothing in this process knows the directory, and renaming it changes no file.
        at = at.rename(base / f"load-{number + 1}")
        memory = str(at / "Memory")
        gc.collect()
        plain.append(timed(partial(read_and_hash, memory)))
        store = MemoryStore(workdir=str(at))
        cold.append(await timed_async(store.load))
        for _ in range(10):
            scan.append(timed(partial(scan_and_stat, memory)))
            warm.append(await timed_async(store.load))
            found.append(await timed_async(partial(store.search, QUERY)))
        changed += [await time_changed(store, Path(memory) / "topic_00007.md") for _ in range(3)]
        if number < options.upstream_rounds:
            theirs = UpstreamMiddleware(workdir=str(upstream_at))
            upstream.append(scale * await timed_async(theirs._list_md_files))  # pyright: ignore[reportPrivateUsage]
        assert len((await store.load()).documents) == options.files

    scaled = "" if scale == 1 else f"measured on {options.upstream_files} files, times {scale:g}"
    return [
        Row(f"AgentScope's scan, {options.files} files", min(upstream), "s", note=scaled),
        Row("reading and hashing them in a plain loop", min(plain), "s"),
        Row("cold load", min(cold), "s", note="parsed and indexed by name"),
        Row("cold load / AgentScope's scan", min(cold) / min(upstream), "x", 0.3),
        Row("cold load / reading and hashing", min(cold) / min(plain), "x", 2.5),
        Row("one pass of scandir and stat", 1000 * min(scan), "ms"),
        Row("reload, nothing changed", 1000 * min(warm), "ms"),
        Row("reload / scandir and stat", min(warm) / min(scan), "x", 1.5),
        Row("search, nothing changed", 1000 * min(found), "ms"),
        Row("search / scandir and stat", min(found) / min(scan), "x", 1.5, note="with its proof of freshness"),
        Row("search right after an edit", 1000 * min(changed), "ms"),
        Row("what the edit added to the search", 1000 * (min(changed) - min(found)), "ms", 20),
    ]


async def measure_replies(base: Path, options: argparse.Namespace) -> list[Row]:
    """Time whole replies over ``options.reply_files`` files, with memory and without."""
    at = base / "reply-0"
    write_memory(at, options.reply_files)
    await asyncio.sleep(SETTLE_SECONDS)
    question = UserMsg("user", "What was decided about the satellite 7, and how does the ledger bear on it?")

    async def reply(middleware: AgenticMemoryMiddleware | None) -> tuple[float, float, float, int]:
        model = InstantModel()
        middlewares = [middleware] if middleware is not None else []
        agent = Agent(name="assistant", system_prompt="Be brief.", model=model, middlewares=[*middlewares])
        gc.collect()
        with loop_steps() as steps:
            since = time.perf_counter()
            await asyncio.create_task(agent.reply(question))  # a task, so that its first step is counted too
            whole = time.perf_counter() - since
        receipt = middleware.receipt(agent) if middleware is not None else None
        if receipt is not None and (receipt.failed or not receipt.loaded):
            raise RuntimeError(f"the reply was not about memory: {receipt}")
        return whole, model.called_at - since, max(steps), receipt.backend_calls if receipt is not None else 0

    bare, warm, cold_blocks = [], [], []
    for number in range(options.rounds):
        at = at.rename(base / f"reply-{number + 1}")
        memory = AgenticMemoryMiddleware(workdir=str(at))
        cold_blocks.append((await reply(memory))[2])
        for _ in range(5):
            bare.append(await reply(None))
            warm.append(await reply(memory))

    # Medians: a reply is many small steps, and here the usual one is asked about, not the luckiest.
    added = statistics.median(run[0] for run in warm) - statistics.median(run[0] for run in bare)
    before = statistics.median(run[1] for run in warm) - statistics.median(run[1] for run in bare)
    files = options.reply_files
    return [
        Row(f"memory's part of a whole reply, {files} files, warm", 1000 * added, "ms", 30),
        Row("memory's part before the model is first called", 1000 * before, "ms"),
        Row("longest step of the event loop, warm", 1000 * statistics.median(run[2] for run in warm), "ms", 20),
        Row("longest step of the event loop, cold", 1000 * statistics.median(cold_blocks), "ms", 20),
        Row("longest step of a reply without memory", 1000 * statistics.median(run[2] for run in bare), "ms"),
        Row("backend calls of a reply", max(run[3] for run in warm), "calls", 3),
    ]


async def main() -> int:
    """Measure everything and print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--upstream-files", type=int, default=2_000, help="scanned by AgentScope, then scaled")
    parser.add_argument("--upstream-rounds", type=int, default=2)
    parser.add_argument("--reply-files", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="agentic-memory-bench-"))
    try:
        rows = [*await measure_loads(base, options), *await measure_replies(base, options)]
    finally:
        shutil.rmtree(base)
    return report(rows, options)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
