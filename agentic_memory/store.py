"""``MemoryStore``: the whole memory as an async API. Everything above talks to memory only through it."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Final, Self

import anyio
import anyio.to_thread
from agentscope.tool import BackendBase

from agentic_memory.backends import ABSENT, Backend, Change, FileRecord, LocalBackend, Obstacle, adapt
from agentic_memory.backends.values import version_of
from agentic_memory.bases import base_of, find_base, remember_base
from agentic_memory.check import check_memory
from agentic_memory.document import Document, edit_body, edit_field, memory_filename, parse_document, render_document
from agentic_memory.errors import BackendUnavailable, Conflict, InvalidMemory, MemoryNotFound, UnsafePath
from agentic_memory.filenames import checked_file, checked_memory, checked_path, free_filename
from agentic_memory.guards import WritePolicy
from agentic_memory.history import archive
from agentic_memory.history.diffs import diff_versions
from agentic_memory.history.entries import Author, Version, Who, versions_of, with_present
from agentic_memory.history.past import state_of, when_of
from agentic_memory.history.writing import transact_and_keep
from agentic_memory.index import add_entry, change_entry, drop_entry
from agentic_memory.merge import merge_documents
from agentic_memory.plan import Plan, Refused, changes_of, follow_in_index, refuse_harm
from agentic_memory.selection.lexical import Hit
from agentic_memory.shelf import (
    INDEX_FILENAME,
    Shelf,
    Snapshot,
    as_match,
    as_memory_file,
    obstacle_problem,
    shelf_for,
    written_file,
)
from agentic_memory.values import Match, MemoryFile, Problem

PATIENCE_SECONDS: Final = 30.0
"""How long a change is made anew while others are faster. Every round one writer gets on, so it takes dozens of them
writing without a pause to keep one waiting that long."""
MAX_PAUSE_SECONDS: Final = 0.004
"""Between attempts, drawn at random: a conflict means that somebody else got on, so there is no reason to wait long."""
PARSE_IN_THREAD_FROM: Final = 32
"""New files from which parsing leaves the event loop: fewer take under a millisecond."""

BackendSource = BackendBase | Callable[[], Any]
"""A backend of ours or of AgentScope, a workspace (anything with ``get_backend()``), or a callable giving a backend."""


class MemoryStore:
    """The memory under ``<workdir>/<memory_dir>`` of one backend.

    Files stay plain Markdown. A change writes the file and its line in MEMORY.md in one transaction; when somebody else
    changed either meanwhile, it is made anew on what is there now. Several stores on one directory, in one process or
    many, do not lose each other's entries.

    Args:
        workdir: Directory in the backend's own terms; relative ones and ``~`` are resolved there.
        memory_dir: Directory below it.
        backend: Where the bytes live; the local disk when None.
        history: Whether every version is kept below ``.history/`` of the memory directory. A change goes there in the
            same transaction that makes it.
        who: Who it says there that made the changes of this store, while no reply is running.
        policy: What may be written. A ``person`` may write anything: the guards are for programs and models.
    """

    def __init__(
        self,
        *,
        workdir: str,
        memory_dir: str = "Memory",
        backend: BackendSource | None = None,
        history: bool = True,
        who: Who = "store",
        policy: WritePolicy | None = None,
    ) -> None:
        for label, value in (("workdir", workdir), ("memory_dir", memory_dir)):
            if not str(value) or "\0" in str(value):
                raise UnsafePath(f"{label} is {value!r}: give the path of a directory")
        self._workdir = str(workdir)
        self._memory_dir = str(memory_dir)
        self._backend: Backend = LocalBackend() if backend is None else adapt(backend)
        self._keeps_history = history
        self._author = Author(who)
        self._policy = None if who == "person" else policy or WritePolicy()
        self._root: str | None = None
        self._shelf: Shelf | None = None

    @property
    def backend(self) -> Backend:
        """The backend that all of this memory's bytes go through."""
        return self._backend

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

    async def aclose(self) -> None:
        """Release what the store holds. The backend belongs to whoever made it."""

    async def __aenter__(self) -> Self:
        """Return the store itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        await self.aclose()

    # ------------------------------------------------------------------ reading

    async def load(self) -> Snapshot:
        """See the whole memory, in one backend round trip whatever its size.

        Raises:
            BackendUnavailable: it cannot be told what is there. Never answered by an empty memory.
        """
        return await self._look()

    async def _look(self) -> Snapshot:
        """See what changes are made on: this memory alone, whatever else ``load`` of a subclass shows beside it."""
        shelf = await self._shelf_here()
        began = shelf.past.moment()
        tree = await self._backend.snapshot(shelf.root, known=shelf.known.keys(), suffix=".md")
        try:
            snapshot = await _take(shelf, tree)
        except KeyError:
            # Another thread's load dropped a version between our question and our answer.
            snapshot = await _take(shelf, await self._backend.snapshot(shelf.root, suffix=".md"))
        if self._keeps_history:
            shelf.past.see(snapshot, began=began)
        return snapshot

    async def _shelf_here(self) -> Shelf:
        if self._shelf is None:
            self._shelf = shelf_for(self._backend.cache_key, await self.root())
        return self._shelf

    async def get(self, filename: str) -> MemoryFile:
        """Read one memory by its file name.

        Raises:
            MemoryNotFound: there is none.
            UnsafePath: the name leaves the memory directory, or what is there is not a file.
            BackendUnavailable: it cannot be told.
        """
        filename = checked_memory(filename)
        record = await self._backend.fetch(await self.path_of(filename), within=await self.root())
        if record is ABSENT or record.data is None:
            raise _not_found(filename)
        remember_base(record.data, version=record.version)  # an update from this version can be merged later
        return as_memory_file(filename, record, parse_document(record.data, filename=filename))

    async def get_all(self, *, type: str | None = None) -> list[MemoryFile]:  # noqa: A002 - the frontmatter field's name
        """Read every memory, sorted by file name; only those of one ``type`` when given."""
        return [file for file in (await self.load()).files if type is None or file.type == type]

    async def search(self, query: str, *, limit: int = 5) -> list[Match]:
        """Find memories by words, best first. Nothing relevant is an empty list."""
        if limit < 1 or not query.strip():
            return []
        snapshot = await self.load()
        hits = await self.rank(snapshot, query, limit=limit)
        return [as_match(snapshot, hit) for hit in hits if hit.filename in snapshot.documents]

    async def rank(self, snapshot: Snapshot, query: str, *, limit: int) -> list[Hit]:
        """Rank the files of a snapshot by words, off the event loop."""
        shelf = self._shelf or shelf_for(self._backend.cache_key, snapshot.root)
        return await anyio.to_thread.run_sync(
            lambda: shelf.index_for_search(snapshot).search(query, limit=limit),
        )

    async def check(self) -> list[Problem]:
        """List everything in the memory that a person should look at."""
        snapshot = await self._look()
        documents = {name: document for name, (_, document) in snapshot.documents.items()}
        others = {record.path for record in snapshot.tree.files} | {item.path for item in snapshot.tree.obstacles}
        others -= {INDEX_FILENAME, *documents, *snapshot.unnameable}
        index = None if snapshot.index_record is ABSENT else snapshot.index
        written = {name: when_of(record.mtime_ns).date() for name, (record, _) in snapshot.documents.items()}
        found = await anyio.to_thread.run_sync(
            lambda: check_memory(documents=documents, index=index, other_paths=others, written=written)
        )
        if self._keeps_history:
            past = (await self._shelf_here()).past
            found += await archive.log_problems(self._backend, root=snapshot.root, past=past)
        return [*found, *snapshot.place_problems]

    # ------------------------------------------------------------------ the past

    async def history(self, filename: str) -> list[Version]:
        """List what a file was, newest first, whoever changed it and with whatever tool.

        Two round trips. The present content stands first, also when nobody has recorded it yet.

        Raises:
            MemoryNotFound: there is no such file and never was, as far as the history knows.
            BackendUnavailable: it cannot be told.
        """
        filename = checked_file(filename)
        snapshot = await self._look()
        past = (await self._shelf_here()).past
        entries, _ = await archive.read_log(self._backend, root=snapshot.root, past=past)
        versions = versions_of(filename, [*entries, *(change.entry() for change in past.pending())])
        versions = with_present(versions, filename, state_of(snapshot, filename))
        if not versions:
            raise _not_found(filename)
        return versions

    async def read_version(self, version: str) -> bytes:
        """Return the bytes of a version that ``history`` names.

        Raises:
            MemoryNotFound: nobody kept it.
        """
        root = await self.root()
        data = await archive.read_version(self._backend, version, root=root)
        if data is not None:
            return data
        snapshot = await self._look()
        state = (await self._shelf_here()).past.find(version, snapshot)
        if state is None:
            raise MemoryNotFound(f"version {version[:12]} is not in the history under {root}/{archive.FOLDER}")
        return state.data

    async def diff(self, filename: str, old: str, new: str | None = None) -> str:
        """Return the unified diff between two versions of a file; ``new`` is the present content when None.

        Raises:
            MemoryNotFound: a version nobody kept, or there is no present content.
        """
        filename = checked_file(filename)
        before = await self.read_version(old)
        if new is None:
            state = state_of(await self._look(), filename)
            if state is None:
                raise _not_found(filename)
            after, label = state.data, "now"
        else:
            after, label = await self.read_version(new), new[:12]
        return await anyio.to_thread.run_sync(
            lambda: diff_versions(before, after, filename=filename, labels=(old[:12], label))
        )

    async def restore(self, filename: str, version: str) -> MemoryFile:
        """Make a file again what it was at ``version``, byte for byte. This is a change too, and can be undone alike.

        What is there now is kept in the history first. A file that was forgotten or deleted comes back with its line in
        MEMORY.md.

        Args:
            filename: Which; it need not exist. ``MEMORY.md`` is the index.
            version: One that ``history`` names.

        Raises:
            MemoryNotFound: nobody kept that version.
        """
        filename = self._writable(filename, index=True)
        data = await self.read_version(version)
        new = parse_document(data, filename=filename)
        why = f"restored {version[:12]}"

        def plan(snapshot: Snapshot) -> Plan:
            if filename == INDEX_FILENAME:
                return Plan(filename, [], snapshot.index_document.text, why=why, index_bytes=data)
            if snapshot.tree.find(filename) is ABSENT:
                index = snapshot.index_document.text
                if snapshot.index.find(filename) is None:
                    title = new.name or PurePosixPath(filename).stem
                    index = add_entry(index, title=title, filename=filename, hook=new.description)
                return Plan(filename, [(filename, data, ABSENT)], index, why=why)
            record, document = _present(snapshot, filename)
            index = follow_in_index(snapshot, filename, document, name=new.name or None, description=new.description)
            return Plan(filename, [(filename, data, record.version)], index, why=why)

        await self._change(plan)
        return written_file(filename, data)

    async def record_history(self) -> int:
        """Write down the changes by others that loads have noticed; return their number. No round trip without any.

        Raises:
            BackendUnavailable, UnsafePath: it could not be written; it will be tried again with the next change.
        """
        if not self._keeps_history:
            return 0
        return await archive.record(self._backend, root=await self.root(), past=(await self._shelf_here()).past)

    async def begin_reply(self, token: object, author: Callable[[], Author]) -> None:
        """Put what changes from now on down to a reply of an agent, until ``end_reply``."""
        (await self._shelf_here()).past.begin_reply(token, author)

    def end_reply(self, token: object) -> None:
        """End what ``begin_reply`` began; nothing happens when it did not."""
        if self._shelf is not None:
            self._shelf.past.end_reply(token)

    # ------------------------------------------------------------------ writing

    async def ensure_index(self) -> None:
        """Create an empty MEMORY.md if there is none; never over anything."""
        try:
            await self._backend.replace(
                await self.path_of(INDEX_FILENAME), b"", expected=ABSENT, within=await self.root()
            )
        except Conflict:
            return  # somebody else was faster, which is as good

    async def add(
        self,
        *,
        name: str,
        description: str,
        type: str,  # noqa: A002 - the frontmatter field's name
        content: str,
        filename: str | None = None,
        check: Callable[[Snapshot], None] | None = None,
    ) -> MemoryFile:
        """Create a memory file and its line in MEMORY.md, together or not at all.

        Args:
            name: Short title.
            description: When to read it: one line.
            type: ``user``, ``feedback``, ``project``, ``reference``, or a word of your own.
            content: Markdown.
            filename: Where; made from ``name`` when None, with a number when that is taken.
            check: Shown the memory that the file is added to, each time it is tried; what it raises ends the addition.

        Raises:
            Conflict: ``filename`` was given and is taken.
            InvalidMemory: a field that cannot be stored.
            WriteRefused: a guard objects to what it says.
        """
        if not name.strip():
            raise InvalidMemory("a memory needs a name: a short title")
        data = render_document(name=name, description=description, type=type, content=content)
        wanted = None if filename is None else self._writable(filename)

        def plan(snapshot: Snapshot) -> Plan:
            if check is not None:
                check(snapshot)
            chosen = wanted or free_filename(snapshot, memory_filename(name))
            taken = snapshot.tree.find(chosen)
            if taken is not ABSENT:
                current = _bytes(snapshot, chosen) if isinstance(taken, FileRecord) else None
                raise Refused(Conflict(chosen, expected="absent", current=current))
            index = add_entry(snapshot.index_document.text, title=name, filename=chosen, hook=description)
            return Plan(chosen, [(chosen, data, ABSENT)], index, why="added", policy=self._policy)

        done = await self._change(plan)
        remember_base(data)
        return written_file(done.filename, data)

    async def update(
        self,
        filename: str,
        *,
        name: str | None = None,
        description: str | None = None,
        type: str | None = None,  # noqa: A002 - the frontmatter field's name
        content: str | None = None,
        expected: str | None = None,
        allow_loss: bool = False,
    ) -> MemoryFile:
        """Change fields or the content of a memory; what is not given stays byte for byte.

        A changed name or description also changes the file's line in MEMORY.md, unless a person wrote that part of the
        line differently from the file.

        Args:
            filename: Which.
            name, description, type, content: New values.
            expected: The ``version`` the change was made from. When the file is another by now, the change is made in that
                version and merged, where it is still known and nobody changed the same; else ``Conflict``. Without it
                each given field is set on what is there now.
            allow_loss: Let much of the text go, or its name or description.

        Raises:
            MemoryNotFound, Conflict, InvalidMemory, WriteRefused, UnsafePath, BackendUnavailable
        """
        filename = self._writable(filename)
        policy = self._policy and self._policy.with_loss(allowed=allow_loss)
        fields = {"name": name, "description": description, "type": type}

        def plan(snapshot: Snapshot, base: bytes | None) -> Plan:
            record, document = _present(snapshot, filename)
            current = start = document.encode(document.text)
            if expected is not None and record.version != expected:
                if base is None:
                    raise Refused(Conflict(filename, expected=expected, current=current))
                start = base
            data = start
            for key, value in fields.items():
                if value is not None:
                    data = edit_field(parse_document(data, filename=filename), key, value)
            if content is not None:
                data = edit_body(parse_document(data, filename=filename), content)
            data = _merge(start, data, current, filename=filename)
            index = follow_in_index(snapshot, filename, document, name=name, description=description)
            return Plan(filename, [(filename, data, record.version)], index, why="updated", policy=policy)

        return written_file(filename, await self._change_from(expected, plan))

    async def put(self, filename: str, data: bytes, *, expected: str, allow_loss: bool = False) -> MemoryFile:
        """Replace a whole memory file by bytes that somebody edited; its line in MEMORY.md follows as in ``update``.

        Args:
            filename: Which.
            data: All of the file, as it shall be.
            expected: The version the edit was made from. When the file is another by now, the edit is merged into it as in
                ``update``, or it is a ``Conflict``; so it is when the file is gone.
            allow_loss: As in ``update``.
        """
        filename = self._writable(filename)
        policy = self._policy and self._policy.with_loss(allowed=allow_loss)

        def plan(snapshot: Snapshot, base: bytes | None) -> Plan:
            if snapshot.tree.find(filename) is ABSENT:
                raise Refused(Conflict(filename, expected=expected, current=None))
            record, document = _present(snapshot, filename)
            current = start = document.encode(document.text)
            if record.version != expected:
                if base is None:
                    raise Refused(Conflict(filename, expected=expected, current=current))
                start = base
            merged = _merge(start, data, current, filename=filename)
            new = parse_document(merged, filename=filename)
            index = follow_in_index(snapshot, filename, document, name=new.name or None, description=new.description)
            return Plan(filename, [(filename, merged, record.version)], index, why="edited", policy=policy)

        return written_file(filename, await self._change_from(expected, plan))

    async def forget(self, filename: str) -> str:
        """Move a memory to the trash and take its line out of MEMORY.md, together or not at all.

        Returns:
            Where it is now, relative to the memory directory (``.trash/<time>/<filename>``).
        """
        filename = self._writable(filename)
        trashed = f".trash/{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}/{filename}"

        def plan(snapshot: Snapshot, *, moves: bool) -> Plan:
            record, _ = _present(snapshot, filename)
            index = drop_entry(snapshot.index_document.text, filename)
            if moves:
                return Plan(filename, [], index, why="forgotten", move=(filename, trashed, record.version))
            data = _bytes(snapshot, filename) or b""
            removal = (filename, record.version)
            return Plan(filename, [(trashed, data, ABSENT)], index, why="forgotten", removal=removal)

        try:
            await self._change(lambda snapshot: plan(snapshot, moves=True))
        except UnsafePath:
            # A relative symlink leads nowhere from the trash: what it showed goes there, and the link alone goes away.
            await self._change(lambda snapshot: plan(snapshot, moves=False))
        return trashed

    async def rename(self, filename: str, new_filename: str) -> MemoryFile:
        """Give a memory another file name, and its line in MEMORY.md with it.

        Raises:
            Conflict: ``new_filename`` is taken.
        """
        filename, new_filename = self._writable(filename), self._writable(new_filename)

        def plan(snapshot: Snapshot) -> Plan:
            record, _ = _present(snapshot, filename)
            taken = snapshot.tree.find(new_filename)
            if taken is not ABSENT:
                current = _bytes(snapshot, new_filename) if isinstance(taken, FileRecord) else None
                raise Refused(Conflict(new_filename, expected="absent", current=current))
            index = change_entry(snapshot.index_document.text, filename, new_filename=new_filename)
            move = (filename, new_filename, record.version)
            return Plan(new_filename, [], index, why=f"renamed from {filename}", move=move)

        await self._change(plan)
        return await self.get(new_filename)

    def _writable(self, filename: str, *, index: bool = False) -> str:
        """Return ``filename`` if a change of it may be asked for; MEMORY.md only with ``index``."""
        return checked_file(filename) if index else checked_memory(filename)

    async def _change_from(self, version: str | None, plan: Callable[[Snapshot, bytes | None], Plan]) -> bytes:
        """Write one file changed from ``version``, whose bytes ``plan`` is told if they are known; return what it became.

        The history is asked last and only when there is something to merge, for that takes round trips.
        """
        held = None if self._shelf is None or version is None else self._shelf.known.get(version)
        base = held.encode(held.text) if isinstance(held, Document) else base_of(version or "")
        try:
            done = await self._change(lambda snapshot: plan(snapshot, base))
        except Conflict:
            if version is None or base is not None or not self._keeps_history:
                raise
            found = await find_base(version, elsewhere=self.read_version)
            if found is None:
                raise
            done = await self._change(lambda snapshot: plan(snapshot, found))
        data = done.writes[0][1]
        remember_base(data)
        return data

    async def _change(self, plan: Callable[[Snapshot], Plan]) -> Plan:
        """Plan on the current memory and apply; plan anew while somebody else is faster."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            snapshot = await self._look()
            try:
                planned = plan(snapshot)
                refuse_harm(planned, snapshot)
            except Refused as refused:
                raise refused.reason from None
            changes = changes_of(planned, snapshot)
            if not changes:
                return planned
            try:
                await self._apply(snapshot, changes, planned.why)
            except Conflict as conflict:
                if time.monotonic() > until:
                    raise BackendUnavailable(
                        f"{conflict.path}: others kept changing it for {PATIENCE_SECONDS:.0f} s, so nothing was "
                        "written; try again"
                    ) from conflict
                await anyio.sleep(random.uniform(0, MAX_PAUSE_SECONDS))  # noqa: S311 - no secret
            else:
                return planned

    async def _apply(self, snapshot: Snapshot, changes: list[Change], why: str) -> None:
        if not self._keeps_history:
            await self._backend.transact(changes, within=snapshot.root)
            return
        past = (await self._shelf_here()).past
        author = past.author(self._author)
        await transact_and_keep(self._backend, changes, look=snapshot, past=past, author=author, why=why)


