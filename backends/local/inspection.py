"""What a transaction finds at the entries it is about to change, and whether that is what was demanded."""

import os
import stat
from dataclasses import dataclass

from agentic_memory.backends.local.files import (
    Spot,
    demand_regular,
    locate,
    mapped_errors,
    open_directory,
    read_regular,
    status_of,
)
from agentic_memory.backends.preconditions import demand, expected_word, paths_of
from agentic_memory.backends.values import ABSENT, ANY, Change, Delete, Expected, Move, Put
from agentic_memory.errors import BackendUnavailable, Conflict, UnsafePath

Identity = tuple[int, int, int, int]
"""Device, inode, size and modification time of a file."""


@dataclass(frozen=True, slots=True)
class Aim:
    """A change, the entries it is about, and the version demanded of the first."""

    change: Change
    spot: Spot
    target: Spot | None
    expected: Expected


@dataclass(frozen=True, slots=True)
class Found:
    """What was at an aim's entry when the precondition was checked."""

    status: os.stat_result | None

    @property
    def identity(self) -> Identity | None:
        """Return what tells that the file was not touched since; None when there was none."""
        return None if self.status is None else identity_of(self.status)


def identity_of(status: os.stat_result) -> Identity:
    """Return what tells one state of a file from the next."""
    # Without the ctime: it moves when a spare name is given to a file that has several already.
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def aim_at(change: Change, within: str | None) -> Aim:
    """Find the entries that ``change`` is about; they have to be inside ``within``."""
    with mapped_errors(paths_of(change)[0]):
        if isinstance(change, Put):
            return Aim(change, locate(change.path, within, follow=True), None, change.expected)
        if isinstance(change, Delete):
            return Aim(change, locate(change.path, within, follow=False), None, change.expected)
        source = locate(change.source, within, follow=False)
    with mapped_errors(change.target):
        return Aim(change, source, locate(change.target, within, follow=False), change.expected)


@dataclass(frozen=True, slots=True)
class Inspection:
    """A look at entries while their directories are locked.

    Attributes:
        tops: The locked directories, open, by real path.
        within: What everything has to be inside of.
    """

    tops: dict[str, int]
    within: str | None

    def check(self, aim: Aim) -> Found:
        """Return what is at an aim's entry, which is as demanded, and where a move's target is free."""
        with mapped_errors(aim.spot.path):
            top = self.tops.get(aim.spot.directory)
            status = None if top is None else status_of(top, aim.spot.name)
            if isinstance(aim.change, Put):
                found = self._check_file(aim, top, status)
                self._demand_writable(aim, top, status)
                return found
            if status is not None and stat.S_ISLNK(status.st_mode):
                self._check_link(aim)
                found = Found(status)
            else:
                found = self._check_file(aim, top, status)
        if aim.target is not None:
            if found.status is None:
                raise Conflict(aim.spot.path, expected=expected_word(aim.expected), current=None)
            self._demand_free(aim.target)
            self._demand_movable(aim.spot, aim.target, found.status)
        return found

    @staticmethod
    def _check_file(aim: Aim, top: int | None, status: os.stat_result | None) -> Found:
        if status is None or top is None:
            if not isinstance(aim.change, Move):
                demand(aim.spot.path, aim.expected, None)
            return Found(None)
        demand_regular(aim.spot.path, status)
        if aim.expected is ANY:
            return Found(status)
        data, status = read_regular(top, aim.spot.name, path=aim.spot.path)
        demand(aim.spot.path, aim.expected, data)
        return Found(status)

    def _check_link(self, aim: Aim) -> None:
        """Check a link that is itself deleted or moved: the version meant is that of the file it leads to."""
        if aim.expected is ANY:
            return
        demand(aim.spot.path, aim.expected, self._read_behind(aim.spot))

    def _read_behind(self, link: Spot) -> bytes | None:
        behind = locate(link.path, self.within, follow=True)
        try:
            top = open_directory(behind.directory, behind.base)
        except FileNotFoundError:
            return None
        try:
            return read_regular(top, behind.name, path=link.path)[0]
        except FileNotFoundError:
            return None
        finally:
            os.close(top)

    @staticmethod
    def _demand_writable(aim: Aim, top: int | None, status: os.stat_result | None) -> None:
        """Respect a file its owner made read-only, although replacing it would need no permission on it."""
        if status is None or top is None:
            return
        if not os.access(aim.spot.name, os.W_OK, dir_fd=top):
            raise BackendUnavailable(f"{aim.spot.path} is read-only for this user; make it writable")

    def _demand_free(self, target: Spot) -> None:
        with mapped_errors(target.path):
            top = self.tops[target.directory]
            status = status_of(top, target.name)
            if status is None:
                return
            if stat.S_ISLNK(status.st_mode):
                current = self._read_behind(target)
                if current is None:
                    raise UnsafePath(f"{target.path} is a symlink to nothing; remove it")
            else:
                current, _ = read_regular(top, target.name, path=target.path)
            raise Conflict(target.path, expected=expected_word(ABSENT), current=current)

    def _demand_movable(self, source: Spot, target: Spot, status: os.stat_result) -> None:
        if not stat.S_ISLNK(status.st_mode) or source.directory == target.directory:
            return
        if not os.readlink(source.name, dir_fd=self.tops[source.directory]).startswith("/"):
            raise UnsafePath(f"{source.path} is a relative symlink, which would break if moved elsewhere")
