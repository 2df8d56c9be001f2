"""A change of the memory and its place in the history: one transaction, or the history first where that is elsewhere."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from agentic_memory.backends import Backend, Delete, Put, version_of
from agentic_memory.backends import Change as FileChange
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable, UnsafePath
from agentic_memory.history.archive import Archive, is_purge, puts_of, read_purged, record
from agentic_memory.history.entries import Author, Change, State
from agentic_memory.history.past import Look, Past, state_of

logger = logging.getLogger("agentic_memory")

LOCKED: Final = "is locked by another"
"""How backends say that a directory is busy, which is no reason to go on without the history: the change has to wait too."""


async def transact_and_keep(
    backend: Backend,
    changes: Sequence[FileChange],
    *,
    after: Mapping[str, bytes | None],
    look: Look,
    archive: Archive,
    past: Past,
    author: Author,
    why: str,
    transaction: str,
) -> None:
    """Apply ``changes`` of what ``look`` shows, and keep them and what was noticed before in the history.

    A history that cannot be written keeps nobody from writing the memory: then what should go there stays pending.

    Args:
        after: What the changes make of each memory file and of the index; None: it goes away.

    Raises:
        AgenticMemoryError: as ``Backend.transact``; nothing was changed.
    """
    now = datetime.now(UTC)
    own = [
        past.credit(
            Change(
                filename,
                state_of(look, filename),
                None if data is None else State.of(data, when=now),
                now,
                author,
                why,
                transaction=transaction,
            )
        )
        for filename, data in after.items()
    ]
    await transact_kept(backend, changes, own, root=look.tree.root, archive=archive, past=past)


async def transact_kept(
    backend: Backend, changes: Sequence[FileChange], own: Sequence[Change], *, root: str, archive: Archive, past: Past
) -> None:
    """Apply ``changes``, which are ``own`` to the history; as ``transact_and_keep``."""
    keep = _keep_before if archive.apart else _keep_along
    with past.writing(own):
        await keep(backend, changes, own, root=root, archive=archive, past=past)


async def _keep_along(
    backend: Backend, changes: Sequence[FileChange], own: Sequence[Change], *, root: str, archive: Archive, past: Past
) -> None:
    noticed = past.take()
    try:
        purged = await read_purged(archive, noticed, past=past)
        noticed = tuple(change for change in noticed if not is_purge(change, purged))
        puts = puts_of([*noticed, *own], archive, past=past, purged=purged)
        await backend.transact([*changes, *puts], within=root)
    except (BackendUnavailable, UnsafePath) as error:
        past.put_back(noticed)
        # An error begins with its place; only one of the history's own tells that it was this which could not be
        # written. A shell that died names whatever it was at, and wrote nothing or everything.
        if not str(error).startswith(archive.directory) or LOCKED in str(error):
            raise
        logger.warning("memory: history failed, the change is made without it: %s", error)
        await backend.transact(changes, within=root)
        past.put_back(own)
    except BaseException:
        past.put_back(noticed)
        raise
    else:
        past.note_kept([*noticed, *own])


async def _keep_before(
    backend: Backend, changes: Sequence[FileChange], own: Sequence[Change], *, root: str, archive: Archive, past: Past
) -> None:
    """Write the history first: a change that is acknowledged is in it, and one that failed is taken out again.

    A crash between the two leaves an entry of a change that was not made; the next version tells what is there.
    """
    puts = puts_of(own, archive, past=past)
    try:
        await record(archive, past=past)
        await archive.backend.transact(puts, within=archive.within)
    except (BackendUnavailable, UnsafePath) as error:
        logger.warning("memory: history failed, the change is made without it: %s", error)
        await backend.transact(changes, within=root)
        past.put_back(own)
        return
    try:
        await backend.transact(changes, within=root)
    except AgenticMemoryError:
        await _take_back(archive, puts[-1])
        raise
    past.note_kept(own)


async def _take_back(archive: Archive, log: Put) -> None:
    """Remove the log file of a change that was not made. The objects stay: they are named by nobody, and do no harm."""
    try:
        await archive.backend.transact([Delete(log.path, version_of(log.data))], within=archive.within)
    except AgenticMemoryError as error:
        logger.warning("memory: the history tells of a change that was not made: %s", error)
