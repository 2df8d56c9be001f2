"""A memory in a Docker container: what reading and writing it costs, beside the daemon's archive and AgentScope's own scan.

Needs a Docker engine; ``scripts/docker-engine start`` gives one where there is none, with the image that is used here.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiodocker
import docker
from _measure import Row, arguments, report, timed_async
from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.middleware import AgenticMemoryMiddleware as UpstreamMiddleware
from agentscope.middleware import MiddlewareBase
from agentscope.workspace._docker._docker_backend import DockerBackend as UpstreamBackend
from anyio.to_thread import run_sync

from agentic_memory import AgenticMemoryMiddleware, MemoryStore
from agentic_memory.backends import DockerBackend
from agentic_memory.offline import OfflineModel

if TYPE_CHECKING:
    from docker.models.containers import Container

ENGINE = Path(__file__).resolve().parents[1] / "scripts" / "docker-engine"
IMAGE = "agentic-memory-test/debian"
FILES, REPLY_FILES, UPSTREAM_FILES = 1000, 100, 30
FILE_BYTES = 2000
ROUNDS = 7
SETTLE_SECONDS = 3  # a file must be this old before its stat line is believed


@contextmanager
def running_container() -> Iterator["Container"]:
    """Give a container that is removed afterwards."""
    told = subprocess.run([ENGINE, "env"], check=False, capture_output=True, text=True)
    if told.returncode:
        print(told.stderr.strip(), file=sys.stderr)
        raise SystemExit(2)
    os.environ["DOCKER_HOST"] = told.stdout.strip().partition("=")[2]
    subprocess.run([ENGINE, "image", "debian"], check=True, capture_output=True)
    client = docker.from_env()
    container = client.containers.run(IMAGE, ["sleep", "3600"], detach=True, network_mode="none", init=True)
    try:
        yield container
    finally:
        container.remove(force=True)
        client.close()


async def fill(backend: DockerBackend, workdir: str, count: int) -> None:
    """Make a memory of so many files, with the frontmatter that a scan looks for."""
    script = (
        f"mkdir -p {workdir}/Memory && cd {workdir}/Memory && : > MEMORY.md && i=0 && text=$(head -c {FILE_BYTES} /dev/zero |"
        f" tr '\\0' x) && while [ $i -lt {count} ]; do i=$((i + 1)); printf -- '---\\nname: file %s\\ndescription: about"
        ' %s\\ntype: project\\n---\\n%s\\n\' $i $i "$text" > f$i.md; done'
    )
    assert (await backend.exec_shell(["sh", "-c", script])).ok()


async def fastest(action: Callable[[], Awaitable[object]], rounds: int = ROUNDS) -> float:
    """Return the seconds of the fastest of so many rounds."""
    return min([await timed_async(action) for _ in range(rounds)])


async def measure_reading(container: "Container") -> list[Row]:
    """Compare reading a whole memory with the archive of the same directory, and with AgentScope's scan."""
    root = "/bench/large/Memory"
    async with DockerBackend(container, "/") as backend:
        await fill(backend, "/bench/large", FILES)
        await asyncio.sleep(SETTLE_SECONDS)

        client, identity = container.client, container.id
        assert client is not None
        assert identity is not None

        def fetch_archive() -> int:
            return sum(len(chunk) for chunk in client.api.get_archive(identity, root)[0])

        async def read_cold() -> None:
            backend._remembered.clear()  # pyright: ignore[reportPrivateUsage] - as a new process would begin, but over an open connection
            tree = await backend.snapshot(root, suffix=".md")
            assert len(tree.files) == FILES + 1
            known.update(record.version for record in tree.files)

        async def read_again() -> None:
            assert len((await backend.snapshot(root, suffix=".md", known=known)).files) == FILES + 1

        known: set[str] = set()
        # Taken in turns, so that what else the machine does meets both alike.
        archives, colds = [], []
        for _ in range(ROUNDS):
            archives.append(await timed_async(lambda: run_sync(fetch_archive)))
            colds.append(await timed_async(read_cold))
        await read_again()
        again = await fastest(read_again, 3 * ROUNDS)
        await backend.write_file(f"{root}/f1.md", b"changed")
        changed = await timed_async(read_again)
        trip = await fastest(lambda: backend.fetch(f"{root}/f2.md"))
    scan = await upstream_scan(container)
    cold, archive = min(colds), min(archives)
    return [
        Row(f"archive of {FILES:,} files", archive * 1000, "ms"),
        Row(f"cold snapshot of {FILES:,} files", cold * 1000, "ms"),
        Row("cold snapshot / archive", cold / archive, "x", 3),
        Row("cold snapshot / AgentScope's scan", cold / scan, "x", 0.01, f"scan: {scan:.0f} s, scaled up"),
        Row("snapshot, nothing changed", again * 1000, "ms", 10),
        Row("snapshot, one file changed", changed * 1000, "ms"),
        Row("fetch of one file", trip * 1000, "ms"),
    ]


