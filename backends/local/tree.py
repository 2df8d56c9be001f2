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
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
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
from agentic_memory.backends.local.passes import Folder, Pass, Request, Seen, last_pass, remember
from agentic_memory.backends.values import FileRecord, Obstacle, ObstacleKind, Tree, version_of
from agentic_memory.errors import BackendUnavailable

SETTLED_NS: Final = 2_500_000_000
"""Age a file's times must have, when it is read, for its signature to be trusted afterwards.

FAT keeps modification times to 2 s, HFS+ to 1 s, Linux's own file systems to a timer tick of at most 10 ms. Whoever
changes the file later than one tick after that changes its ctime, which nobody can set back. Younger files are read
again: that is what edits cost for two and a half seconds. The same goes for a directory and the names in it.
"""

BUSY_DIRECTORY_NS: Final = 50_000_000
"""A directory changed within so short a time may change again while it is listed; it is listed under its lock."""

MAX_LISTINGS: Final = 4
MAX_OPENINGS: Final = 8
"""Looks at a root that is made or removed at this very moment."""
LISTING_PATIENCE_SECONDS: Final = 1.0


class GoneError(Exception):
    """A name that was listed is no longer there: it may have moved, so list again."""


_BY_PATH: Final = attrgetter("path")


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


def _is_settled(status: os.stat_result, now: int) -> bool:
    return now - max(status.st_mtime_ns, status.st_ctime_ns) > SETTLED_NS


