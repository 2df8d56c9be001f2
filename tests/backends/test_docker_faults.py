"""What goes wrong with containers: told as "cannot tell", quickly, and nothing is written."""

import asyncio
import io
import tarfile
from time import monotonic

import aiodocker
import pytest
from anyio.to_thread import run_sync
from docker_place import IMAGES, run_in

from agentic_memory.backends import ABSENT, ANY, Delete, Put
from agentic_memory.backends.docker import DockerBackend
from agentic_memory.errors import BackendUnavailable, Conflict

pytest_plugins = ["docker_fixtures"]
pytestmark = pytest.mark.docker

ROOT = "/srv/memory"
PATH = f"{ROOT}/MEMORY.md"
# The bracket keeps the script from finding itself.
KILL_SHELLS = """for process in /proc/[0-9]*; do
    if grep -q 'while read[ ]-r word' $process/cmdline 2>/dev/null; then kill -9 ${process#/proc/}; killed=1; fi
done; test "$killed" = 1"""
QUICK_SECONDS = 15  # far below the timeout of 30, far above what a busy machine needs


@pytest.fixture
async def run(start_container):
    """A BusyBox container with a memory of one file, and its backend."""
    container = await run_sync(lambda: start_container("busybox"))
    await run_sync(run_in, container, f"mkdir -p {ROOT} && printf old > {PATH}")
    async with DockerBackend(container, "/srv") as backend:
        assert (await backend.fetch(PATH)).data == b"old"
        yield container, backend


async def expect_unavailable(backend):
    """Every call says "cannot tell", and says so soon."""
    for call in (
        lambda: backend.transact([Put(PATH, b"new", ANY)]),
        lambda: backend.snapshot(ROOT),
        lambda: backend.fetch(PATH),
        lambda: backend.file_exists(PATH),
        lambda: backend.transact([Put(f"{ROOT}/new.md", b"new", ABSENT)]),
    ):
        began = monotonic()
        with pytest.raises(BackendUnavailable):
            await call()
        assert monotonic() - began < QUICK_SECONDS


async def expect_untouched(backend):
    tree = await backend.snapshot(ROOT)
    assert [(record.path, record.data) for record in tree.files] == [("MEMORY.md", b"old")]


async def test_a_paused_container_is_unavailable_and_writes_nothing_when_unpaused(run):
    container, backend = run
    await run_sync(container.pause)
    await expect_unavailable(backend)
    assert (await backend.exec_shell(["true"])).exit_code == -1
    await run_sync(container.unpause)
    await expect_untouched(backend)


async def test_a_stopped_container_is_unavailable_and_serves_again_when_started(run):
    container, backend = run
    await run_sync(container.kill)
    await expect_unavailable(backend)
    await run_sync(container.start)
    await expect_untouched(backend)


async def test_a_removed_container_is_unavailable(start_container):
    container = await run_sync(lambda: start_container("busybox", ("sleep", "600"), name="agentic-memory-removed"))
    async with DockerBackend("agentic-memory-removed", "/tmp") as backend:
        await backend.replace("/tmp/a.md", b"a", expected=ABSENT)
        await run_sync(lambda: container.rename("agentic-memory-renamed"))
        await run_sync(container.kill)
        with pytest.raises(BackendUnavailable):
            await backend.fetch("/tmp/a.md")
        with pytest.raises(BackendUnavailable):
            await backend.snapshot("/tmp/none")


async def test_a_missing_working_directory_is_unavailable(run):
    container, backend = run
    await run_sync(run_in, container, "mv /srv /gone")
    await expect_unavailable(backend)
    await run_sync(run_in, container, "mv /gone /srv")
    await expect_untouched(backend)


async def test_a_killed_shell_is_replaced_without_the_caller_noticing(run):
    container, backend = run
    await run_sync(run_in, container, KILL_SHELLS)
    await expect_untouched(backend)
    await run_sync(run_in, container, KILL_SHELLS)
    await backend.replace(PATH, b"new", expected=ANY)
    assert (await backend.fetch(PATH)).data == b"new"