async def _take(shelf: Shelf, tree: Any) -> Snapshot:
    new = sum(record.data is not None for record in tree.files)
    if new < PARSE_IN_THREAD_FROM:
        return shelf.take(tree)
    return await anyio.to_thread.run_sync(shelf.take, tree)


def _present(snapshot: Snapshot, filename: str) -> tuple[FileRecord, Document]:
    held = snapshot.documents.get(filename)
    if held is not None:
        return held
    there = snapshot.tree.find(filename)
    if isinstance(there, Obstacle):
        problem = obstacle_problem(there)
        raise BackendUnavailable(f"{snapshot.root}/{there.path}: {problem.message}; {problem.fix}")
    raise _not_found(filename)


def _merge(base: bytes, ours: bytes, theirs: bytes, *, filename: str) -> bytes:
    """Return ``theirs`` with what turned ``base`` into ``ours``; that is ``ours`` when nobody else changed anything."""
    data = merge_documents(base, ours, theirs, filename=filename).data
    if data is None:
        raise Conflict(filename, expected=version_of(base), current=theirs)
    return data


def _not_found(filename: str) -> MemoryNotFound:
    return MemoryNotFound(f"there is no memory {filename!r}; list the memories to see their file names")


def _bytes(snapshot: Snapshot, filename: str) -> bytes | None:
    if filename == INDEX_FILENAME:
        return snapshot.index_document.encode(snapshot.index_document.text)
    held = snapshot.documents.get(filename)
    return None if held is None else held[1].encode(held[1].text)
