"""``.queue/`` of a memory: turns that are to be learnt, and marks of those that were.

A turn waits as ``turns/<key>.json``. What it taught, its removal and the mark ``done/<key>`` are one transaction, so a
turn is learnt once however many processes try, and one that failed or was interrupted is still there. A turn that could
not be learnt in ``MAX_ATTEMPTS`` goes to ``failed/``, where a person finds it.
"""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from agentic_memory.backends import ABSENT, Change, Delete, FileRecord, Put, Tree
from agentic_memory.backends.values import ANY, version_of
from agentic_memory.errors import Conflict, InvalidMemory
from agentic_memory.store import MemoryStore
from agentic_memory.writeback.turn import Turn

FOLDER: Final = ".queue"
MAX_WAITING: Final = 500
"""Turns that wait at most; over it the oldest are set aside in ``failed/``, unread."""
MAX_DONE: Final = 1_024
"""Marks kept. A turn comes again only from a session that was saved in the very moment it ended."""
MAX_FAILED: Final = 200
MAX_ATTEMPTS: Final = 5
RETRY_AFTER: Final = timedelta(minutes=1)
"""Grows with the square of the attempts."""
LEFT_ALONE: Final = timedelta(minutes=2)
"""A turn that another process has put here since may be in its hands."""

State = Literal["waiting", "done", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn in the queue, with the version of its file."""

    turn: Turn
    version: str
    since: datetime


class Queue:
    """The queue of one memory, as one look showed it."""

    def __init__(self, store: MemoryStore, root: str, tree: Tree) -> None:
        self._store = store
        self._root = root
        self._tree = tree

    def state_of(self, key: str) -> State:
        """Tell what became of a turn, as far as this look shows it."""
        for state, name in (("done", f"done/{key}"), ("waiting", _waiting(key)), ("failed", f"failed/{key}.json")):
            if self._tree.find(name) is not ABSENT:
                return state  # type: ignore[return-value]  # mypy widens the literals of the tuple
        return "unknown"

    def find(self, key: str) -> Waiting | None:
        """Return a waiting turn."""
        record = self._tree.find(_waiting(key))
        return _read(record) if isinstance(record, FileRecord) else None

    def waiting(self) -> list[Waiting]:
        """Return all turns that wait, the oldest first. One that cannot be read is passed over; it stays."""
        read = (_read(record) for record in self._tree.files if record.path.startswith("turns/"))
        return sorted((found for found in read if found is not None), key=lambda found: found.turn.when)

    def due(self, now: datetime) -> list[Waiting]:
        """Return those that may be tried: not too soon after a failure, and not in another process's hands."""
        return [
            found
            for found in self.waiting()
            if (found.turn.retry_at is None or found.turn.retry_at <= now)
            and (found.turn.attempts or now - found.since > LEFT_ALONE)
        ]

    def failed(self) -> list[Turn]:
        """Return the turns that were given up, the oldest first."""
        read = (_read(record) for record in self._tree.files if record.path.startswith("failed/"))
        return sorted((found.turn for found in read if found is not None), key=lambda turn: turn.when)

    async def add(self, turn: Turn) -> Waiting | None:
        """Put a turn into the queue, durably; None when it is there or was, and is not to be learnt again.

        Raises:
            BackendUnavailable: it could not be written.
        """
        if self.state_of(turn.key) in {"done", "failed"}:
            return None
        known = self.find(turn.key)
        if known is not None:
            return known
        data = turn.as_bytes()
        try:
            await self._apply([Put(self._path(_waiting(turn.key)), data, ABSENT), *self._tidy(turn)])
        except Conflict:
            again = await look_at_queue(self._store)
            return None if again.state_of(turn.key) in {"done", "failed"} else again.find(turn.key)
        return Waiting(turn, version_of(data), datetime.now(UTC))

    async def put_off(self, waiting: Waiting, error: str, *, now: datetime) -> Turn:
        """Note a failed attempt; after the last one the turn goes to ``failed/``."""
        attempts = waiting.turn.attempts + 1
        turn = waiting.turn.failed(error, retry_at=now + RETRY_AFTER * attempts**2)
        path = self._path(_waiting(turn.key))
        if attempts < MAX_ATTEMPTS:
            await self._apply([Put(path, turn.as_bytes(), waiting.version)])
        else:
            aside = Put(self._path(f"failed/{turn.key}.json"), turn.as_bytes(), ANY)
            await self._apply([aside, Delete(path, waiting.version), *self._drop_oldest("failed/", MAX_FAILED)])
        return turn

    def _tidy(self, turn: Turn) -> Sequence[Change]:
        """Return what keeps the queue bounded when ``turn`` comes in."""
        changes: list[Change] = [*self._drop_oldest("done/", MAX_DONE)]
        waiting = self.waiting()
        for found in waiting[: max(0, len(waiting) + 1 - MAX_WAITING)]:
            left = found.turn.failed("over the bound of the queue", retry_at=turn.when)
            changes += [
                Put(self._path(f"failed/{left.key}.json"), left.as_bytes(), ANY),
                Delete(self._path(_waiting(left.key)), found.version),
            ]
        return changes

    def _drop_oldest(self, folder: str, most: int) -> list[Change]:
        records = [record for record in self._tree.files if record.path.startswith(folder)]
        if len(records) < most:
            return []
        records.sort(key=lambda record: record.mtime_ns)
        return [
            Delete(self._path(record.path), record.version) for record in records[: len(records) - most + most // 8]
        ]

    def _path(self, name: str) -> str:
        return posixpath.join(self._root, FOLDER, name)

    async def _apply(self, changes: Sequence[Change]) -> None:
        await self._store.backend.transact(changes, within=self._root)


async def look_at_queue(store: MemoryStore) -> Queue:
    """Look at the queue of a memory, in one round trip.

    Raises:
        BackendUnavailable: it cannot be told what waits.
    """
    root = await store.root()
    return Queue(store, root, await store.backend.snapshot(posixpath.join(root, FOLDER)))


def marks_of(waiting: Waiting, *, root: str) -> list[Change]:
    """Return what marks a turn as learnt, for the transaction that writes what it taught."""
    key = waiting.turn.key
    return [
        Put(posixpath.join(root, FOLDER, f"done/{key}"), b"", ABSENT),
        Delete(posixpath.join(root, FOLDER, _waiting(key)), waiting.version),
    ]


def _waiting(key: str) -> str:
    return f"turns/{key}.json"


def _read(record: FileRecord) -> Waiting | None:
    try:
        turn = Turn.from_bytes(record.data or b"")
    except InvalidMemory:
        return None
    return Waiting(turn, record.version, datetime.fromtimestamp(record.mtime_ns / 1e9, UTC))
