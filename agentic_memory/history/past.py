"""What was last known of each file of a memory, so that a change by anybody shows at the next look."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from agentic_memory.backends import ABSENT, FileRecord, Obstacle, Tree
from agentic_memory.backends.values import Absent
from agentic_memory.copied import is_copied
from agentic_memory.document import Document
from agentic_memory.encodings import decode
from agentic_memory.history.entries import Author, Change, Entry, State, Version, new_transaction_id

if TYPE_CHECKING:
    from agentic_memory.history.archive import Archive

logger = logging.getLogger("agentic_memory")

MAX_BATCH_CHANGES: Final = 200
MAX_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bounds of one transaction of history: a sandbox takes it as one command."""
TIDY_EVERY: Final = 500
"""Versions kept by this process between two times that the history is made smaller."""
MAX_PENDING_BYTES: Final = 64 * 1024 * 1024
"""Changes kept in memory while they cannot be written; over it the oldest are given up."""


class Look(Protocol):
    """What is needed of a snapshot."""

    @property
    def tree(self) -> Tree: ...  # noqa: D102 - as in Snapshot
    @property
    def documents(self) -> Mapping[str, tuple[FileRecord, Document]]: ...  # noqa: D102
    @property
    def index_record(self) -> FileRecord | Obstacle | Absent: ...  # noqa: D102
    @property
    def index_document(self) -> Document: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class ReadLog:
    """A log file as it was read; log files never change."""

    entries: tuple[Entry, ...]
    wrong_lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """When a look began or a write was done: its place in the order of this process, and the time."""

    tick: int
    time: datetime


