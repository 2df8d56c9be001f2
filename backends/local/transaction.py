"""A transaction on the local disk: look, demand, prepare, apply; see ``journal`` for the several-files part."""

import errno
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from agentic_memory.backends.local.files import (
    CREATE_FILE,
    Spot,
    demand_no_dangling_link_above,
    give_to_owner_of,
    lies_in,
    link_or_copy,
    make_directory,
    mapped_errors,
    rename_exclusively,
    status_of,
    sync_directory,
    write_all,
)
from agentic_memory.backends.local.inspection import Aim, Found, Inspection, aim_at, identity_of
from agentic_memory.backends.local.journal import (
    JOURNAL_NAME,
    Step,
    find_journals,
    is_temporary_name,
    new_temporary_name,
    recover,
    remove_journal,
    roll_back,
    write_journal,
)
from agentic_memory.backends.local.locks import Patience, PlaceChangedError, lock_directories
from agentic_memory.backends.local.swap import swap_in, take_out
from agentic_memory.backends.preconditions import check_changes, demand, expected_word, paths_of
from agentic_memory.backends.values import Change, Changes, Delete, Move, Put, version_of
from agentic_memory.errors import BackendUnavailable, Conflict, UnsafePath

MAX_ATTEMPTS: Final = 8
"""Beginnings of one transaction, when directories are replaced or dead writers' work turns up meanwhile."""

SWEEP_EVERY_SECONDS: Final = 3600.0
_MAX_SWEPT: Final = 4096

_swept: dict[tuple[int, int], float] = {}
_swept_lock = Lock()


