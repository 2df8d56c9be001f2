"""Sandboxes of the E2B stand-in as places, and what its service can do to a reply."""

import asyncio
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentscope.workspace._e2b._e2b_backend import E2BBackend as AgentScopeBackend
from anyio.to_thread import run_sync
from e2b import AsyncSandbox
from e2b_standin.control import StandIn

from agentic_memory.backends import Backend, E2BBackend, adapt
from faults.case import Fault, Place
from faults.conversation import Call
from faults.files import read_files

HOME = "/home/user"
SANDBOX_SECONDS = 600
START = "POST /process.Process/Start"
UPLOAD = "POST /files"
NOT_FOUND = '{"sandboxId": "x", "message": "The sandbox was not found", "code": 502}'


class SandboxPlace(Place):
    """A directory in a sandbox; the stand-in keeps a sandbox's files on this machine, where they are looked at."""

    execs_before_script = 0
    """Commands that come before the one that does the work of a write."""

    def __init__(self, standin: StandIn, sandbox: AsyncSandbox) -> None:
        self.standin = standin
        self.sandbox = sandbox
        self.workdir = f"{HOME}/{uuid.uuid4().hex[:12]}"
        self.backend = self.make_backend()

    def make_backend(self) -> Backend:
        """Return what the reply works on."""
        return E2BBackend(self.sandbox, HOME, timeout=10)

    @property
    def folder(self) -> Path:
        """Where the directory lies on this machine."""
        (root,) = Path(tempfile.gettempdir()).glob(f"e2b-*/{self.sandbox.sandbox_id}/root")
        return root / self.workdir.lstrip("/")

    async def read_back(self) -> Mapping[str, bytes]:
        """Read the files past the service."""
        return await run_sync(lambda: read_files(self.folder / "Memory"))


class AdaptedSandboxPlace(SandboxPlace):
    """The same over AgentScope's own backend, adapted."""

    execs_before_script = 1  # it makes the directory of the request first

    def make_backend(self) -> Backend:
        """Return AgentScope's backend with our promises."""
        return adapt(AgentScopeBackend(self.sandbox, HOME), timeout=10)


def fails(name: str, route: str = START, *, racy: bool = False, lasting: bool = False, **fields: Any) -> Fault:
    """Return the fault that one request of a call goes wrong in this way; ``fields`` are the stand-in's."""

    async def strike(place: SandboxPlace, call: Call) -> None:
        skip = place.execs_before_script if call.writes and route == START else 0
        await place.standin.fault(route, skip=skip, **fields)

    async def lift(place: SandboxPlace) -> None:
        assert await place.standin.clear() == 0, "the fault was set but never struck"
        if "state" in fields and not lasting:
            await place.sandbox.connect(timeout=SANDBOX_SECONDS)

    return Fault(name, strike, lift, _has_upload if route == UPLOAD else lambda _call: True, lasting, racy)


def _has_upload(call: Call) -> bool:
    return call.name == "Write: transact"  # the one request that is too large for a command


FAULTS = [
    fails("429", status=429),
    fails("500", status=500),
    fails("502 not found", status=502, body=NOT_FOUND),
    fails("503", status=503),
    fails("504 after the work", status=504, after=True),
    fails("reply lost after the work", drop=True, after=True),
    fails("download cut", cut_reply=60, racy=True),
    fails("upload cut", UPLOAD, cut_request=30_000),
    fails("upload refused (507)", UPLOAD, status=507),
    fails("paused", state="pause"),
    fails("expired, paused by that", state="expire"),
    fails("killed", state="kill", lasting=True),
]
UPLOADS = {"upload cut", "upload refused (507)"}


def sandboxes(standin: StandIn) -> Iterator[AsyncSandbox]:
    """Give a sandbox that pauses when its time is up, and kill it afterwards."""
    # The SDK's connections belong to no event loop, so one made in this loop serves in every test's own.
    sandbox = asyncio.run(make_sandbox(standin))
    yield sandbox
    asyncio.run(standin.change(sandbox.sandbox_id, "kill"))


async def make_sandbox(standin: StandIn) -> AsyncSandbox:
    """Make a sandbox that pauses when its time is up."""
    return await AsyncSandbox.create(
        timeout=SANDBOX_SECONDS,
        idempotency_key=uuid.uuid4().hex,
        lifecycle={"on_timeout": "pause"},
        **standin.options,
    )
