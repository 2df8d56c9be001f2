"""One pass over a local directory, and what is remembered from the last one.

Reading and hashing 10,000 files costs ten times what looking at their status does, so a file is read again only when
its signature (device, inode, size, both times) changed. A signature proves that only once it is old: clocks of file
systems tick, and an edit of the same size within the tick of the last look leaves the signature as it was. See
``SETTLED_NS``.
"""

import errno
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from operator import attrgetter, is_
from threading import Lock
from typing import Final

from agentic_memory.backends.local.files import (
    MAX_TORN_READS,
    OPEN_DIRECTORY,
    OPEN_FILE,
    Signature,
    lies_in,
    mapped_errors,
    open_below,
    read_all,
    signature_of,
    unavailable,
)
from agentic_memory.backends.local.journal import JOURNAL_NAME, is_own_name
from agentic_memory.backends.local.locks import Patience, lock
from agentic_memory.backends.values import FileRecord, Obstacle, ObstacleKind, Tree, version_of
from agentic_memory.errors import BackendUnavailable

SETTLED_NS: Final = 2_500_000_000
"""Age a file's times must have, when it is read, for its signature to be trusted afterwards.

FAT keeps modification times to 2 s, HFS+ to 1 s, Linux's own file systems to a timer tick of at most 10 ms. Whoever
changes the file later than one tick after that changes its ctime, which nobody can set back. Younger files are read
again: that is what edits cost for two and a half seconds.
"""

BUSY_DIRECTORY_NS: Final = 50_000_000
"""A directory changed within so short a time may change again while it is listed; it is listed under its lock."""

MAX_LISTINGS: Final = 4
MAX_OPENINGS: Final = 8
"""Looks at a root that is made or removed at this very moment."""
LISTING_PATIENCE_SECONDS: Final = 1.0
MAX_CACHED_FILES: Final = 200_000
"""Remembered files of all roots together, some 400 bytes each."""

Request = tuple[str, str, bool, int]
"""Root, suffix, hidden, max_bytes: what decides which files a snapshot shows."""


class GoneError(Exception):
    """A name that was listed is no longer there: it may have moved, so list again."""


_Seen = tuple[Signature, bool, str, FileRecord | None]
"""A file as the last pass saw it: its signature, whether that is settled, its version, and its record without bytes
once somebody asked for one. A plain tuple: there is one per file, and a class costs a tenth of the whole pass.
"""


@dataclass(frozen=True, slots=True)
class _Pass:
    """The last pass over one root.

    Attributes:
        seen: Every file by path.
        lean: The last answer without any bytes, and its records in the order they were met; None before there was one.
    """

    seen: dict[str, _Seen]
    lean: tuple[list[FileRecord], Tree] | None


_BY_PATH: Final = attrgetter("path")

_passes: OrderedDict[Request, _Pass] = OrderedDict()
_passes_lock = Lock()


def forget_passes() -> None:
    """Forget every pass, so that the next one is cold; for benchmarks and tests."""
    with _passes_lock:
        _passes.clear()


def _last_pass(request: Request) -> _Pass | None:
    with _passes_lock:
        last = _passes.get(request)
        if last is not None:
            _passes.move_to_end(request)
        return last


def _remember(request: Request, this: _Pass) -> None:
    with _passes_lock:
        _passes[request] = this
        _passes.move_to_end(request)
        while len(_passes) > 1 and sum(len(each.seen) for each in _passes.values()) > MAX_CACHED_FILES:
            _passes.popitem(last=False)


def open_root(root: str) -> int | None:
    """Open ``root``; None when there is no such directory. What is neither is ``BackendUnavailable``."""
    for _ in range(MAX_OPENINGS):
        try:
            return os.open(root, OPEN_DIRECTORY)
        except FileNotFoundError as exc:
            above = root
            while not os.path.lexists(above):
                above = os.path.dirname(above)
            if os.path.islink(above) and not os.path.exists(above):
                raise BackendUnavailable(f"{above} is a symlink to nothing; remove it or make its target") from exc
            if above != root:
                return None
            # It was made between the two looks, by another writer's first change: now it can be opened.
        except NotADirectoryError as exc:
            raise BackendUnavailable(f"{root} is not a directory, or something above it is not one") from exc
        except OSError as exc:
            raise unavailable(exc, root) from exc
    raise BackendUnavailable(f"{root} appears and vanishes; try again when nobody is making or removing it")