async def test_at_the_limit_of_processes_nothing_is_told_and_nothing_written(start_container):
    container = await run_sync(lambda: start_container("busybox", pids_limit=12))
    await run_sync(run_in, container, f"mkdir -p {ROOT} && printf old > {PATH}")
    async with DockerBackend(container, "/srv") as backend:
        await run_sync(lambda: container.exec_run(["sh", "-c", "while :; do sleep 600 & done"], detach=True))
        # The filling shell itself ends when it cannot fork: one process may still start, and cannot start another.
        while await run_sync(_count_processes, container) < 11:
            await asyncio.sleep(0.1)
        await expect_unavailable(backend)
        await run_sync(lambda: container.exec_run(["sleep", "600"], detach=True))
        while await run_sync(_count_processes, container) < 12:
            await asyncio.sleep(0.1)
        await expect_unavailable(backend)
        await run_sync(lambda: container.restart(timeout=0))
        await expect_untouched(backend)


def _count_processes(container):
    return len(container.top()["Processes"])


async def test_a_daemon_that_is_not_there_is_unavailable(run, monkeypatch):
    container, _ = run
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    async with DockerBackend(container.id, "/srv") as backend:
        await expect_unavailable(backend)


async def test_a_call_that_gets_no_answer_ends_with_its_timeout(run):
    container, _ = run
    async with DockerBackend(container, "/srv", timeout=1) as backend:
        await run_sync(run_in, container, f"ln -s somebody {ROOT}/.agentic-memory.lock")
        with pytest.raises(BackendUnavailable, match="within 1 seconds"):
            await backend.transact([Put(PATH, b"new", ANY)])
        # The script still waits for the lock, but nobody gives it its last word any more.
        await run_sync(run_in, container, f"rm {ROOT}/.agentic-memory.lock")
        await backend.replace(f"{ROOT}/b.md", b"b", expected=ABSENT)
        while (await backend.exec_shell(["sh", "-c", f"ls -A {ROOT}/.agentic* 2>/dev/null"])).stdout:
            await asyncio.sleep(0.05)
        assert (await backend.fetch(PATH)).data == b"old"


async def test_a_read_only_system_with_a_writable_volume_is_enough(start_container):
    container = await run_sync(
        lambda: start_container("busybox", read_only=True, volumes={"agentic-memory-test": {"bind": "/data"}})
    )
    async with DockerBackend(container, "/data") as backend:
        await backend.write_file("/data/Memory/a.md", b"a")
        assert (await backend.snapshot("/data/Memory")).files[0].data == b"a"
        with pytest.raises(BackendUnavailable, match="ead-only"):
            await backend.replace("/etc/a.md", b"a", expected=ABSENT)
        await backend.transact([Delete("/data/Memory/a.md", ANY)])


async def test_what_is_written_belongs_to_the_containers_user(start_container):
    container = await run_sync(lambda: start_container("debian", user="1000:1000", tmpfs={"/home/agent": "mode=1777"}))
    async with DockerBackend(container, "/home/agent") as backend:
        path = "/home/agent/Memory/MEMORY.md"
        await backend.replace(path, b"one\n", expected=ABSENT)
        assert (await backend.exec_shell(["sh", "-c", f"echo two >> {path}"])).ok()
        assert (await backend.fetch(path)).data == b"one\ntwo\n"
        await run_sync(lambda: run_in(container, f"chmod 0 {path}", user="1000"))
        with pytest.raises(BackendUnavailable, match="permission"):
            await backend.fetch(path)
        tree = await backend.snapshot("/home/agent/Memory")
        assert [(obstacle.path, obstacle.kind) for obstacle in tree.obstacles] == [("MEMORY.md", "unreadable")]
        await run_sync(lambda: run_in(container, "mkdir /home/agent/Memory/x && chmod 0 /home/agent/Memory/x"))
        tree = await backend.snapshot("/home/agent/Memory")
        assert [obstacle.path for obstacle in tree.obstacles] == ["MEMORY.md", "x"]


async def test_a_full_disk_loses_nothing(start_container):
    container = await run_sync(lambda: start_container("busybox", tmpfs={"/data": "size=256k"}))
    async with DockerBackend(container, "/data") as backend:
        await backend.replace("/data/a.md", b"old", expected=ABSENT)
        with pytest.raises(BackendUnavailable):
            await backend.transact([Put("/data/a.md", b"new", ANY), Put("/data/big.md", b"x" * 512 * 1024, ABSENT)])
        tree = await backend.snapshot("/data", hidden=True)
        assert [(record.path, record.data) for record in tree.files] == [("a.md", b"old")]
        await backend.replace("/data/a.md", b"new", expected=ANY)


