"""Where the Docker tests run: containers of a real engine, Debian-like and BusyBox-like."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from anyio.to_thread import run_sync
from docker.models.containers import Container

from agentic_memory.backends.base import Backend
from agentic_memory.testing import Place

ENGINE = Path(__file__).resolve().parents[2] / "scripts" / "docker-engine"
IMAGES = {"debian": "agentic-memory-test/debian", "busybox": "agentic-memory-test/busybox"}


@cache
def engine_host() -> str:
    """Return the address of a running engine that has the images; empty when there is none."""
    told = subprocess.run([ENGINE, "env"], check=False, capture_output=True, text=True)
    if told.returncode:
        return ""
    host = told.stdout.strip().partition("=")[2]
    for image in IMAGES:
        if subprocess.run([ENGINE, "image", image], check=False, capture_output=True).returncode:
            return ""
    return host


def run_in(container: Container, script: str, **options: Any) -> bytes:
    """Run a script in the container and return what it printed."""
    code, (output, complaints) = container.exec_run(["sh", "-c", script], demux=True, **options)
    if code:
        raise RuntimeError(f"exit code {code}: {(complaints or b'').decode('utf-8', 'replace')}")
    return output or b""


def new_workdir(container: Container, **options: Any) -> str:
    """Make a directory that no other test uses and return its path."""
    path = f"/tmp/{uuid4().hex[:12]}"
    run_in(container, f"mkdir -p {path}/site", **options)
    return path


def container_place(container: Container, directory: str, backend: Backend, rival: Backend | None = None) -> Place:
    """Return a contract place in ``directory`` of a container."""

    async def run(script: str) -> bytes:
        return await run_sync(run_in, container, script)

    @asynccontextmanager
    async def unreachable() -> AsyncIterator[None]:
        await run_sync(container.pause)
        yield
        await run_sync(container.unpause)

    return Place(
        backend=backend,
        rival=rival,
        root=f"{directory}/site/memory",
        outside=f"{directory}/outside",
        run=run,
        unreachable=unreachable,
    )
