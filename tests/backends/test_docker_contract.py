"""DockerBackend keeps every promise, in a Debian-like and in a BusyBox-like container."""

from typing import ClassVar

import pytest
from anyio.to_thread import run_sync
from docker_place import container_place, new_workdir

from agentic_memory.backends.docker import DockerBackend
from agentic_memory.testing import BackendContract

pytest_plugins = ["docker_fixtures"]
pytestmark = pytest.mark.docker


class TestDockerBackend(BackendContract):
    many: ClassVar = 2_000

    @pytest.fixture
    async def place(self, container):
        directory = await run_sync(new_workdir, container)
        async with (
            DockerBackend(container, f"{directory}/work") as backend,
            DockerBackend(container.id, f"{directory}/work") as rival,
        ):
            yield container_place(container, directory, backend, rival)
