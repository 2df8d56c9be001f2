"""``.history/``: the bytes of every version by their hash, and a log of small files that are written once.

Two writers never meet: an object has the name of its content, and every transaction has a log file of its own.
"""

import posixpath
from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final

from agentic_memory.backends import ABSENT, Backend, Put, version_of
from agentic_memory.backends.values import ANY
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable, MemoryNotFound
from agentic_memory.history.entries import Change, Entry, is_version, parse_entries, render_entries
from agentic_memory.history.past import Past, ReadLog
from agentic_memory.values import Problem

FOLDER: Final = ".history"
OBJECTS: Final = f"{FOLDER}/objects"
LOG: Final = f"{FOLDER}/log"


def puts_of(changes: Sequence[Change], *, root: str, past: Past) -> list[Put]:
    """Return the writes that keep ``changes``: the bytes before and after, and one log file. Empty for no change."""
    if not changes:
        return []
    objects: dict[str, bytes] = {}
    for change in changes:
        if change.before is not None and change.before.version not in past.kept:
            objects[change.before.version] = change.before.data
        if change.after is not None:
            objects[change.after.version] = change.after.data
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{token_hex(4)}.jsonl"
    # Whatever is at the place of an object is the same bytes, or damaged ones that this mends.
    puts = [Put(_object_path(root, version), data, ANY) for version, data in objects.items()]
    log = render_entries(change.entry() for change in changes)
    return [*puts, Put(posixpath.join(root, LOG, name), log, ABSENT)]


def note_kept(changes: Sequence[Change], past: Past) -> None:
    """Remember whose bytes are safe now."""
    for change in changes:
        past.kept.update(state.version for state in (change.before, change.after) if state is not None)


async def record(backend: Backend, *, root: str, past: Past) -> int:
    """Write all pending changes to the history and return their number. What cannot be written stays pending.

    Raises:
        AgenticMemoryError: as ``Backend.transact``.
    """
    written = 0
    while batch := past.take():
        try:
            await backend.transact(puts_of(batch, root=root, past=past), within=root)
        except BaseException:
            past.put_back(batch)
            raise
        note_kept(batch, past)
        written += len(batch)
    return written


async def read_version(backend: Backend, version: str, *, root: str) -> bytes | None:
    """Return the bytes of a version; None when the history does not have them.

    Raises:
        MemoryNotFound: ``version`` is no version.
        BackendUnavailable: cannot tell, or what is there is damaged.
    """
    if not is_version(version):
        raise MemoryNotFound(f"{version!r} is no version: it takes 64 hex digits, as the history shows them")
    path = _object_path(root, version)
    record = await backend.fetch(path, within=root)
    if record is ABSENT or record.data is None:
        return None
    if version_of(record.data) != version:
        raise BackendUnavailable(f"{path}: is damaged, its bytes are not those of its name; remove it")
    return record.data


async def read_log(backend: Backend, *, root: str, past: Past) -> tuple[list[Entry], list[Problem]]:
    """Read the whole log, in one round trip; what was read before is not sent again. What is no entry is a problem."""
    tree = await backend.snapshot(posixpath.join(root, LOG), known=frozenset(past.logs), suffix=".jsonl")
    entries: list[Entry] = []
    problems: list[Problem] = []
    for file in tree.files:
        read = past.logs.get(file.version)
        if read is None:
            found, wrong = parse_entries(file.data or b"")
            read = past.logs[file.version] = ReadLog(tuple(found), tuple(wrong))
        entries.extend(read.entries)
        problems.extend(_wrong_line(f"{LOG}/{file.path}", line) for line in read.wrong_lines)
    problems.extend(_unread(f"{LOG}/{obstacle.path}", obstacle.detail or obstacle.kind) for obstacle in tree.obstacles)
    return entries, problems


async def log_problems(backend: Backend, *, root: str, past: Past) -> list[Problem]:
    """List what is wrong with the log; a log that cannot be read is one problem."""
    try:
        return (await read_log(backend, root=root, past=past))[1]
    except AgenticMemoryError as error:
        return [_unread(LOG, str(error))]


def _object_path(root: str, version: str) -> str:
    return posixpath.join(root, OBJECTS, version[:2], version)


def _wrong_line(file: str, line: int) -> Problem:
    return Problem(
        code="history-line",
        file=file,
        line=line,
        message="not an entry of the history, passed over",
        fix="remove the line; the versions it told of can still be restored by their hash",
    )


def _unread(file: str, why: str) -> Problem:
    return Problem(
        code="history-unreadable",
        file=file,
        line=None,
        message=f"this part of the history cannot be read: {why}",
        fix="give the agent's user the right to read it, or remove it",
    )
