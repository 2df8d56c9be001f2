"""Single steps on the local file system: find, open, read, rename. Each is safe against links swapped under it.

A path is first resolved to its real form, which holds no symlink; then every directory on the way is opened from the
one above with ``O_NOFOLLOW``. Whoever puts a symlink there meanwhile makes the call fail, not leave the memory.
"""

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Final

from agentic_memory.errors import BackendUnavailable, UnsafePath

# Absent on Windows, where LocalBackend refuses to be made; the module itself has to import there.
_O_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
_O_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_O_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
_O_CLOEXEC: Final = getattr(os, "O_CLOEXEC", 0)

OPEN_DIRECTORY: Final = os.O_RDONLY | _O_DIRECTORY | _O_CLOEXEC
OPEN_REAL_DIRECTORY: Final = OPEN_DIRECTORY | _O_NOFOLLOW
OPEN_FILE: Final = os.O_RDONLY | _O_NOFOLLOW | _O_NONBLOCK | _O_CLOEXEC
CREATE_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _O_NOFOLLOW | _O_CLOEXEC

MAX_TORN_READS: Final = 5
"""Attempts at reading a file that somebody writes in place meanwhile."""

_RENAME_NOREPLACE: Final = 1  # linux/fs.h
_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})

_REMEDIES: Final = {
    errno.ENOSPC: "the disk is full; free some space",
    errno.EDQUOT: "the disk quota is used up; free some space",
    errno.EROFS: "the file system is read-only; make it writable",
    errno.EACCES: "permission denied; give this user access",
    errno.EPERM: "not permitted; give this user access",
    errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
    errno.ENFILE: "too many open files on this machine",
    errno.EXDEV: "the two places are on different file systems; copy instead",
}
_UNSAFE: Final = {
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
    errno.ELOOP: "a symlink into itself, or one that was put there meanwhile; remove it",
    errno.ENOTDIR: "something above it is not a directory",
    errno.EISDIR: "it is a directory, not a file",
    errno.EILSEQ: "the file system does not take that name",
}

Signature = tuple[int, int, int, int, int]


signature_of: Final[Callable[[os.stat_result], Signature]] = attrgetter(
    "st_dev", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"
)
"""Return what has to stay the same for a file to count as untouched. In C: it is asked of every file at every look."""


@contextmanager
def mapped_errors(path: str) -> Iterator[None]:
    """Turn every ``OSError`` of the block into this package's own, saying what to do about ``path``."""
    try:
        yield
    except BackendUnavailable:
        raise
    except OSError as exc:
        number = exc.errno or 0
        if number in _UNSAFE:
            raise UnsafePath(f"{path}: {_UNSAFE[number]}") from exc
        raise unavailable(exc, path) from exc
    except UnicodeEncodeError as exc:
        raise UnsafePath(f"{path!r} cannot be a file name here: {exc.reason}") from exc


def unavailable(error: OSError, path: str) -> BackendUnavailable:
    """Return the error that says the same of ``path``, and what to do about it."""
    return BackendUnavailable(error.errno, _REMEDIES.get(error.errno or 0, error.strerror or str(error)), path)


def lies_in(path: str, directory: str) -> bool:
    """Tell whether ``path`` is ``directory`` or below it; both without symlinks."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a directory entry really is.

    Attributes:
        path: The path as it was asked for.
        directory: Real path of its directory, which may not exist yet.
        name: Its name there.
        base: Real path of what it is confined to; None when it is not.
        is_link: Whether the path asked for is itself a symlink.
    """

    path: str
    directory: str
    name: str
    base: str | None
    is_link: bool

    @property
    def real(self) -> str:
        """Return the real path of the entry."""
        return os.path.join(self.directory, self.name)


def locate(path: str, within: str | None, *, follow: bool) -> Spot:
    """Find out where ``path`` really is, and refuse what is not inside ``within``.

    ``follow`` tells whether a symlink at ``path`` itself stands for its target.
    """
    base = None if within is None else os.path.realpath(within)
    is_link = os.path.islink(path)
    if path == "/":
        raise UnsafePath("/ is a directory, not a file")
    if follow and is_link:
        real = os.path.realpath(path)
        if os.path.islink(real):
            raise UnsafePath(f"{path} is a symlink into itself; remove it")
    else:
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if base is not None and (real == base or not lies_in(real, base)):
        raise UnsafePath(f"{path} is not inside {within}")
    return Spot(path, os.path.dirname(real), os.path.basename(real), base, is_link)


def demand_no_dangling_link_above(path: str) -> None:
    """Raise ``BackendUnavailable`` when ``path`` is only missing because a symlink above it leads nowhere.

    A volume that is not mounted looks so: what is on it is not absent, and nothing must be written in its place.
    """
    above = os.path.dirname(path)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if os.path.islink(above) and not os.path.exists(above):
        raise BackendUnavailable(f"{above} is a symlink to nothing; remove it or make its target")


def open_below(top: int, relative: str) -> int:
    """Open the directory at ``relative`` (no symlink in it) below the open directory ``top``."""
    at = os.dup(top)
    for part in relative.split("/") if relative else ():
        try:
            below = os.open(part, OPEN_REAL_DIRECTORY, dir_fd=at)
        finally:
            os.close(at)
        at = below
    return at


def open_directory(real: str, base: str | None) -> int:
    """Open the directory with the real path ``real``, following no symlink below ``base``."""
    if base is None or real == base or not os.path.isdir(base):
        return os.open(real, OPEN_REAL_DIRECTORY)
    top = os.open(base, OPEN_DIRECTORY)
    try:
        return open_below(top, os.path.relpath(real, base))
    finally:
        os.close(top)


