"""Where chaos happens: how an agent and a person each get at the bytes there."""

import base64
import os
import random
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from agentic_memory.backends import Backend, DockerBackend, LocalBackend
from agentic_memory.errors import BackendUnavailable

FAULT_SHARE = 0.03
"""Calls of an agent's backend that fail: half of them before anything happened, half after it was done."""


class Place(Protocol):
    """A directory that agents reach through a backend, and people with an editor."""

    root: str

    def backend(self) -> Backend:
        """Return a backend of one's own."""

    def read(self, path: str) -> bytes:
        """Read as an editor does."""

    def save(self, path: str, data: bytes, *, in_place: bool) -> None:
        """Save as an editor does: over the old text, or by renaming a new file into its place."""


@dataclass(frozen=True)
class LocalPlace:
    """A directory on this machine."""

    root: str

    def backend(self) -> Backend:
        return LocalBackend()

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def save(self, path: str, data: bytes, *, in_place: bool) -> None:
        target = path if in_place else f"{os.path.dirname(path)}/.{os.path.basename(path)}.{os.getpid()}.swp"
        with open(target, "wb") as file:
            file.write(data)
        if not in_place:
            os.replace(target, path)


@dataclass(frozen=True)
class ContainerPlace:
    """A directory in a container."""

    root: str
    container: str

    def backend(self) -> Backend:
        return DockerBackend(self.container, os.path.dirname(self.root), timeout=20)

    def read(self, path: str) -> bytes:
        return self._run(f"cat {shlex.quote(path)}")

    def save(self, path: str, data: bytes, *, in_place: bool) -> None:
        coded = base64.b64encode(data).decode()
        target = path if in_place else f"{os.path.dirname(path)}/.{os.path.basename(path)}.{os.getpid()}.swp"
        rename = "" if in_place else f" && mv {shlex.quote(target)} {shlex.quote(path)}"
        self._run(f"t=$(mktemp) && echo {coded} | base64 -d > $t && cat $t > {shlex.quote(target)}{rename} && rm $t")

    def _run(self, script: str) -> bytes:
        import docker

        client = docker.from_env()
        try:
            code, (output, errors) = client.containers.get(self.container).exec_run(["sh", "-c", script], demux=True)
        finally:
            client.close()
        if code:
            raise OSError((errors or b"").decode("utf-8", "replace"))
        return output or b""


@asynccontextmanager
async def faulty(backend: Backend, chance: random.Random) -> AsyncIterator[Backend]:
    """Let some of the backend's calls fail, as a service does: before they did anything, or after they did it all."""
    for name in ("snapshot", "fetch", "transact"):
        setattr(backend, name, _failing(getattr(backend, name), chance))
    try:
        yield backend
    finally:
        close = getattr(backend, "aclose", None)
        if close is not None:
            await close()


def _failing(call, chance):
    async def run(*args, **kwargs):
        luck = chance.random()
        if luck < FAULT_SHARE / 2:
            raise BackendUnavailable("chaos: the call never arrived")
        result = await call(*args, **kwargs)
        if luck > 1 - FAULT_SHARE / 2:
            raise BackendUnavailable("chaos: the answer never arrived")
        return result

    return run
