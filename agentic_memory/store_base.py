"""What every part of a store stands on: where the memory is, one look at it, and who is at work."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import anyio.to_thread
from agentscope.tool import BackendBase

from agentic_memory.backends import Backend, LocalBackend, Tree, adapt
from agentic_memory.errors import UnsafePath
from agentic_memory.filenames import checked_path
from agentic_memory.guards import WritePolicy
from agentic_memory.history.archive import FOLDER, Archive
from agentic_memory.history.entries import Author, Who
from agentic_memory.history.retention import Retention
from agentic_memory.shelf import Shelf, Snapshot, shelf_for
from agentic_memory.uses import Uses

PARSE_IN_THREAD_FROM: Final = 32
"""New files from which parsing leaves the event loop: fewer take under a millisecond."""

BackendSource = BackendBase | Callable[[], Any]
"""A backend of ours or of AgentScope, a workspace (anything with ``get_backend()``), or a callable giving a backend."""

HistoryPlace = bool | BackendSource | tuple[BackendSource, str]
"""Whether, or where, versions are kept. True: below the memory directory. A backend: there, under the same path. A backend
and a directory: there, under that directory and the path of the memory, so that it may serve many memories."""


class StoreBase:
    """The place of a memory. See ``MemoryStore``."""

    def __init__(
        self,
        *,
        workdir: str,
        memory_dir: str = "Memory",
        backend: BackendSource | None = None,
        history: HistoryPlace = True,
        retention: Retention | None = None,
        who: Who = "store",
        policy: WritePolicy | None = None,
    ) -> None:
        for label, value in (("workdir", workdir), ("memory_dir", memory_dir)):
            if not str(value) or "\0" in str(value):
                raise UnsafePath(f"{label} is {value!r}: give the path of a directory")
        self._workdir = str(workdir)
        self._memory_dir = str(memory_dir)
        self._backend: Backend = LocalBackend() if backend is None else adapt(backend)
        self._keeps_history = history is not False
        self._history_place = history
        self._archive_here: Archive | None = None
        self._retention = retention or Retention()
        self._own_author = Author(who)
        self._policy = None if who == "person" else policy or WritePolicy()
        self._root: str | None = None
        self._shelf: Shelf | None = None

    @property
    def backend(self) -> Backend:
        """The backend that all of this memory's bytes go through."""
        return self._backend

    @property
    def policy(self) -> WritePolicy | None:
        """What the guards let pass; None where nothing is guarded: what a person writes."""
        return self._policy

    @property
    def named_root(self) -> str:
        """The memory directory as far as it is known without asking the backend: absolute once ``root`` was called."""
        return self._root or self._backend.join_path(self._workdir, self._memory_dir)

    async def root(self) -> str:
        """Return the absolute path of the memory directory."""
        if self._root is None:
            self._root = await self._backend.resolve(self._backend.join_path(self._workdir, self._memory_dir))
        return self._root

    async def path_of(self, filename: str) -> str:
        """Return the absolute path of a memory file or of MEMORY.md."""
        return self._backend.join_path(await self.root(), checked_path(filename))

    @property
    def round_trips(self) -> int:
        """How often the places of this memory were asked so far, by whomever. Monotonic."""
        return self._backend.round_trips

    async def load(self) -> Snapshot:
        """See the whole memory, in one backend round trip whatever its size.

        Raises:
            BackendUnavailable: it cannot be told what is there. Never answered by an empty memory.
        """
        return await self._look()

    async def _look(self) -> Snapshot:
        """See what changes are made on: this memory alone, whatever else ``load`` of a subclass shows beside it."""
        shelf = await self._shelf_here()
        await self._uses_here()
        began = shelf.past.moment()
        tree = await self._backend.snapshot(shelf.root, known=shelf.known.keys(), suffix=".md")
        try:
            snapshot = await _take(shelf, tree)
        except KeyError:
            # Another thread's load dropped a version between our question and our answer.
            snapshot = await _take(shelf, await self._backend.snapshot(shelf.root, suffix=".md"))
        if self._keeps_history:
            shelf.past.archive = await self._archive()
            shelf.past.see(snapshot, began=began)
        return snapshot

    async def _archive(self) -> Archive:
        """Return the place that the history is kept in."""
        if self._archive_here is None:
            root, place = await self.root(), self._history_place
            own = self._backend.join_path(root, FOLDER)
            if isinstance(place, bool):
                self._archive_here = Archive(self._backend, own, root)
            else:
                source, parent = place if isinstance(place, tuple) else (place, "")
                backend = adapt(source)
                # Below the memory's own path, so that one directory serves the memories of many users.
                directory = backend.join_path(await backend.resolve(parent), root.strip("/")) if parent else own
                self._archive_here = Archive(backend, directory, directory, apart=True)
        return self._archive_here

    async def _shelf_here(self) -> Shelf:
        if self._shelf is None:
            self._shelf = shelf_for(self._backend.cache_key, await self.root())
        return self._shelf

    async def _uses_here(self) -> Uses:
        """Return how often which memory was shown, read before it is asked for."""
        uses = (await self._shelf_here()).uses
        if not uses.is_read:
            await anyio.to_thread.run_sync(uses.read)
        return uses

    # ------------------------------------------------------------------ who is at work

    @contextmanager
    def acting_as(
        self, *, who: Who | None = None, why: str = "", session: str | None = None, reply: str | None = None
    ) -> Iterator[None]:
        """Put the changes that this store makes inside the ``with`` block down to somebody; only those of this task.

        Args:
            who: None: as it would have been without.
            why: The reason the history shows, where a change is not given one of its own.
            session, reply: During which reply; those of the running one when None.
        """
        token = _acting.set(_Acting(self, who, why, session, reply, outer=_acting.get()))
        try:
            yield
        finally:
            _acting.reset(token)

    async def _author(self) -> Author:
        author = (await self._shelf_here()).past.author(self._own_author)
        acting = _acting_on(self)
        if acting is None:
            return author
        return Author(
            author.who if acting.who is None else acting.who,
            author.session if acting.session is None else acting.session,
            author.reply if acting.reply is None else acting.reply,
        )

    def _reason(self, otherwise: str) -> str:
        acting = _acting_on(self)
        return otherwise if acting is None or not acting.why else acting.why

    async def begin_reply(
        self, token: object, author: Callable[[], Author], *, sources: Callable[[], Sequence[str]] | None = None
    ) -> None:
        """Put what changes from now on down to a reply of an agent, until ``end_reply``.

        Args:
            token: What ``end_reply`` takes.
            author: Who it is.
            sources: What its tools have answered so far, for telling what it copied from what it wrote.
        """
        (await self._shelf_here()).past.begin_reply(token, author, sources=sources)

    def end_reply(self, token: object) -> None:
        """End what ``begin_reply`` began; nothing happens when it did not."""
        if self._shelf is not None:
            self._shelf.past.end_reply(token)


@dataclass(frozen=True, slots=True)
class _Acting:
    """What ``acting_as`` was told."""

    store: StoreBase
    who: Who | None
    why: str
    session: str | None
    reply: str | None
    outer: "_Acting | None"


_acting: ContextVar[_Acting | None] = ContextVar("agentic_memory_acting", default=None)


def _acting_on(store: StoreBase) -> _Acting | None:
    acting = _acting.get()
    while acting is not None and acting.store is not store:
        acting = acting.outer
    return acting


async def _take(shelf: Shelf, tree: Tree) -> Snapshot:
    new = sum(record.data is not None for record in tree.files)
    if new < PARSE_IN_THREAD_FROM:
        return shelf.take(tree)
    return await anyio.to_thread.run_sync(shelf.take, tree)