@dataclass(slots=True)
class Walk:
    """One pass in the making. ``run`` it once.

    Attributes:
        journals: Directories, relative to the root, in which an unfinished transaction was met.
    """

    request: Request
    known: Collection[str]
    journals: list[str] = field(default_factory=list)
    _obstacles: list[Obstacle] = field(default_factory=list)
    _folders: dict[str, Folder] = field(default_factory=dict)
    _files: dict[str, list[FileRecord]] = field(default_factory=dict)
    _last: dict[str, Folder] = field(default_factory=dict)
    _fresh: dict[str, Seen] = field(default_factory=dict)
    _answers: dict[str, FileRecord] = field(default_factory=dict)
    _plain: bool = True
    _real_root: str = ""
    _top: int = -1

    def run(self) -> Tree:
        """Walk, and return the very same ``Tree`` as last time when that still holds and its bytes are known."""
        root = self.request[0]
        top = open_root(root)
        if top is None:
            return Tree(root, exists=False, files=())
        last = last_pass(self.request)
        if last is not None:
            self._last = last.folders
        self._top = top
        self._real_root = os.path.realpath(root)
        try:
            pending = [""]
            while pending:
                self._walk_directory(pending.pop(), pending)
        finally:
            os.close(top)
        return self._answer(None if last is None else last.lean)

    def _answer(self, lean: tuple[dict[str, list[FileRecord]], Tree] | None) -> Tree:
        obstacles, files = tuple(sorted(self._obstacles, key=_BY_PATH)), self._files
        if (
            lean is not None
            and lean[1].obstacles == obstacles
            and len(lean[0]) == len(files)
            and all(lean[0].get(directory) is records for directory, records in files.items())
        ):
            tree = lean[1]
        else:
            every = sorted(chain.from_iterable(files.values()), key=_BY_PATH)
            tree = Tree(self.request[0], exists=True, files=tuple(every), obstacles=obstacles)
            if all(record.data is None for record in every):
                lean = (files, tree)
        remember(self.request, Pass(self._folders, lean))
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
                marks = (len(self._obstacles), len(pending), len(self.journals))
                try:
                    self._see_directory(directory, descriptor, pending, attempt)
                except BackendUnavailable as exc:
                    if not directory:
                        raise
                    self._report(directory, "unreadable", exc.strerror or str(exc))
                except GoneError:
                    del self._obstacles[marks[0] :], pending[marks[1] :], self.journals[marks[2] :]
                    continue
                return
        finally:
            os.close(descriptor)

    def _see_directory(self, directory: str, descriptor: int, pending: list[str], attempt: int) -> None:
        """See the files of one directory.

        While its own signature is what it was, and is settled, there are the same names in it: then only what the names
        stand for is looked at.
        """
        last, last_attempt = self._last.get(directory), attempt == MAX_TORN_READS - 1
        before = {} if last is None else last.seen
        status = os.fstat(descriptor)
        own = signature_of(status)
        same = last if last is not None and last.own == own and attempt == 0 else None
        entries = () if same is not None else self._entries(directory, descriptor)
        listed = {entry.name: entry for entry in entries}
        now = time.time_ns()
        steady = same is not None or (_is_settled(status, now) and own == signature_of(os.fstat(descriptor)))
        prefix = f"{directory}/" if directory else ""
        kept: list[str] = []
        below: list[str] = []
        self._fresh, self._answers, self._plain = {}, {}, True
        known, signature, look = self.known, signature_of, os.stat  # DirEntry.stat would keep every answer to the end
        for name, cached in before.items():
            if same is None and name not in listed:
                continue
            try:
                if (
                    cached[1]
                    and cached[2] in known
                    and signature(look(name, dir_fd=descriptor, follow_symlinks=False)) == cached[0]
                ):
                    if cached[3] is not None:
                        kept.append(name)
                    else:
                        self._note(name, prefix + name, cached)
                    listed.pop(name, None)
                elif same is not None:
                    self._see_file(prefix + name, descriptor, name, now, cached)
            except OSError as exc:
                self._miss(prefix + name, exc, last_attempt=last_attempt)
        for name, entry in listed.items():
            try:
                self._see_entry(directory, entry, descriptor, now, before.get(name), below)
            except OSError as exc:
                self._miss(prefix + name, exc, last_attempt=last_attempt)
        if same is not None:
            below = same.below
        pending.extend(below)
        self._close_folder(directory, last, kept, below, own if steady and self._plain else None)

    def _miss(self, path: str, error: OSError, *, last_attempt: bool) -> None:
        if not isinstance(error, FileNotFoundError):
            self._report(path, "unreadable", error.strerror or str(error))
        elif not last_attempt:
            raise GoneError from error

    def _close_folder(
        self, directory: str, last: Folder | None, kept: list[str], below: list[str], own: Signature | None
    ) -> None:
        """Put together what was seen in one directory: the files as they were last time, by name, and what is fresh."""
        fresh, answers = self._fresh, self._answers
        before = {} if last is None else last.seen
        if last is not None and not fresh and len(kept) == len(before) and (last.below, last.own) == (below, own):
            folder = last
        else:
            # In the order of the last time, which is sorted but for what is new: so the answer is sorted in no time.
            seen = before | fresh if before else dict(sorted(fresh.items()))
            if len(seen) > len(kept) + len(fresh):
                there = {*kept, *fresh}
                seen = {name: found for name, found in seen.items() if name in there}
            same = len(seen) == len(before) and all(
                name in before and found[3] is before[name][3] for name, found in fresh.items()
            )
            records = [found[3] for found in seen.values() if found[3] is not None]
            lean = last.lean if last is not None and same else None
            folder = Folder(seen, lean or (records if len(records) == len(seen) else None), below, own)
        self._folders[directory] = folder
        if folder.lean is not None and all(record.data is None for record in answers.values()):
            files = folder.lean
        else:
            shown = (answers.get(name, found[3]) for name, found in folder.seen.items())
            files = [record for record in shown if record is not None]
        if files:
            self._files[directory] = files

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

    def _see_entry(
        self, directory: str, entry: os.DirEntry[str], top: int, now: int, cached: Seen | None, below: list[str]
    ) -> None:
        _, suffix, hidden, _ = self.request
        name = entry.name
        if name[0] == ".":
            if name == JOURNAL_NAME:
                self.journals.append(directory)
                self._plain = False
            if not hidden or is_own_name(name):
                return
        path = f"{directory}/{name}" if directory else name
        if entry.is_symlink():
            self._plain = False  # what is behind a link changes without its directory
            self._see_link(path, name, top, now, cached, wanted=name.lower().endswith(suffix))
        elif entry.is_dir(follow_symlinks=False):
            if suffix and name.lower().endswith(suffix):
                self._report(path, "directory", "a directory where a file could be")
            else:
                below.append(path)
        elif name.lower().endswith(suffix):
            if entry.is_file(follow_symlinks=False):
                self._see_file(path, top, name, now, cached)
            else:
                self._report(path, "special", "not a regular file")

    def _see_file(self, path: str, top: int, target: str, now: int, cached: Seen | None) -> None:
        max_bytes = self.request[3]
        for _ in range(MAX_TORN_READS):
            descriptor = os.open(target, OPEN_FILE, dir_fd=top)
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
        settled = _is_settled(status, now)
        # The same record again where nothing changed: callers tell so by identity.
        lean = cached[3] if cached is not None and cached[0] == signature and cached[2] == version else None
        name = os.path.basename(path)
        if version in self.known:
            self._note(name, path, (signature, settled, version, lean))
        else:
            self._fresh[name] = (signature, settled, version, lean)
            self._answers[name] = FileRecord(path, size, status.st_mtime_ns, version, data)

    def _note(self, name: str, path: str, seen: Seen) -> None:
        """Note a file whose bytes the caller has: with the same record as ever."""
        signature, settled, version, lean = seen
        lean = lean or FileRecord(path, signature[2], signature[3], version, None)
        self._fresh[name] = (signature, settled, version, lean)
        self._answers[name] = lean

    def _see_link(self, path: str, name: str, top: int, now: int, cached: Seen | None, *, wanted: bool) -> None:
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
                self._see_file(path, descriptor, target, now, cached)
            finally:
                os.close(descriptor)
            # The status of a link does not change with its target, so a link is read every time.
            if name in self._fresh:
                signature, _, version, lean = self._fresh[name]
                self._fresh[name] = (signature, False, version, lean)

    def _report(self, path: str, kind: ObstacleKind, detail: str) -> None:
        self._plain = False
        self._obstacles.append(Obstacle(path, kind, detail))
