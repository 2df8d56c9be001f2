"""``.queue/`` of a memory: turns that are to be learnt, and marks of those that are done with.

A turn waits as ``turns/<key>.json``. What it taught, its removal and the mark ``done/<key>`` are one transaction, so a
turn is learnt once however many processes try, and one that failed or was interrupted is still there. A turn that could
not be learnt in ``MAX_ATTEMPTS`` goes to ``failed/``, where a person finds it.
"""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from agentic_memory.backends import ABSENT, Change, Delete, FileRecord, Put, Tree
from agentic_memory.backends.values import ANY, version_of
from agentic_memory.credentials import redact
from agentic_memory.errors import Conflict, InvalidMemory
from agentic_memory.store import MemoryStore
from agentic_memory.writeback.turn import Turn

FOLDER: Final = ".queue"
MAX_WAITING: Final = 500
"""Turns that wait at most; over it the oldest are set aside in ``failed/``, unread."""
MAX_DONE: Final = 1_024
"""Marks kept, about. A turn comes again only from a session that was saved in the very moment it ended."""
MAX_FAILED: Final = 200
TIDIED_KEYS: Final = "01"
"""First digits of the keys at which marks are counted: at one turn of eight, for that means listing them all."""
MAX_ATTEMPTS: Final = 5
RETRY_AFTER: Final = timedelta(minutes=1)
"""Grows with the square of the attempts."""
LEFT_ALONE: Final = timedelta(minutes=2)
"""A turn that another process has put here since may be in its hands."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn in the queue, with the version of its file."""

    turn: Turn
    version: str
    since: datetime


class Queue:
    """The turns that wait for one memory, as one look showed them."""

    def __init__(self, store: MemoryStore, root: str, tree: Tree) -> None:
        self._store = store
        self._root = root
        self._tree = tree

    def find(self, key: str) -> Waiting | None:
        """Return a waiting turn."""
        record = self._tree.find(f"{key}.json")
        return _read(record) if isinstance(record, FileRecord) else None

    def waiting(self) -> list[Waiting]:
        """Return all turns that wait, the oldest first. One that cannot be read is passed over; it stays."""
        read = map(_read, self._tree.files)
        return sorted((found for found in read if found is not None), key=lambda found: found.turn.when)

    def due(self, now: datetime) -> list[Waiting]:
        """Return those that may be tried: not too soon after a failure, and not in another process's hands."""
        return [
            found
            for found in self.waiting()
            if (found.turn.retry_at is None or found.turn.retry_at <= now)
            and (found.turn.attempts or now - found.since > LEFT_ALONE)
        ]

    async def is_done(self, key: str) -> bool:
        """Tell whether a turn is done with: learnt, or given up."""
        return await self._store.backend.fetch(self._path("done", key), within=self._root) is not ABSENT

    async def add(self, turn: Turn) -> Waiting | None:
        """Put a turn into the queue, durably and without the secrets in it; None when it is done with.

        Raises:
            BackendUnavailable: it could not be written.
        """
        known = self.find(turn.key)
        if known is not None:
            return known
        if await self.is_done(turn.key):
            return None
        turn = replace(turn, text=redact(turn.text))  # neither a file nor another model gets to see them
        data = turn.as_bytes()
        put = Put(self._path("turns", f"{turn.key}.json"), data, ABSENT)
        try:
            await self._apply([put, *self._set_aside_oldest(), *await self._tidy(turn.key)])
        except Conflict:  # somebody else does the same at this moment
            return (await look_at_queue(self._store)).find(turn.key)
        return Waiting(turn, version_of(data), datetime.now(UTC))

    async def put_off(self, waiting: Waiting, error: str, *, now: datetime) -> Turn:
        """Note a failed attempt; after the last one the turn goes to ``failed/``."""
        attempts = waiting.turn.attempts + 1
        turn = waiting.turn.failed(error, retry_at=now + RETRY_AFTER * attempts**2)
        if attempts < MAX_ATTEMPTS:
            path = self._path("turns", f"{turn.key}.json")
            await self._apply([Put(path, turn.as_bytes(), waiting.version)])
        else:
            await self._apply(self._give_up(waiting, turn))
        return turn

    async def drop(self, waiting: Waiting) -> None:
        """Take away a turn that is done with already: another process learnt it while this one put it in."""
        path = self._path("turns", f"{waiting.turn.key}.json")
        try:
            await self._apply([Delete(path, waiting.version)])
        except Conflict:
            return  # it is gone, or somebody is at it

    def _give_up(self, waiting: Waiting, turn: Turn) -> list[Change]:
        aside = Put(self._path("failed", f"{turn.key}.json"), turn.as_bytes(), ANY)
        return [aside, *marks_of(waiting, root=self._root)]

    def _set_aside_oldest(self) -> Sequence[Change]:
        """Return what makes room for one turn more."""
        waiting = self.waiting()
        changes: list[Change] = []
        for found in waiting[: max(0, len(waiting) + 1 - MAX_WAITING)]:
            changes += self._give_up(found, found.turn.failed("over the bound of the queue", retry_at=found.turn.when))
        return changes

    async def _tidy(self, key: str) -> Sequence[Change]:
        """Return what keeps the marks, and what was given up, within their bounds; now and then only."""
        if key[0] not in TIDIED_KEYS:
            return []
        changes: list[Change] = []
        for folder, most in (("done", MAX_DONE), ("failed", MAX_FAILED)):
            tree = await self._store.backend.snapshot(posixpath.join(self._root, FOLDER, folder))
            oldest = sorted(tree.files, key=lambda record: record.mtime_ns)[: max(0, len(tree.files) - most)]
            changes += [Delete(self._path(folder, record.path), ANY) for record in oldest]
        return changes

    def _path(self, *parts: str) -> str:
        return posixpath.join(self._root, FOLDER, *parts)

    async def _apply(self, changes: Sequence[Change]) -> None:
        await self._store.backend.transact(changes, within=self._root)


async def look_at_queue(store: MemoryStore) -> Queue:
    """Look at what waits for a memory, in one round trip.

    Raises:
        BackendUnavailable: it cannot be told.
    """
    root = await store.root()
    return Queue(store, root, await store.backend.snapshot(posixpath.join(root, FOLDER, "turns"), suffix=".json"))


async def list_failed(store: MemoryStore) -> list[Turn]:
    """Return the turns that were given up, the oldest first."""
    root = await store.root()
    tree = await store.backend.snapshot(posixpath.join(root, FOLDER, "failed"), suffix=".json")
    read = map(_read, tree.files)
    return sorted((found.turn for found in read if found is not None), key=lambda turn: turn.when)


def marks_of(waiting: Waiting, *, root: str) -> list[Change]:
    """Return what marks a turn as done with, for the transaction that writes what came of it."""
    key = waiting.turn.key
    return [
        Put(posixpath.join(root, FOLDER, "done", key), b"", ABSENT),
        Delete(posixpath.join(root, FOLDER, "turns", f"{key}.json"), waiting.version),
    ]


def _read(record: FileRecord) -> Waiting | None:
    try:
        turn = Turn.from_bytes(record.data or b"")
    except InvalidMemory:
        return None
    return Waiting(turn, record.version, datetime.fromtimestamp(record.mtime_ns / 1e9, UTC))
