"""E2BBackend keeps every promise in a sandbox; what it does beside the contract."""

import asyncio
import random
from typing import ClassVar

import pytest
from e2b import AsyncSandbox, Sandbox

from agentic_memory.backends.e2b import MAX_INLINE_BYTES, E2BBackend
from agentic_memory.backends.values import ABSENT, Put, version_of
from agentic_memory.errors import BackendUnavailable, Conflict, UnsafePath
from agentic_memory.testing import BackendContract, Place

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b

HOME = "/home/user"
INCOMPRESSIBLE = random.Random(0).randbytes(100_000)


class TestE2BBackend(BackendContract):
    lacks: ClassVar = {"owners": "commands run as the sandbox's user, who may not give files away"}
    many: ClassVar = 2_000

    @pytest.fixture
    def place(self, contract_place: Place) -> Place:
        return contract_place


@pytest.fixture
def backend(e2b_sandbox: AsyncSandbox) -> E2BBackend:
    return E2BBackend(e2b_sandbox, HOME, timeout=20)


class TestCrossings:
    async def test_a_small_write_is_one_call_and_a_large_one_uploads_first(self, backend, place):
        start = backend.round_trips
        await backend.replace(f"{place}/small.md", b"x" * MAX_INLINE_BYTES, expected=ABSENT)
        assert backend.round_trips - start == 1
        await backend.replace(f"{place}/large.md", INCOMPRESSIBLE, expected=ABSENT)
        assert backend.round_trips - start == 3

    async def test_round_trips_are_the_requests_that_reach_the_service(self, faults, local_sandbox, place):
        backend = E2BBackend(local_sandbox, HOME)
        await backend.replace(f"{place}/a.md", b"x", expected=ABSENT)
        await backend.snapshot(place)
        await backend.fetch(f"{place}/a.md")
        assert len(await faults.calls()) == backend.round_trips == 3

    async def test_an_uploaded_request_is_gone_afterwards(self, backend, e2b_sandbox, place):
        await backend.replace(f"{place}/large.md", INCOMPRESSIBLE, expected=ABSENT)
        with pytest.raises(Conflict):
            await backend.replace(f"{place}/large.md", INCOMPRESSIBLE + b"x", expected=ABSENT)
        left = await e2b_sandbox.commands.run("ls -A /tmp")
        assert "agentic-memory" not in left.stdout


class TestCommands:
    async def test_output_comes_as_the_bytes_that_were_written(self, backend):
        result = await backend.exec_shell(["printf", r"\351\0\377"])
        assert (result.exit_code, result.stdout) == (0, b"\xe9\0\xff")

    async def test_exit_code_and_standard_error_are_told(self, backend):
        result = await backend.exec_shell(["sh", "-c", "echo out; echo err >&2; exit 3"])
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"out\n", b"err\n")

    async def test_a_command_that_outruns_its_timeout_has_code_minus_one(self, backend):
        result = await backend.exec_shell(["sleep", "5"], timeout=0.3)
        assert result.exit_code == -1
        assert b"in time" in result.stderr

    async def test_what_a_login_shell_says_is_no_part_of_an_answer(self, backend, e2b_sandbox, place):
        await e2b_sandbox.files.write(".bash_profile", "echo Welcome; printf 'no newline at the end'\n")
        try:
            await backend.replace(f"{place}/a.md", b"x", expected=ABSENT)
            assert len((await backend.snapshot(place)).files) == 1
            assert (await backend.exec_shell(["echo", "hi"])).stdout == b"hi\n"
        finally:
            await e2b_sandbox.files.remove(".bash_profile")

    async def test_agentscopes_derived_calls_work(self, backend, place):
        await backend.write_file(f"{place}/b/caf\udce9.md", b"x")
        assert await backend.read_file(f"{place}/b/caf\udce9.md") == b"x"
        assert await backend.list_dir(f"{place}/b") == ["caf\udce9.md"]
        assert await backend.is_dir(f"{place}/b")
        assert not await backend.file_exists(f"{place}/c")
        assert await backend.resolve("~/x") == f"{HOME}/x"
        assert await backend.resolve("x/../y") == f"{HOME}/y"
        with pytest.raises(FileNotFoundError):
            await backend.read_file(f"{place}/missing")


class TestPlaces:
    async def test_a_missing_working_directory_is_unavailable_and_not_empty(self, e2b_sandbox, place):
        backend = E2BBackend(e2b_sandbox, place)
        for call in (backend.snapshot(HOME), backend.fetch(f"{HOME}/x"), backend.exec_shell(["true"])):
            with pytest.raises(BackendUnavailable, match=r"working directory"):
                await call

    def test_a_relative_working_directory_is_refused(self, e2b_sandbox):
        with pytest.raises(UnsafePath):
            E2BBackend(e2b_sandbox, "workspace")

    def test_a_blocking_sandbox_is_refused(self, local_sandbox, options_of):
        with pytest.raises(TypeError, match=r"e2b\.AsyncSandbox"):
            E2BBackend(Sandbox.connect(local_sandbox.sandbox_id, timeout=600, **options_of(local_sandbox)), HOME)

    def test_a_call_must_have_a_time_limit(self, e2b_sandbox):
        with pytest.raises(ValueError, match="above zero"):
            E2BBackend(e2b_sandbox, HOME, timeout=0)

    async def test_the_cache_key_is_the_sandbox(self, e2b_sandbox, connect_again):
        again = await connect_again(e2b_sandbox)
        assert E2BBackend(e2b_sandbox, HOME).cache_key == E2BBackend(again, "/tmp").cache_key

    async def test_new_files_belong_to_the_user_whose_shell_can_append(self, backend, e2b_sandbox, place):
        await backend.replace(f"{place}/a.md", b"one\n", expected=ABSENT)
        await e2b_sandbox.commands.run(f"echo two >> {place}/a.md")
        assert await backend.read_file(f"{place}/a.md") == b"one\ntwo\n"


async def test_eight_agents_lose_none_of_their_edits(e2b_sandbox, connect_again, place):
    """Five edits each; ``benchmarks/e2b_edits.py`` makes it twenty-five."""
    index = f"{place}/MEMORY.md"
    await E2BBackend(e2b_sandbox, HOME).replace(index, b"", expected=ABSENT)

    async def agent(number: int) -> None:
        backend = E2BBackend(await connect_again(e2b_sandbox), HOME)
        text = b""
        for edit in range(5):
            line = b"- agent %d edit %d\n" % (number, edit)
            while True:
                try:
                    await backend.transact([Put(index, text + line, version_of(text))])
                except Conflict as conflict:
                    text = conflict.current or b""
                else:
                    text += line
                    break

    await asyncio.gather(*(agent(number) for number in range(8)))
    lines = (await E2BBackend(e2b_sandbox, HOME).read_file(index)).splitlines()
    assert sorted(lines) == sorted(b"- agent %d edit %d" % (a, e) for a in range(8) for e in range(5))
