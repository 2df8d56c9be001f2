"""The backend of this machine's own file system.

Everything that waits (for the disk, for another process) runs in worker threads; the event loop is never held up. A
cancelled call is waited for: it has happened wholly or not at all when ``CancelledError`` comes out.

How the promises of the seam are kept: ``files`` (paths and links), ``locks`` (between processes),
``transaction`` and ``journal`` (all or nothing, also after ``kill -9``), ``tree`` (one fast pass).
POSIX only: locks on directories and opening relative to a directory are not to be had elsewhere.
"""

import errno
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Collection, Hashable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from threading import Event
from typing import Final, TypeVar

import agentscope.tool
from agentscope.tool import BackendBase, DirEntry

from agentic_memory.backends.base import Backend, check_path
from agentic_memory.backends.local.files import (
    demand_no_dangling_link_above,
    locate,
    mapped_errors,
    open_directory,
    read_regular,
    unavailable,
)
from agentic_memory.backends.local.journal import find_journals, recover
from agentic_memory.backends.local.locks import LOCK_SECONDS, Patience
from agentic_memory.backends.local.transaction import Transaction
from agentic_memory.backends.local.tree import Walk
from agentic_memory.backends.threads import run_to_end
from agentic_memory.backends.values import ABSENT, MAX_FILE_BYTES, Absent, Changes, FileRecord, Tree, version_of
from agentic_memory.errors import UnsafePath

READER_PATIENCE_SECONDS: Final = 2.0
"""How long a reader waits for a transaction that is being applied, before it takes what it sees file by file."""

MAX_WALKS: Final = 3
"""Passes of one snapshot, when an unfinished transaction is met and undone meanwhile."""

_ABSENT_ERRORS: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

_T = TypeVar("_T")


