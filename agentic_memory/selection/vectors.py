"""Vectors kept on disk: what was embedded once is not embedded again, by this process or the next.

One SQLite file per model in the user's cache directory, never in a memory directory. A row is found by the hash of its
text, so none can be stale, and the files may be deleted at any time.
"""

import logging
import os
import sqlite3
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from agentic_memory.errors import BackendUnavailable

logger = logging.getLogger("agentic_memory")

Vector = NDArray[np.float32]

MAX_ROWS: Final = 500_000
"""Vectors kept per model, the oldest give way: about 500 MB of 512 numbers each."""
LOCK_SECONDS: Final = 5.0
"""How long another process may hold the file before it counts as not there."""
_KEYS_PER_QUERY: Final = 500
_STORED: Final = np.dtype("<f2")


def default_folder() -> Path:
    """Return where vectors are kept unless said otherwise: in the user's cache directory."""
    usual = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else usual) / "agentic-memory" / "vectors"


def as_stored(vector: Sequence[float] | Vector) -> Vector:
    """Return the vector at length 1 and in the precision of the file: a fresh one ranks like one read back.

    Raises:
        ValueError: it has no direction.
    """
    values = np.asarray(vector, np.float32)
    length = float(np.linalg.norm(values))
    if values.ndim != 1 or not np.isfinite(length) or length == 0:
        raise ValueError("not a vector of finite numbers, not all of them zero")
    return (values / length).astype(_STORED).astype(np.float32)


class VectorCache:
    """The vectors of one model. Blocking; for worker threads. A cache that cannot be used is an empty one.

    Args:
        model_id: What tells vectors of this model from those of others.
        folder: Where the file is.
    """

    def __init__(self, model_id: str, folder: Path) -> None:
        _folders.add(folder)
        self.path = folder / f"{sha256(model_id.encode()).hexdigest()[:24]}.sqlite3"

    def get(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Return the vectors that are there, by text."""
        found: dict[str, Vector] = {}
        if not os.path.exists(self.path):  # noqa: PTH110 - pathlib's raises where the folder may not be entered
            return found
        by_key = {_key(text): text for text in texts}
        keys = list(by_key)

        def read(database: sqlite3.Connection) -> None:
            for at in range(0, len(keys), _KEYS_PER_QUERY):
                some = keys[at : at + _KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))
                select = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608 - question marks only
                for key, data in database.execute(select, some):
                    values = np.frombuffer(data, _STORED).astype(np.float32)
                    if len(values) and np.isfinite(values).all():
                        found[by_key[key]] = values

        self._run(read)
        return found

    def put(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors, as ``as_stored`` gives them."""
        rows = [(_key(text), vector.astype(_STORED).tobytes()) for text, vector in vectors.items()]

        def write(database: sqlite3.Connection) -> None:
            database.executemany("INSERT OR REPLACE INTO vectors (key, vector) VALUES (?, ?)", rows)
            database.execute("DELETE FROM vectors WHERE rowid <= (SELECT max(rowid) FROM vectors) - ?", (MAX_ROWS,))

        self._run(write)

    def _run(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Do one transaction; what fails is logged and left out."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.touch(mode=0o600)
            with closing(sqlite3.connect(self.path, timeout=LOCK_SECONDS)) as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB UNIQUE, vector BLOB NOT NULL)")
                work(database)
        except (sqlite3.Error, OSError, ValueError) as error:
            logger.info("memory: %s cannot be used, its vectors are made again: %s", self.path, error)
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                self.path.unlink(missing_ok=True)  # no database, or a broken one: nothing in it is worth keeping


_folders: Final[set[Path]] = set()
"""Where this process has kept vectors."""


def forget_texts(texts: Iterable[str]) -> int:
    """Remove what was embedded of ``texts`` from every file of vectors, bytes included; return how many. Blocking.

    Raises:
        BackendUnavailable: a file cannot be read or written, so that it cannot be told whether they are gone.
    """
    keys = [(_key(text),) for text in texts]
    gone = 0
    for path in sorted(path for folder in {default_folder(), *_folders} for path in folder.glob("*.sqlite3")):
        try:
            with closing(sqlite3.connect(path, timeout=LOCK_SECONDS)) as database, database:
                database.execute("PRAGMA secure_delete = ON")  # freed pages are overwritten, not only let go
                gone += database.executemany("DELETE FROM vectors WHERE key = ?", keys).rowcount
        except sqlite3.Error as error:
            raise BackendUnavailable(
                f"{path}: vectors of the text may be left here, delete the file: {error}"
            ) from error
    return gone


def _key(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
