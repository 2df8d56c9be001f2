"""A memory inside an E2B sandbox: every call is one command there, on the ``e2b`` SDK.

What the SDK raises, and what leaks through it, becomes one of ours at this edge:

=====================================================  ===========================================================
The SDK                                                Here
=====================================================  ===========================================================
``SandboxNotRunningException``                         ``BackendUnavailable``: paused or gone, by ``get_info()``;
                                                       when that says "running", a lost reply
``SandboxNotFoundException``                           ``BackendUnavailable``: gone
``AuthenticationException``                            ``BackendUnavailable``: the key or the token is refused
``RateLimitException``                                 ``BackendUnavailable``: too many requests; not carried out
``InvalidArgumentException``                           ``BackendUnavailable``: the working directory is missing, the
                                                       user is unknown; not carried out
``NotEnoughSpaceException``                            ``BackendUnavailable``: the sandbox's disk is full
``CommandExitException``                               no failure: the shell protocol judges what was printed
``SandboxUnreachableException``, other                 ``BackendUnavailable``, **reply lost**: it may have been
``TimeoutException``, ``ServiceBusyException``, other  carried out all the same
``SandboxException``, ``httpx.TransportError`` (read
and write errors, timeouts), ``OSError`` from pyqwest,
``json.JSONDecodeError``, a stream without an end
=====================================================  ===========================================================

A lost reply to a read is an error and no more. A lost reply to a change is looked into: when the files have the hashes
that the change was to give them it has happened; else it is ``BackendUnavailable``, and nothing is ever written a second
time. A change that was begun goes on in the sandbox when its client is gone; it is applied wholly or not at all there.
"""

import asyncio
import base64
import contextlib
import gzip
import shlex
import uuid
from collections.abc import Hashable
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
from agentscope.tool import ExecResult

from agentic_memory.backends.preconditions import paths_of
from agentic_memory.backends.shell import ShellBackend
from agentic_memory.backends.shell.answer import TornAnswerError
from agentic_memory.backends.values import ABSENT, ANY, Change, Changes, Delete, Expected, Put, version_of
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable

if TYPE_CHECKING:
    from e2b import AsyncSandbox, CommandResult

MAX_INLINE_BYTES: Final = 64 * 1024
"""A longer command goes through a file: Linux refuses one at 128 KiB."""

TIMEOUT_SECONDS: Final = 30.0
GRACE_SECONDS: Final = 2.0
"""How long the SDK may take to keep its own timeout, which ends a request more tidily than cancelling it does."""

INQUIRY_SECONDS: Final = 5.0
"""How long it may take to learn why a sandbox is not running, or what has become of a change."""

LOOK_AGAIN_SECONDS: Final = (0.0, 0.1, 0.4)
"""When to look for a change whose reply was lost: its command may still be running."""


class TimedOutError(TornAnswerError):
    """A command gave no answer in time."""