class LocalBackend(Backend, agentscope.tool.LocalBackend):
    """Keep a memory in plain files on this machine.

    Any number of instances, threads and processes may use one directory. It stands wherever AgentScope's own
    ``LocalBackend`` does; commands run as they do there.
    """

    def __init__(self) -> None:
        if not hasattr(os, "O_DIRECTORY") or sys.platform == "win32":
            raise NotImplementedError(
                "LocalBackend needs a POSIX system (locks on directories): use WSL, a container, or InMemoryBackend"
            )
        self.round_trips = 0

    @property
    def cache_key(self) -> Hashable:
        """Identify this machine's file system: equal for all instances in one process."""
        return "local"

    # ------------------------------------------------------------------ the seam

    async def snapshot(
        self,
        root: str,
        *,
        known: Collection[str] = frozenset(),
        suffix: str = "",
        hidden: bool = False,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> Tree:
        """See every file under ``root``; as ``Backend.snapshot``.

        When nothing changed since the last call and every version is in ``known``, the very same ``Tree`` object is
        returned, so that callers can tell by identity.
        """
        request = (check_path(root), suffix.lower(), hidden, max_bytes)
        versions = known if isinstance(known, AbstractSet) else frozenset(known)  # never a list per file

        def look() -> Tree:
            with mapped_errors(root):
                for _ in range(MAX_WALKS):
                    walk = Walk(request, versions)
                    tree = walk.run()
                    if not walk.journals:
                        break
                    real_root, patience = os.path.realpath(root), Patience.of(READER_PATIENCE_SECONDS)
                    for directory in walk.journals:
                        recover(os.path.normpath(os.path.join(real_root, directory)), patience)
                return tree

        return await self._work(look)

    async def fetch(
        self, path: str, *, within: str | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> FileRecord | Absent:
        """Read one file; as ``Backend.fetch``."""
        path = check_path(path)
        inside = None if within is None else check_path(within)
        return await self._work(lambda: _fetch(path, inside, max_bytes))

    async def transact(self, changes: Changes, *, within: str | None = None) -> None:
        """Apply all ``changes`` or none; as ``Backend.transact``."""
        inside = None if within is None else check_path(within)
        cancelled = Event()
        transaction = Transaction(changes, inside, Patience.of(LOCK_SECONDS, cancelled))
        await self._work(transaction.run, cancelled)

    async def _work(self, call: Callable[[], _T], cancelled: Event | None = None) -> _T:
        self.round_trips += 1
        return await run_to_end(call, cancelled)

    # ------------------------------------------------------------------ what AgentScope's tools call

    async def read_file(self, path: str) -> bytes:
        """Read a file of any size; ``FileNotFoundError`` when it is absent."""
        path = await self.resolve(path)
        record = await self.fetch(path, max_bytes=sys.maxsize)
        if record is ABSENT or record.data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return record.data

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace or create a file without a precondition, still atomically."""
        await super().write_file(await self.resolve(path), data)

    async def write_stream(self, path: str, stream: AsyncIterator[bytes]) -> None:
        """Write a stream atomically; it is gathered first, since half of it must never be seen."""
        await BackendBase.write_stream(self, path, stream)

    async def file_exists(self, path: str) -> bool:
        """Tell whether anything is at ``path``; raises when that cannot be told."""
        return await self.stat(path) is not None

    async def is_dir(self, path: str) -> bool:
        """Tell whether a directory is at ``path``; raises when that cannot be told."""
        entry = await self.stat(path)
        return entry is not None and entry.is_dir

    async def stat_mtime(self, path: str) -> float | None:
        """Return the modification time in seconds; None when nothing is there."""
        entry = await self.stat(path)
        return None if entry is None else entry.mtime

    async def stat(self, path: str) -> DirEntry | None:
        """Return type, size and modification time; None when nothing is there."""
        return await self._work(lambda: _entry_at(path))

    async def scandir(self, path: str) -> list[DirEntry]:
        """List a directory with what is known of each entry; empty when there is none."""

        def look() -> list[DirEntry]:
            with mapped_errors(path):
                try:
                    names = os.listdir(path)
                except FileNotFoundError:
                    return []
            return [_entry_at(os.path.join(path, name)) or DirEntry(name, is_dir=False) for name in sorted(names)]

        return await self._work(look)

    async def list_dir(self, path: str, *, recursive: bool = False) -> list[str]:
        """List a directory's names, or the paths of every file below it; raises when a part cannot be listed."""

        def look() -> list[str]:
            if not os.path.lexists(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            with mapped_errors(path):
                if not recursive:
                    return sorted(os.listdir(path))
                walk = os.walk(path, onerror=_raise)
                return sorted(os.path.join(directory, name) for directory, _, names in walk for name in names)

        return await self._work(look)

    async def delete_path(self, path: str) -> None:
        """Delete a file, a link or a directory with all that is in it; nothing there is fine."""

        def delete() -> None:
            with mapped_errors(path):
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path)
                else:
                    with suppress(FileNotFoundError):
                        os.unlink(path)

        await self._work(delete)


def _fetch(path: str, within: str | None, max_bytes: int) -> FileRecord | Absent:
    with mapped_errors(path):
        spot = locate(path, within, follow=True)
        for directory in find_journals({spot.directory: spot.base}):
            recover(directory, Patience.of(READER_PATIENCE_SECONDS))
        try:
            top = open_directory(spot.directory, spot.base)
            try:
                data, status = read_regular(top, spot.name, path=path, max_bytes=max_bytes)
            finally:
                os.close(top)
        except FileNotFoundError:
            if spot.is_link and os.path.islink(path):
                raise UnsafePath(f"{path} is a symlink to nothing; remove it or make its target") from None
            demand_no_dangling_link_above(path)
            return ABSENT
        return FileRecord(path, len(data), status.st_mtime_ns, version_of(data), data)


def _entry_at(path: str) -> DirEntry | None:
    try:
        status = os.stat(path)
    except OSError as exc:
        if exc.errno in _ABSENT_ERRORS:
            demand_no_dangling_link_above(os.path.abspath(path))
            return None
        raise unavailable(exc, path) from exc
    is_directory = os.path.isdir(path)
    return DirEntry(
        name=os.path.basename(path),
        is_dir=is_directory,
        size_bytes=None if is_directory else status.st_size,
        mtime=status.st_mtime,
    )


def _raise(error: OSError) -> None:
    raise error
