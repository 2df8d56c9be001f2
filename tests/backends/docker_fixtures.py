"""Fixtures of the Docker tests: take them with ``pytest_plugins = ["docker_fixtures"]``.

One container serves a module, and every test works in a directory of its own. Without an engine the tests are skipped
with the command that starts one; where CI is "true" that is a failure.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
from docker.models.containers import Container
from docker_place import IMAGES, engine_host


@pytest.fixture(scope="session")
def docker_client() -> Iterator[docker.DockerClient]:
    """A client of the engine, and the environment pointed at it."""
    host = engine_host()
    if not host:
        reason = "no Docker engine with the test images: run scripts/docker-engine start"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", host)
        client = docker.DockerClient(base_url=host)
        yield client
        client.close()


NewContainer = Callable[..., Container]


def _starter(client: docker.DockerClient) -> Iterator[NewContainer]:
    made: list[Container] = []

    def start(image: str = "busybox", command: Any = ("sleep", "3600"), **options: Any) -> Container:
        made.append(
            client.containers.run(
                IMAGES.get(image, image), list(command), detach=True, network_mode="none", init=True, **options
            )
        )
        return made[-1]

    yield start
    for container in made:
        container.remove(force=True, v=True)


@pytest.fixture
def start_container(docker_client: docker.DockerClient) -> Iterator[NewContainer]:
    """Start containers that one test may do anything to."""
    yield from _starter(docker_client)


@pytest.fixture(scope="module")
def busybox(docker_client: docker.DockerClient) -> Iterator[Container]:
    """A container for the whole module, with BusyBox as its userland."""
    for start in _starter(docker_client):
        yield start("busybox")


@pytest.fixture(scope="module")
def debian(docker_client: docker.DockerClient) -> Iterator[Container]:
    """A container for the whole module, with a Debian userland."""
    for start in _starter(docker_client):
        yield start("debian")
