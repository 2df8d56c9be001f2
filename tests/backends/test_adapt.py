"""``adapt`` gives any AgentScope backend the promises of the seam."""

import asyncio
import sys
from typing import ClassVar

import pytest
from agentscope.tool import BackendBase, ExecResult
from agentscope.tool import LocalBackend as AgentScopeLocalBackend
from shell_place import run_here

from agentic_memory.backends import ABSENT, ANY, InMemoryBackend, LocalBackend, Put
from agentic_memory.backends.adapt import AdaptedBackend, ReconnectingBackend, adapt
from agentic_memory.errors import BackendUnavailable, Conflict
from agentic_memory.testing import BackendContract, Place


class Recording(AgentScopeLocalBackend):
    """AgentScope's local backend, with what was asked of it."""

    def __init__(self):
        self.commands = []
        self.written = []

    async def exec_shell(self, command, *, cwd=None, timeout=None):
        self.commands.append(command)
        return await super().exec_shell(command, cwd=cwd, timeout=timeout)

    async def write_file(self, path, data):
        self.written.append(path)
        await super().write_file(path, data)


class Broken(Recording):
    """A backend whose sandbox is gone, in the ways such backends tell it."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    async def exec_shell(self, command, *, cwd=None, timeout=None):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class TestAdapted(BackendContract):
    trips_per_call: ClassVar = {"snapshot": 1, "fetch": 1, "transact": 2}  # contents travel in a file of their own
    many: ClassVar = 500

    @pytest.fixture
    async def place(self, tmp_path):
        inner = Recording()
        return Place(
            backend=adapt(inner),
            rival=adapt(Recording()),
            root=str(tmp_path / "memory"),
            outside=str(tmp_path / "outside"),
            run=run_here,
        )


def test_our_own_backends_are_returned_as_they_are():
    backend = InMemoryBackend()
    assert adapt(backend) is backend


def test_agentscopes_local_backend_becomes_ours_but_a_subclass_keeps_its_ways():
    assert type(adapt(AgentScopeLocalBackend())) is LocalBackend
    adapted = adapt(Recording())
    assert type(adapted) is AdaptedBackend
    assert type(adapted.inner) is Recording


@pytest.mark.parametrize("thing", [None, 7, "container", object(), BackendBase])
def test_what_is_no_backend_is_refused_by_name(thing):
    with pytest.raises(TypeError, match=type(thing).__name__):
        adapt(thing)


async def test_contents_are_never_on_a_command_line_and_leave_nothing_behind(tmp_path):
    inner = Recording()
    secret = b"the secret content"
    await adapt(inner).replace(str(tmp_path / "a.md"), secret, expected=ABSENT)
    words = "\n".join(word for command in inner.commands for word in command)
    assert secret.decode() not in words
    assert "dGhlIHNlY3JldCBjb250ZW50" not in words
    assert len(inner.written) == 1
    assert not await inner.file_exists(inner.written[0])


async def test_a_request_too_large_for_an_argument_goes_through_a_file(tmp_path, monkeypatch):
    # By module: the package's attribute of that name is the function.
    monkeypatch.setattr(sys.modules["agentic_memory.backends.adapt"], "MAX_ARGUMENT_BYTES", 10)
    inner = Recording()
    (tmp_path / "a.md").write_bytes(b"a")
    assert (await adapt(inner).fetch(str(tmp_path / "a.md"))).data == b"a"
    assert len(inner.written) == 1
    assert not await inner.file_exists(inner.written[0])


async def test_a_request_finds_another_way_where_tmp_is_closed(tmp_path):
    class NoTmp(Recording):
        async def write_file(self, path, data):
            if path.startswith("/tmp/.agentic"):
                raise PermissionError(path)
            await super().write_file(path, data)

        async def getcwd(self):
            return str(tmp_path)

    inner = NoTmp()
    await adapt(inner).replace(str(tmp_path / "a.md"), b"a", expected=ABSENT)
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


@pytest.mark.parametrize(
    "answer",
    [
        ExecResult(-1, b"", b"sandbox is gone"),
        ExecResult(0, b"", b""),
        ExecResult(0, b"Welcome to Sandbox OS\n", b""),
        ExecResult(127, b"", b"sh: not found"),
        ExecResult(137, b"", b""),
        RuntimeError("connection reset"),
        TimeoutError(),
    ],
    ids=["lost", "silent", "banner", "no-shell", "killed", "error", "timeout"],
)
async def test_a_dead_sandbox_is_never_an_empty_one(answer, tmp_path):
    backend = adapt(Broken(answer))
    path = str(tmp_path / "a.md")
    for call in (
        lambda: backend.snapshot(str(tmp_path)),
        lambda: backend.fetch(path),
        lambda: backend.transact([Put(path, b"new", ANY)]),
        lambda: backend.file_exists(path),
        lambda: backend.is_dir(str(tmp_path)),
        lambda: backend.list_dir(str(tmp_path)),
    ):
        with pytest.raises(BackendUnavailable):
            await call()


async def test_agentscopes_own_tools_find_commands_and_directory_as_before(tmp_path):
    inner = Recording()
    backend = adapt(inner)
    assert await backend.exec_shell(["printf", "hi"]) == ExecResult(0, b"hi", b"")
    assert await backend.getcwd() == await inner.getcwd()
    assert await backend.expanduser("~/x") == await inner.expanduser("~/x")
    await backend.write_file(str(tmp_path / "s.md"), b"abc")
    assert b"".join([chunk async for chunk in backend.read_stream(str(tmp_path / "s.md"), 2)]) == b"abc"
    await backend.delete_path(str(tmp_path / "s.md"))
    assert not await backend.file_exists(str(tmp_path / "s.md"))


class Workspace:
    """As AgentScope's workspaces: hands out the backend of now."""

    def __init__(self, backend=None):
        self.backend = backend

    def get_backend(self):
        if self.backend is None:
            raise RuntimeError("initialize the workspace first")
        return self.backend


