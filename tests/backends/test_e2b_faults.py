"""What a memory in an E2B sandbox goes through when the service fails: its bytes are old or new, and never less.

Every fault strikes on the wire, between the unmodified SDK and a real shell in a sandbox on the stand-in.
"""

import asyncio
import random
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from e2b import AsyncSandbox
from e2b_standin.control import StandIn

from agentic_memory.backends.e2b import E2BBackend
from agentic_memory.backends.values import ABSENT, Delete, Move, Put, version_of
from agentic_memory.errors import BackendUnavailable, Conflict

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b

START = "POST /process.Process/Start"
UPLOAD = "POST /files"
NOT_FOUND = '{"sandboxId": "x", "message": "The sandbox was not found", "code": 502}'
OLD = b"- [User](user.md) \xe2\x80\x94 who they are\n" * 40
SMALL = OLD + b"- [Deploy](deploy.md) \xe2\x80\x94 how\n"
LARGE = OLD + random.Random(0).randbytes(300_000)  # cannot be compressed, so it has to be uploaded


@dataclass(frozen=True)
class Trouble:
    """A fault, and whether what it struck was carried out all the same."""

    name: str
    route: str
    fields: dict[str, Any] = field(default_factory=dict)
    done: bool = False

    def __str__(self) -> str:
        return self.name


COMMAND_TROUBLES = [
    Trouble("429", START, {"status": 429, "body": "slow down"}),
    Trouble("500", START, {"status": 500, "body": "<html>oops</html>"}),
    Trouble("502 not found", START, {"status": 502, "body": NOT_FOUND}),
    Trouble("503", START, {"status": 503}),
    Trouble("401", START, {"status": 401}),
    Trouble("not JSON", START, {"status": 200, "body": "<html>hello</html>"}),
    Trouble("connection dropped", START, {"drop": True}),
    Trouble("502 not found after the work", START, {"status": 502, "body": NOT_FOUND, "after": True}, done=True),
    Trouble("504 after the work", START, {"status": 504, "after": True}, done=True),
    Trouble("500 after the work", START, {"status": 500, "after": True}, done=True),
    Trouble("reply lost", START, {"drop": True, "after": True}, done=True),
    Trouble("reply cut", START, {"cut_reply": 60}, done=True),
    Trouble("reply cut at once", START, {"cut_reply": 1}, done=True),
]
UPLOAD_TROUBLES = [
    Trouble("upload 429", UPLOAD, {"status": 429}),
    Trouble("upload 500", UPLOAD, {"status": 500}),
    Trouble("upload 507", UPLOAD, {"status": 507}),
    Trouble("upload cut", UPLOAD, {"cut_request": 100_000}),
    Trouble("upload dropped", UPLOAD, {"drop": True}),
    Trouble("upload reply lost", UPLOAD, {"drop": True, "after": True}),
    Trouble("upload answered in HTML", UPLOAD, {"status": 200, "body": "<html>"}),
]


@pytest.fixture
def backend(local_sandbox: AsyncSandbox) -> E2BBackend:
    return E2BBackend(local_sandbox, "/home/user", timeout=10)


async def bytes_at(sandbox: AsyncSandbox, path: str) -> bytes:
    return bytes(await sandbox.files.read(path, format="bytes"))


async def names_in(sandbox: AsyncSandbox, folder: str) -> list[str]:
    return str((await sandbox.commands.run(f"ls -A {folder}")).stdout).split()


async def settled(sandbox: AsyncSandbox, folder: str, count: int) -> None:
    """Wait until a command that outlived its client has put its tools away."""
    while len(await names_in(sandbox, folder)) != count:
        await asyncio.sleep(0.05)


