"""Any AgentScope backend, with this package's promises.

``adapt`` takes what AgentScope has (a backend of its own or of a third party, a workspace, a function that returns a
backend) and gives a ``Backend``:

==============================================  ======================================================
given                                           result
==============================================  ======================================================
one of this package's backends                  the same object
``agentscope.tool.LocalBackend`` itself         ``LocalBackend`` of this package
any other ``BackendBase``                       ``AdaptedBackend``: the shell protocol over ``exec_shell``
a workspace, or a function (also ``async``)     ``ReconnectingBackend``: asked anew for every call
==============================================  ======================================================
"""

import asyncio
import inspect
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Hashable
from contextlib import suppress
from itertools import count
from secrets import token_hex
from typing import Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from agentscope.tool import BackendBase, DirEntry, ExecResult
from agentscope.tool import LocalBackend as AgentScopeLocalBackend

from agentic_memory.backends.base import Backend
from agentic_memory.backends.local import LocalBackend
from agentic_memory.backends.shell import ShellBackend, script_of
from agentic_memory.backends.values import MAX_FILE_BYTES, Absent, Changes, FileRecord, Tree
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable

MAX_ARGUMENT_BYTES: Final = 48 * 1024
"""A request up to this size, and without file contents, travels as an argument.

Linux allows 128 KiB for one argument, some transports make one of the whole command line, and base64 takes a third more.
"""
DEFAULT_TIMEOUT_SECONDS: Final = 60.0
_CHUNK_BYTES: Final = 1024 * 1024

# $1 is the script; $2 the request in base64, or the path of a file with it, which is unlinked as soon as it is open.
_FROM_ARGUMENT: Final = 'printf %s "$2" | base64 -d | sh -c "$1"'
_FROM_FILE: Final = 'exec 0<"$2" && rm -f "$2" && eval "$1"'

_T = TypeVar("_T")
_serial = count(1)
_keys: WeakKeyDictionary[Any, Hashable] = WeakKeyDictionary()