async def test_a_container_may_be_given_in_every_form(run, docker_client):
    container, _ = run
    host = docker_client.api.base_url.replace("http+docker://localhost", "")
    assert not host
    async with aiodocker.Docker() as client:
        for given in (container, container.id, container.name, client.containers.container(container.id)):
            async with DockerBackend(given, "/srv") as backend:
                assert (await backend.fetch(PATH)).data == b"old"


@pytest.mark.parametrize("nothing", [None, "", 7, object()])
def test_what_is_no_container_is_refused(nothing):
    with pytest.raises((TypeError, ValueError), match="container"):
        DockerBackend(nothing, "/srv")


async def test_eight_agents_lose_no_edit_of_the_same_index(run):
    container, _ = run

    async def edit(agent):
        async with DockerBackend(container, "/srv") as backend:
            for number in range(25):
                while True:
                    record = await backend.fetch(PATH)
                    try:
                        line = b"%d.%d\n" % (agent, number)
                        await backend.replace(PATH, record.data + line, expected=record.version)
                        break
                    except Conflict:
                        continue

    await asyncio.gather(*(edit(agent) for agent in range(8)))
    async with DockerBackend(container, "/srv") as backend:
        lines = (await backend.fetch(PATH)).data.removeprefix(b"old").split()
    assert sorted(lines) == sorted(b"%d.%d" % (agent, number) for agent in range(8) for number in range(25))


async def test_an_image_without_a_shell_can_be_read_and_is_never_written(docker_client):
    def make():
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, text in (("srv/memory/a.md", b"a"), ("srv/memory/.x/b.md", b"b"), ("srv/c.md", b"c")):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
            for name, target in (("in.md", "a.md"), ("out.md", "../c.md"), ("no.md", "none"), ("loop.md", "loop.md")):
                member = tarfile.TarInfo(f"srv/memory/{name}")
                member.type, member.linkname = tarfile.SYMTYPE, target
                tar.addfile(member)
        docker_client.api.import_image_from_data(packed.getvalue(), repository="agentic-memory-test/bare")
        # It has nothing that could run, but files can be fetched from a container that was never started.
        return docker_client.containers.create("agentic-memory-test/bare", ["none"], network_mode="none")

    container = await run_sync(make)
    try:
        backend = DockerBackend(container, "/srv")
        backend._without_shell = True  # a container that never ran cannot be asked for a shell
        tree = await backend.snapshot("/srv/memory", suffix=".md")
        assert [(record.path, record.data) for record in tree.files] == [("a.md", b"a"), ("in.md", b"a")]
        assert {obstacle.path: obstacle.kind for obstacle in tree.obstacles} == {
            "out.md": "outside",
            "no.md": "dangling",
            "loop.md": "loop",
        }
        assert (await backend.fetch("/srv/memory/a.md", within="/srv/memory")).data == b"a"
        with pytest.raises(BackendUnavailable):
            await backend.replace("/srv/memory/a.md", b"b", expected=ANY)
        await backend.aclose()
    finally:
        await run_sync(lambda: container.remove(force=True))


async def test_an_image_that_only_lacks_sh_is_read_through_archives(start_container):
    container = await run_sync(lambda: start_container("busybox"))
    await run_sync(run_in, container, f"mkdir -p {ROOT} && printf a > {ROOT}/a.md && /bin/busybox rm /bin/sh")
    async with DockerBackend(container, "/srv") as backend:
        assert [record.data for record in (await backend.snapshot(ROOT)).files] == [b"a"]
        assert not (await backend.snapshot("/srv/none")).exists
        assert (await backend.fetch(f"{ROOT}/none.md")) is ABSENT
        with pytest.raises(BackendUnavailable, match="no sh"):
            await backend.replace(f"{ROOT}/a.md", b"b", expected=ANY)


def test_the_images_are_the_ones_that_the_engine_script_makes():
    assert set(IMAGES) == {"debian", "busybox"}
