"""A backend that keeps everything in this process: the reference for every other one, and the test double.

It has what a POSIX file system has as far as memory can tell: files, directories, symlinks, things that are not files,
and places one is not let into. Tests put the last three there with ``link`` and ``obstruct``, write "by hand" with
``plant``, and make the place unreachable with ``fail_next`` or ``unreachable``.
"""

import posixpath
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock
from time import time_ns
from typing import Literal, TypeVar

from agentscope.tool import DirEntry, ExecResult
from anyio.lowlevel import checkpoint

from agentic_memory.backends.base import Backend, check_path
from agentic_memory.backends.memory.nodes import (
    NEW_FILE_MODE,
    Directory,
    File,
    Link,
    LinkLoopError,
    Nodes,
    Special,
    Walk,
    behind_link,
    confine,
    drop,
    file_or_absent,
    is_child,
    is_denied,
    make_parents,
    resolve,
)
from agentic_memory.backends.preconditions import check_changes, demand, expected_word
from agentic_memory.backends.values import (
    ABSENT,
    ANY,
    MAX_FILE_BYTES,
    Absent,
    Changes,
    Delete,
    Expected,
    FileRecord,
    Move,
    Put,
    Tree,
    version_of,
)
from agentic_memory.errors import BackendUnavailable, Conflict, UnsafePath

_T = TypeVar("_T")
_serial = count(1)


