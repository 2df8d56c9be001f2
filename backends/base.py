"""The backend seam: where bytes live, and the promises every such place keeps.

A ``Backend`` is an AgentScope ``BackendBase``, so AgentScope's own tools run on it, with three more calls that
memory needs. Each costs one round trip to the place where the bytes live, whatever the number of files.

The contract, for every backend:

* **Bytes** in, bytes out. Paths are absolute with ``/`` between parts; a relative path, a NUL or an empty path
  raises ``UnsafePath``.
* **Three answers**: present, absent, cannot tell. The third is always ``BackendUnavailable``: a signal, a timeout, a
  missing working directory, a refused permission or half an answer must never look like an empty directory.
* **A version** is the SHA-256 of a file's bytes. A ``touch`` is no change; an edit within the same second is one.
* **Atomic**: a reader sees a file old or new. ``transact`` applies all of its changes or none.
* **Compare-and-swap**: a precondition that does not hold raises ``Conflict`` with the current bytes, nothing written.
  It is safe between processes.
* **Owner, group and mode** of an existing file are kept; a new file gets its directory's owner where allowed.
* **Symlinks** are followed inside the root (writing through one changes its target) and refused outside it. FIFOs,
  sockets, devices are never opened.
* **Cancelling** a call leaves no lock and no half file; the change happened wholly or not at all.
"""

import posixpath
from abc import abstractmethod
from collections.abc import Collection, Hashable

from agentscope.tool import BackendBase

from agentic_memory.backends.values import (
    ABSENT,
    ANY,
    MAX_FILE_BYTES,
    Absent,
    Changes,
    Delete,
    Expected,
    FileRecord,
    Move,
    Put,
    Tree,
    version_of,
)
from agentic_memory.errors import UnsafePath


class Backend(BackendBase):
    """Where the bytes of a memory live. See the module text for what every call promises."""

    round_trips: int = 0
    """How often this instance crossed over to the place where the bytes live. Monotonic; for receipts and tests."""

    # ------------------------------------------------------------------ required

    @property
    @abstractmethod
    def cache_key(self) -> Hashable:
        """Identify the place: two instances with an equal key see the same bytes under the same paths.

        A key of strings alone, or of tuples of them, means the same place in the next process too; one that is not to
        outlive this process has a number or an object in it.
        """

    @abstractmethod
    async def snapshot(
        self,
        root: str,
        *,
        known: Collection[str] = frozenset(),
        suffix: str = "",
        hidden: bool = False,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> Tree:
        """See every file under ``root`` in one round trip.

        Args:
            root: Absolute path of a directory; it may be a symlink to one.
            known: Versions whose bytes the caller holds already; their records come with ``data=None``.
            suffix: Only names that end so, in any case (``".md"``); everything when empty.
            hidden: Whether to descend into and report names below ``root`` that start with a dot.
            max_bytes: A larger file is an obstacle.

        Raises:
            BackendUnavailable: it cannot be told what is there, including a ``root`` that is not a directory. One
                unreadable sub-folder or file is an obstacle in the answer instead.
            UnsafePath: ``root`` is not absolute, or holds a NUL.
        """

    @abstractmethod
    async def fetch(
        self, path: str, *, within: str | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> FileRecord | Absent:
        """Read one file, or learn that it is absent, in one round trip.

        Args:
            path: Absolute.
            within: A directory that the file, after symlinks, must lie in.
            max_bytes: A larger file raises ``BackendUnavailable``.

        Raises:
            BackendUnavailable: cannot tell, or not readable.
            UnsafePath: outside ``within``, a directory, a FIFO or device, not absolute, or holds a NUL.
        """

    @abstractmethod
    async def transact(self, changes: Changes, *, within: str | None = None) -> None:
        """Apply all ``changes`` or none, in order, in one round trip.

        No path may occur twice. On return the bytes are durable.

        Args:
            changes: What shall change.
            within: A directory that every path, after symlinks, must lie in.

        Raises:
            Conflict: a precondition does not hold; its ``path`` and ``current`` tell where and what is there.
            BackendUnavailable: it could not be done (full disk, read-only, no permission, gone); nothing changed.
            UnsafePath: as in ``fetch``; also a dangling symlink or a directory at a path to be written.
        """

    # ------------------------------------------------------------------ derived

    async def resolve(self, path: str) -> str:
        """Return ``path`` absolute and normalised in the backend's own terms (``~`` and relative ones included)."""
        if "\0" in path:
            raise UnsafePath(f"{path!r} holds a NUL byte")
        if path.startswith("~"):
            path = await self.expanduser(path)
        if not self.isabs(path):
            path = self.join_path(await self.getcwd(), path)
        return self.normpath(path)

    async def replace(self, path: str, data: bytes, *, expected: Expected, within: str | None = None) -> str:
        """Write one file atomically if ``expected`` holds, and return its new version. Errors as ``transact``."""
        await self.transact([Put(path, data, expected)], within=within)
        return version_of(data)

    async def remove(self, path: str, *, expected: Expected, within: str | None = None) -> None:
        """Remove one file if ``expected`` holds. Errors as ``transact``."""
        await self.transact([Delete(path, expected)], within=within)

    async def move(self, source: str, target: str, *, expected: Expected, within: str | None = None) -> None:
        """Rename one file if ``expected`` holds for it and ``target`` is free. Errors as ``transact``."""
        await self.transact([Move(source, target, expected)], within=within)

    # ------------------------------------------------------------------ what AgentScope's tools call

    async def read_file(self, path: str) -> bytes:
        """Read a file as bytes, as ``BackendBase`` promises it; ``FileNotFoundError`` when it is absent."""
        record = await self.fetch(path)
        if record is ABSENT or record.data is None:
            raise FileNotFoundError(2, "no such file", path)
        return record.data

    async def write_file(self, path: str, data: bytes) -> None:
        """Replace or create a file without a precondition, still atomically."""
        await self.replace(path, data, expected=ANY)


def check_path(path: str) -> str:
    """Return ``path`` normalised, or raise ``UnsafePath`` when it is relative, empty or holds a NUL."""
    if "\0" in path:
        raise UnsafePath(f"{path!r} holds a NUL byte")
    if not path.startswith("/"):
        raise UnsafePath(f"{path!r} is not absolute: give the whole path, from /")
    return posixpath.normpath(path)
