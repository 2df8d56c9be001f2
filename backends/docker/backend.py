"""Memory in a Docker container, through the daemon's API and the container's own ``sh``.

Three ways, the first that works:

1. a long-lived ``exec`` shell (a few of them when calls overlap), one exchange per call;
2. for very large requests, one ``exec`` of its own;
3. for images without ``sh``, the archive API. It can replace a file only by first removing it, so nothing written
   through it could be promised to survive: such a place can be read, and a write is refused.

Owner, group and mode come out as for the container's own user, because its own shell does the writing; a root file
system that is read-only does not matter where the memory lies in a volume, since nothing is written elsewhere.

Stopped, paused or removed containers, a daemon that is gone, a PID limit and a working directory that is missing are
``BackendUnavailable``, told within ``timeout`` and mostly at once. A writing script asks for a last word when all is
prepared, so a call that was given up on a paused container does not write when the container is unpaused. Only when the
connection breaks after that word, within the few milliseconds of the renames, is it open whether the change happened;
the error says so.
"""

from collections.abc import Collection, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import anyio
from agentscope.tool import ExecResult
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

from agentic_memory.backends.base import check_path
from agentic_memory.backends.docker.archive import fetch_from_archive, snapshot_from_archive
from agentic_memory.backends.docker.shells import MAX_LOOP_REQUEST_BYTES, Shells
from agentic_memory.backends.docker.wire import Exec, NoShellError, connect
from agentic_memory.backends.shell import ShellBackend, script_of
from agentic_memory.backends.threads import run_to_end
from agentic_memory.backends.values import MAX_FILE_BYTES, Absent, Changes, FileRecord, Tree
from agentic_memory.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from docker import DockerClient

MAX_WAITING_THREADS: Final = 16
DEFAULT_TIMEOUT_SECONDS: Final = 30.0

_T = TypeVar("_T")
# Calls that wait for a shell must not use up the event loop's common worker threads.
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("agentic_memory_docker_limiter")


