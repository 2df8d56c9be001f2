"""A shell backend without any sandbox: the protocol on this machine's own shells, where most of it is tested."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from agentscope.tool import ExecResult
from agentscope.tool import LocalBackend as AgentScopeLocal

from agentic_memory.backends.shell import ShellBackend
from agentic_memory.testing import Place

SHELLS = ("dash", "bash", "busybox")


@cache
def find_shell(name: str) -> tuple[tuple[str, ...], str]:
    """Return how to start the shell ``name`` and the PATH for it; the PATH is empty when there is no such shell."""
    program = shutil.which(name)
    if program is None:
        return (), ""
    if name != "busybox":
        return (program,), os.environ["PATH"]
    # Only BusyBox's own commands, so that nothing of coreutils helps out.
    applets = Path(mkdtemp(prefix="applets-"))
    for applet in subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout.split():
        if applet != "busybox":
            (applets / applet).symlink_to(program)
    return (program, "sh"), str(applets)


class SubprocessBackend(ShellBackend):
    """Runs every script in a new shell of this machine.

    ``spoil`` changes what comes back, for tests of answers that are not whole.
    """

    def __init__(self, shell: str, workdir: str | None = None, *, text_only: bool = False) -> None:
        super().__init__(workdir)
        self.text_only = text_only
        self.command, self.path = find_shell(shell)
        self.spoil: Callable[[bytes], bytes] = bytes
        self.scripts: list[str] = []

    @property
    def cache_key(self) -> str:
        """This machine."""
        return "local"

    async def exec_shell(
        self, command: list[str], *, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        """As AgentScope runs things on this machine."""
        return await AgentScopeLocal().exec_shell(command, cwd=cwd, timeout=timeout)

    async def _run(self, script: str, request: bytes) -> bytes:
        self.scripts.append(script)
        process = await asyncio.create_subprocess_exec(
            *self.command,
            "-c",
            script,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PATH": self.path},
            start_new_session=True,  # so that a script can be killed with all it started, and nothing else
        )
        running = asyncio.ensure_future(process.communicate(request))
        try:
            answer, complaints = await asyncio.shield(running)
        except asyncio.CancelledError:
            await running  # what has begun is finished, as a real place does it
            raise
        assert not complaints, complaints.decode("utf-8", "replace")
        return self.spoil(answer)


def subprocess_place(shell: str, directory: Path, *, text_only: bool = False) -> Place:
    """Return a contract place in ``directory`` with the shell ``shell``."""
    workdir = directory / "work"
    workdir.mkdir()

    @asynccontextmanager
    async def unreachable() -> AsyncIterator[None]:
        away = workdir.rename(directory / "away")
        yield
        away.rename(workdir)

    backend = SubprocessBackend(shell, str(workdir), text_only=text_only)

    @asynccontextmanager
    async def cut_short() -> AsyncIterator[None]:
        backend.spoil = lambda raw: raw[: len(raw) // 2]
        yield
        backend.spoil = bytes

    return Place(
        backend=backend,
        rival=SubprocessBackend(shell, str(workdir)),
        root=str(workdir / "memory"),
        outside=str(directory / "outside"),
        run=run_here,
        unreachable=unreachable,
        cut_short=cut_short,
    )


async def run_here(script: str) -> bytes:
    """Run a script on this machine and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, complaints = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {complaints.decode('utf-8', 'replace')}")
    return output
