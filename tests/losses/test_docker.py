"""The cases in a container."""

import pytest
from anyio.to_thread import run_sync
from docker_place import container_place, new_workdir

from agentic_memory.backends import DockerBackend
from losses.cases import Losses

pytest_plugins = ["docker_fixtures"]
pytestmark = pytest.mark.docker


class TestDocker(Losses):
    @pytest.fixture
    async def place(self, busybox):
        directory = await run_sync(new_workdir, busybox)
        async with (
            DockerBackend(busybox, f"{directory}/site") as backend,
            DockerBackend(busybox.id, f"{directory}/site") as rival,
        ):
            yield container_place(busybox, directory, backend, rival)