class TestReads:
    @pytest.mark.parametrize("trouble", COMMAND_TROUBLES, ids=str)
    async def test_a_failed_look_is_never_an_empty_or_a_smaller_memory(self, faults, backend, place, trouble):
        await backend.transact([Put(f"{place}/{name}.md", OLD, ABSENT) for name in "abc"])
        for look in (partial(backend.snapshot, place), partial(backend.fetch, f"{place}/a.md")):
            await faults.fault(trouble.route, **trouble.fields)
            with pytest.raises(BackendUnavailable):
                await look()
        tree = await backend.snapshot(place)
        assert [(record.path, record.data) for record in tree.files] == [(f"{name}.md", OLD) for name in "abc"]

    @pytest.mark.parametrize("cut", [200, 2_000, 20_000, 100_000])
    async def test_a_cut_answer_is_no_answer_wherever_it_is_cut(self, faults, backend, place, cut):
        await backend.replace(f"{place}/a.md", LARGE, expected=ABSENT)
        await faults.fault(START, cut_reply=cut)
        with pytest.raises(BackendUnavailable):
            await backend.snapshot(place)


class TestWrites:
    @pytest.mark.parametrize(
        ("trouble", "new"),
        [*((trouble, SMALL) for trouble in COMMAND_TROUBLES), *((trouble, LARGE) for trouble in COMMAND_TROUBLES[::4])],
        ids=lambda value: "large" if value == LARGE else "small" if value == SMALL else str(value),
    )
    async def test_a_write_is_wholly_done_or_not_at_all(self, faults, backend, local_sandbox, place, trouble, new):
        path = f"{place}/MEMORY.md"
        version = await backend.replace(path, OLD, expected=ABSENT)
        await faults.fault(trouble.route, **trouble.fields)
        try:
            told = await backend.replace(path, new, expected=version)
        except BackendUnavailable:
            told = None
        if told or trouble.done:
            while await bytes_at(local_sandbox, path) != new:
                await asyncio.sleep(0.05)
        else:
            assert await bytes_at(local_sandbox, path) == OLD
        await settled(local_sandbox, place, 1)
        current = version_of(await bytes_at(local_sandbox, path))
        await backend.replace(path, OLD, expected=current)
        assert await bytes_at(local_sandbox, path) == OLD

    @pytest.mark.parametrize("trouble", UPLOAD_TROUBLES, ids=str)
    async def test_a_failed_upload_changes_nothing(self, faults, backend, local_sandbox, place, trouble):
        path = f"{place}/MEMORY.md"
        version = await backend.replace(path, OLD, expected=ABSENT)
        await faults.fault(trouble.route, **trouble.fields)
        with pytest.raises(BackendUnavailable):
            await backend.replace(path, LARGE, expected=version)
        assert await names_in(local_sandbox, place) == ["MEMORY.md"]
        assert await bytes_at(local_sandbox, path) == OLD
        await backend.replace(path, LARGE, expected=version)

    @pytest.mark.parametrize(
        "trouble",
        [trouble for trouble in COMMAND_TROUBLES if trouble.done and "not found" not in trouble.name],
        ids=str,
    )
    async def test_a_lost_reply_is_looked_into_and_the_write_is_not_repeated(self, faults, backend, place, trouble):
        await backend.replace(f"{place}/a.md", OLD, expected=ABSENT)
        await backend.replace(f"{place}/b.md", OLD, expected=ABSENT)
        await faults.calls()
        await faults.fault(trouble.route, **trouble.fields)
        await backend.transact(
            [
                Put(f"{place}/MEMORY.md", SMALL, ABSENT),
                Delete(f"{place}/a.md", version_of(OLD)),
                Move(f"{place}/b.md", f"{place}/c.md", version_of(OLD)),
            ]
        )
        tree = await backend.snapshot(place)
        assert [record.path for record in tree.files] == ["MEMORY.md", "c.md"]

    async def test_a_lost_reply_to_a_conflict_is_no_success(self, faults, backend, place):
        await backend.replace(f"{place}/a.md", OLD, expected=ABSENT)
        await faults.fault(START, drop=True, after=True)
        with pytest.raises(BackendUnavailable, match=r"read it again"):
            await backend.replace(f"{place}/a.md", SMALL, expected=version_of(b"stale"))
        with pytest.raises(Conflict):
            await backend.replace(f"{place}/a.md", SMALL, expected=version_of(b"stale"))

    async def test_a_full_disk_leaves_the_old_bytes(self, backend, local_sandbox, place):
        mount = f"mkdir -p {place}; mount -t tmpfs -o size=64k tmpfs {place}; chmod 777 {place}"
        await local_sandbox.commands.run(mount, user="root")
        version = await backend.replace(f"{place}/MEMORY.md", OLD, expected=ABSENT)
        with pytest.raises(BackendUnavailable):
            await backend.replace(f"{place}/MEMORY.md", LARGE, expected=version)
        assert await names_in(local_sandbox, place) == ["MEMORY.md"]
        await backend.replace(f"{place}/MEMORY.md", SMALL, expected=version)

    async def test_a_cancelled_write_happens_wholly_or_not_at_all(self, backend, local_sandbox, place):
        version = await backend.replace(f"{place}/MEMORY.md", OLD, expected=ABSENT)
        for delay in (0, 0.005, 0.02, 0.05):
            task = asyncio.create_task(backend.replace(f"{place}/MEMORY.md", SMALL, expected=version))
            await asyncio.sleep(delay)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await settled(local_sandbox, place, 1)
            data = await bytes_at(local_sandbox, f"{place}/MEMORY.md")
            assert data in (OLD, SMALL)
            version = await backend.replace(f"{place}/MEMORY.md", OLD, expected=version_of(data))