@dataclass(slots=True)
class Transaction:
    """All ``changes`` or none. ``run`` it in a worker thread: it waits for locks and for the disk."""

    changes: Changes
    within: str | None
    patience: Patience
    _made: list[str] = field(default_factory=list)
    _tops: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        """Do it; errors as ``Backend.transact``."""
        changes = check_changes(self.changes)
        if not changes:
            return
        place = self.within or paths_of(changes[0])[0]
        try:
            with mapped_errors(place):
                for attempt in range(MAX_ATTEMPTS):
                    try:
                        self._attempt(changes)
                    except PlaceChangedError:
                        continue
                    except BackendUnavailable as exc:
                        # A writer who gave up takes away the directories it made, also those we had just found.
                        if exc.errno != errno.ENOENT or attempt == MAX_ATTEMPTS - 1:
                            raise
                        continue
                    return
        except BaseException:
            self._unmake_directories()
            raise
        raise BackendUnavailable(f"{place}: its directories are replaced all the time; try again later")

    def _attempt(self, changes: Sequence[Change]) -> None:
        aims = [aim_at(change, self.within) for change in changes]
        self._refuse_same_entry(aims)
        directories: dict[str, str | None] = {}
        for aim in aims:
            for spot, needed in ((aim.spot, isinstance(aim.change, Put)), (aim.target, True)):
                if spot is None:
                    continue
                with mapped_errors(spot.path):
                    if needed:
                        self._make_directory_for(spot)
                    elif not _is_there(spot.directory):
                        self._demand_absence(aim)
                        continue
                directories[spot.directory] = spot.base
        if not directories:
            return
        above = os.path.commonpath(list(directories))
        if len(aims) > 1:
            directories.setdefault(above, aims[0].spot.base)
        self._recover(directories)
        with lock_directories(directories.items(), self.patience) as self._tops:
            if find_journals(directories):
                raise PlaceChangedError  # its writer died between our look and our lock
            self._sweep(directories)
            inspection = Inspection(self._tops, self.within)
            found = [inspection.check(aim) for aim in aims]
            live = [(aim, seen) for aim, seen in zip(aims, found, strict=True) if not _is_done(aim, seen)]
            if live:
                self._apply(live, above)

    # ------------------------------------------------------------------ looking

    @staticmethod
    def _refuse_same_entry(aims: Sequence[Aim]) -> None:
        entries: dict[str, str] = {}
        for aim in aims:
            for spot in (aim.spot, aim.target):
                if spot is not None and entries.setdefault(spot.real, spot.path) != spot.path:
                    raise UnsafePath(f"{spot.path} and {entries[spot.real]} are one file; it occurs twice")

    def _make_directory_for(self, spot: Spot) -> None:
        if spot.is_link and not os.path.lexists(spot.real):
            raise UnsafePath(f"{spot.path} is a symlink to nothing; remove the link or make its target")
        if not _is_there(spot.directory):
            demand_no_dangling_link_above(spot.path)
            make_directory(spot.directory, self._made)

    def _unmake_directories(self) -> None:
        for path in reversed(self._made):
            with suppress(OSError):
                os.rmdir(path)

    @staticmethod
    def _demand_absence(aim: Aim) -> None:
        demand_no_dangling_link_above(aim.spot.path)
        if isinstance(aim.change, Move):
            raise Conflict(aim.spot.path, expected=expected_word(aim.expected), current=None)
        demand(aim.spot.path, aim.expected, None)

    def _recover(self, directories: dict[str, str | None]) -> None:
        for directory in find_journals(directories):
            if not recover(directory, self.patience):
                raise BackendUnavailable(
                    f"{os.path.join(directory, JOURNAL_NAME)}: another writer's transaction is unfinished and cannot "
                    "be undone by this user; let its owner run once"
                )

    def _sweep(self, directories: dict[str, str | None]) -> None:
        """Remove temporary files whose writer died: those of living writers lie under locks we hold.

        Not without a ``within``: there might be a journal further up that still needs them.
        """
        now = time.monotonic()
        for directory, top in self._tops.items():
            if directories[directory] is None:
                continue
            status = os.fstat(top)
            identity = (status.st_dev, status.st_ino)
            with _swept_lock:
                if now - _swept.get(identity, -SWEEP_EVERY_SECONDS) < SWEEP_EVERY_SECONDS:
                    continue
                if len(_swept) >= _MAX_SWEPT:
                    _swept.clear()
                _swept[identity] = now
            for name in os.listdir(top):
                if is_temporary_name(name):
                    with suppress(OSError):
                        os.unlink(name, dir_fd=top)

    # ------------------------------------------------------------------ preparing and applying

    def _apply(self, live: Sequence[tuple[Aim, Found]], above: str) -> None:
        several = len(live) > 1
        steps: list[Step] = []
        tops = {_below(path, above): top for path, top in self._tops.items() if lies_in(path, above)}
        journalled = False
        try:
            for aim, found in live:
                steps.append(_step(aim, found, above, several=several))
                with mapped_errors(aim.spot.path):
                    self._prepare(steps[-1], aim, found)
            if several:
                write_journal(self._tops[above], steps)
                journalled = True
            for step, (aim, found) in zip(steps, live, strict=True):
                with mapped_errors(aim.spot.path):
                    self._apply_one(step, aim, found, tops)
            for top in set(tops.values()):
                sync_directory(top)
            if journalled:
                remove_journal(self._tops[above])
        except BaseException:
            self._undo(steps, tops, above, several=several, journalled=journalled)
            raise
        for step in steps:
            if step.spare:
                with suppress(OSError):
                    os.unlink(step.spare, dir_fd=tops[step.directory])

    def _undo(
        self, steps: Sequence[Step], tops: dict[str, int], above: str, *, several: bool, journalled: bool
    ) -> None:
        if journalled:
            # Should this fail too, the journal is still there, and the next one who comes along does it.
            with suppress(OSError):
                roll_back(steps, tops)
                remove_journal(self._tops[above])
            return
        if several:
            with suppress(OSError):
                remove_journal(self._tops[above])
        for step in steps:
            for litter in (step.temporary, step.spare if step.kind == "put" else ""):
                if litter:
                    with suppress(OSError):
                        os.unlink(litter, dir_fd=tops[step.directory])

    def _prepare(self, step: Step, aim: Aim, found: Found) -> None:
        if not isinstance(aim.change, Put):
            return
        top = self._tops[aim.spot.directory]
        descriptor = os.open(step.temporary, CREATE_FILE, 0o666, dir_fd=top)
        try:
            if found.status is None:
                give_to_owner_of(descriptor, os.fstat(top))
            else:
                give_to_owner_of(descriptor, found.status)
                os.fchmod(descriptor, stat.S_IMODE(found.status.st_mode))
            write_all(descriptor, aim.change.data)
        finally:
            os.close(descriptor)

    def _apply_one(self, step: Step, aim: Aim, found: Found, tops: dict[str, int]) -> None:
        top = tops[step.directory]
        self._demand_untouched(aim, found, top)
        path = aim.spot.path
        if found.identity is None:
            self._rename_new(top, step.temporary, top, aim.spot)
        elif step.kind == "put":
            if step.spare:
                link_or_copy(top, step.name, step.spare)
            swap_in(top, step.temporary, step.name, seen=found.identity, path=path)
        elif step.kind == "delete":
            take_out(top, step.name, top, step.spare, seen=found.identity, path=path)
        else:
            assert aim.target is not None
            target_top = tops[step.target_directory]
            try:
                take_out(top, step.name, target_top, step.target, seen=found.identity, path=path)
            except FileExistsError as exc:
                raise PlaceChangedError(aim.target.path) from exc  # somebody who takes no locks was quicker

    @staticmethod
    def _rename_new(top: int, name: str, target_top: int, target: Spot) -> None:
        try:
            rename_exclusively(top, name, target_top, target.name)
        except FileExistsError as exc:
            raise PlaceChangedError(target.path) from exc  # somebody who takes no locks was quicker

    @staticmethod
    def _demand_untouched(aim: Aim, found: Found, top: int) -> None:
        """Look once more right before acting: an editor takes no locks, and the disk took its time to store bytes."""
        status = status_of(top, aim.spot.name)
        if (None if status is None else identity_of(status)) != found.identity:
            raise PlaceChangedError(aim.spot.path)


def _is_done(aim: Aim, found: Found) -> bool:
    """Tell whether there is nothing to do: what shall be deleted is not there, and that was allowed."""
    return isinstance(aim.change, Delete) and found.status is None


def _step(aim: Aim, found: Found, above: str, *, several: bool) -> Step:
    directory = _below(aim.spot.directory, above)
    change = aim.change
    if isinstance(change, Put):
        spare = new_temporary_name() if several and found.status is not None else ""
        version = version_of(change.data)
        return Step("put", directory, aim.spot.name, version, temporary=new_temporary_name(), spare=spare)
    if isinstance(change, Delete):
        return Step("delete", directory, aim.spot.name, spare=new_temporary_name())
    assert aim.target is not None
    assert found.status is not None
    return Step(
        "move",
        directory,
        aim.spot.name,
        target_directory=_below(aim.target.directory, above),
        target=aim.target.name,
        inode=found.status.st_ino,
    )


def _is_there(directory: str) -> bool:
    """Tell whether there is such a directory; an ``OSError`` when that cannot be told."""
    try:
        return stat.S_ISDIR(os.stat(directory).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _below(path: str, above: str) -> str:
    return "" if path == above else os.path.relpath(path, above)
