"""``MemoryStore``: the whole memory as an async API. Everything above talks to memory only through it.

Its parts stand on each other: ``store_base`` knows the place, ``store_searching`` finds in it, ``store_reading`` knows what
is there, ``store_past`` what was, ``store_writing`` changes it, ``store_undoing`` goes back, ``store_purging`` leaves
nothing, ``store_mending`` repairs.
"""

from types import TracebackType
from typing import Self

from agentic_memory.store_base import BackendSource, HistoryPlace
from agentic_memory.store_mending import StoreMending

__all__ = ["BackendSource", "HistoryPlace", "MemoryStore"]


class MemoryStore(StoreMending):
    """The memory under ``<workdir>/<memory_dir>`` of one backend.

    Files stay plain Markdown. A change writes the file and its line in MEMORY.md in one transaction; when somebody else
    changed either meanwhile, it is made anew on what is there now. Several stores on one directory, in one process or
    many, do not lose each other's entries.

    Args:
        workdir: Directory in the backend's own terms; relative ones and ``~`` are resolved there.
        memory_dir: Directory below it.
        backend: Where the bytes live; the local disk when None.
        history: Whether, or where, every version is kept; see ``HistoryPlace``. Below ``.history/`` of the memory directory a
            change goes there in the same transaction that makes it. In another backend, which may outlive a sandbox, it is
            written before the change: a change that was acknowledged is there, and after a crash between the two so is one
            that was not made.
        retention: How much of it is kept; everything when None.
        who: Who it says there that made the changes of this store, while no reply is running.
        policy: What may be written. A ``person`` may write anything: the guards are for programs and models.
        embedding_model: Any AgentScope embedding model: searches go by meaning too then. None: by words alone.
    """

    async def __aenter__(self) -> Self:
        """Return the store itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        await self.aclose()
