"""The way to the Docker daemon, as a socket of our own in between that can be cut.

Blocking code in threads of its own, so that it works on whatever the event loop does.
"""

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Thread

CHUNK_BYTES = 256 * 1024


@dataclass(slots=True)
class Trap:
    """Waits for something that the client says.

    Attributes:
        pattern: Found in what the client sends.
        skip: So many times it is let pass.
        reply_end: None: what was found never reaches the daemon. Otherwise it does, and the connection breaks when the
            daemon's reply holds this (empty: when the daemon hangs up), of which the client hears nothing.
        action: Called when the trap closes, before anything else.
        cuts: Whether the connection breaks at all.
    """

    pattern: re.Pattern[bytes]
    skip: int = 0
    reply_end: bytes | None = None
    action: Callable[[], None] | None = None
    cuts: bool = True


class Wire:
    """A socket that leads to the daemon."""

    def __init__(self, daemon: str, path: Path) -> None:
        self._daemon = daemon
        self._path = path
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._trap: Trap | None = None
        self._door: socket.socket
        self.mend()

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"unix://{self._path}"

    def mend(self) -> None:
        """Open the door."""
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(self._path))
        self._door.listen()
        Thread(target=self._serve, args=(self._door,), daemon=True).start()

    def sever(self) -> None:
        """Break every connection and let nobody in any more."""
        self._path.unlink()
        with self._lock:
            sockets, self._open = self._open, set()
        for each in (self._door, *sockets):
            _hang_up(each)

    def set_trap(self, trap: Trap) -> None:
        """Let a trap wait; it closes once."""
        self._trap = trap

    def clear(self) -> bool:
        """Take the trap away, and tell whether it still waited."""
        waiting, self._trap = self._trap is not None, None
        return waiting

    def _serve(self, door: socket.socket) -> None:
        while True:
            try:
                client, _ = door.accept()
            except OSError:
                return
            daemon = socket.socket(socket.AF_UNIX)
            daemon.connect(self._daemon)
            with self._lock:
                self._open |= {client, daemon}
            Thread(target=_Line(self, client, daemon).carry, daemon=True).start()

    def forget(self, *ended: socket.socket) -> None:
        """Drop connections that are over."""
        with self._lock:
            self._open -= set(ended)

    def spring(self, said: bytes) -> Trap | None:
        """Return the trap if it closes on what was said."""
        with self._lock:
            trap = self._trap
            if trap is None or not trap.pattern.search(said):
                return None
            if trap.skip:
                trap.skip -= 1
                return None
            self._trap = None
            return trap


class _Line:
    """One connection."""

    def __init__(self, wire: Wire, client: socket.socket, daemon: socket.socket) -> None:
        self._wire = wire
        self._client = client
        self._daemon = daemon
        self._swallowing: bytes | None = None

    def carry(self) -> None:
        """Carry what both sides say until both are done."""
        back = Thread(target=self._answer, daemon=True)
        back.start()
        self._send()
        back.join()
        self._break()
        self._wire.forget(self._client, self._daemon)

    def _send(self) -> None:
        try:
            while said := self._client.recv(CHUNK_BYTES):
                trap = self._wire.spring(said)
                if trap is not None:
                    if trap.action is not None:
                        trap.action()
                    if trap.cuts and trap.reply_end is None:
                        return self._break()
                    self._swallowing = trap.reply_end
                self._daemon.sendall(said)
            self._daemon.shutdown(socket.SHUT_WR)
        except OSError:
            self._break()

    def _answer(self) -> None:
        try:
            while said := self._daemon.recv(CHUNK_BYTES):
                if self._swallowing is None:
                    self._client.sendall(said)
                elif self._swallowing and self._swallowing in said:
                    break
            if self._swallowing is None:
                self._client.shutdown(socket.SHUT_WR)
            else:
                self._break()
        except OSError:
            self._break()

    def _break(self) -> None:
        _hang_up(self._client)
        _hang_up(self._daemon)


def _hang_up(held: socket.socket) -> None:
    try:
        held.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    held.close()
