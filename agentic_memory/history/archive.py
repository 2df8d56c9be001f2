"""``.history/``: the bytes of every version by their hash, and a log of small files that are written once.

Two writers never meet: an object has the name of its content, and every transaction has a log file of its own. Many small
log files are packed into a large one when somebody reads them.
"""

import logging
import posixpath
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final

from agentic_memory.backends import ABSENT, Backend, Delete, FileRecord, Put, version_of
from agentic_memory.backends.values import ANY
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable, MemoryNotFound
from agentic_memory.history.entries import Change, Entry, is_version, parse_entries, render_entries
from agentic_memory.history.past import Past, ReadLog
from agentic_memory.values import Problem

logger = logging.getLogger("agentic_memory")

FOLDER: Final = ".history"
MAX_LOOSE_LOGS: Final = 500
"""Log files from which they are packed: reading so many takes some 20 ms on a local disk."""
PACK_BYTES: Final = 1024 * 1024
"""Size of a pack from which nothing is added to it. With bounds on files and bytes a pack is one command of a sandbox."""
MAX_PACKED_FILES: Final = 2_000
MAX_SINGLE_READS: Final = 4
"""Versions that are fetched one by one; more come with one look at all objects."""


@dataclass(frozen=True, slots=True)
class Archive:
    """A place that the history of one memory is kept in.

    Attributes:
        backend: Where the bytes live.
        directory: Absolute path; ``objects/`` and ``log/`` are in it.
        within: The directory that every path must lie in.
        apart: Whether it is another place than the memory's own, so that no transaction spans the two.
    """

    backend: Backend
    directory: str
    within: str
    apart: bool = False

    @property
    def objects(self) -> str:
        """The directory of the versions' bytes."""
        return posixpath.join(self.directory, "objects")

    @property
    def log(self) -> str:
        """The directory of the log files."""
        return posixpath.join(self.directory, "log")

    @property
    def purged(self) -> str:
        """The file that names the versions that were purged: a program that saw one must not bring it here again."""
        return posixpath.join(self.directory, "purged")

    def object_path(self, version: str) -> str:
        """Return where the bytes of a version are."""
        return posixpath.join(self.objects, version[:2], version)


@dataclass(frozen=True, slots=True)
class Log:
    """The log as it was read: its entries, what is wrong with it, and its files with the entries of each."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    files: tuple[tuple[FileRecord, ReadLog], ...]


def puts_of(
    changes: Sequence[Change], archive: Archive, *, past: Past, purged: Collection[str] = frozenset()
) -> list[Put]:
    """Return the writes that keep ``changes``: the bytes before and after, and one log file. Empty for no change.

    Args:
        changes: What is to be kept.
        archive: Where.
        past: What this process has kept already.
        purged: Versions whose bytes must not be kept.
    """
    if not changes:
        return []
    objects: dict[str, bytes] = {}
    for change in changes:
        if change.before is not None and change.before.version not in past.kept and change.before.version not in purged:
            objects[change.before.version] = change.before.data
        if change.after is not None:
            objects[change.after.version] = change.after.data
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{token_hex(4)}.jsonl"
    # Whatever is at the place of an object is the same bytes, or damaged ones that this mends.
    puts = [Put(archive.object_path(version), data, ANY) for version, data in objects.items()]
    log = render_entries(change.entry() for change in changes)
    return [*puts, Put(posixpath.join(archive.log, name), log, ABSENT)]


async def record(archive: Archive, *, past: Past) -> int:
    """Write all pending changes to the history and return their number. What cannot be written stays pending.

    Raises:
        AgenticMemoryError: as ``Backend.transact``.
    """
    written = 0
    while batch := past.take():
        try:
            purged = await read_purged(archive, batch, past=past)
            batch = tuple(change for change in batch if not is_purge(change, purged))
            puts = puts_of(batch, archive, past=past, purged=purged)
            if puts:
                await archive.backend.transact(puts, within=archive.within)
        except BaseException:
            past.put_back(batch)
            raise
        past.note_kept(batch)
        written += len(batch)
    return written


async def read_purged(archive: Archive, noticed: Collection[Change], *, past: Past) -> frozenset[str]:
    """Return what was purged, if that can matter for what was noticed: one round trip, none for what is known as kept."""
    if all(change.before is None or change.before.version in past.kept for change in noticed):
        return frozenset()
    record = await archive.backend.fetch(archive.purged, within=archive.within)
    if record is ABSENT or record.data is None:
        return frozenset()
    return frozenset(record.data.decode("ascii", "replace").split())


def is_purge(change: Change, purged: Collection[str]) -> bool:
    """Tell whether a change that was noticed is only that somebody purged the file."""
    return change.after is None and change.before is not None and change.before.version in purged


# --------------------------------------------------------------------------- reading versions


async def read_version(archive: Archive, version: str) -> bytes | None:
    """Return the bytes of a version; None when the history does not have them.

    Raises:
        MemoryNotFound: ``version`` is no version.
        BackendUnavailable: cannot tell, or what is there is damaged.
    """
    if not is_version(version):
        raise MemoryNotFound(f"{version!r} is no version: it takes 64 hex digits, as the history shows them")
    record = await archive.backend.fetch(archive.object_path(version), within=archive.within)
    if record is ABSENT or record.data is None:
        return None
    return _proved(archive, version, record.data)


async def read_versions(archive: Archive, wanted: Collection[str], *, others: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of many versions as far as they are there, in one round trip.

    Args:
        archive: Where.
        wanted: Which.
        others: Versions that may be there too, whose bytes need not be sent.
    """
    if len(wanted) <= MAX_SINGLE_READS:
        found = {version: await read_version(archive, version) for version in wanted}
        return {version: data for version, data in found.items() if data is not None}
    tree = await archive.backend.snapshot(archive.objects, known=frozenset(others) - frozenset(wanted))
    named = {posixpath.basename(file.path): file.data for file in tree.files}
    return {version: _proved(archive, version, data) for version in wanted if (data := named.get(version)) is not None}


