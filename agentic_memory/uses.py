"""How often each memory was shown to an agent: what decides between files that are level in all else.

One SQLite file in the user's cache directory, beside the vectors and never in a memory directory. It may be deleted at any
time, and where it cannot be used nothing but this signal is missing.
"""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Final, TypeVar

from agentic_memory.errors import BackendUnavailable
from agentic_memory.selection.vectors import default_folder

logger = logging.getLogger("agentic_memory")

T = TypeVar("T")

MAX_ROWS: Final = 100_000
"""Files counted, of all memories together; those shown longest ago give way. About 15 MB."""
LOCK_SECONDS: Final = 0.5
"""How long another process may hold the file; a count is not worth a longer wait."""


def uses_file() -> Path:
    """Return the file that holds the counts."""
    return default_folder().parent / "uses.sqlite3"


def memory_key(place: Hashable, root: str) -> str | None:
    """Return what tells a memory from all others in any process; None when ``place`` is of this process alone.

    Args:
        place: ``Backend.cache_key``: strings last, a number or an object counts what this process made.
        root: The memory directory there.
    """
    if not _lasts(place):
        return None
    return sha256(repr((place, root)).encode("utf-8", "surrogatepass")).hexdigest()


def _lasts(place: object) -> bool:
    return isinstance(place, str) or (isinstance(place, tuple) and all(map(_lasts, place)))


def note_uses(memory: str, filenames: Iterable[str]) -> None:
    """Count files as shown once more. Blocking; what fails is left out."""
    now = time.time()
    rows = [(memory, filename, now) for filename in filenames]

    def write(database: sqlite3.Connection) -> None:
        database.executemany(
            "INSERT INTO uses VALUES (?, ?, 1, ?)"
            " ON CONFLICT (memory, filename) DO UPDATE SET count = count + 1, last = excluded.last",
            rows,
        )
        (there,) = database.execute("SELECT count(*) FROM uses").fetchone()
        if there > MAX_ROWS:
            oldest = "SELECT rowid FROM uses ORDER BY last LIMIT ?"
            database.execute(f"DELETE FROM uses WHERE rowid IN ({oldest})", (there - MAX_ROWS,))  # noqa: S608 - a constant

    _run(write)


def read_uses(memory: str) -> dict[str, int]:
    """Return how often each file was shown; empty when that cannot be told. Blocking."""
    if not os.path.exists(uses_file()):  # noqa: PTH110 - pathlib's raises where the folder may not be entered
        return {}
    select = "SELECT filename, count FROM uses WHERE memory = ?"
    return _run(lambda database: {str(name): int(count) for name, count in database.execute(select, (memory,))}) or {}


def forget_uses(memory: str, filename: str) -> bool:
    """Remove the row of a file, bytes included; tell whether there was one. Blocking.

    Raises:
        BackendUnavailable: it cannot be told whether it is gone.
    """
    path = uses_file()
    try:
        if not path.exists():
            return False
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as database, database:
            database.execute("PRAGMA secure_delete = ON")  # freed pages are overwritten, not only let go
            database.execute(_TABLE)
            gone = database.execute("DELETE FROM uses WHERE memory = ? AND filename = ?", (memory, filename)).rowcount
    except (sqlite3.Error, OSError) as error:
        raise BackendUnavailable(f"{path}: the file's name may be left here, delete it: {error}") from error
    return gone > 0


_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS uses"
    " (memory TEXT, filename TEXT, count INTEGER, last REAL, PRIMARY KEY (memory, filename))"
)


def _run(work: Callable[[sqlite3.Connection], T]) -> T | None:
    """Do one transaction; None when it fails."""
    path = uses_file()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as database, database:
            database.execute("PRAGMA synchronous = OFF")  # a count lost in a crash of the machine is no loss
            database.execute(_TABLE)
            return work(database)
    except (sqlite3.Error, OSError, ValueError) as error:
        logger.debug("memory: %s cannot be used, uses are not counted: %s", path, error)
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            _throw_away(path)  # no database, or a broken one
        return None


def _throw_away(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.debug("memory: %s is broken and cannot be removed: %s", path, error)


class Uses:
    """The counts of one memory as this process knows them: what the file said when it was read, and its own.

    Args:
        memory: As ``memory_key`` gives it; None: they are kept in this process alone.
    """

    def __init__(self, memory: str | None) -> None:
        self._memory = memory
        self._lock = Lock()
        self.is_read = memory is None
        self.counts: Mapping[str, int] = MappingProxyType({})
        """Replaced, never changed, so that a ranking under way sees one state."""

    @property
    def lasting(self) -> bool:
        """Whether the file is used, so that calls belong in a worker thread."""
        return self._memory is not None

    def read(self) -> None:
        """Read the file, the first time."""
        with self._lock:
            self._read()

    def _read(self) -> None:
        if self._memory is not None and not self.is_read:
            self.counts = MappingProxyType(read_uses(self._memory))
            self.is_read = True

    def note(self, filenames: Iterable[str]) -> None:
        """Count files as shown once more, here and in the file."""
        shown = list(dict.fromkeys(filenames))
        with self._lock:
            self._read()
            self.counts = MappingProxyType({**self.counts, **{name: self.counts.get(name, 0) + 1 for name in shown}})
            if self._memory is not None:
                note_uses(self._memory, shown)

    def forget(self, filename: str) -> bool:
        """Remove what is known of a file, here and in the file; tell whether anything was.

        Raises:
            BackendUnavailable: it cannot be told whether the file still has it.
        """
        with self._lock:
            here = filename in self.counts
            self.counts = MappingProxyType({name: count for name, count in self.counts.items() if name != filename})
            return (self._memory is not None and forget_uses(self._memory, filename)) or here
