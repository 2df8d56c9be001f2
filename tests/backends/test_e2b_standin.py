"""The stand-in behaves as the E2B cloud does, rough edges included. Everything here goes through the unmodified SDK.

With a real key the tests that need no faults run on the cloud as well, which is what keeps the stand-in honest.
"""

import asyncio
import gzip
import os
import urllib.request

import e2b
import httpx
import pytest
from e2b import AsyncSandbox, SandboxQuery, SandboxState
from e2b_standin.control import StandIn

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b


async def output(sandbox: AsyncSandbox, command: str) -> str:
    result = await sandbox.commands.run(command)
    return str(result.stdout)


class TestFiles:
    async def test_bytes_come_back_as_they_were_written(self, e2b_sandbox, place):
        data = bytes(range(256)) * 300
        await e2b_sandbox.files.write(f"{place}/all.bin", data)
        assert bytes(await e2b_sandbox.files.read(f"{place}/all.bin", format="bytes")) == data

    async def test_reading_as_text_loses_bytes(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/latin.md", b"caf\xe9")
        assert await e2b_sandbox.files.read(f"{place}/latin.md") == "caf\ufffd"

    async def test_a_write_makes_parents_and_gives_them_to_the_user(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/a/b/c.md", b"x")
        assert await output(e2b_sandbox, f"stat -c %U {place}/a {place}/a/b/c.md") == "user\nuser\n"

    async def test_a_write_truncates_in_place_keeping_the_inode_and_mode(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/x.md", b"long content")
        await e2b_sandbox.commands.run(f"chmod 600 {place}/x.md")
        before = await output(e2b_sandbox, f"stat -c '%i %a' {place}/x.md")
        await e2b_sandbox.files.write(f"{place}/x.md", b"short")
        assert await output(e2b_sandbox, f"stat -c '%i %a' {place}/x.md") == before

    async def test_a_write_takes_the_file_from_its_owner(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/x.md", b"x")
        await e2b_sandbox.commands.run(f"chown root {place}/x.md", user="root")
        await e2b_sandbox.files.write(f"{place}/x.md", b"y")
        assert await output(e2b_sandbox, f"stat -c %U {place}/x.md") == "user\n"

    async def test_a_write_follows_a_dangling_link_and_creates_its_target(self, e2b_sandbox, place):
        await e2b_sandbox.commands.run(f"mkdir {place} && ln -s {place}/target {place}/link")
        await e2b_sandbox.files.write(f"{place}/link", b"through")
        assert await output(e2b_sandbox, f"cat {place}/target") == "through"

    async def test_several_files_go_in_one_request_and_keep_odd_names(self, e2b_sandbox, place):
        names = ["with space.md", "-dash.md", "名字.md", "per%cent.md"]
        await e2b_sandbox.files.write_files([{"path": f"{place}/{name}", "data": name} for name in names])
        listed = await e2b_sandbox.files.list(place)
        assert sorted(entry.name for entry in listed) == sorted(names)

    async def test_the_same_path_twice_is_refused_after_the_first_was_written(self, e2b_sandbox, place):
        with pytest.raises(e2b.InvalidArgumentException):
            await e2b_sandbox.files.write_files([{"path": f"{place}/x", "data": text} for text in ("one", "two")])
        assert await e2b_sandbox.files.read(f"{place}/x") == "one"

    async def test_rename_replaces_a_file_but_never_a_directory(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/new", b"new")
        await e2b_sandbox.files.write(f"{place}/old", b"old")
        await e2b_sandbox.files.rename(f"{place}/new", f"{place}/old")
        assert await e2b_sandbox.files.read(f"{place}/old") == "new"
        await e2b_sandbox.files.make_dir(f"{place}/folder")
        with pytest.raises(e2b.SandboxException, match="file exists"):
            await e2b_sandbox.files.rename(f"{place}/old", f"{place}/folder")

    async def test_rename_does_not_cross_a_mount(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/x", b"x")
        with pytest.raises(e2b.SandboxException, match="cross-device"):
            await e2b_sandbox.files.rename(f"{place}/x", f"/dev/shm/{os.path.basename(place)}")

    async def test_listing_hides_what_is_neither_file_nor_directory(self, e2b_sandbox, place):
        await e2b_sandbox.commands.run(f"mkdir {place}; cd {place}; mkfifo pipe; ln -s nowhere broken; touch file")
        assert [entry.name for entry in await e2b_sandbox.files.list(place)] == ["file"]
        assert await e2b_sandbox.files.exists(f"{place}/pipe")
        assert (await e2b_sandbox.files.get_info(f"{place}/broken")).type is None

    async def test_an_entry_tells_size_mode_owner_and_a_link_its_target(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/x.md", b"seven b")
        await e2b_sandbox.commands.run(f"chmod 640 {place}/x.md; ln -s x.md {place}/link")
        file = await e2b_sandbox.files.get_info(f"{place}/x.md")
        link = await e2b_sandbox.files.get_info(f"{place}/link")
        assert (file.size, file.mode, file.permissions, file.owner) == (7, 0o640, "-rw-r-----", "user")
        assert link.permissions == "Lrwxrwxrwx"
        assert link.symlink_target == f"{place}/x.md"

    async def test_listing_goes_as_deep_as_asked_and_not_through_links(self, e2b_sandbox, place):
        await e2b_sandbox.commands.run(f"mkdir -p {place}/a/b; touch {place}/a/b/deep; ln -s a {place}/link")
        names = [entry.path for entry in await e2b_sandbox.files.list(place, depth=2)]
        assert names == [f"{place}/a", f"{place}/a/b", f"{place}/link"]

    async def test_absence_and_wrong_kinds_are_told_apart(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/x", b"x")
        with pytest.raises(e2b.FileNotFoundException):
            await e2b_sandbox.files.read(f"{place}/missing")
        with pytest.raises(e2b.InvalidArgumentException):
            await e2b_sandbox.files.read(place)
        with pytest.raises(e2b.SandboxException, match="500"):
            await e2b_sandbox.files.read(f"{place}/x/below")
        assert not await e2b_sandbox.files.exists(f"{place}/missing")
        with pytest.raises(e2b.SandboxException):
            await e2b_sandbox.files.exists(f"{place}/x/below")
        await e2b_sandbox.files.remove(f"{place}/missing")
        assert not await e2b_sandbox.files.make_dir(place)

    async def test_the_file_api_ignores_permissions(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/x", b"secret")
        await e2b_sandbox.commands.run(f"chmod 000 {place}/x; chown root {place}/x", user="root")
        assert await e2b_sandbox.files.read(f"{place}/x") == "secret"
        with pytest.raises(e2b.CommandExitException, match="denied"):
            await e2b_sandbox.commands.run(f"cat {place}/x")

    async def test_relative_paths_start_at_home_and_strangers_homes_are_refused(self, e2b_sandbox, place):
        name = os.path.basename(place)
        await e2b_sandbox.files.write(f"{name}/x", b"x")
        assert await e2b_sandbox.files.exists(f"~/{name}/x")
        with pytest.raises(e2b.InvalidArgumentException):
            await e2b_sandbox.files.read("~bob/x")
        with pytest.raises(e2b.AuthenticationException):
            await e2b_sandbox.files.read("x", user="stranger")

    async def test_a_full_disk_leaves_a_cut_file(self, local_sandbox, place):
        mount = f"mkdir -p {place}; mount -t tmpfs -o size=64k tmpfs {place}; chmod 777 {place}"
        await local_sandbox.commands.run(mount, user="root")
        await local_sandbox.files.write(f"{place}/x", b"old" * 100)
        with pytest.raises(e2b.NotEnoughSpaceException):
            await local_sandbox.files.write(f"{place}/x", b"n" * 300_000)
        assert 0 < (await local_sandbox.files.get_info(f"{place}/x")).size < 300_000


class TestCommands:
    async def test_a_command_sees_the_files_and_its_output_comes_back(self, e2b_sandbox, place):
        await e2b_sandbox.files.write(f"{place}/x", b"seen")
        result = await e2b_sandbox.commands.run("pwd; cat x; echo oops >&2", cwd=place)
        assert (result.stdout, result.stderr, result.exit_code) == (f"{place}\nseen", "oops\n", 0)

    async def test_exit_codes_and_signals_are_told(self, e2b_sandbox):
        with pytest.raises(e2b.CommandExitException) as failed:
            await e2b_sandbox.commands.run("echo before; exit 7")
        assert (failed.value.exit_code, failed.value.stdout) == (7, "before\n")
        with pytest.raises(e2b.CommandExitException) as killed:
            await e2b_sandbox.commands.run("kill -9 $$")
        assert (killed.value.exit_code, killed.value.error) == (-1, "signal: killed")

    async def test_a_missing_cwd_and_a_too_long_argument_are_refused(self, e2b_sandbox, place):
        with pytest.raises(e2b.InvalidArgumentException):
            await e2b_sandbox.commands.run("true", cwd=place)
        with pytest.raises(e2b.InvalidArgumentException, match="argument list too long"):
            await e2b_sandbox.commands.run("true " + "x" * 200_000)

    async def test_output_is_not_byte_safe(self, e2b_sandbox):
        assert await output(e2b_sandbox, r"printf '\351'") == "\ufffd"

    async def test_a_timeout_kills_the_shell_and_leaves_its_children(self, e2b_sandbox, place):
        await e2b_sandbox.files.make_dir(place)
        with pytest.raises(e2b.TimeoutException):
            await e2b_sandbox.commands.run(f"sh -c 'sleep 1; touch {place}/survived' & wait", timeout=0.3)
        while not await e2b_sandbox.files.exists(f"{place}/survived"):
            await asyncio.sleep(0.1)

    async def test_a_command_goes_on_when_its_client_is_gone(self, e2b_sandbox, place):
        await e2b_sandbox.files.make_dir(place)
        task = asyncio.create_task(e2b_sandbox.commands.run(f"touch {place}/begun; sleep 0.5; touch {place}/done"))
        while not await e2b_sandbox.files.exists(f"{place}/begun"):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not await e2b_sandbox.files.exists(f"{place}/done"):
            await asyncio.sleep(0.1)

    async def test_stdin_can_be_sent_and_closed(self, e2b_sandbox):
        handle = await e2b_sandbox.commands.run("cat", background=True, stdin=True)
        await handle.send_stdin("through")
        assert handle.pid in [process.pid for process in await e2b_sandbox.commands.list()]
        await handle.close_stdin()
        assert (await handle.wait()).stdout == "through"

    async def test_a_running_command_can_be_joined_and_killed(self, e2b_sandbox):
        first = await e2b_sandbox.commands.run("sleep 30", background=True)
        second = await e2b_sandbox.commands.connect(first.pid)
        assert await first.kill()
        with pytest.raises(e2b.CommandExitException):
            await second.wait()
        assert not await first.kill()


class TestLifecycle:
    async def test_a_second_client_reads_what_the_first_one_wrote(self, local_sandbox, connect_again, place):
        await local_sandbox.files.write(f"{place}/x", b"kept")
        again = await connect_again(local_sandbox)
        assert await again.files.read(f"{place}/x") == "kept"

    async def test_one_idempotency_key_makes_one_sandbox(self, new_sandbox):
        first, second = await asyncio.gather(*(new_sandbox(idempotency_key="one-key") for _ in range(2)))
        assert first.sandbox_id == second.sandbox_id
        assert await first.kill()
        assert not await second.kill()

    async def test_a_killed_sandbox_is_gone_for_commands_and_for_the_control_plane(self, new_sandbox):
        sandbox = await new_sandbox()
        assert await sandbox.is_running()
        await sandbox.kill()
        assert not await sandbox.is_running()
        with pytest.raises(e2b.SandboxNotRunningException):
            await sandbox.commands.run("true")
        with pytest.raises(e2b.SandboxNotFoundException):
            await sandbox.get_info()

    @pytest.mark.parametrize("mode", ["full", "filesystem"])
    async def test_a_paused_sandbox_keeps_its_files_and_full_mode_its_processes(self, standin, new_sandbox, mode):
        sandbox = await new_sandbox(metadata={"kind": f"paused {mode}"})
        await sandbox.files.write("x", b"kept")
        await sandbox.commands.run("sleep 60", background=True)
        assert await sandbox.pause(mode=mode)
        assert not await sandbox.pause(mode=mode)
        with pytest.raises(e2b.SandboxNotRunningException):
            await sandbox.files.read("x")
        assert (await sandbox.get_info()).state is SandboxState.PAUSED
        listed = await AsyncSandbox.list(
            SandboxQuery(metadata={"kind": f"paused {mode}"}), **standin.options
        ).next_items()
        assert [entry.sandbox_id for entry in listed] == [sandbox.sandbox_id]
        await sandbox.connect(timeout=60)
        assert await sandbox.files.read("x") == "kept"
        assert len(await sandbox.commands.list()) == (1 if mode == "full" else 0)

    async def test_expiry_kills_or_pauses_as_the_lifecycle_says(self, new_sandbox):
        mortal = await new_sandbox(timeout=1)
        careful = await new_sandbox(timeout=1, lifecycle={"on_timeout": "pause"})
        while await mortal.is_running() or await careful.is_running():
            await asyncio.sleep(0.1)
        with pytest.raises(e2b.SandboxNotFoundException):
            await mortal.get_info()
        assert (await careful.get_info()).state is SandboxState.PAUSED

    async def test_a_sandbox_refuses_a_stranger(self, standin, local_sandbox):
        request = urllib.request.Request(f"{standin.url}/files?path=/etc/passwd")
        request.add_header("E2b-Sandbox-Id", local_sandbox.sandbox_id)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            await asyncio.to_thread(urllib.request.urlopen, request)


class TestFaults:
    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (429, e2b.RateLimitException),
            (500, e2b.SandboxException),
            (503, e2b.SandboxException),
            (507, e2b.NotEnoughSpaceException),
        ],
    )
    async def test_a_status_comes_as_often_as_asked_and_nothing_is_written(
        self, faults, local_sandbox, place, status, error
    ):
        await faults.fault("POST /files", status=status, times=2, body="no")
        for _ in range(2):
            with pytest.raises(error):
                await local_sandbox.files.write(f"{place}/x", b"x")
        assert not await local_sandbox.files.exists(f"{place}/x")
        await local_sandbox.files.write(f"{place}/x", b"x")

    async def test_a_fault_after_the_work_leaves_the_work_done(self, faults, local_sandbox, place):
        await faults.fault("POST /process.Process/Start", status=504, after=True)
        with pytest.raises(e2b.TimeoutException):
            await local_sandbox.commands.run(f"mkdir {place}")
        await faults.fault("POST /filesystem.Filesystem/MakeDir", drop=True, after=True)
        with pytest.raises(Exception):  # noqa: B017, PT011 - which class leaks here is the SDK's own affair
            await local_sandbox.files.make_dir(f"{place}/below")
        assert await local_sandbox.files.exists(f"{place}/below")

    async def test_a_cut_upload_leaves_a_cut_file(self, faults, local_sandbox, place):
        await local_sandbox.files.write(f"{place}/x", b"old" * 1000)
        await faults.fault("POST /files", cut_request=500_000)
        with pytest.raises(httpx.TransportError):
            await local_sandbox.files.write(f"{place}/x", b"n" * 2_000_000)
        assert 0 < (await local_sandbox.files.get_info(f"{place}/x")).size < 500_000

    async def test_a_cut_download_is_an_error_and_never_a_short_file(self, faults, local_sandbox, place):
        await local_sandbox.files.write(f"{place}/x", os.urandom(1_000_000))
        await faults.fault("GET /files", cut_reply=300_000)
        with pytest.raises(httpx.TransportError):
            await local_sandbox.files.read(f"{place}/x", format="bytes")

    async def test_a_stream_can_be_cut_and_the_sandbox_lost_in_its_midst(self, faults, new_sandbox):
        sandbox = await new_sandbox()
        await faults.fault("POST /process.Process/Start", cut_reply=40, state="kill")
        with pytest.raises(e2b.SandboxNotRunningException):
            await sandbox.commands.run("echo begun; sleep 60")

    async def test_a_request_can_be_late(self, faults, local_sandbox):
        await faults.fault("POST /filesystem.Filesystem/Stat", delay=5)
        with pytest.raises(e2b.TimeoutException):
            await local_sandbox.files.exists("/", request_timeout=0.2)

    async def test_the_server_counts_the_requests_it_got(self, faults, local_sandbox, place):
        await local_sandbox.files.write(f"{place}/x", gzip.compress(b"x"))
        await local_sandbox.files.exists(f"{place}/x")
        assert await faults.calls() == ["POST /files", "POST /filesystem.Filesystem/Stat"]


async def test_nothing_is_left_when_the_server_stops(place):
    server = await asyncio.to_thread(StandIn)
    try:
        sandbox = await AsyncSandbox.create(timeout=60, idempotency_key="leaves-nothing", **server.options)
        mark = os.path.basename(place)
        await sandbox.commands.run(f"sleep 300 # {mark}", background=True)
    finally:
        await asyncio.to_thread(server.stop)
    search = await asyncio.create_subprocess_exec("pgrep", "-f", mark, stdout=asyncio.subprocess.DEVNULL)
    assert await search.wait() == 1


def test_the_stand_in_is_compared_with_the_cloud(cloud_sandbox):
    """Whatever takes ``e2b_sandbox`` runs there as well; this tells why not, when it does not."""
    assert cloud_sandbox.sandbox_id