class TestSandboxState:
    """The sandbox itself is lost, before the work or after it."""

    @pytest.mark.parametrize("moment", [{}, {"drop": True, "after": True}, {"cut_reply": 20}], ids=str)
    async def test_a_killed_sandbox_is_told_to_be_gone(self, faults, new_sandbox, place, moment):
        backend = E2BBackend(await new_sandbox(), "/home/user", timeout=10)
        await faults.fault(START, state="kill", **moment)
        with pytest.raises(BackendUnavailable, match=r"is gone"):
            await backend.replace(f"{place}/x.md", SMALL, expected=ABSENT)
        with pytest.raises(BackendUnavailable, match=r"is gone"):
            await backend.snapshot(place)

    @pytest.mark.parametrize("state", ["pause", "expire"])
    @pytest.mark.parametrize("moment", [{}, {"after": True, "drop": True}], ids=["before", "after"])
    async def test_a_paused_sandbox_says_so_and_goes_on_when_resumed(self, faults, new_sandbox, place, state, moment):
        sandbox = await new_sandbox(lifecycle={"on_timeout": "pause"})
        backend = E2BBackend(sandbox, "/home/user", timeout=10)
        version = await backend.replace(f"{place}/MEMORY.md", OLD, expected=ABSENT)
        await faults.fault(START, state=state, **moment)
        with pytest.raises(BackendUnavailable, match=r"is paused: resume it"):
            await backend.replace(f"{place}/MEMORY.md", SMALL, expected=version)
        await sandbox.connect(timeout=60)
        data = await bytes_at(sandbox, f"{place}/MEMORY.md")
        assert data == (SMALL if moment else OLD)
        await backend.replace(f"{place}/MEMORY.md", SMALL, expected=version_of(data))

    async def test_a_workspace_that_reconnects_is_asked_for_its_sandbox_again(self, new_sandbox, place):
        class Workspace:
            def __init__(self) -> None:
                self._sandbox: AsyncSandbox | None = None

        workspace = Workspace()
        backend = E2BBackend(workspace, "/home/user", timeout=10)
        with pytest.raises(BackendUnavailable, match="Workspace holds no E2B sandbox"):
            await backend.snapshot(place)
        for _ in range(2):
            workspace._sandbox = await new_sandbox()
            await backend.replace(f"{place}/x.md", SMALL, expected=ABSENT)


async def test_an_unreachable_service_is_unavailable_and_soon_told(place):
    server = await asyncio.to_thread(StandIn)
    try:
        sandbox = await AsyncSandbox.create(timeout=60, idempotency_key="soon-offline", **server.options)
    finally:
        await asyncio.to_thread(server.stop)
    backend = E2BBackend(sandbox, "/home/user", timeout=1)
    for call in (backend.snapshot(place), backend.fetch(f"{place}/x"), backend.exec_shell(["true"])):
        with pytest.raises(BackendUnavailable):
            await call


async def test_a_service_that_hangs_is_given_up(faults, local_sandbox, place):
    backend = E2BBackend(local_sandbox, "/home/user", timeout=0.3)
    await faults.fault(START, delay=20)
    with pytest.raises(BackendUnavailable, match="in time"):
        await backend.snapshot(place)
