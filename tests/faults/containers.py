"""Docker containers as places, and what a container, its daemon and the way to it can do to a reply."""

import io
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiodocker
import docker
from agentscope.workspace._docker._docker_backend import DockerBackend as AgentScopeBackend
from anyio.to_thread import run_sync
from docker.models.containers import Container
from docker_place import IMAGES, run_in

from agentic_memory.backends import Backend, DockerBackend, adapt
from faults.case import Fault, Place
from faults.conversation import Call
from faults.wire import Trap, Wire

DISK = "/disk"
# The bracket keeps the script from finding itself.
KILL_SHELLS = """for process in /proc/[0-9]*; do
    if grep -q 'while read[ ]-r word' $process/cmdline 2>/dev/null; then kill -9 ${process#/proc/}; fi
done"""
BEGIN = re.compile(rb"call f_[0-9a-f]{12} ")
"""How a call begins that goes through a long-lived shell."""
LAST_WORD = re.compile(rb"\Ago [0-9a-f]{32}\n")
"""What a change waits for when all is prepared."""
ANSWERED = b" Z\n"
EXEC = re.compile(rb"POST \S*/exec/[0-9a-f]+/start")


class ContainerPlace(Place):
    """A directory in a container. Commands start in another one, which may go away while the memory stays."""

    execs_before_script = 0

    def __init__(self, container: Container, wire: Wire, *, on_disk: bool = False) -> None:
        self.container = container
        self.wire = wire
        self.cwd = f"/tmp/{uuid4().hex[:12]}"
        self.workdir = f"{DISK if on_disk else '/srv'}/{uuid4().hex[:12]}"
        self._client: Any = None

    async def open(self) -> None:
        """Make the directories and connect through the wire."""
        await run_sync(run_in, self.container, f"mkdir -p {self.cwd} {self.workdir}")
        self.backend = await self.connect()

    async def connect(self) -> Backend:
        """Return what the reply works on."""
        self._client = await run_sync(lambda: docker.DockerClient(base_url=self.wire.url))
        container = await run_sync(self._client.containers.get, self.container.id)
        return DockerBackend(container, self.cwd, timeout=10)

    async def close(self) -> None:
        """Hang up and remove the directories."""
        await self.backend.aclose()
        await run_sync(self._client.close)
        await self.clean_up()

    async def clean_up(self) -> None:
        """Remove the directories."""
        await run_sync(run_in, self.container, f"rm -rf {self.cwd} {self.workdir}")

    async def read_back(self) -> Mapping[str, bytes]:
        """Read the files with a command of its own, straight from the daemon."""
        # Exit code 1: a temporary file went away meanwhile, which is as good.
        packed = await run_sync(run_in, self.container, f"tar -cf - -C {self.workdir}/Memory . || test $? = 1")
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            files = {member.name.removeprefix("./"): tar.extractfile(member) for member in tar if member.isfile()}
            return {name: file.read() for name, file in files.items() if file is not None}


class AdaptedContainerPlace(ContainerPlace):
    """The same over AgentScope's own backend, adapted."""

    execs_before_script = 1  # it makes the directory of the request first

    async def connect(self) -> Backend:
        """Return AgentScope's backend with our promises."""
        self._client = aiodocker.Docker(url=self.wire.url)
        return adapt(AgentScopeBackend(self._client.containers.container(self.container.id), self.cwd), timeout=10)

    async def close(self) -> None:
        """Hang up and remove the directories."""
        await self._client.close()
        await self.clean_up()


# ------------------------------------------------------------------ what goes wrong with the container


def happens(name: str, strike: Callable[[Any], object], lift: Callable[[Any], object]) -> Fault:
    """Return a fault that is made and lifted by blocking calls."""

    async def strike_it(place: ContainerPlace, _call: Call) -> None:
        await run_sync(strike, place)

    async def lift_it(place: ContainerPlace) -> None:
        await run_sync(lift, place)

    return Fault(name, strike_it, lift_it)


def _limit_processes(place: ContainerPlace, limit: int) -> None:
    api = place.container.client.api
    api._raise_for_status(api._post_json(api._url("/containers/{0}/update", place.container.id), {"PidsLimit": limit}))


def _fill_disk(place: ContainerPlace) -> None:
    run_in(place.container, f"cat /dev/zero > {DISK}/ballast; true")


HAPPEN = [
    happens("paused", lambda place: place.container.pause(), lambda place: place.container.unpause()),
    happens("stopped", lambda place: place.container.kill(), lambda place: place.container.start()),
    happens(
        "no process left (PID limit)",
        lambda place: _limit_processes(place, 1),
        lambda place: _limit_processes(place, -1),
    ),
    happens(
        "working directory removed",
        lambda place: run_in(place.container, f"rmdir {place.cwd}"),
        lambda place: run_in(place.container, f"mkdir {place.cwd}"),
    ),
    happens("daemon gone", lambda place: place.wire.sever(), lambda place: place.wire.mend()),
    happens("disk full", _fill_disk, lambda place: run_in(place.container, f"rm {DISK}/ballast")),
]
NEEDS_DISK = {"disk full"}


# ------------------------------------------------------------------ what goes wrong on the way, in mid-call


def trapped(name: str, make: Callable[[ContainerPlace, Call], Trap], *, writes_only: bool = False) -> Fault:
    """Return the fault that something happens to the connection when the client says a certain thing."""

    async def strike(place: ContainerPlace, call: Call) -> None:
        place.wire.set_trap(make(place, call))

    async def lift(place: ContainerPlace) -> None:
        assert not place.wire.clear(), "the fault was set but never struck"

    return Fault(name, strike, lift, (lambda call: call.writes) if writes_only else (lambda _call: True))


def _kill_shells(place: ContainerPlace) -> None:
    run_in(place.container, KILL_SHELLS)


SHELL_FAULTS = [
    happens("shell killed (kill -9)", _kill_shells, lambda _place: None),
    trapped(
        "shell killed in mid-call",
        lambda place, _call: Trap(BEGIN, action=lambda: _kill_shells(place), cuts=False),
    ),
    trapped(
        "shell killed at the last word",
        lambda place, _call: Trap(LAST_WORD, action=lambda: _kill_shells(place), cuts=False),
        writes_only=True,
    ),
    trapped("connection cut in the request", lambda _place, _call: Trap(BEGIN)),
    trapped("connection cut at the last word", lambda _place, _call: Trap(LAST_WORD), writes_only=True),
    trapped(
        "reply lost after the work",
        lambda _place, call: Trap(LAST_WORD if call.writes else BEGIN, reply_end=ANSWERED),
    ),
]
EXEC_FAULTS = [
    trapped("connection cut in the request", lambda place, call: Trap(EXEC, skip=_before_script(place, call))),
    trapped(
        "reply lost after the work",
        lambda place, call: Trap(EXEC, skip=_before_script(place, call), reply_end=b""),
    ),
]


def _before_script(place: ContainerPlace, call: Call) -> int:
    return place.execs_before_script if call.writes else 0


def run_container(client: docker.DockerClient, image: str) -> Iterator[Container]:
    """Give a container with a small disk beside its root, and remove it afterwards."""
    container = client.containers.run(
        IMAGES[image], ["sleep", "3600"], detach=True, network_mode="none", init=True, tmpfs={DISK: "size=2m,mode=1777"}
    )
    yield container
    container.remove(force=True, v=True)


def run_wire(client_url: str, path: Path) -> Iterator[Wire]:
    """Give a wire to the daemon, and cut it afterwards."""
    wire = Wire(client_url.removeprefix("unix://"), path)
    yield wire
    wire.sever()
