"""The undo journal: how a transaction of several files is wholly done or not at all, also when its writer dies.

While a transaction of more than one change is being applied, the directory above all of its files holds a journal
(``.agentic-memory.journal``). The protocol, all of it under the locks of that directory and of every other concerned:

1. write the new bytes to temporary files beside their targets, and make them durable;
2. write the journal to a temporary file, make it durable, rename it into place;
3. apply the changes in order. What a change replaces or deletes is kept under a spare name;
4. make the directories durable, then remove the journal: **this commits**;
5. remove the spares.

Whoever meets a journal and gets the locks knows that its writer died between 2 and 4 (a living one would hold them),
and rolls it back, last change first. Every step of that looks before it acts, so it may itself be interrupted and
done again. A file that is neither what it was nor what the transaction made of it was edited by somebody since: it is
left alone. The same roll-back serves a writer whose own step 3 failed.

A journal says where to rename files, and anybody who may write to the memory could leave one there. So it is obeyed
only as far as its author could have gone anyway: it reaches downwards from its own directory, through no symlink, and
its owner must be this user, root, or the directory's owner.
"""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from secrets import token_hex
from typing import Any, Final

from agentic_memory.backends.local.files import (
    CREATE_FILE,
    OPEN_DIRECTORY,
    demand_regular,
    lies_in,
    read_regular,
    rename_exclusively,
    status_of,
    sync_directory,
    write_all,
)
from agentic_memory.backends.local.locks import Patience, PlaceChangedError, lock_directories
from agentic_memory.backends.values import version_of
from agentic_memory.errors import AgenticMemoryError

JOURNAL_NAME: Final = ".agentic-memory.journal"
JOURNAL_FORMAT: Final = 1
MAX_JOURNAL_BYTES: Final = 64 * 1024 * 1024
MAX_RECOVERIES: Final = 5

_TEMPORARY_NAME: Final = re.compile(r"\.agentic-memory-[0-9a-f]{16}\.tmp")


def new_temporary_name() -> str:
    """Return a name for a temporary file: hidden, never used before, and not longer for a longer target."""
    return f".agentic-memory-{token_hex(8)}.tmp"


def is_temporary_name(name: str) -> bool:
    """Tell whether ``name`` is one of ours; such a file in a directory whose lock is free has no owner any more."""
    return _TEMPORARY_NAME.fullmatch(name) is not None


def is_own_name(name: str) -> bool:
    """Tell whether ``name`` is bookkeeping of a transaction, never a file of the memory."""
    return name == JOURNAL_NAME or is_temporary_name(name)


@dataclass(frozen=True, slots=True)
class Step:
    """One change as it is applied, and all that undoing it takes.

    Attributes:
        kind: ``put``: ``temporary`` becomes ``name``; ``delete``: ``name`` becomes ``spare``; ``move``: ``name``
            becomes ``target``.
        directory: Relative to the journal's directory; empty for that directory itself.
        name: The entry that is changed.
        version: ``put``: of the new bytes.
        temporary: ``put``: where the new bytes wait.
        spare: ``put``: where the old file is kept, if there is one; ``delete``: where it goes.
        target_directory, target: ``move``: the new entry.
        inode: ``move``: what is moved, whatever it is called.
    """

    kind: str
    directory: str
    name: str
    version: str = ""
    temporary: str = ""
    spare: str = ""
    target_directory: str = ""
    target: str = ""
    inode: int = 0


class BrokenJournalError(Exception):
    """A journal this package did not write, or not this way."""


def write_journal(top: int, steps: Sequence[Step]) -> None:
    """Put a journal into the open directory ``top``, durably and at once."""
    text = json.dumps({"format": JOURNAL_FORMAT, "steps": [asdict(step) for step in steps]})
    temporary = new_temporary_name()
    try:
        descriptor = os.open(temporary, CREATE_FILE, 0o600, dir_fd=top)
        try:
            write_all(descriptor, text.encode())
        finally:
            os.close(descriptor)
        os.rename(temporary, JOURNAL_NAME, src_dir_fd=top, dst_dir_fd=top)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=top)
        raise
    sync_directory(top)


def remove_journal(top: int) -> None:
    """Commit, or finish a roll-back: afterwards nothing is undone any more."""
    with suppress(FileNotFoundError):
        os.unlink(JOURNAL_NAME, dir_fd=top)
    sync_directory(top)


def roll_back(steps: Sequence[Step], tops: dict[str, int]) -> None:
    """Undo what was applied of ``steps``; ``tops`` has the open directories by their name in the journal."""
    for step in reversed(steps):
        top = tops.get(step.directory)
        if top is None:
            continue
        if step.kind == "put":
            _undo_put(step, top)
        elif step.kind == "delete":
            _undo_delete(step, top)
        else:
            _undo_move(step, top, tops.get(step.target_directory))
    for top in set(tops.values()):
        sync_directory(top)


def _undo_put(step: Step, top: int) -> None:
    if _version_at(top, step.name) == step.version:
        if not step.spare:
            os.unlink(step.name, dir_fd=top)
        elif status_of(top, step.spare) is not None:
            os.rename(step.spare, step.name, src_dir_fd=top, dst_dir_fd=top)
    for litter in (step.temporary, step.spare):
        if litter:
            with suppress(FileNotFoundError):
                os.unlink(litter, dir_fd=top)