async def test_a_workspace_that_reconnects_is_asked_every_time(tmp_path):
    workspace = Workspace(Recording())
    backend = adapt(workspace)
    path = str(tmp_path / "a.md")
    await backend.replace(path, b"a", expected=ABSENT)
    first, workspace.backend = workspace.backend, Broken(ExecResult(-1, b"", b"gone"))
    with pytest.raises(BackendUnavailable):
        await backend.fetch(path)
    calls = len(first.commands)
    workspace.backend = Recording()
    assert (await backend.fetch(path)).data == b"a"
    assert len(first.commands) == calls
    assert backend.round_trips == 2 + 1 + 1


async def test_a_workspace_without_a_backend_is_unavailable_until_it_has_one(tmp_path):
    workspace = Workspace()
    backend = adapt(workspace)
    with pytest.raises(BackendUnavailable, match="initialize the workspace"):
        await backend.snapshot(str(tmp_path / "memory"))
    assert (await backend.exec_shell(["true"])).exit_code == -1
    workspace.backend = AgentScopeLocalBackend()
    assert not (await backend.snapshot(str(tmp_path / "memory"))).exists


async def test_functions_plain_and_async_may_give_the_backend(tmp_path):
    memory = InMemoryBackend()

    async def later():
        await asyncio.sleep(0)
        return memory

    for source in (lambda: memory, later):
        backend = adapt(source)
        assert isinstance(backend, ReconnectingBackend)
        await backend.write_file("/a.md", b"x")
        assert await backend.read_file("/a.md") == b"x"
        with pytest.raises(Conflict):
            await backend.replace("/a.md", b"y", expected=ABSENT)


def test_a_cache_key_stands_for_the_place_and_not_for_the_wrapper():
    inner, other = Recording(), Recording()
    assert adapt(inner).cache_key == adapt(inner).cache_key
    assert adapt(inner).cache_key != adapt(other).cache_key
    other.container = inner.container = type("Container", (), {"id": "c0ffee"})()
    assert adapt(inner).cache_key == adapt(other).cache_key
    hash(adapt(lambda: inner).cache_key)
