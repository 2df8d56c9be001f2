"""DockerBackend keeps every promise, and so does ``adapt`` over AgentScope's own Docker backend.

The shell protocol passes the whole contract on both userlands without Docker (test_shell_contract.py). Here the whole of
it runs on BusyBox, the poorer one, and what depends on the userland on Debian.
"""

from typing import ClassVar

import aiodocker
import pytest
from agentscope.tool import BackendBase, ExecResult
from agentscope.workspace._docker._docker_backend import DockerBackend as AgentScopeDockerBackend
from anyio.to_thread import run_sync
from docker_place import container_place, new_workdir

from agentic_memory.backends.adapt import AdaptedBackend, adapt
from agentic_memory.backends.docker import DockerBackend
from agentic_memory.testing import BackendContract, LinkContract, ReadingContract, WritingContract

pytest_plugins = ["docker_fixtures"]
pytestmark = pytest.mark.docker


class InContainer:
    """What the contracts here share."""

    many: ClassVar = 1_000


class TestDockerBackendOnBusyBox(InContainer, BackendContract):
    @pytest.fixture
    async def place(self, busybox):
        directory = await run_sync(new_workdir, busybox)
        async with (
            DockerBackend(busybox, f"{directory}/site") as backend,
            DockerBackend(busybox.id, f"{directory}/site") as rival,
        ):
            yield container_place(busybox, directory, backend, rival)


class TestDockerBackendOnDebian(InContainer, WritingContract):
    @pytest.fixture
    async def place(self, debian):
        directory = await run_sync(new_workdir, debian)
        async with DockerBackend(debian, f"{directory}/site") as backend:
            yield container_place(debian, directory, backend)


# AgentScope's write_file hands aiodocker a large body as plain bytes, and aiohttp warns of that.
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
class TestAdaptedAgentScopeDockerBackend(InContainer, ReadingContract):
    trips_per_call: ClassVar = {"snapshot": 1, "fetch": 1, "transact": 2}  # contents travel in a file of their own

    @pytest.fixture
    async def place(self, debian):
        directory = await run_sync(new_workdir, debian)
        async with aiodocker.Docker() as client:
            inner = AgentScopeDockerBackend(client.containers.container(debian.id), f"{directory}/site")
            backend = adapt(inner)
            assert type(backend) is AdaptedBackend
            yield container_place(debian, directory, backend)


class ThreePrimitives(BackendBase):
    """The least an AgentScope backend can be: a command, a file read and a file write."""

    def __init__(self, container):
        self.container = container

    async def exec_shell(self, command, *, cwd=None, timeout=None):
        code, (output, complaints) = await run_sync(lambda: self.container.exec_run(command, demux=True, workdir=cwd))
        return ExecResult(code, output or b"", complaints or b"")

    async def read_file(self, path):
        return (await self.exec_shell(["cat", path])).stdout

    async def write_file(self, path, data):
        text = "".join(f"\\{byte:03o}" for byte in data)
        assert (await self.exec_shell(["sh", "-c", f"printf '{text}' > {path}"])).ok()


class TestAdaptedMinimalBackend(InContainer, LinkContract):
    trips_per_call: ClassVar = {"snapshot": 1, "fetch": 1, "transact": 2}  # contents travel in a file of their own

    @pytest.fixture
    async def place(self, busybox):
        directory = await run_sync(new_workdir, busybox)
        return container_place(busybox, directory, adapt(ThreePrimitives(busybox)))