def adapt(source: object, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> Backend:
    """Return a ``Backend`` for ``source``; see the module text for what may be given.

    Args:
        source: A backend, a workspace (anything with ``get_backend``), or a function that returns a backend.
        timeout: Seconds until a command that did not end is given up as ``BackendUnavailable``.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(source, Backend):
        return source
    if type(source) is AgentScopeLocalBackend:
        # Only the class itself: what a subclass changed would be lost on the way.
        return LocalBackend()
    if isinstance(source, BackendBase):
        return AdaptedBackend(source, timeout=timeout)
    get_backend = getattr(source, "get_backend", None)
    if callable(get_backend):
        return ReconnectingBackend(get_backend, source=source, timeout=timeout)
    if callable(source) and not isinstance(source, type):
        return ReconnectingBackend(source, source=source, timeout=timeout)
    raise TypeError(
        f"{type(source).__name__} cannot hold a memory: give an AgentScope backend, a workspace, or a function that "
        "returns a backend"
    )


class AdaptedBackend(ShellBackend):
    """Keep the backend's promises over another backend's ``exec_shell`` and ``write_file``.

    Reading costs one command. Writing costs two calls: contents travel in a temporary file, which the script removes as
    soon as it has opened it, and never on a command line. Answers come as base64, since some backends decode what a
    command prints.
    """

    text_only = True

    def __init__(self, inner: BackendBase, *, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        super().__init__()
        self.inner = inner
        self._timeout = timeout

    @property
    def cache_key(self) -> Hashable:
        """Identify the container or sandbox where the backend tells it, else the backend object."""
        return _key_of(self.inner)

    async def _run(self, script: str, request: bytes) -> bytes:
        # Waited for even when the caller is cancelled: a write happens wholly or not at all, and some backends leave a
        # command that nobody waits for behind them. The timeout bounds it.
        if script != script_of("transact") and len(request) <= MAX_ARGUMENT_BYTES:
            return await _finish(self._execute(_FROM_ARGUMENT, script, b64encode(request).decode("ascii")))
        return await _finish(self._run_from_file(script, request))

    async def _run_from_file(self, script: str, request: bytes) -> bytes:
        path = await self._leave(request)
        try:
            return await self._execute(_FROM_FILE, script, path)
        except BaseException:
            with suppress(Exception):
                await self.inner.exec_shell(["rm", "-f", path], timeout=self._timeout)
            raise

    async def _leave(self, request: bytes) -> str:
        """Put the request where the script finds it, and return the path."""
        name = f".agentic-memory.{token_hex(16)}.request"
        self.round_trips += 1
        try:
            path = f"/tmp/{name}"  # noqa: S108 - a path in the sandbox, with a name nobody can guess
            await self.inner.write_file(path, request)
        except Exception:  # noqa: BLE001 - whatever it is: /tmp may be closed where the working directory is open
            path = self.join_path(await self.getcwd(), name)
            try:
                await self.inner.write_file(path, request)
            except Exception as exc:
                raise BackendUnavailable(f"{self._name}: nothing can be written there: {exc}") from exc
        return path

    async def _execute(self, wrapper: str, *arguments: str) -> bytes:
        try:
            result = await self.inner.exec_shell(["sh", "-c", wrapper, "sh", *arguments], timeout=self._timeout)
        except AgenticMemoryError:
            raise
        except Exception as exc:
            raise BackendUnavailable(f"{self._name} could not run a command: {exc}") from exc
        if not result.ok():
            said = result.stderr[:200].decode("utf-8", "replace").strip()
            raise BackendUnavailable(
                f"{self._name} could not run a command (exit code {result.exit_code}){f': {said}' if said else ''}"
            )
        return result.stdout

    @property
    def _name(self) -> str:
        return type(self.inner).__name__

    # ------------------------------------------------------------------ what AgentScope's tools call

    async def exec_shell(
        self, command: list[str], *, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        """Run a program, as the adapted backend does it."""
        return await self.inner.exec_shell(command, cwd=cwd, timeout=timeout)

    async def getcwd(self) -> str:
        """Return the adapted backend's working directory; ``BackendUnavailable`` when it does not say."""
        try:
            path = await self.inner.getcwd()
        except Exception as exc:
            raise BackendUnavailable(f"{self._name} does not tell its working directory: {exc}") from exc
        if not self.isabs(path):
            # The default implementation gives back what a failed command printed.
            raise BackendUnavailable(f"{self._name} does not tell its working directory")
        return path

    async def expanduser(self, path: str) -> str:
        """Expand ``~`` as the adapted backend does it."""
        return await self.inner.expanduser(path)

    async def read_stream(self, path: str, chunk_size: int = _CHUNK_BYTES) -> AsyncIterator[bytes]:
        """Read in chunks, as the adapted backend does it."""
        async for chunk in self.inner.read_stream(path, chunk_size):
            yield chunk

    async def delete_path(self, path: str) -> None:
        """Delete a file or a directory with all that is in it; ``BackendUnavailable`` when that failed."""
        result = await self.inner.exec_shell(["rm", "-rf", "--", path])
        if not result.ok():
            raise BackendUnavailable(f"{path} could not be deleted: {result.stderr.decode('utf-8', 'replace').strip()}")


class ReconnectingBackend(Backend):
    """Ask for the backend anew at every call, so that a dead one is never kept.

    Args:
        ask: Returns the backend of now, or an awaitable of it.
        source: What ``cache_key`` stands for.
    """

    def __init__(self, ask: Callable[[], object], *, source: object, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self._ask = ask
        self._source = source
        self._timeout = timeout
        self._latest: tuple[object, Backend] | None = None
        self._trips_before = 0

    @property
    def cache_key(self) -> Hashable:
        """Identify the workspace or function. What it hands out later may hold other bytes; versions tell."""
        return _key_of(self._source)

    @property
    def round_trips(self) -> int:  # type: ignore[override]
        """Sum over all backends there have been."""
        return self._trips_before + (self._latest[1].round_trips if self._latest else 0)

    async def current(self) -> Backend:
        """Return the adapted backend of now; ``BackendUnavailable`` when there is none."""
        try:
            given = self._ask()
            if inspect.isawaitable(given):
                given = await cast("Awaitable[object]", given)
        except AgenticMemoryError:
            raise
        except Exception as exc:
            raise BackendUnavailable(f"{type(self._source).__name__} has no backend now: {exc}") from exc
        if self._latest is None or self._latest[0] is not given:
            if not isinstance(given, BackendBase):
                raise TypeError(f"{type(given).__name__} is no backend, but was given as one")
            self._trips_before = self.round_trips
            adapted = adapt(given, timeout=self._timeout)
            # One that has been in use elsewhere comes with trips that were not made through here.
            self._trips_before -= adapted.round_trips
            self._latest = (given, adapted)
        return self._latest[1]

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
        backend = await self.current()
        return await backend.snapshot(root, known=known, suffix=suffix, hidden=hidden, max_bytes=max_bytes)

    async def fetch(
        self, path: str, *, within: str | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> FileRecord | Absent:
        """Read one file; as ``Backend.fetch``."""
        return await (await self.current()).fetch(path, within=within, max_bytes=max_bytes)

    async def transact(self, changes: Changes, *, within: str | None = None) -> None:
        """Apply all ``changes`` or none; as ``Backend.transact``."""
        await (await self.current()).transact(changes, within=within)

    # ------------------------------------------------------------------ what AgentScope's tools call

    async def exec_shell(
        self, command: list[str], *, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        """Run a program; exit code -1 when there is no backend now."""
        try:
            backend = await self.current()
        except BackendUnavailable as exc:
            return ExecResult(-1, b"", str(exc).encode())
        return await backend.exec_shell(command, cwd=cwd, timeout=timeout)

    async def getcwd(self) -> str:
        """Return the working directory of now."""
        return await (await self.current()).getcwd()

    async def expanduser(self, path: str) -> str:
        """Expand ``~`` there."""
        return await (await self.current()).expanduser(path)

    async def resolve(self, path: str) -> str:
        """Return ``path`` absolute and normalised, in the terms of the backend of now."""
        return await (await self.current()).resolve(path)

    async def read_stream(self, path: str, chunk_size: int = _CHUNK_BYTES) -> AsyncIterator[bytes]:
        """Read in chunks."""
        async for chunk in (await self.current()).read_stream(path, chunk_size):
            yield chunk

    async def stat(self, path: str) -> DirEntry | None:
        """Return type, size and modification time; None when surely nothing is there."""
        return await (await self.current()).stat(path)

    async def file_exists(self, path: str) -> bool:
        """Tell whether anything is at ``path``."""
        return await (await self.current()).file_exists(path)

    async def is_dir(self, path: str) -> bool:
        """Tell whether a directory is at ``path``."""
        return await (await self.current()).is_dir(path)

    async def stat_mtime(self, path: str) -> float | None:
        """Return the modification time in seconds; None when surely nothing is there."""
        return await (await self.current()).stat_mtime(path)

    async def scandir(self, path: str) -> list[DirEntry]:
        """List a directory."""
        return await (await self.current()).scandir(path)

    async def list_dir(self, path: str, *, recursive: bool = False) -> list[str]:
        """List a directory's names, or the paths of every file below it."""
        return await (await self.current()).list_dir(path, recursive=recursive)

    async def delete_path(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it."""
        await (await self.current()).delete_path(path)


def _key_of(source: object) -> Hashable:
    """Return a key that is equal only for what reaches the same place, and outlives no object it is made of."""
    for name in ("container", "_container", "sandbox", "_sandbox"):
        place = getattr(source, name, None)
        for attribute in ("id", "_id", "sandbox_id"):
            identity = getattr(place, attribute, None)
            if isinstance(identity, str) and identity:
                return (type(source).__name__, identity)
    try:
        if source not in _keys:
            _keys[source] = ("adapted", next(_serial))
        return _keys[source]
    except TypeError:
        # It can be neither hashed nor referred to weakly; its number may come again, but only after it is gone.
        return ("adapted object", id(source))


async def _finish(work: Coroutine[Any, Any, _T]) -> _T:
    """Await ``work`` to its end, also when cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            await task
        raise
