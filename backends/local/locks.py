"""Locks between processes: one per directory, on the directory itself.

``flock`` on a directory's descriptor leaves no litter, and the kernel lets go of it when its owner dies. A writer
locks the directories of all entries it touches, in one order for everybody, so that two never wait for each other.
"""

import errno
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import uniform
from threading import Event
from typing import Final

from agentic_memory.backends.local.files import mapped_errors, open_directory
from agentic_memory.errors import BackendUnavailable

try:
    import fcntl
except ImportError:  # not a POSIX system; LocalBackend says so when it is made
    fcntl = None  # type: ignore[assignment]

LOCK_SECONDS: Final = 10.0
"""How long to wait for another writer. A transaction of a few files takes milliseconds; this long, its owner hangs."""

_FIRST_PAUSE_SECONDS: Final = 0.0005
_LONGEST_PAUSE_SECONDS: Final = 0.004


class PlaceChangedError(Exception):
    """Somebody changed, meanwhile, what a decision was based on: decide again from the beginning."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call may wait for locks.

    Attributes:
        until: In ``time.monotonic`` seconds.
        cancelled: Set when the caller no longer wants the answer: waiting ends at once.
    """

    until: float
    cancelled: Event

    @classmethod
    def of(cls, seconds: float, cancelled: Event | None = None) -> "Patience":
        """Be patient for so many seconds from now."""
        return cls(time.monotonic() + seconds, cancelled or Event())


@contextmanager
def lock_directories(directories: Iterable[tuple[str, str | None]], patience: Patience) -> Iterator[dict[str, int]]:
    """Hold the locks of all ``directories``, given as real path and base, and yield their descriptors by path.

    Raises:
        PlaceChangedError: a directory was removed, or another one took its place.
        BackendUnavailable: somebody else held a lock for too long, or there are no locks here.
    """
    with ExitStack() as stack:
        opened: dict[str, int] = {}
        first_of: dict[tuple[int, int], str] = {}
        for path, base in sorted(set(directories), key=lambda item: item[0]):
            with mapped_errors(path):
                try:
                    descriptor = open_directory(path, base)
                except FileNotFoundError as exc:
                    raise PlaceChangedError(path) from exc
            stack.callback(os.close, descriptor)
            opened[path] = descriptor
            status = os.fstat(descriptor)
            first_of.setdefault((status.st_dev, status.st_ino), path)
        # In the order of inodes, not of names: a bind mount gives one directory two names, and would lock out itself.
        for identity in sorted(first_of):
            path = first_of[identity]
            lock(opened[path], path, patience)
        for path, descriptor in opened.items():
            if not _is_still(path, descriptor):
                raise PlaceChangedError(path)
        yield opened


def lock(descriptor: int, path: str, patience: Patience, *, shared: bool = False) -> None:
    """Take the lock of an open directory; closing the descriptor gives it back."""
    assert fcntl is not None
    pause = _FIRST_PAUSE_SECONDS
    how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    while True:
        try:
            fcntl.flock(descriptor, how)
        except OSError as exc:
            if exc.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                raise BackendUnavailable(
                    exc.errno, "this file system has no locks; keep the memory on a local disk", path
                ) from exc
        else:
            return
        if time.monotonic() > patience.until:
            raise BackendUnavailable(f"{path} is locked by another writer; stop the one that hangs and try again")
        # Random, so that writers who arrived together do not keep colliding.
        if patience.cancelled.wait(uniform(pause / 2, pause)):  # noqa: S311 - no secret
            raise BackendUnavailable(f"{path}: given up while waiting for another writer")
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _is_still(path: str, descriptor: int) -> bool:
    try:
        now = os.stat(path)
    except OSError:
        return False
    return os.path.samestat(now, os.fstat(descriptor))