class Past:
    """The last known state of one memory, and the changes that are not in its log yet. Safe in any thread.

    Looks and writes may overlap: a look that began before a write was done says nothing about the files of that write.
    """

    def __init__(self) -> None:
        self.archive: Archive | None = None
        """Where a store of this process keeps the history of this memory: then tools put their writes there too."""
        self.kept: set[str] = set()
        """Versions whose bytes this process has put into the history."""
        self._tidied_at: int | None = None
        self._kept_count = 0
        self.wrote: dict[tuple[str, str], Version | None] = {}
        """What the log says of a file at a version; None: it has nothing on it."""
        self.logs: dict[str, ReadLog] = {}
        """Log files that were read, by version."""
        self._lock = Lock()
        self._tick = 0
        self._base: Look | None = None
        self._base_moment = Moment(0, datetime.now(UTC))
        self._writing: Counter[str] = Counter()
        self._later: dict[str, tuple[int, State | None]] = {}
        self._pending: deque[Change] = deque()
        self._pending_bytes = 0
        self._replies: dict[object, Callable[[], Author]] = {}
        self._sources: dict[object, Callable[[], Sequence[str]]] = {}

    def moment(self) -> Moment:
        """Return the present moment, later than every one before."""
        with self._lock:
            self._tick += 1
            return Moment(self._tick, datetime.now(UTC))

    # ------------------------------------------------------------------ replies

    def begin_reply(
        self, token: object, author: Callable[[], Author], *, sources: Callable[[], Sequence[str]] | None = None
    ) -> None:
        """Put changes noticed from now on down to this reply; its id may not be known before its first step.

        Args:
            token: What ``end_reply`` takes.
            author: Who it is.
            sources: What its tools have answered so far: text that was copied from there is not the agent's own.
        """
        with self._lock:
            self._replies[token] = author
            if sources is not None:
                self._sources[token] = sources

    def end_reply(self, token: object) -> None:
        """Stop doing so."""
        with self._lock:
            self._replies.pop(token, None)
            self._sources.pop(token, None)

    def credit(self, change: Change) -> Change:
        """Return ``change`` put down to ``tool`` when the agent that made it only copied what a tool had answered."""
        if change.author.who != "agent" or change.after is None or not self._sources:
            return change
        sources = [text for source in self._sources.values() for text in source()]
        before = "" if change.before is None else decode(change.before.data)[0]
        if not is_copied(before, decode(change.after.data)[0], sources):
            return change
        return replace(change, author=replace(change.author, who="tool"))

    def author(self, otherwise: Author) -> Author:
        """Return who is at work: the running reply; an agent, when several run; ``otherwise``, when none does."""
        with self._lock:
            return self._author(otherwise)

    def _author(self, otherwise: Author) -> Author:
        if len(self._replies) == 1:
            return next(iter(self._replies.values()))()
        return Author("agent") if self._replies else otherwise

    # ------------------------------------------------------------------ noticing

    def see(self, look: Look, *, began: Moment) -> None:
        """Compare a look with what was known, and keep what changed as pending. The first look only is what is known."""
        with self._lock:
            base = self._base
            if base is not None and began.tick < self._base_moment.tick:
                return  # a look that was overtaken by another
            if base is not None and not (look is base and not self._later):
                if look.tree.exists or self._replies:
                    self._compare(base, look, began.tick)
                else:
                    # Somebody took the directory away, its history included: a person's right, not to be undone.
                    self._later.clear()
                    self.kept.clear()
            self._base, self._base_moment = look, began

    def _compare(self, base: Look, look: Look, began: int) -> None:
        now, author, transaction = datetime.now(UTC), self._author(Author()), new_transaction_id()
        carried: dict[str, tuple[int, State | None]] = {}
        for filename in sorted({*_differing(base, look), *self._later}):
            later = self._later.get(filename)
            if later is not None and later[0] >= began:
                carried[filename] = later
                continue
            before = state_of(base, filename) if later is None else later[1]
            if self._writing[filename]:
                carried[filename] = (0, before)  # what was seen may be the new content or the old
                continue
            after = state_of(look, filename)
            if after is None and look.tree.find(filename) is not ABSENT:
                carried[filename] = (0, before)  # it cannot be told what it is: that is not "gone"
                continue
            if (before and before.version) == (after and after.version):
                continue
            if before is None and after is not None and not after.data:
                continue  # an empty file that appears is nothing to bring back
            why = "created" if before is None else "deleted" if after is None else "changed"
            since = self._base_moment.time
            self._append(self.credit(Change(filename, before, after, now, author, why, since, transaction)))
        self._later = carried

    @contextmanager
    def writing(self, changes: Iterable[Change]) -> Iterator[None]:
        """While the store writes these files, say nothing about them; when that went well, they are as it wrote them."""
        after = {change.filename: change.after for change in changes}
        with self._lock:
            self._writing.update(after.keys())
        try:
            yield
            moment = self.moment()
            with self._lock:
                self._later.update({filename: (moment.tick, state) for filename, state in after.items()})
        finally:
            with self._lock:
                self._writing.subtract(after.keys())
                self._writing += Counter()  # drops the zeros

    # ------------------------------------------------------------------ pending

    def pending(self) -> tuple[Change, ...]:
        """Return the changes that are not in the log yet."""
        with self._lock:
            return tuple(self._pending)

    def find(self, version: str, look: Look) -> State | None:
        """Return the bytes of a version that is nowhere but in memory: one of now, or one not written down yet."""
        held = (
            state_of(look, filename) for filename, (record, _) in look.documents.items() if record.version == version
        )
        index = _index_name(look)
        states = [*held, None if index is None else state_of(look, index)]
        for change in self.pending():
            states += [change.before, change.after]
        return next((state for state in states if state is not None and state.version == version), None)

    def take(self) -> tuple[Change, ...]:
        """Take out as many of the oldest pending changes as go into one transaction; empty when there are none."""
        taken: list[Change] = []
        with self._lock:
            room = MAX_BATCH_BYTES
            while self._pending and len(taken) < MAX_BATCH_CHANGES and (not taken or self._pending[0].size <= room):
                change = self._pending.popleft()
                self._pending_bytes -= change.size
                room -= change.size
                taken.append(change)
        return tuple(taken)

    def put_back(self, changes: Iterable[Change]) -> None:
        """Make changes pending that could not be written."""
        with self._lock:
            for change in changes:
                self._append(change)

    def note_kept(self, changes: Sequence[Change]) -> None:
        """Remember whose bytes are safe now."""
        with self._lock:
            self.kept.update(state.version for change in changes for state in (change.before, change.after) if state)
            self._kept_count += len(changes)

    def is_tidying_due(self, *, at_once: bool) -> bool:
        """Tell whether enough was kept since this was last asked and true; ``at_once``: the first time always."""
        with self._lock:
            if not (at_once and self._tidied_at is None) and self._kept_count - (self._tidied_at or 0) < TIDY_EVERY:
                return False
            self._tidied_at = self._kept_count
            return True

    def forget(self, filename: str, versions: Collection[str]) -> None:
        """Let nothing be left here of versions of a file that were purged."""
        with self._lock:
            self.kept.difference_update(versions)
            pending, self._pending, self._pending_bytes = self._pending, deque(), 0
            for change in pending:
                states = {state.version for state in (change.before, change.after) if state is not None}
                if change.filename != filename and states.isdisjoint(versions):
                    self._append(change)

    def _append(self, change: Change) -> None:
        self._pending.append(change)
        self._pending_bytes += change.size
        while self._pending_bytes > MAX_PENDING_BYTES and len(self._pending) > 1:
            dropped = self._pending.popleft()
            self._pending_bytes -= dropped.size
            logger.warning("memory: no room to keep the version of %s before its last change", dropped.filename)


def _differing(base: Look, look: Look) -> Iterator[str]:
    old, new = base.documents, look.documents
    if old is not new:
        for filename, (record, _) in new.items():
            was = old.get(filename)
            if was is None or was[0].version != record.version:
                yield filename
        yield from (filename for filename in old if filename not in new)
    if _index_version(base) != _index_version(look):
        yield _index_name(base) or _index_name(look) or ""


def _index_version(look: Look) -> str | None:
    return look.index_record.version if isinstance(look.index_record, FileRecord) else None


def _index_name(look: Look) -> str | None:
    return look.index_record.path if isinstance(look.index_record, FileRecord) else None


def state_of(look: Look, filename: str) -> State | None:
    """Return a file as a snapshot shows it; None when it does not."""
    held = look.documents.get(filename)
    if held is None and _index_name(look) == filename and isinstance(look.index_record, FileRecord):
        held = (look.index_record, look.index_document)
    if held is None:
        return None
    record, document = held
    return State.of(document.encode(document.text), when=when_of(record.mtime_ns))


def when_of(mtime_ns: int) -> datetime:
    """Return a modification time as a time; a backend may tell any number."""
    try:
        return datetime.fromtimestamp(mtime_ns / 1e9, UTC)
    except (OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(0, UTC)
