"""Memories of another program into a memory: what is new is added in one transaction, and nothing is overwritten."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

import anyio.to_thread

from agentic_memory.document import memory_filename
from agentic_memory.draft import Draft
from agentic_memory.errors import BackendUnavailable, Conflict, InvalidMemory, WriteRefused
from agentic_memory.filenames import free_filename
from agentic_memory.frontmatter import is_key
from agentic_memory.guards import WritePolicy
from agentic_memory.lines import one_line
from agentic_memory.operations import Create
from agentic_memory.planning import carry_out
from agentic_memory.rendering import FIELD_ORDER
from agentic_memory.shelf import Snapshot
from agentic_memory.stale import Stale, unless_changed
from agentic_memory.store import MemoryStore
from agentic_memory.transfer.items import Item, Parsed
from agentic_memory.values import Problem

KEY_FIELD: Final = "imported_from"
"""The frontmatter field by which a memory that was imported once is known."""
MAX_ATTEMPTS: Final = 20

Status = Literal["new", "imported before", "same text", "refused"]


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is done with one memory of a source.

    Attributes:
        filename: Where it goes, or where it is already.
        reason: Why it is refused.
    """

    status: Status
    filename: str
    title: str
    reason: str = ""
    operation: Create | None = field(default=None, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"status": self.status, "filename": self.filename, "title": self.title, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did, or would do.

    Attributes:
        applied: Whether it was done.
        transaction: What ``MemoryStore.undo`` takes; None when nothing was written.
    """

    arrivals: tuple[Arrival, ...]
    problems: tuple[Problem, ...]
    applied: bool
    transaction: str | None = None

    @property
    def new(self) -> tuple[Arrival, ...]:
        """What was added, or would be."""
        return tuple(arrival for arrival in self.arrivals if arrival.status == "new")

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "applied": self.applied,
            "transaction": self.transaction,
            "memories": [arrival.as_dict() for arrival in self.arrivals],
            "problems": [problem.as_dict() for problem in self.problems],
        }


def choose_owner(items: Sequence[Item], owner: str | None) -> tuple[Item, ...]:
    """Return the memories of one user.

    Raises:
        InvalidMemory: there are several users, and none was chosen: their memories must not get mixed.
    """
    owners = sorted({item.owner for item in items if item.owner})
    if owner is None and len(owners) > 1:
        shown = ", ".join(owners[:5]) + (", ..." if len(owners) > 5 else "")
        raise InvalidMemory(
            f"the source holds memories of {len(owners)} users ({shown}): choose one with --source-user"
        )
    if owner is not None and owner not in owners:
        raise InvalidMemory(f"the source holds no memories of {owner!r}; it has {', '.join(owners[:5]) or 'no users'}")
    return tuple(item for item in items if owner is None or item.owner == owner)


def plan_import(snapshot: Snapshot, items: Sequence[Item], *, policy: WritePolicy | None) -> tuple[Arrival, ...]:
    """Decide on each memory of a source what becomes of it in the memory that ``snapshot`` shows.

    Args:
        snapshot: The memory.
        items: The source.
        policy: What the guards let in; None: everything.
    """
    keys = {document.fields.get(KEY_FIELD): name for name, (_, document) in snapshot.documents.items()}
    texts = {_plain(document.body): name for name, (_, document) in snapshot.documents.items()}
    there = [record.path for record in snapshot.tree.files] + [obstacle.path for obstacle in snapshot.tree.obstacles]
    taken = {name.casefold() for name in there}
    arrivals = []
    for item in items:
        arrival = _refused_by_guards(_arrive(item, keys, texts, taken), snapshot, policy)
        arrivals.append(arrival)
        if arrival.status == "new":
            taken.add(arrival.filename.casefold())
            keys.setdefault(stored_key(item), arrival.filename)
            texts.setdefault(_plain(item.content), arrival.filename)
    return tuple(arrivals)


def stored_key(item: Item) -> str:
    """Return the key of ``item`` as a memory file keeps it: on one line, and short."""
    key = one_line(item.key) or _digest(item.content)
    return key if len(key) <= 120 else f"{key[:40].rstrip()}…{_digest(key)}"


async def import_items(store: MemoryStore, parsed: Parsed, *, apply: bool, why: str = "imported") -> ImportReport:
    """Add what is new of a source; without ``apply`` only tell what would be.

    Raises:
        BackendUnavailable: the memory cannot be reached, or others change it without a pause; nothing was written.
    """
    for _ in range(MAX_ATTEMPTS):
        snapshot = await store.load()
        arrivals = await anyio.to_thread.run_sync(partial(plan_import, snapshot, parsed.items, policy=store.policy))
        operations = [arrival.operation for arrival in arrivals if arrival.operation is not None]
        if not apply or not operations:
            return ImportReport(arrivals, parsed.problems, apply)
        try:
            transaction = await store.apply(operations, why=why, check=unless_changed(snapshot))
        except (Stale, Conflict):
            continue
        return ImportReport(arrivals, parsed.problems, apply, transaction.id)
    raise BackendUnavailable(f"{store.named_root}: others kept changing it, so nothing was imported; try again")


def _refused_by_guards(arrival: Arrival, snapshot: Snapshot, policy: WritePolicy | None) -> Arrival:
    """Return ``arrival``, or why it cannot be written; what cannot must not keep the rest out of one transaction."""
    if arrival.operation is None:
        return arrival
    try:
        carry_out(arrival.operation, Draft(snapshot), bases={}, stamp="", policy=policy)
    except (WriteRefused, ValueError) as error:  # a guard; no memory, no path, half a character
        return Arrival("refused", "", arrival.title, str(error))
    return arrival


def _arrive(
    item: Item,
    keys: Mapping[str | None, str],
    texts: Mapping[str, str],
    taken: set[str],
) -> Arrival:
    title = one_line(item.title)
    key = stored_key(item)
    if key in keys:
        return Arrival("imported before", keys[key], title)
    text = _plain(item.content)
    if not text:
        return Arrival("refused", "", title, "it has no text")
    if text in texts:
        return Arrival("same text", texts[text], title)
    filename = item.filename or memory_filename(title)
    if filename.casefold() in taken:
        filename = free_filename(filename, taken)
    fields = {
        name: value
        for name, value in item.fields.items()
        if value.strip() and is_key(name) and name not in {*FIELD_ORDER, KEY_FIELD, "metadata"}
    }
    operation = Create(
        name=title,
        description=one_line(item.hook),
        type=one_line(item.type),
        content=item.content,
        filename=filename,
        fields={**fields, KEY_FIELD: key},
    )
    return Arrival("new", filename, title, operation=operation)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
