"""Making the history smaller, and telling how large it is."""

import posixpath
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from agentic_memory.backends import Change, Delete, Put, Tree
from agentic_memory.history.archive import Archive, Log, read_log
from agentic_memory.history.entries import is_version, render_entries
from agentic_memory.history.past import Past
from agentic_memory.history.retention import Retention, entries_left, expired_versions

MAX_CHANGES: Final = 1_000
"""Removals in one transaction: a sandbox takes it as one command."""
ORPHAN_DAYS: Final = 1
"""Age from which an object that no line of the log names is taken for what a crash left."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the history takes on disk.

    Attributes:
        versions: Versions that can be restored.
        version_bytes: Their bytes.
        changes: Lines of the log.
        log_files, log_bytes: What these are in.
        trash_files, trash_bytes: What was forgotten and not brought back.
    """

    versions: int
    version_bytes: int
    changes: int
    log_files: int
    log_bytes: int
    trash_files: int
    trash_bytes: int

    @property
    def bytes(self) -> int:
        """All bytes of the history, without the trash."""
        return self.version_bytes + self.log_bytes

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return asdict(self)


def usage_of(log: Log, objects: Tree, trash: Tree) -> Usage:
    """Add up what was seen."""
    return Usage(
        versions=len(objects.files),
        version_bytes=sum(file.size for file in objects.files),
        changes=len(log.entries),
        log_files=len(log.files),
        log_bytes=sum(file.size for file, _ in log.files),
        trash_files=len(trash.files),
        trash_bytes=sum(file.size for file in trash.files),
    )


async def see_objects(archive: Archive, log: Log) -> Tree:
    """See which versions are kept, with their sizes; no bytes are sent of those that the log names."""
    known = {one for entry in log.entries for one in (entry.version.version, entry.version.previous) if one is not None}
    return await archive.backend.snapshot(archive.objects, known=known)


async def tidy(archive: Archive, *, present: dict[str, str], retention: Retention, past: Past) -> int:
    """Remove what ``retention`` lets go, and what crashes left; return how many versions went.

    First the lines, then the bytes: a crash between the two leaves bytes that the next time finds.

    Raises:
        Conflict: somebody else changed the log meanwhile; nothing is lost, and what is left to do is done the next time.
        BackendUnavailable: cannot tell, or cannot write.
    """
    log = await read_log(archive, past=past)
    now = datetime.now(UTC)
    gone = expired_versions(log.entries, present=present, retention=retention, now=now)
    objects = await see_objects(archive, log)
    named = {one for entry in log.entries for one in (entry.version.version, entry.version.previous)}
    young = (now - timedelta(days=ORPHAN_DAYS)).timestamp() * 1e9
    changes: list[Change] = []
    for file, read in log.files:
        left = entries_left(read.entries, gone)
        if left != [*read.entries]:
            path = posixpath.join(archive.log, file.path)
            changes.append(Put(path, render_entries(left), file.version) if left else Delete(path, file.version))
    removed: set[str] = set()
    for file in objects.files:
        name = posixpath.basename(file.path)
        orphan = is_version(name) and name not in named and file.mtime_ns < young
        if (name in gone or orphan) and name not in present.values():
            changes.append(Delete(posixpath.join(archive.objects, file.path), file.version))
            removed.add(name)
    past.kept.difference_update(removed)
    for at in range(0, len(changes), MAX_CHANGES):
        await archive.backend.transact(changes[at : at + MAX_CHANGES], within=archive.within)
    return len(removed)