def make_directory(real: str, made: list[str]) -> None:
    """Make the directory ``real`` and those above it, each with the owner of the one above; append them to ``made``."""
    if os.path.isdir(real):
        return
    above = os.path.dirname(real)
    make_directory(above, made)
    top = os.open(above, OPEN_REAL_DIRECTORY)
    try:
        name = os.path.basename(real)
        try:
            os.mkdir(name, dir_fd=top)
        except FileExistsError:
            return
        made.append(real)
        below = os.open(name, OPEN_REAL_DIRECTORY, dir_fd=top)
        try:
            give_to_owner_of(below, os.fstat(top))
        finally:
            os.close(below)
        sync_directory(top)
    finally:
        os.close(top)


def give_to_owner_of(descriptor: int, model: os.stat_result) -> None:
    """Give an open file the owner and group of ``model``, as far as this user is allowed to."""
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) == (model.st_uid, model.st_gid):
        return
    for uid, gid in ((model.st_uid, model.st_gid), (-1, model.st_gid)):
        try:
            os.fchown(descriptor, uid, gid)
        except OSError:
            continue
        return


def sync_directory(descriptor: int) -> None:
    """Make the entries of an open directory durable, where the file system can."""
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in (errno.EINVAL, errno.EBADF, errno.EOPNOTSUPP):
            raise


def status_of(top: int, name: str) -> os.stat_result | None:
    """Return the status of an entry itself (links are not followed); None when there is none."""
    try:
        return os.stat(name, dir_fd=top, follow_symlinks=False)
    except FileNotFoundError:
        return None


def demand_regular(path: str, status: os.stat_result) -> None:
    """Raise ``UnsafePath`` unless ``status`` is that of a regular file."""
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise UnsafePath(f"{path} is a directory, not a file")
    if stat.S_ISLNK(status.st_mode):
        raise UnsafePath(f"{path} is a symlink where a file was a moment ago; try again")
    raise UnsafePath(f"{path} is not a regular file (FIFO, socket or device)")


def read_regular(top: int, name: str, *, path: str, max_bytes: int | None = None) -> tuple[bytes, os.stat_result]:
    """Read the regular file ``name`` in the open directory ``top``: bytes and the status they belong to.

    Its status is looked at first, so that a FIFO or a device is not even opened. Somebody who writes in place without
    precautions may be caught half way: the file is read again until nothing changed while it was read.
    """
    demand_regular(path, os.stat(name, dir_fd=top, follow_symlinks=False))
    for _ in range(MAX_TORN_READS):
        descriptor = os.open(name, OPEN_FILE, dir_fd=top)
        try:
            before = os.fstat(descriptor)
            demand_regular(path, before)
            if max_bytes is not None and before.st_size > max_bytes:
                raise BackendUnavailable(
                    f"{path} holds {before.st_size} bytes, over the limit of {max_bytes}; make it smaller"
                )
            data = read_all(descriptor, before.st_size)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if len(data) == after.st_size and before.st_mtime_ns == after.st_mtime_ns:
            return data, before
    raise BackendUnavailable(f"{path} is being written all the time; try again later")


def read_all(descriptor: int, size: int) -> bytes:
    """Read an open file to its end; ``size`` is what its status says."""
    data = os.read(descriptor, size + 1)
    if len(data) == size:
        return data
    chunks = [data]
    while chunk := os.read(descriptor, 1024 * 1024):
        chunks.append(chunk)
    return b"".join(chunks)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data`` and make it durable."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def rename_flagged(source_top: int, source: str, target_top: int, target: str, flags: int) -> bool:
    """Rename by Linux's ``renameat2``; False, and nothing done, where there is no such call or no such flag."""
    rename = _renameat2()
    if rename is None:
        return False
    if rename(source_top, os.fsencode(source), target_top, os.fsencode(target), flags) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.ENOSYS, errno.EINVAL}:
        return False
    raise OSError(number, os.strerror(number), target)


def rename_exclusively(source_top: int, source: str, target_top: int, target: str) -> None:
    """Rename in one step, and never over anything: ``FileExistsError`` when the target is taken."""
    if rename_flagged(source_top, source, target_top, target, _RENAME_NOREPLACE):
        return
    # No such call, or a file system without it: a hard link is exclusive too, in two steps.
    try:
        os.link(source, target, src_dir_fd=source_top, dst_dir_fd=target_top, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in _NO_HARD_LINKS:
            raise
        if status_of(target_top, target) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from exc
        os.rename(source, target, src_dir_fd=source_top, dst_dir_fd=target_top)
    else:
        os.unlink(source, dir_fd=source_top)


def link_or_copy(top: int, name: str, spare: str) -> None:
    """Keep what ``name`` is now under the name ``spare``: as a second name where possible, else as a copy."""
    try:
        os.link(name, spare, src_dir_fd=top, dst_dir_fd=top, follow_symlinks=False)
    except OSError as exc:
        if exc.errno not in _NO_HARD_LINKS:
            raise
        data, status = read_regular(top, name, path=name)
        descriptor = os.open(spare, CREATE_FILE, 0o600, dir_fd=top)
        try:
            give_to_owner_of(descriptor, status)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            write_all(descriptor, data)
        finally:
            os.close(descriptor)


@cache
def _renameat2() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    found: Callable[..., int] = call
    return found