async def upstream_scan(container: "Container") -> float:
    """Return the seconds of AgentScope's scan of FILES files: measured on a few, and linear in their number."""
    async with DockerBackend(container, "/") as backend:
        await fill(backend, "/bench/small", UPSTREAM_FILES)
    async with aiodocker.Docker() as client:
        inner = UpstreamBackend(client.containers.container(str(container.id)), "/bench/small")
        upstream = UpstreamMiddleware(workdir="/bench/small", backend=inner)
        seconds = await timed_async(upstream._list_md_files)  # pyright: ignore[reportPrivateUsage] - the scan itself, without a model
    return seconds * FILES / UPSTREAM_FILES


class Listening(OfflineModel):
    """The offline model, which notes when it is first called."""

    called_at = 0.0

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Answer, and note when that was asked for."""
        self.called_at = self.called_at or time.perf_counter()
        return await super().__call__(*args, **kwargs)

    async def generate_structured_output(self, *args: Any, **kwargs: Any) -> Any:
        """Choose files, and note when that was asked for."""
        self.called_at = self.called_at or time.perf_counter()
        return await super().generate_structured_output(*args, **kwargs)


async def measure_reply(container: "Container") -> list[Row]:
    """Measure a whole reply's way to the first model call, from a new connection on, and one "remember"."""
    async with DockerBackend(container, "/") as backend:
        await fill(backend, "/bench/reply", REPLY_FILES)

    async def first_call(backend: DockerBackend | None) -> float:
        model = Listening()
        memory: list[MiddlewareBase] = []
        if backend is not None:
            memory.append(AgenticMemoryMiddleware(workdir="/bench/reply", backend=backend))
        agent = Agent(name="Friday", system_prompt="You are a helpful assistant.", model=model, middlewares=memory)
        since = time.perf_counter()
        await agent.reply(UserMsg("user", "What do you know about file 7?"))
        return model.called_at - since

    without = min([await first_call(None) for _ in range(ROUNDS)])
    durations = []
    for _ in range(ROUNDS):
        async with new_connection(container) as backend:
            durations.append(await first_call(backend) - without)
    async with new_connection(container) as backend, MemoryStore(workdir="/bench/reply", backend=backend) as store:
        before = backend.round_trips
        seconds = await timed_async(
            lambda: store.add(name="Home", description="Where they live", type="user", content="Hangzhou")
        )
        trips = backend.round_trips - before
    return [
        Row(f"memory work of a reply, {REPLY_FILES} files", min(durations), "s", 0.3, "up to the first model call"),
        Row("remember: file and index entry", trips, "calls", 3, f"{seconds * 1000:.0f} ms"),
    ]


@asynccontextmanager
async def new_connection(container: "Container") -> AsyncIterator[DockerBackend]:
    """Give a backend that knows nothing yet."""
    async with DockerBackend(container, "/bench/reply") as backend:
        yield backend


async def measure(container: "Container") -> list[Row]:
    return [*await measure_reading(container), *await measure_reply(container)]


if __name__ == "__main__":
    chosen = arguments(__doc__).parse_args()
    with running_container() as container:
        rows = asyncio.run(measure(container))
    raise SystemExit(report(rows, chosen))
