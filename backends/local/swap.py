"""Put a file in the place of another that nobody touches at that very moment.

An editor takes no locks, and between a last look and a rename there is always time for it to save. So the two files
change places in one step, and what came out is looked at: if it is not what was seen before, they change back, and what
the editor saved stands. A program that had the old file open for writing when it came out is waited for.
"""

import errno
import logging
import os
import time
from typing import Final

from agentic_memory.backends.local.files import rename_exclusively, rename_flagged, status_of
from agentic_memory.backends.local.inspection import Identity, identity_of
from agentic_memory.backends.local.locks import PlaceChangedError

try:
    import fcntl
    import signal
except ImportError:  # not a POSIX system; LocalBackend says so when it is made
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger("agentic_memory")

WRITER_SECONDS: Final = 0.5
"""How long a program that has the replaced file open for writing is waited for. An editor's save takes microseconds."""
_PAUSE_SECONDS: Final = 0.001

_RENAME_EXCHANGE: Final = 2  # linux/fs.h


def swap_in(top: int, temporary: str, name: str, *, seen: Identity, path: str) -> None:
    """Let the file ``temporary`` take the place of ``name``, which is gone afterwards.

    Raises:
        PlaceChangedError: ``name`` was no longer what was ``seen``. It is what somebody made of it.
    """
    if not rename_flagged(top, temporary, top, name, _RENAME_EXCHANGE):
        os.rename(
            temporary, name, src_dir_fd=top, dst_dir_fd=top
        )  # a file system without: the look just before must do
        return
    if not _is_settled(top, temporary, seen, path=path):
        _swap_back(top, temporary, name)
        raise PlaceChangedError(path)
    os.unlink(temporary, dir_fd=top)


def take_out(top: int, name: str, target_top: int, target: str, *, seen: Identity, path: str) -> None:
    """Rename ``name`` to the free name ``target``.

    Raises:
        PlaceChangedError: it was no longer what was ``seen``, and stands where it was.
        FileExistsError: ``target`` is taken.
    """
    rename_exclusively(top, name, target_top, target)
    if _is_settled(target_top, target, seen, path=path):
        return
    try:
        rename_exclusively(target_top, target, top, name)
    except FileExistsError:
        # Saved once more in the meantime: the newest stands, and what came before it is not thrown away.
        logger.warning("memory: %s was saved twice while it was moved; the first save is at %s", path, target)
    raise PlaceChangedError(path)


def _swap_back(top: int, temporary: str, name: str) -> None:
    ours = status_of(top, name)
    rename_flagged(top, temporary, top, name, _RENAME_EXCHANGE)
    back = status_of(top, temporary)
    if ours is not None and back is not None and (ours.st_dev, ours.st_ino) != (back.st_dev, back.st_ino):
        rename_flagged(
            top, temporary, top, name, _RENAME_EXCHANGE
        )  # saved once more in the meantime: the newest stands


def _is_settled(top: int, name: str, seen: Identity, *, path: str) -> bool:
    """Tell whether what came out is what was ``seen``, and will not change any more."""
    until = time.monotonic() + WRITER_SECONDS
    while True:
        status = status_of(top, name)
        if status is None or identity_of(status) != seen:
            return False
        if not _is_open_for_writing(top, name):
            status = status_of(top, name)  # it may have been closed between the two looks
            return status is not None and identity_of(status) == seen
        if time.monotonic() > until:
            logger.warning("memory: %s was replaced while another program had it open for writing", path)
            return True
        time.sleep(_PAUSE_SECONDS)


def _is_open_for_writing(top: int, name: str) -> bool:
    """Ask the kernel, which grants a read lease only while nobody writes. False also where it cannot be told."""
    if fcntl is None or not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=top)
    except OSError:
        return False
    try:
        # Who opens the file while the lease is held has the kernel send a signal, which by default ends the process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # this one is ignored by default
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False
