"""Long-lived shells in a container: a call costs one exchange over an open connection, not a new process.

Blocking code: it runs in worker threads only.
"""

import weakref
from hashlib import sha256
from threading import Condition
from typing import TYPE_CHECKING, Final

from agentic_memory.backends.docker.wire import BrokenOffError, Exec, NoShellError, check_running
from agentic_memory.backends.shell import text_of
from agentic_memory.errors import BackendUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

MAX_SHELLS: Final = 4
"""Calls that run at once in one container; the rest wait their turn."""
MAX_LOOP_REQUEST_BYTES: Final = 8 * 1024 * 1024
"""A larger request gets an exec of its own: the loop takes a request into memory at once."""

_NO_SUCH_PROGRAM: Final = ("executable file not found", "no such file or directory")


class Shell:
    """One ``sh`` that runs ``shell/loop.sh``."""

    def __init__(self, client: "DockerClient", container: str, seconds: float) -> None:
        self._defined: set[str] = set()
        self._exec = Exec(client, container, ["sh", "-c", text_of("loop")], cwd="/", seconds=seconds)
        try:
            self._greet(client, container)
        except BaseException:
            self._exec.close()
            raise

    def _greet(self, client: "DockerClient", container: str) -> None:
        """Wait until it serves, and tell an image without ``sh`` from a container that cannot start one now."""
        try:
            self._exec.send(b"call : hello 1 0\n.")
            self._exec.read(b"\nhello Z\n")
        except BrokenOffError as exc:
            check_running(client, container)
            if self._exec.exit_code() in (126, 127) and any(words in str(exc) for words in _NO_SUCH_PROGRAM):
                raise NoShellError(f"container {container} has no sh") from exc
            raise BackendUnavailable(f"container {container} cannot start a shell: {exc}") from exc

    @property
    def usable(self) -> bool:
        """Whether it still waits for a call."""
        return self._exec.idle

    def call(self, script: str, request: bytes, *, asks: bool, seconds: float) -> bytes:
        """Run one script; with ``asks`` it gets its last word when it says that all is prepared.

        Raises:
            BrokenOffError: it ended; whether the script took effect is open, unless it never got its last word.
        """
        self._exec.renew(seconds)
        name = f"f_{sha256(script.encode()).hexdigest()[:12]}"
        if name not in self._defined:
            text = script.encode()
            self._exec.send(b"define %s %d\n%s" % (name.encode(), len(text), text))
            self._defined.add(name)
        nonce = request[: request.index(b"\n")]
        self._exec.send(b"call %s %s %d %d\n%s" % (name.encode(), nonce, len(request), asks, request))
        over = b"\n%s Z\n" % nonce
        if not asks:
            return self._exec.read(over)
        ready = b"\n%s R\n" % nonce
        try:
            answer = self._exec.read(ready, over)
            if answer.endswith(over):
                return answer
            self._exec.send(b"go %s\n" % nonce)
        except BrokenOffError as exc:
            raise NeverBegunError(str(exc)) from exc
        return answer.removesuffix(ready) + self._exec.read(over)

    def close(self) -> None:
        """Hang up; the shell ends."""
        self._exec.close()


class NeverBegunError(BrokenOffError):
    """The shell ended before the script was told to go: surely nothing was changed."""


class Shells:
    """The shells of one container: lent out, reopened when they broke, closed with their owner."""

    def __init__(self, client: "DockerClient", container: str) -> None:
        self._client = client
        self._container = container
        self._free: list[Shell] = []
        self._lent = 0
        self._turn = Condition()
        self._finalizer = weakref.finalize(self, _close_all, self._free)

    def call(self, script: str, request: bytes, *, changes: bool, seconds: float) -> bytes:
        """Run one script in some shell.

        A shell that turns out to be dead is replaced once, if the script surely changed nothing.
        """
        for attempt in range(2):
            shell = self._borrow(seconds)
            sound = False
            try:
                answer = shell.call(script, request, asks=changes, seconds=seconds)
                sound = True
            except BrokenOffError as exc:
                if changes and not isinstance(exc, NeverBegunError):
                    raise BackendUnavailable(
                        f"{exc}; it was about to write, so look whether the change happened before repeating it"
                    ) from exc
                if attempt:
                    check_running(self._client, self._container)
                    raise
            else:
                return answer
            finally:
                self._give_back(shell, sound=sound)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Hang up on every shell that is not in use."""
        with self._turn:
            _close_all(self._free)

    def _borrow(self, seconds: float) -> Shell:
        with self._turn:
            if not self._turn.wait_for(lambda: self._free or self._lent < MAX_SHELLS, seconds):
                raise BackendUnavailable(f"container {self._container} is busy: no shell came free in {seconds:g} s")
            self._lent += 1
            while self._free:
                shell = self._free.pop()
                if shell.usable:
                    return shell
                shell.close()
        try:
            return Shell(self._client, self._container, seconds)
        except BaseException:
            self._give_back(None, sound=False)
            raise

    def _give_back(self, shell: Shell | None, *, sound: bool) -> None:
        with self._turn:
            self._lent -= 1
            if shell is not None and sound:
                self._free.append(shell)
            self._turn.notify()
        if shell is not None and not sound:
            shell.close()


def _close_all(shells: list[Shell]) -> None:
    while shells:
        shells.pop().close()
