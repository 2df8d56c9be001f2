"""A change of the memory and its place in the history, as one transaction."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from agentic_memory.backends import Backend, Delete, Move
from agentic_memory.backends import Change as FileChange
from agentic_memory.check import is_memory_path
from agentic_memory.errors import BackendUnavailable, UnsafePath
from agentic_memory.history.archive import FOLDER, note_kept, puts_of
from agentic_memory.history.entries import Author, Change, State
from agentic_memory.history.past import Look, Past, state_of
from agentic_memory.index import INDEX_FILENAME

logger = logging.getLogger("agentic_memory")


async def transact_and_keep(
    backend: Backend,
    changes: Sequence[FileChange],
    *,
    look: Look,
    past: Past,
    author: Author,
    why: str,
    transaction: str,
) -> None:
    """Apply ``changes`` of what ``look`` shows, and keep them and what was noticed before in the history.

    A history that cannot be written keeps nobody from writing the memory: then what should go there stays pending.

    Raises:
        AgenticMemoryError: as ``Backend.transact``; nothing was changed.
    """
    root = look.tree.root
    own = _as_kept(look, changes, author, why, transaction)
    noticed = past.take()
    with past.writing(own):
        try:
            await backend.transact([*changes, *puts_of([*noticed, *own], root=root, past=past)], within=root)
        except (BackendUnavailable, UnsafePath) as error:
            past.put_back(noticed)
            # Only an error that names the history's own place tells that it was this which could not be written.
            if f"{root}/{FOLDER}" not in str(error):
                raise
            logger.warning("memory: history failed, the change is made without it: %s", error)
            await backend.transact(changes, within=root)
            past.put_back(own)
        except BaseException:
            past.put_back(noticed)
            raise
        else:
            note_kept([*noticed, *own], past)


def _as_kept(look: Look, changes: Sequence[FileChange], author: Author, why: str, transaction: str) -> list[Change]:
    """Return what ``changes`` make of memory files and of the index. A move to where no memory is takes one away."""
    now = datetime.now(UTC)
    root = f"{look.tree.root.rstrip('/')}/"
    after: dict[str, State | None] = {}
    for change in changes:
        if isinstance(change, Move):
            source, target = (path.removeprefix(root) for path in (change.source, change.target))
            after[source] = None
            if is_memory_path(target):
                after[target] = state_of(look, source)
            continue
        name = change.path.removeprefix(root)
        if isinstance(change, Delete):
            after[name] = None
        elif name == INDEX_FILENAME or is_memory_path(name):
            after[name] = State.of(change.data, when=now)
    return [
        Change(filename, state_of(look, filename), state, now, author, why, transaction=transaction)
        for filename, state in after.items()
    ]
