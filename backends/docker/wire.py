"""The Docker daemon as memory uses it: one exec at a time over its socket, every failure a ``BackendUnavailable``.

Blocking code: it runs in worker threads only.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from agentic_memory.errors import AgenticMemoryError, BackendUnavailable

if TYPE_CHECKING:
    from docker import DockerClient

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
_FRAME: Final = struct.Struct(">BxxxL")
_STDOUT: Final = 1
_LOOK_SECONDS: Final = 0.5
"""How long silence may last before the daemon is asked whether the container still runs."""
_CHUNK_BYTES: Final = 256 * 1024
_KEPT_COMPLAINTS_BYTES: Final = 400


class NoShellError(BackendUnavailable):
    """The image has no ``sh``."""


class BrokenOffError(BackendUnavailable):
    """The exec ended, or its connection broke, before it answered."""


def connect(base_url: str | None, seconds: float) -> "DockerClient":
    """Return a client for the daemon at ``base_url``, or for the environment's one."""
    try:
        import docker
        from docker.utils import kwargs_from_env
    except ImportError as exc:
        raise ImportError('DockerBackend needs the docker SDK: pip install "agentic-memory[docker]"') from exc
    with mapped("this backend"):
        options = {"base_url": base_url} if base_url else kwargs_from_env()
        _knock(options.get("base_url") or DEFAULT_HOST)
        return docker.DockerClient(**options, timeout=max(1, round(seconds)))


def _knock(host: str) -> None:
    """Raise ``OSError`` when no daemon listens at a local ``host``: the SDK would leave its socket open then."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as door:
            door.connect("/" + host.removeprefix("unix://").lstrip("/"))


@contextmanager
def mapped(what: str) -> Iterator[None]:
    """Turn what the SDK, its HTTP client and the socket raise into ``BackendUnavailable``."""
    try:
        yield
    except AgenticMemoryError:
        raise
    except Exception as exc:
        from docker.errors import APIError, DockerException, NotFound
        from requests.exceptions import RequestException
        from urllib3.exceptions import HTTPError

        if isinstance(exc, NotFound):
            raise BackendUnavailable(f"{what} is gone: {exc.explanation}") from exc
        if isinstance(exc, APIError):
            raise BackendUnavailable(f"{what} does not answer: {exc.explanation or exc}") from exc
        if isinstance(exc, (DockerException, RequestException, HTTPError, OSError)):
            raise BackendUnavailable(f"the Docker daemon cannot be reached for {what}: {exc}; is it running?") from exc
        raise


class Exec:
    """One program running in a container, its standard input and output over one connection."""

    def __init__(self, client: "DockerClient", container: str, argv: list[str], *, cwd: str, seconds: float) -> None:
        self._client = client
        self._container = container
        self._deadline = monotonic() + seconds
        self._seconds = seconds
        self._frame_left = 0
        self._stream = 0
        self._pending = bytearray()
        self.complaints = b""
        with mapped(f"container {container}"):
            self.id: str = client.api.exec_create(container, argv, stdin=True, workdir=cwd)["Id"]
            self._held = client.api.exec_start(self.id, socket=True)
            # The SDK hands out a file object; what can be sent on, waited for and half closed is the socket below.
            self._socket = cast("socket.socket", getattr(self._held, "_sock", self._held))

    def renew(self, seconds: float) -> None:
        """Begin a new call, with so many seconds for it."""
        self._seconds = seconds
        self._deadline = monotonic() + seconds
        self.complaints = b""

    @property
    def idle(self) -> bool:
        """Whether it neither ended nor said anything that nobody asked for."""
        try:
            self._socket.setblocking(False)
            self._socket.recv(1)
        except BlockingIOError:
            return not self._pending
        except OSError:
            pass
        return False

    def send(self, data: bytes, *, last: bool = False) -> None:
        """Write to its standard input; ``last`` closes it."""
        left = memoryview(data)
        while left:
            left = left[self._waiting(self._socket.send, left[:_CHUNK_BYTES]) :]
        if last:
            with suppress(OSError):  # it may have ended already, with all that it had to say on the way
                self._socket.shutdown(socket.SHUT_WR)

    def read(self, *ends: bytes) -> bytes:
        """Return what it prints up to and with one of ``ends``, or to its end when there are none.

        Raises:
            BrokenOffError: none of ``ends`` came.
        """
        printed = bytearray()
        while not ends or not printed.endswith(ends):
            piece = self._next_piece()
            if piece is None:
                if ends:
                    raise BrokenOffError(
                        f"container {self._container}: the shell ended without an answer{self._said(printed)}"
                    )
                break
            printed += piece
        return bytes(printed)

    def _said(self, printed: bytearray) -> str:
        said = (self.complaints or printed[:_KEPT_COMPLAINTS_BYTES]).decode("utf-8", "replace").strip()
        return f" ({said})" if said else ""

    def exit_code(self) -> int:
        """Return its exit code; -1 when there is none."""
        with mapped(f"container {self._container}"):
            code = self._client.api.exec_inspect(self.id).get("ExitCode")
        return -1 if code is None else int(code)

    def close(self) -> None:
        """Hang up. Its standard input ends, and what reads from there ends with it."""
        for held in (self._socket, self._held, getattr(self._held, "_response", None)):
            if held is not None:
                with suppress(Exception):
                    held.close()

    def _next_piece(self) -> bytes | None:
        """Return the next piece of standard output, None at its end."""
        while True:
            if self._frame_left:
                if not self._pending:
                    self._fill()
                piece = bytes(self._pending[: self._frame_left])
                if not piece:
                    return None
                del self._pending[: len(piece)]
                self._frame_left -= len(piece)
                if self._stream == _STDOUT:
                    return piece
                self.complaints = (self.complaints + piece)[-_KEPT_COMPLAINTS_BYTES:]
            elif len(self._pending) >= _FRAME.size:
                self._stream, self._frame_left = _FRAME.unpack(self._pending[: _FRAME.size])
                del self._pending[: _FRAME.size]
            elif not self._fill():
                return None

    def _fill(self) -> int:
        more: bytes = self._waiting(self._socket.recv, _CHUNK_BYTES)
        self._pending += more
        return len(more)

    def _waiting(self, call: Any, argument: Any) -> Any:
        """Run a socket call that may wait, as long as the container runs and the time is not over."""
        what = f"container {self._container}"
        while True:
            left = self._deadline - monotonic()
            if left <= 0:
                raise BackendUnavailable(f"{what} did not answer within {self._seconds:g} seconds; look at its load")
            try:
                self._socket.settimeout(min(left, _LOOK_SECONDS))
                return call(argument)
            except TimeoutError:
                check_running(self._client, self._container)
            except OSError as exc:
                raise BrokenOffError(f"{what}: the connection to its shell broke: {exc}") from exc


def check_running(client: "DockerClient", container: str) -> None:
    """Raise ``BackendUnavailable`` when the container cannot run anything now."""
    with mapped(f"container {container}"):
        state = client.api.inspect_container(container)["State"]
    if state.get("Paused"):
        raise BackendUnavailable(f"container {container} is paused; unpause it")
    if not state.get("Running"):
        raise BackendUnavailable(f"container {container} is {state.get('Status', 'stopped')}; start it")