class InMemoryBackend(Backend):
    """Keep a memory in this process. Safe between threads and event loops; gone with the instance.

    Args:
        files: Content to begin with, by absolute path.
        cwd: What relative paths and ``~`` are relative to.
    """

    def __init__(self, files: dict[str, bytes] | None = None, *, cwd: str = "/") -> None:
        self.round_trips = 0
        self._key = ("memory", next(_serial))
        self._cwd = check_path(cwd)
        self._lock = Lock()
        self._nodes: Nodes = {"/": Directory(time_ns())}
        self._denied: set[str] = set()
        self._failures_left = 0
        self._unreachable = 0
        for path, data in (files or {}).items():
            self.plant(path, data)

    @property
    def cache_key(self) -> Hashable:
        """Identify this instance: no other sees the same bytes."""
        return self._key

    # ------------------------------------------------------------------ by hand, for tests

    def plant(self, path: str, data: bytes, *, mtime_ns: int | None = None, mode: int | None = None) -> None:
        """Put bytes at ``path`` as a person's editor would: no precondition, no round trip counted."""
        with self._lock:
            path = resolve(self._nodes, check_path(path))
            make_parents(self._nodes, path)
            old = self._nodes.get(path)
            kept = old.mode if isinstance(old, File) else NEW_FILE_MODE
            self._nodes[path] = File(
                data, version_of(data), time_ns() if mtime_ns is None else mtime_ns, kept if mode is None else mode
            )

    def link(self, path: str, target: str) -> None:
        """Put a symlink at ``path`` whose text is ``target``; nothing says that there is anything at the target."""
        with self._lock:
            path = resolve(self._nodes, check_path(path), follow_last=False)
            make_parents(self._nodes, path)
            self._nodes[path] = Link(target)

    def make_directory(self, path: str) -> None:
        """Make the directory ``path`` and those above it."""
        with self._lock:
            make_parents(self._nodes, posixpath.join(check_path(path), "_"))

    def obstruct(self, path: str, kind: Literal["special", "unreadable"]) -> None:
        """Put a FIFO at ``path``, or forbid reading what is there (a file or a whole directory)."""
        with self._lock:
            path = check_path(path)
            if kind == "unreadable":
                self._denied.add(path)
                return
            make_parents(self._nodes, path)
            self._nodes[path] = Special()

    def permit(self, path: str) -> None:
        """Let readers in again where ``obstruct`` forbade it."""
        self._denied.discard(check_path(path))

    def clear(self, path: str) -> None:
        """Take away whatever is at ``path`` and below it."""
        with self._lock:
            drop(self._nodes, check_path(path))

    def is_link(self, path: str) -> bool:
        """Tell whether a symlink is at ``path``."""
        return isinstance(self._nodes.get(check_path(path)), Link)

    def mode_of(self, path: str) -> int | None:
        """Return the permission bits of the file at ``path``; None when there is no file."""
        with self._lock:
            node = self._nodes.get(resolve(self._nodes, check_path(path)))
            return node.mode if isinstance(node, File) else None

    def fail_next(self, calls: int = 1) -> None:
        """Make the next ``calls`` calls raise ``BackendUnavailable`` without doing anything."""
        self._failures_left = calls

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """Make every call raise ``BackendUnavailable`` until the block ends."""
        self._unreachable += 1
        try:
            yield
        finally:
            self._unreachable -= 1

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
        """See every file under ``root``; as ``Backend.snapshot``."""
        root = check_path(root)
        return await self._cross(
            lambda: Walk(root, self._nodes, self._denied, known, suffix.lower(), hidden, max_bytes).run()
        )

    async def fetch(
        self, path: str, *, within: str | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> FileRecord | Absent:
        """Read one file; as ``Backend.fetch``."""
        path = check_path(path)
        inside = None if within is None else check_path(within)

        def look() -> FileRecord | Absent:
            real = confine(self._nodes, path, inside)
            self._demand_access(real)
            node = file_or_absent(self._nodes, path, real)
            if node is None:
                return ABSENT
            if len(node.data) > max_bytes:
                raise BackendUnavailable(
                    f"{path} holds {len(node.data)} bytes, over the limit of {max_bytes}; make it smaller"
                )
            return FileRecord(path, len(node.data), node.mtime_ns, node.version, node.data)

        return await self._cross(look)

    async def transact(self, changes: Changes, *, within: str | None = None) -> None:
        """Apply all ``changes`` or none; as ``Backend.transact``."""
        inside = None if within is None else check_path(within)
        planned = check_changes(changes)

        def apply() -> None:
            # Every change is made to a copy that replaces the original at the end: all or nothing.
            nodes = dict(self._nodes)
            for change in planned:
                if isinstance(change, Put):
                    self._put(nodes, change, inside)
                elif isinstance(change, Delete):
                    self._delete(nodes, change, inside)
                else:
                    self._move(nodes, change, inside)
            self._nodes = nodes

        await self._cross(apply)

    def _put(self, nodes: Nodes, change: Put, inside: str | None) -> None:
        real = confine(nodes, change.path, inside)
        self._demand_access(real)
        old = file_or_absent(nodes, change.path, real)
        _demand(change.path, change.expected, old)
        make_parents(nodes, real)
        nodes[real] = File(change.data, version_of(change.data), time_ns(), old.mode if old else NEW_FILE_MODE)

    def _delete(self, nodes: Nodes, change: Delete, inside: str | None) -> None:
        entry = confine(nodes, change.path, inside, follow_last=False)
        self._demand_access(entry)
        if isinstance(nodes.get(entry), Link):
            if change.expected is not ANY:
                _demand(change.path, change.expected, behind_link(nodes, entry, change.path, inside))
        else:
            _demand(change.path, change.expected, file_or_absent(nodes, change.path, entry))
        nodes.pop(entry, None)

    def _move(self, nodes: Nodes, change: Move, inside: str | None) -> None:
        source = confine(nodes, change.source, inside, follow_last=False)
        target = confine(nodes, change.target, inside, follow_last=False)
        self._demand_access(source)
        self._demand_access(target)
        moved = nodes.get(source)
        if isinstance(moved, Link):
            if not moved.target.startswith("/") and posixpath.dirname(source) != posixpath.dirname(target):
                raise UnsafePath(f"{change.source} is a relative symlink, which would break if moved elsewhere")
            old = behind_link(nodes, source, change.source, inside)
        else:
            old = file_or_absent(nodes, change.source, source)
        if old is None:
            raise Conflict(change.source, expected=expected_word(change.expected), current=None)
        _demand(change.source, change.expected, old)
        taken = nodes.get(target)
        if taken is not None:
            there = file_or_absent(nodes, change.target, confine(nodes, change.target, inside))
            raise Conflict(change.target, expected=expected_word(ABSENT), current=there.data if there else b"")
        make_parents(nodes, target)
        nodes[target] = nodes.pop(source)

    def _demand_access(self, real: str) -> None:
        if is_denied(self._denied, real):
            raise BackendUnavailable(f"{real}: permission denied; give this user access to it")

    async def _cross(self, call: Callable[[], _T]) -> _T:
        await checkpoint()  # a cancelled caller stops here, before anything is done
        with self._lock:
            self.round_trips += 1
            if self._unreachable:
                raise BackendUnavailable("the in-memory backend was made unreachable")
            if self._failures_left:
                self._failures_left -= 1
                raise BackendUnavailable("the in-memory backend was told to fail this call")
            return call()

    # ------------------------------------------------------------------ what AgentScope's tools call

    async def exec_shell(
        self, command: list[str], *, cwd: str | None = None, timeout: float | None = None
    ) -> ExecResult:
        """Answer as a place without programs does: exit code 127."""
        del command, cwd, timeout  # there is nothing to run, whatever was asked
        await checkpoint()
        return ExecResult(exit_code=127, stdout=b"", stderr=b"no shell: files here live in memory only\n")

    async def getcwd(self) -> str:
        """Return the directory given at construction."""
        return self._cwd

    async def expanduser(self, path: str) -> str:
        """Expand a leading ``~`` to the working directory: there is one user here."""
        return posixpath.join(self._cwd, path[2:]) if path == "~" or path.startswith("~/") else path

    async def stat(self, path: str) -> DirEntry | None:
        """Return type, size and modification time; None when nothing is there."""
        path = await self.resolve(path)
        return await self._cross(lambda: self._entry(path))

    async def file_exists(self, path: str) -> bool:
        """Tell whether anything is at ``path``."""
        return await self.stat(path) is not None

    async def is_dir(self, path: str) -> bool:
        """Tell whether a directory is at ``path``."""
        entry = await self.stat(path)
        return entry is not None and entry.is_dir

    async def stat_mtime(self, path: str) -> float | None:
        """Return the modification time in seconds; None when nothing is there."""
        entry = await self.stat(path)
        return None if entry is None else entry.mtime

    async def scandir(self, path: str) -> list[DirEntry]:
        """List a directory; empty when there is none."""
        path = await self.resolve(path)

        def look() -> list[DirEntry]:
            real = resolve(self._nodes, path)
            self._demand_access(real)
            names = sorted(posixpath.basename(node) for node in self._nodes if is_child(node, real))
            return [self._entry(posixpath.join(real, name)) or DirEntry(name, is_dir=False) for name in names]

        return await self._cross(look)

    async def list_dir(self, path: str, *, recursive: bool = False) -> list[str]:
        """List a directory's names, or the paths of every file below it."""
        if not recursive:
            return [entry.name for entry in await self.scandir(path)]
        path = await self.resolve(path)

        def look() -> list[str]:
            real = resolve(self._nodes, path)
            self._demand_access(real)
            below = real.rstrip("/") + "/"
            found = (node for node, what in self._nodes.items() if not isinstance(what, Directory))
            return sorted(posixpath.join(path, node[len(below) :]) for node in found if node.startswith(below))

        return await self._cross(look)

    async def delete_path(self, path: str) -> None:
        """Delete a file, a link or a directory with all that is in it; nothing there is fine."""
        path = await self.resolve(path)
        entry = resolve(self._nodes, path, follow_last=False)
        await self._cross(lambda: drop(self._nodes, entry))

    def _entry(self, path: str) -> DirEntry | None:
        try:
            real = resolve(self._nodes, path)
        except LinkLoopError:
            return None
        self._demand_access(posixpath.dirname(real))
        node = self._nodes.get(real)
        if node is None:
            return None
        return DirEntry(
            name=posixpath.basename(path),
            is_dir=isinstance(node, Directory),
            size_bytes=len(node.data) if isinstance(node, File) else None,
            mtime=node.mtime_ns / 1e9 if isinstance(node, File | Directory) else None,
        )


def _demand(path: str, expected: Expected, old: File | None) -> None:
    demand(path, expected, old.data if old else None, version=old.version if old else None)