def _proved(archive: Archive, version: str, data: bytes) -> bytes:
    if version_of(data) != version:
        raise BackendUnavailable(
            f"{archive.object_path(version)}: is damaged, its bytes are not those of its name; remove it"
        )
    return data


# --------------------------------------------------------------------------- reading the log


async def read_log(archive: Archive, *, past: Past) -> Log:
    """Read the whole log, in one round trip; what was read before is not sent again. What is no entry is a problem."""
    tree = await archive.backend.snapshot(archive.log, known=frozenset(past.logs), suffix=".jsonl")
    files: list[tuple[FileRecord, ReadLog]] = []
    problems: list[Problem] = []
    logs: dict[str, ReadLog] = {}
    for file in tree.files:
        read = past.logs.get(file.version)
        if read is None:
            found, wrong = parse_entries(file.data or b"")
            read = ReadLog(tuple(found), tuple(wrong))
        logs[file.version] = read
        files.append((file, read))
        problems.extend(_wrong_line(f"{FOLDER}/log/{file.path}", line) for line in read.wrong_lines)
    past.logs = logs
    problems.extend(
        _unread(f"{FOLDER}/log/{obstacle.path}", obstacle.detail or obstacle.kind) for obstacle in tree.obstacles
    )
    # Once each: whoever reads while log files are packed may see an entry in both.
    entries = tuple(dict.fromkeys(entry for _, read in files for entry in read.entries))
    return Log(entries, tuple(problems), tuple(files))


async def log_problems(archive: Archive, *, past: Past) -> list[Problem]:
    """List what is wrong with the log; a log that cannot be read is one problem."""
    try:
        return [*(await read_log(archive, past=past)).problems]
    except AgenticMemoryError as error:
        return [_unread(f"{FOLDER}/log", str(error))]


async def pack(archive: Archive, log: Log) -> int:
    """Put many small log files into large ones and return how many went. Each step is whole or undone.

    A failure is no error: the log is as good as before, and the next reader tries again.
    """
    small = [(file, read) for file, read in log.files if file.size < PACK_BYTES and not read.wrong_lines]
    if len(small) <= MAX_LOOSE_LOGS:
        return 0
    packed = 0
    while small:
        batch: list[tuple[FileRecord, ReadLog]] = []
        room = PACK_BYTES
        while small and room > 0 and len(batch) < MAX_PACKED_FILES:
            batch.append(small.pop(0))
            room -= batch[-1][0].size
        data = render_entries(dict.fromkeys(entry for _, read in batch for entry in read.entries))
        put = Put(posixpath.join(archive.log, f"pack-{token_hex(8)}.jsonl"), data, ABSENT)
        gone = [Delete(posixpath.join(archive.log, file.path), file.version) for file, _ in batch]
        try:
            await archive.backend.transact([put, *gone], within=archive.within)
        except AgenticMemoryError as error:
            logger.info("memory: the log of the history was not packed, it is tried again: %s", error)
            return packed
        packed += len(batch)
    return packed


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