@dataclass(slots=True)
class Walk:
    """One pass in the making. ``run`` it once.

    Attributes:
        journals: Directories, relative to the root, in which an unfinished transaction was met.
    """

    request: Request
    known: Collection[str]
    journals: list[str] = field(default_factory=list)
    _files: list[FileRecord] = field(default_factory=list)
    _obstacles: list[Obstacle] = field(default_factory=list)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _last: dict[str, _Seen] = field(default_factory=dict)
    _real_root: str = ""
    _top: int = -1

    def run(self) -> Tree:
        """Walk, and return the very same ``Tree`` as last time when that still holds and its bytes are known."""
        root = self.request[0]
        top = open_root(root)
        if top is None:
            return Tree(root, exists=False, files=())
        last = _last_pass(self.request)
        if last is not None:
            self._last = last.seen
        self._top = top
        self._real_root = os.path.realpath(root)
        try:
            pending = [""]
            while pending:
                self._walk_directory(pending.pop(), pending)
        finally:
            os.close(top)
        return self._answer(None if last is None else last.lean)

    def _answer(self, lean: tuple[list[FileRecord], Tree] | None) -> Tree:
        obstacles = tuple(sorted(self._obstacles, key=_BY_PATH))
        same = lean is not None and len(lean[0]) == len(self._files) and all(map(is_, lean[0], self._files))
        if lean is not None and same and lean[1].obstacles == obstacles:
            tree = lean[1]
        else:
            tree = Tree(
                self.request[0], exists=True, files=tuple(sorted(self._files, key=_BY_PATH)), obstacles=obstacles
            )
            if all(record.data is None for record in self._files):
                lean = (self._files, tree)
        _remember(self.request, _Pass(self._seen, lean))
        return tree

    # ------------------------------------------------------------------ one directory

    def _walk_directory(self, directory: str, pending: list[str]) -> None:
        try:
            descriptor = open_below(self._top, directory)
        except FileNotFoundError:
            return  # removed since it was listed
        except OSError as exc:
            if not directory:
                raise unavailable(exc, self.request[0]) from exc
            self._report(directory, "unreadable", exc.strerror or str(exc))
            return
        try:
            for attempt in range(MAX_TORN_READS):
                marks = (len(self._files), len(self._obstacles), len(pending), len(self.journals))
                try:
                    self._list_directory(directory, descriptor, pending, last_attempt=attempt == MAX_TORN_READS - 1)
                except BackendUnavailable as exc:
                    if not directory:
                        raise
                    self._report(directory, "unreadable", exc.strerror or str(exc))
                except GoneError:
                    del self._files[marks[0] :], self._obstacles[marks[1] :]
                    del pending[marks[2] :], self.journals[marks[3] :]
                    continue
                return
        finally:
            os.close(descriptor)

    def _list_directory(self, directory: str, descriptor: int, pending: list[str], *, last_attempt: bool) -> None:
        _, suffix, hidden, _ = self.request
        prefix = f"{directory}/" if directory else ""
        last, known, seen, files = self._last, self.known, self._seen, self._files
        entries = self._entries(directory, descriptor)
        now = time.time_ns()
        for entry in entries:
            name = entry.name
            if name[0] == ".":
                if name == JOURNAL_NAME:
                    self.journals.append(directory)
                if not hidden or is_own_name(name):
                    continue
            path = prefix + name
            cached = last.get(path)
            try:
                if cached is not None and cached[1] and cached[2] in known:
                    status = entry.stat(follow_symlinks=False)
                    if signature_of(status) == cached[0]:
                        lean = cached[3]
                        if lean is None:
                            lean = self._see_again(path, cached)
                        else:
                            seen[path] = cached
                        files.append(lean)
                        continue
                if entry.is_symlink():
                    self._see_link(path, name, descriptor, now, wanted=name.lower().endswith(suffix))
                elif entry.is_dir(follow_symlinks=False):
                    if suffix and name.lower().endswith(suffix):
                        self._report(path, "directory", "a directory where a file could be")
                    else:
                        pending.append(path)
                elif name.lower().endswith(suffix):
                    if entry.is_file(follow_symlinks=False):
                        self._see_file(path, name, descriptor, now, cached)
                    else:
                        self._report(path, "special", "not a regular file")
            except FileNotFoundError as exc:
                if not last_attempt:
                    raise GoneError from exc
            except OSError as exc:
                self._report(path, "unreadable", exc.strerror or str(exc))

    def _entries(self, directory: str, descriptor: int) -> Collection[os.DirEntry[str]]:
        """List a directory so that no entry is missed that was there all the time.

        tmpfs skips entries, or shows them twice, when others are renamed over meanwhile. So a list is taken only if the
        directory did not change under it; that writers of ours do not do while its lock is held.
        """
        path = os.path.join(self.request[0], directory)
        found: dict[str, os.DirEntry[str]] = {}
        quiet = time.time_ns() - os.fstat(descriptor).st_mtime_ns > BUSY_DIRECTORY_NS
        for attempt in range(MAX_LISTINGS):
            locked = -1 if quiet and attempt == 0 else self._try_lock(path, descriptor)
            try:
                before = os.fstat(descriptor).st_mtime_ns
                with mapped_errors(path), os.scandir(descriptor) as listing:
                    entries = list(listing)
                if os.fstat(descriptor).st_mtime_ns == before:
                    return entries
            finally:
                if locked >= 0:
                    os.close(locked)
            found.update((entry.name, entry) for entry in entries)
        return found.values()  # somebody goes on without locks: what was seen at any time; what is gone will tell

    @staticmethod
    def _try_lock(path: str, descriptor: int) -> int:
        own = os.open(".", OPEN_DIRECTORY, dir_fd=descriptor)
        try:
            lock(own, path, Patience.of(LISTING_PATIENCE_SECONDS), shared=True)
        except BackendUnavailable:
            pass  # no locks here, or a writer that hangs: the list as it is, rather than none
        return own

    # ------------------------------------------------------------------ one entry

    def _see_file(self, path: str, name: str, top: int, now: int, cached: _Seen | None) -> None:
        max_bytes = self.request[3]
        for _ in range(MAX_TORN_READS):
            descriptor = os.open(name, OPEN_FILE, dir_fd=top)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    self._report(path, "special", "not a regular file")
                    return
                size = status.st_size
                if size > max_bytes:
                    self._report(path, "too_large", f"{size} bytes, over the limit of {max_bytes}")
                    return
                data = read_all(descriptor, size)
                after = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if len(data) == after.st_size and status.st_mtime_ns == after.st_mtime_ns:
                break
        else:
            self._report(path, "unreadable", "it is being written all the time")
            return
        signature, version = signature_of(status), version_of(data)
        settled = now - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_NS
        # The same record again where nothing changed: callers tell so by identity.
        lean = cached[3] if cached is not None and cached[0] == signature and cached[2] == version else None
        self._seen[path] = seen = (signature, settled, version, lean)
        if version in self.known:
            self._files.append(self._see_again(path, seen))
        else:
            self._files.append(FileRecord(path, size, status.st_mtime_ns, version, data))

    def _see_again(self, path: str, seen: _Seen) -> FileRecord:
        """Return the record without bytes of a file, always the same one."""
        signature, settled, version, lean = seen
        if lean is None:
            lean = FileRecord(path, signature[2], signature[3], version, None)
            seen = (signature, settled, version, lean)
        self._seen[path] = seen
        return lean

    def _see_link(self, path: str, name: str, top: int, now: int, *, wanted: bool) -> None:
        try:
            status = os.stat(name, dir_fd=top)
        except FileNotFoundError:
            os.stat(name, dir_fd=top, follow_symlinks=False)  # unless it is the link that is gone
            status = None
        except OSError as exc:
            if wanted:
                kind: ObstacleKind = "loop" if exc.errno == errno.ELOOP else "unreadable"
                self._report(path, kind, exc.strerror or str(exc))
            return
        real = os.path.realpath(os.path.join(self._real_root, path))
        is_directory = status is not None and stat.S_ISDIR(status.st_mode)
        if not lies_in(real, self._real_root):
            if wanted or is_directory:
                self._report(path, "outside", f"a symlink to {real}")
        elif is_directory:
            # It is seen under its own path; seeing it here too would list its files twice, or never end.
            if wanted and self.request[1]:
                self._report(path, "directory", "a directory where a file could be")
        elif not wanted:
            return
        elif status is None:
            self._report(path, "dangling", f"a symlink to {real}, where nothing is")
        elif not stat.S_ISREG(status.st_mode):
            self._report(path, "special", "not a regular file")
        else:
            parent, target = os.path.split(os.path.relpath(real, self._real_root))
            descriptor = open_below(self._top, parent)
            try:
                self._see_file(path, target, descriptor, now, self._last.get(path))
            finally:
                os.close(descriptor)
            # The status of a link does not change with its target, so a link is read every time.
            if path in self._seen:
                signature, _, version, lean = self._seen[path]
                self._seen[path] = (signature, False, version, lean)

    def _report(self, path: str, kind: ObstacleKind, detail: str) -> None:
        self._obstacles.append(Obstacle(path, kind, detail))