class E2BBackend(ShellBackend):
    """The files of an E2B sandbox.

    Args:
        sandbox: An ``e2b.AsyncSandbox``, or an object that holds one, such as AgentScope's ``E2BBackend`` or
            ``E2BWorkspace``: that is asked at every call, so that a sandbox it reconnected to is used.
        workdir: Where relative paths and commands start; it must be there.
        timeout: Seconds after which a call gives up; finding out what has become of it may take a few more. A change
            that was begun in the sandbox is not stopped by it.

    A request of more than 64 KiB, compressed, is uploaded to ``/tmp`` first, which makes two crossings of one call, and
    ``round_trips`` says so: a large file that is written, or a reload of more than about a thousand files. A smaller
    one travels inside the command.
    """

    text_only = True  # the SDK hands out a command's output as text, and what is not UTF-8 is lost

    def __init__(self, sandbox: Any, workdir: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
        super().__init__(workdir)
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}: give a number of seconds above zero")
        if hasattr(sandbox, "commands") and not iscoroutinefunction(sandbox.commands.run):
            raise TypeError(f"{type(sandbox).__name__} blocks while it works: give an e2b.AsyncSandbox")
        self._holder = sandbox
        self._timeout = timeout

    @property
    def cache_key(self) -> Hashable:
        """Identify the sandbox by its id, which stays the same when it is paused and resumed."""
        return ("e2b", self._find_sandbox().sandbox_id)

    async def getcwd(self) -> str:
        """Return the working directory this backend was given."""
        return self._workdir or "/"

    async def exec_shell(
        self, command: list[str], *, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        """Run a program as AgentScope's tools do, with its output as the bytes it wrote.

        Args:
            command: The program and its arguments, all of them together less than 128 KiB.
            cwd: Where to run it; the working directory when None.
            timeout: Seconds; the backend's own timeout when None.

        Returns:
            The program's exit code, or -1 when it was given ``timeout`` and that has passed.

        Raises:
            BackendUnavailable: there is no exit code to tell, so that a failure is never taken for a "no".
        """
        # With pipefail the pipeline's exit code is the program's.
        script = f"set -o pipefail; {shlex.join(command)} | base64"
        try:
            answer = await self._run_command(script, cwd=cwd or self._workdir, seconds=timeout or self._timeout)
        except TimedOutError as error:
            if timeout is None:
                raise
            return ExecResult(-1, b"", str(error).encode())
        return ExecResult(answer.exit_code, base64.b64decode(answer.stdout), answer.stderr.encode())

    async def transact(self, changes: Changes, *, within: str | None = None) -> None:
        """Apply all ``changes`` or none; when the reply is lost, look whether it has happened.

        What has begun goes on in the sandbox whatever becomes of the caller, so that a cancelled call waits a little for
        its end: the files shall not change behind the back of whoever cancelled.
        """
        work = asyncio.ensure_future(self._transact(changes, within))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait({work}, timeout=INQUIRY_SECONDS)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            raise

    async def _transact(self, changes: Changes, within: str | None) -> None:
        try:
            await super().transact(changes, within=within)
        except TornAnswerError as error:
            if await self._has_happened(changes, within):
                return
            paths = ", ".join(path for change in changes for path in paths_of(change))
            raise BackendUnavailable(
                f"{error}; it cannot be told whether {paths} was changed or will be: read it again before you write"
            ) from error

    # ------------------------------------------------------------------ crossing over

    async def _run(self, script: str, request: bytes) -> bytes:
        program = f"gzip -dc | sh -c {shlex.quote(script)}"
        small = len(request) <= MAX_INLINE_BYTES
        packed = pack(request) if small else await anyio.to_thread.run_sync(pack, request)
        command = f"base64 -d <<'-' | {program}\n{base64.b64encode(packed).decode()}\n-\n"
        if len(command) <= MAX_INLINE_BYTES:
            answer = await self._run_command(command, cwd="/", seconds=self._timeout)
            return answer.stdout.encode()
        path = f"/tmp/.agentic-memory.{uuid.uuid4().hex}"  # noqa: S108 - the name cannot be guessed
        try:
            await self._upload(path, packed)
            answer = await self._run_command(f"<{path} {program}; rm -f {path}", cwd="/", seconds=self._timeout)
        except BackendUnavailable:
            await self._discard(path)
            raise
        return answer.stdout.encode()

    async def _upload(self, path: str, data: bytes) -> None:
        sandbox = self._find_sandbox()
        self.round_trips += 1  # the command that follows is counted by the protocol
        try:
            async with asyncio.timeout(self._timeout + GRACE_SECONDS):
                await sandbox.files.write(path, data, request_timeout=self._timeout)
        except Exception as error:  # the SDK leaks what its transport raises
            why = await self._explain(sandbox, error)
            # Nothing carries out half a request, so this is certain where the reply to a command is not.
            raise BackendUnavailable(f"{why}; nothing was changed") from error

    async def _discard(self, path: str) -> None:
        """Remove an uploaded request; a command that is reading it reads on."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(INQUIRY_SECONDS):
                await self._find_sandbox().files.remove(path, request_timeout=INQUIRY_SECONDS)

    async def _run_command(self, command: str, *, cwd: str | None, seconds: float) -> "CommandResult[str]":
        from e2b import CommandExitException

        sandbox = self._find_sandbox()
        mark = uuid.uuid4().hex  # what a login shell says comes before it
        try:
            async with asyncio.timeout(seconds + GRACE_SECONDS):
                answer: CommandResult[str] = await sandbox.commands.run(
                    f"echo {mark}\n{command}", cwd=cwd, timeout=seconds, request_timeout=seconds
                )
        except CommandExitException as ending:
            answer = ending
        except Exception as error:  # as above
            raise await self._explain(sandbox, error) from error
        _, marked, answer.stdout = answer.stdout.partition(f"{mark}\n")
        if not marked:
            raise TornAnswerError(f"E2B sandbox {sandbox.sandbox_id} gave no answer but {answer.stderr[:200]!r}")
        return answer

    async def _has_happened(self, changes: Changes, within: str | None) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(INQUIRY_SECONDS):
                for delay in LOOK_AGAIN_SECONDS:
                    await asyncio.sleep(delay)
                    with contextlib.suppress(AgenticMemoryError):
                        if all([await self._is_applied(change, within) for change in changes]):
                            return True
        return False

    async def _is_applied(self, change: Change, within: str | None) -> bool:
        for path, wanted in _outcome(change):
            found = await self.fetch(path, within=within)
            if found is ABSENT or wanted is ABSENT:
                if found is not wanted:
                    return False
            elif wanted not in (ANY, found.version):
                return False
        return True

    # ------------------------------------------------------------------ errors

    def _find_sandbox(self) -> "AsyncSandbox":
        sandbox = self._holder if hasattr(self._holder, "commands") else getattr(self._holder, "_sandbox", None)
        if sandbox is None:
            raise BackendUnavailable(
                f"{type(self._holder).__name__} holds no E2B sandbox: initialise it, or give an e2b.AsyncSandbox"
            )
        return sandbox  # type: ignore[no-any-return]  # what it is, only the SDK could tell, which is an extra

    async def _explain(self, sandbox: "AsyncSandbox", error: Exception) -> BackendUnavailable:
        import e2b

        name = f"E2B sandbox {sandbox.sandbox_id}"
        match error:
            case e2b.SandboxNotRunningException() | e2b.SandboxNotFoundException():
                return await self._explain_absence(sandbox, name)
            case e2b.RateLimitException():
                return BackendUnavailable(f"{name} gets too many requests; wait and repeat: {error}")
            case e2b.AuthenticationException():
                return BackendUnavailable(f"{name} refuses the key or the user; check E2B_API_KEY: {error}")
            case e2b.InvalidArgumentException():
                return BackendUnavailable(f"{name} refuses the command; does the working directory exist? {error}")
            case e2b.NotEnoughSpaceException():
                return BackendUnavailable(f"{name} has no disk space left; free some and repeat: {error}")
            case TimeoutError() | e2b.TimeoutException() if not isinstance(error, e2b.SandboxUnreachableException):
                return TimedOutError(f"{name} did not answer in time")
            case _:
                return TornAnswerError(f"{name} did not answer ({type(error).__name__}: {error})")

    async def _explain_absence(self, sandbox: "AsyncSandbox", name: str) -> BackendUnavailable:
        import e2b

        try:
            async with asyncio.timeout(INQUIRY_SECONDS):
                info = await sandbox.get_info(request_timeout=INQUIRY_SECONDS)
        except e2b.NotFoundException:
            return BackendUnavailable(f"{name} is gone: it was killed, or its time was up; make a new one")
        except Exception as error:  # noqa: BLE001 - a second failure must not hide the first
            return TornAnswerError(f"{name} is not found, and its state cannot be asked for: {error}")
        if info.state is e2b.SandboxState.PAUSED:
            return BackendUnavailable(f"{name} is paused: resume it with its connect() and repeat")
        return TornAnswerError(f"{name} was not found by its proxy although it is running; repeat")


def pack(request: bytes) -> bytes:
    """Return ``request`` as gzip: what stat lines and Markdown shrink to mostly fits into a command."""
    return gzip.compress(request, compresslevel=1, mtime=0)


def _outcome(change: Change) -> list[tuple[str, Expected]]:
    """Return the paths of ``change`` with what must be there once it has been applied."""
    if isinstance(change, Put):
        return [(change.path, version_of(change.data))]
    if isinstance(change, Delete):
        return [(change.path, ABSENT)]
    return [(change.source, ABSENT), (change.target, change.expected)]