def _undo_delete(step: Step, top: int) -> None:
    with suppress(FileNotFoundError):
        try:
            rename_exclusively(top, step.spare, top, step.name)
        except FileExistsError:  # somebody wrote a new one meanwhile; theirs stays
            os.unlink(step.spare, dir_fd=top)


def _undo_move(step: Step, top: int, target_top: int | None) -> None:
    if target_top is None:
        return
    moved = status_of(target_top, step.target)
    if moved is not None and moved.st_ino == step.inode:
        with suppress(FileExistsError):
            rename_exclusively(target_top, step.target, top, step.name)


def _version_at(top: int, name: str) -> str | None:
    try:
        return version_of(read_regular(top, name, path=name)[0])
    except (OSError, AgenticMemoryError):
        return None


def find_journals(directories: dict[str, str | None]) -> list[str]:
    """Return where a journal lies: in one of the real ``directories``, or between it and its base (the value)."""
    found: dict[str, bool] = {}
    for directory, base in directories.items():
        at = directory
        while at not in found and (at == directory or (base is not None and lies_in(at, base))):
            found[at] = os.path.lexists(os.path.join(at, JOURNAL_NAME))
            at = os.path.dirname(at)
    return [at for at, there in found.items() if there]


def recover(directory: str, patience: Patience) -> bool:
    """Roll back the journal in the real directory ``directory`` if its writer is dead; tell whether it is gone.

    False: there is one still, that may not be touched or whose writer would not finish in time.
    """
    for _ in range(MAX_RECOVERIES):
        try:
            return _recover_once(directory, patience)
        except PlaceChangedError:
            continue
        except (OSError, AgenticMemoryError):
            return False
    return False


def _recover_once(directory: str, patience: Patience) -> bool:
    top = os.open(directory, OPEN_DIRECTORY)
    try:
        steps = _read_journal(top)
    except BrokenJournalError:
        steps = []
    finally:
        os.close(top)
    if steps is None:
        return True
    relatives = {step.directory for step in steps} | {step.target_directory for step in steps if step.target}
    paths = {relative: os.path.join(directory, relative) if relative else directory for relative in relatives}
    paths = {relative: path for relative, path in paths.items() if _is_real(path, directory)}
    with lock_directories([(directory, None), *((path, directory) for path in paths.values())], patience) as opened:
        top = opened[directory]
        try:
            now = _read_journal(top)
        except BrokenJournalError:
            # Not ours to obey, and not ours to destroy: out of the way, under a name that shows.
            os.rename(JOURNAL_NAME, f"agentic-memory.journal.{token_hex(4)}.broken", src_dir_fd=top, dst_dir_fd=top)
            return True
        if now is None:
            return True
        if now != steps:
            raise PlaceChangedError(directory)
        roll_back(steps, {relative: opened[path] for relative, path in paths.items()})
        remove_journal(top)
    return True


def _is_real(path: str, directory: str) -> bool:
    return os.path.isdir(path) and os.path.realpath(path) == path and lies_in(path, directory)


def _read_journal(top: int) -> list[Step] | None:
    status = status_of(top, JOURNAL_NAME)
    if status is None:
        return None
    try:
        demand_regular(JOURNAL_NAME, status)
        if status.st_uid not in (os.geteuid(), 0, os.fstat(top).st_uid):
            raise BrokenJournalError("it belongs to somebody else")
        data, _ = read_regular(top, JOURNAL_NAME, path=JOURNAL_NAME, max_bytes=MAX_JOURNAL_BYTES)
    except FileNotFoundError:
        return None
    except AgenticMemoryError as exc:
        raise BrokenJournalError(str(exc)) from exc
    return parse_journal(data)


def parse_journal(data: bytes) -> list[Step]:
    """Return the steps of a journal, each of which stays below its directory.

    Raises:
        BrokenJournalError: anything about it is not as ``write_journal`` would have it.
    """
    try:
        content = json.loads(data)
        if content["format"] != JOURNAL_FORMAT:
            raise BrokenJournalError("another format")
        steps = [Step(**fields) for fields in content["steps"]]
        if all(_is_sound(step) for step in steps):
            return steps
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise BrokenJournalError(str(exc)) from exc
    raise BrokenJournalError("a step that no transaction makes")


def _is_sound(step: Step) -> bool:
    strings: tuple[Any, ...] = (step.kind, step.directory, step.name, step.version, step.temporary, step.spare)
    if not all(isinstance(part, str) for part in (*strings, step.target_directory, step.target)):
        return False
    if not isinstance(step.inode, int) or not _is_below(step.directory) or not _is_name(step.name):
        return False
    if not all(is_temporary_name(name) for name in (step.temporary, step.spare) if name):
        return False
    if step.kind == "put":
        return bool(step.temporary) and not step.target
    if step.kind == "delete":
        return bool(step.spare) and not step.target
    return step.kind == "move" and _is_name(step.target) and _is_below(step.target_directory)


def _is_name(name: str) -> bool:
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _is_below(directory: str) -> bool:
    return directory == "" or all(_is_name(part) for part in directory.split("/"))