class DockerBackend(ShellBackend):
    """Keep a memory in a running container.

    Args:
        container: A container object of ``docker`` or ``aiodocker``, or an id or name (then the daemon is the one
            the environment names).
        workdir: Absolute path in the container; relative paths and commands start there. It must be there.
        timeout: Seconds until a call that got no answer is given up as ``BackendUnavailable``.

    ``aclose()`` (or ``async with``) hangs up; the container goes on.
    """

    def __init__(self, container: Any, workdir: str, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        super().__init__(check_path(workdir))
        self._cwd = check_path(workdir)
        self._timeout = timeout
        self._container, self._client, self._base_url = _identify(container)
        self._owns_client = self._client is None
        self._shells: Shells | None = None
        self._without_shell = False

    @property
    def cache_key(self) -> Hashable:
        """Identify the container by the id or name given, and the daemon."""
        return ("docker", self._base_url or "", self._container)

    # ------------------------------------------------------------------ the seam, where there is no shell

    async def snapshot(
        self,
        root: str,
        *,
        known: Collection[str] = frozenset(),
        suffix: str = "",
        hidden: bool = False,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> Tree:
        """See every file under ``root``; as ``Backend.snapshot``."""
        if not self._without_shell:
            try:
                return await super().snapshot(root, known=known, suffix=suffix, hidden=hidden, max_bytes=max_bytes)
            except NoShellError:
                self._without_shell = True
        root = check_path(root)
        self.round_trips += 1
        return await self._in_thread(
            lambda: snapshot_from_archive(
                self._connect(), self._container, root, known=known, suffix=suffix, hidden=hidden, max_bytes=max_bytes
            )
        )

    async def fetch(
        self, path: str, *, within: str | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> FileRecord | Absent:
        """Read one file; as ``Backend.fetch``."""
        if not self._without_shell:
            try:
                return await super().fetch(path, within=within, max_bytes=max_bytes)
            except NoShellError:
                self._without_shell = True
        path = check_path(path)
        inside = None if within is None else check_path(within)
        self.round_trips += 1
        return await self._in_thread(
            lambda: fetch_from_archive(self._connect(), self._container, path, within=inside, max_bytes=max_bytes)
        )

    async def transact(self, changes: Changes, *, within: str | None = None) -> None:
        """Apply all ``changes`` or none; as ``Backend.transact``. Refused where the image has no ``sh``."""
        try:
            await super().transact(changes, within=within)
        except NoShellError as exc:
            raise BackendUnavailable(
                f"{exc}, so nothing can be written there safely; use an image with sh, or keep the memory in a mounted "
                "directory and use LocalBackend"
            ) from exc

    async def _run(self, script: str, request: bytes) -> bytes:
        changes = script == script_of("transact")
        call = partial(self._call, script, request, changes=changes)
        return await self._in_thread(call, changes=changes)

    def _call(self, script: str, request: bytes, *, changes: bool) -> bytes:
        client = self._connect()
        if len(request) <= MAX_LOOP_REQUEST_BYTES:
            assert self._shells is not None
            return self._shells.call(script, request, changes=changes, seconds=self._timeout)
        running = Exec(client, self._container, ["sh", "-c", script], cwd="/", seconds=self._timeout)
        try:
            running.send(request, last=True)
            return running.read()
        finally:
            running.close()

    # ------------------------------------------------------------------ what AgentScope's tools call

    async def exec_shell(
        self, command: list[str], *, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        """Run a program in the container; exit code -1 when it could not be run or did not end in time."""
        seconds = timeout if timeout is not None else _NO_LIMIT_SECONDS

        def execute() -> ExecResult:
            running = Exec(self._connect(), self._container, command, cwd=cwd or self._cwd, seconds=seconds)
            try:
                running.send(b"", last=True)
                output = running.read()
                return ExecResult(running.exit_code(), output, running.complaints)
            finally:
                running.close()

        try:
            return await self._in_thread(execute)
        except BackendUnavailable as exc:
            return ExecResult(-1, b"", str(exc).encode())

    async def getcwd(self) -> str:
        """Return the ``workdir`` given at construction."""
        return self._cwd

    # ------------------------------------------------------------------ life

    async def aclose(self) -> None:
        """Hang up on the container's shells and the daemon. The next call connects again."""
        await self._in_thread(self._hang_up)

    async def __aenter__(self) -> Self:
        """Return this backend."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Hang up."""
        await self.aclose()

    def _hang_up(self) -> None:
        shells, self._shells = self._shells, None
        if shells is not None:
            shells.close()
        if self._owns_client and self._client is not None:
            self._client.close()
            self._client = None

    def _connect(self) -> "DockerClient":
        client = self._client
        if client is None:
            client = self._client = connect(self._base_url, self._timeout)
        if self._shells is None:
            self._shells = Shells(client, self._container)
        return client

    async def _in_thread(self, call: "Callable[[], _T]", *, changes: bool = False) -> _T:
        try:
            limiter = _limiter.get()
        except LookupError:
            limiter = anyio.CapacityLimiter(MAX_WAITING_THREADS)
            _limiter.set(limiter)
        if changes:
            return await run_to_end(call, limiter=limiter)
        # A read that nobody waits for any more is left to its timeout.
        return await run_sync(call, limiter=limiter, abandon_on_cancel=True)


_NO_LIMIT_SECONDS: Final = 7 * 24 * 3600.0


def _identify(container: Any) -> "tuple[str, DockerClient | None, str | None]":
    """Return id or name, the client it came with, and the daemon's address."""
    if isinstance(container, str):
        if not container:
            raise ValueError("container is empty; give an id, a name or a container object")
        return container, None, None
    client = getattr(container, "client", None)
    if client is not None and hasattr(client, "api"):
        return str(container.id), client, str(client.api.base_url)
    asynchronous = getattr(container, "docker", None)
    if asynchronous is not None:
        # aiodocker's own connection belongs to an event loop; only its address is of use in a worker thread.
        path = getattr(getattr(asynchronous, "connector", None), "path", None)
        return str(container.id), None, f"unix://{path}" if path else str(asynchronous.docker_host)
    raise TypeError(
        f"{type(container).__name__} is no container: give a container object of docker or aiodocker, an id or a name"
    )
