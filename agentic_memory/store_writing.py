"""The writing part of a store: operations, planned on one snapshot and written in one transaction."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, TypeVar

import anyio

from agentic_memory.backends import ABSENT, Change, version_of
from agentic_memory.bases import base_of, find_base, remember_base
from agentic_memory.document import Document
from agentic_memory.draft import Draft
from agentic_memory.errors import BackendUnavailable, Conflict, MemoryNotFound, UnsafePath
from agentic_memory.filenames import checked_file, checked_memory
from agentic_memory.guards import WritePolicy
from agentic_memory.history.entries import new_transaction_id
from agentic_memory.history.writing import transact_and_keep
from agentic_memory.operations import Create, Forget, Operation, Outcome, Rename, Rewrite, Transaction, Update, named_by
from agentic_memory.planning import TRASH, carry_out
from agentic_memory.shelf import INDEX_FILENAME, Snapshot, written_file
from agentic_memory.store_past import StorePast
from agentic_memory.values import MemoryFile

PATIENCE_SECONDS: Final = 30.0
"""How long a change is made anew while others are faster. Every round one writer gets on, so it takes dozens of them
writing without a pause to keep one waiting that long."""
MAX_PAUSE_SECONDS: Final = 0.004
"""Between attempts, drawn at random: a conflict means that somebody else got on, so there is no reason to wait long."""

Planned = TypeVar("Planned")
Planner = Callable[[Snapshot], tuple[Sequence[Operation], Sequence[Change]]]


class StoreWriting(StorePast):
    """Changing a memory. See ``MemoryStore``."""

    async def ensure_index(self) -> None:
        """Create an empty MEMORY.md if there is none; never over anything."""
        try:
            await self._backend.replace(
                await self.path_of(INDEX_FILENAME), b"", expected=ABSENT, within=await self.root()
            )
        except Conflict:
            return  # somebody else was faster, which is as good

    async def apply(
        self,
        operations: Sequence[Operation],
        *,
        why: str = "",
        check: Callable[[Snapshot], None] | None = None,
        also: Sequence[Change] = (),
    ) -> Transaction:
        """Carry out operations in order, all of them or none: one transaction of files, MEMORY.md and history.

        A later one sees what the earlier ones did. While others change the memory all are planned anew on what is there
        then; one made from a version (``expected``) is merged into a newer file as in ``update``.

        Args:
            operations: What shall be done.
            why: The reason the history shows; by default what is done.
            check: Shown the memory that they are carried out on, each time it is tried; what it raises ends it.
            also: Changes of files below a dot folder of the memory directory, in the same transaction.

        Raises:
            AgenticMemoryError: one of them cannot be carried out; nothing was changed.
        """
        return await self._apply(operations, why=why, check=check, policy=self._policy, also=also)

    async def apply_planned(self, plan: Planner, *, why: str = "", allow_loss: bool = False) -> Transaction:
        """Carry out what ``plan`` makes of the memory as it is, in one transaction; ask it anew while others are faster.

        For a change that must be thought out again on a newer memory, where merging would not do.

        Args:
            plan: Shown the memory; returns the operations, and changes of the backend that belong to the same
                transaction: of files below a dot folder of the memory directory, which are no memories.
            why: The reason the history shows; by default what is done.
            allow_loss: Whether a file may lose much of its text: to others of the same transaction, say.

        Raises:
            Conflict: a precondition of those changes does not hold.
            AgenticMemoryError: it cannot be carried out; nothing was changed.
        """
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        operations: Sequence[Operation] = ()
        policy = None if self._policy is None else self._policy.with_loss(allowed=allow_loss)

        def carry_out_plan(draft: Draft) -> tuple[list[str], Sequence[Change]]:
            nonlocal operations
            operations, also = plan(draft.snapshot)
            for operation in operations:
                for name in named_by(operation):
                    self._writable(name, index=isinstance(operation, Rewrite))
            names = [carry_out(one, draft, bases={}, stamp=stamp, policy=policy) for one in operations]
            return names, also

        (filenames, _), draft, transaction = await self._change(
            carry_out_plan, why=why or self._reason("changed"), also=lambda planned: planned[1]
        )
        done = zip(operations, filenames, strict=True)
        return Transaction(transaction, tuple(Outcome(one, name, _written(draft, name)) for one, name in done))

    async def _apply(
        self,
        operations: Sequence[Operation],
        *,
        why: str,
        policy: WritePolicy | None,
        check: Callable[[Snapshot], None] | None = None,
        also: Sequence[Change] = (),
    ) -> Transaction:
        for operation in operations:
            for name in named_by(operation):
                self._writable(name, index=isinstance(operation, Rewrite))
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"

        def plan(draft: Draft, bases: Mapping[str, bytes]) -> list[str]:
            if check is not None:
                check(draft.snapshot)
            return [carry_out(operation, draft, bases=bases, stamp=stamp, policy=policy) for operation in operations]

        wanted = {one.expected for one in operations if isinstance(one, Update | Rewrite) and one.expected is not None}
        bases = {version: data for version in wanted if (data := self._known_base(version)) is not None}
        reason = why or self._reason(_say(operations))
        try:
            filenames, draft, transaction = await self._change(
                lambda draft: plan(draft, bases), why=reason, also=lambda _: also
            )
        except Conflict:
            # The history is asked last and only when there is something to merge, for that takes round trips.
            found = await self._find_bases(wanted - bases.keys())
            if not found:
                raise
            filenames, draft, transaction = await self._change(
                lambda draft: plan(draft, {**bases, **found}), why=reason, also=lambda _: also
            )
        done = zip(operations, filenames, strict=True)
        return Transaction(transaction, tuple(Outcome(one, name, _written(draft, name)) for one, name in done))

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
        return await self._apply_one(
            Create(name=name, description=description, type=type, content=content, filename=filename), check=check
        )

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
        return await self._apply_one(
            Update(
                filename=filename,
                name=name,
                description=description,
                type=type,
                content=content,
                expected=expected,
                allow_loss=allow_loss,
            )
        )

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
        return await self._apply_one(Rewrite(filename=filename, data=data, expected=expected, allow_loss=allow_loss))

    async def forget(self, filename: str) -> str:
        """Move a memory to the trash and take its line out of MEMORY.md, together or not at all.

        Returns:
            Where it is now, relative to the memory directory (``.trash/<time>/<filename>``).
        """
        return (await self.apply([Forget(filename=filename)])).outcomes[0].filename

    async def rename(self, filename: str, new_filename: str) -> MemoryFile:
        """Give a memory another file name, and its line in MEMORY.md with it.

        Raises:
            Conflict: ``new_filename`` is taken.
        """
        return await self._apply_one(Rename(filename=filename, new_filename=new_filename))

    # ------------------------------------------------------------------ inside

    async def _apply_one(self, operation: Operation, *, check: Callable[[Snapshot], None] | None = None) -> MemoryFile:
        return file_of(await self.apply([operation], check=check))

    def _writable(self, filename: str, *, index: bool = False) -> str:
        """Return ``filename`` if a change of it may be asked for; MEMORY.md only with ``index``."""
        return checked_file(filename) if index else checked_memory(filename)

    def _known_base(self, version: str) -> bytes | None:
        held = None if self._shelf is None else self._shelf.known.get(version)
        return held.encode(held.text) if isinstance(held, Document) else base_of(version)

    async def _find_bases(self, versions: set[str]) -> dict[str, bytes]:
        if not self._keeps_history:
            return {}
        found = {version: await find_base(version, elsewhere=self.read_version) for version in versions}
        return {version: data for version, data in found.items() if data is not None}

    async def _change(
        self,
        plan: Callable[[Draft], Planned],
        *,
        why: str,
        also: Callable[[Planned], Sequence[Change]] = lambda _: (),
    ) -> tuple[Planned, Draft, str | None]:
        """Plan on the current memory and write; plan anew while somebody else is faster.

        Args:
            plan: Makes the draft what it shall be.
            why: For the history.
            also: Changes of other files in the same transaction. When one of them does not hold, planning anew would not
                help, so that is a ``Conflict``.

        Returns:
            What ``plan`` returned, the memory as it was written, and the transaction; None: every memory is what it was.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        transaction = new_transaction_id()
        moves = True
        while True:
            draft = Draft(await self._look())
            planned = plan(draft)
            more = also(planned)
            changes = [*draft.changes(moves=moves), *more]
            if not changes:
                return planned, draft, None
            try:
                await self._write(draft, changes, why=why, transaction=transaction)
            except Conflict as conflict:
                if any(conflict.path in {getattr(one, "path", ""), getattr(one, "source", "")} for one in more):
                    raise
                if time.monotonic() > until:
                    raise BackendUnavailable(
                        f"{conflict.path}: others kept changing it for {PATIENCE_SECONDS:.0f} s, so nothing was "
                        "written; try again"
                    ) from conflict
                await anyio.sleep(random.uniform(0, MAX_PAUSE_SECONDS))  # noqa: S311 - no secret
            except UnsafePath:
                if not moves:
                    raise
                # A relative symlink leads nowhere from the trash: what it showed goes there, and the link goes away.
                moves = False
            else:
                return planned, draft, transaction if draft.results() else None

    async def _write(self, draft: Draft, changes: list[Change], *, why: str, transaction: str) -> None:
        snapshot, results = draft.snapshot, draft.results()
        shelf, author = await self._shelf_here(), await self._author()
        if self._keeps_history:
            await transact_and_keep(
                self._backend,
                changes,
                after=results,
                look=snapshot,
                archive=await self._archive(),
                past=shelf.past,
                author=author,
                why=why,
                transaction=transaction,
            )
            await self._tidy_when_due()
        else:
            await self._backend.transact(changes, within=snapshot.root)
        if author.who != "person":
            shelf.note_written({name: None if data is None else version_of(data) for name, data in results.items()})


def file_of(transaction: Transaction) -> MemoryFile:
    """Return the memory that the only operation of ``transaction`` left."""
    file = transaction.outcomes[0].file
    if file is None:
        raise MemoryNotFound(f"{transaction.outcomes[0].operation} left no memory")
    return file


def _written(draft: Draft, filename: str) -> MemoryFile | None:
    data = None if filename.startswith(f"{TRASH}/") else draft.read(filename)
    if data is None:
        return None
    remember_base(data)
    return written_file(filename, data)


def _say(operations: Sequence[Operation]) -> str:
    """Return what is done, in a word or two for each kind."""
    if len(operations) == 1 and isinstance(operations[0], Rename):
        return f"renamed from {operations[0].filename}"
    return ", ".join(dict.fromkeys(_VERBS[type(operation)] for operation in operations))


_VERBS: Final[Mapping[type[Operation], str]] = MappingProxyType(
    {Create: "added", Update: "updated", Rewrite: "edited", Forget: "forgotten", Rename: "renamed"}
)
