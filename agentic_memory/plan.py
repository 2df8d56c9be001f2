"""A change of a memory that was thought out on one snapshot: what to write, and the index that goes with it."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from agentic_memory.backends import ABSENT, Change, Delete, Move, Obstacle, Put
from agentic_memory.backends.values import Absent, version_of
from agentic_memory.document import Document
from agentic_memory.errors import BackendUnavailable, WriteRefused
from agentic_memory.guards import WritePolicy, refuse_objections
from agentic_memory.index import change_entry, is_own_hook
from agentic_memory.shelf import INDEX_FILENAME, Snapshot, obstacle_problem


@dataclass(frozen=True, slots=True)
class Plan:
    """One change of files and the index that goes with it.

    Attributes:
        filename: The memory it is about.
        writes: (file name, bytes, what must be there now) of each file written.
        index: MEMORY.md as text, as it shall be.
        why: What is done, for the history.
        move: (from, to, version) of a file that is moved.
        removal: (file name, version) of a file that is taken away, or of the symlink that shows it.
        index_bytes: MEMORY.md as bytes; made of ``index`` in the present encoding when None.
        policy: What the guards let pass; None for what needs no guard: a person's edit, or an old version.
    """

    filename: str
    writes: Sequence[tuple[str, bytes, str | Absent]]
    index: str
    why: str
    move: tuple[str, str, str] | None = None
    removal: tuple[str, str] | None = None
    index_bytes: bytes | None = None
    policy: WritePolicy | None = None


class Refused(Exception):
    """A plan that must not be made anew: the caller's own precondition does not hold."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def refuse_harm(plan: Plan, snapshot: Snapshot) -> None:
    """Raise ``Refused`` when a guard objects to what ``plan`` writes; the lines of the index are our own."""
    if plan.policy is None:
        return
    try:
        for filename, data, _ in plan.writes:
            held = snapshot.documents.get(filename)
            before = None if held is None else held[1].encode(held[1].text)
            refuse_objections(filename, before, data, policy=plan.policy)
    except WriteRefused as refusal:
        raise Refused(refusal) from refusal


def changes_of(plan: Plan, snapshot: Snapshot) -> list[Change]:
    """Return what ``plan`` changes of ``snapshot``, each with the demand that it still is what was seen.

    Raises:
        BackendUnavailable: the index would have to be changed, and what is in its place cannot be opened.
    """

    def absolute(filename: str) -> str:
        return posixpath.join(snapshot.root, filename)

    changes: list[Change] = [
        Put(absolute(name), data, expected)
        for name, data, expected in plan.writes
        if expected is ABSENT or version_of(data) != expected
    ]
    if plan.move is not None:
        source, target, version = plan.move
        changes.append(Move(absolute(source), absolute(target), version))
    if plan.removal is not None:
        changes.append(Delete(absolute(plan.removal[0]), plan.removal[1]))
    if plan.index == snapshot.index_document.text and plan.index_bytes is None:
        return changes
    record = snapshot.index_record
    if isinstance(record, Obstacle):
        raise BackendUnavailable(
            f"{absolute(INDEX_FILENAME)}: {obstacle_problem(record).message}; "
            f"the index cannot be changed, so nothing was. To mend it: {obstacle_problem(record).fix}"
        )
    data = snapshot.index_document.encode(plan.index) if plan.index_bytes is None else plan.index_bytes
    expected = ABSENT if record is ABSENT else record.version
    if expected is ABSENT or version_of(data) != expected:
        changes.append(Put(absolute(INDEX_FILENAME), data, expected))
    return changes


def follow_in_index(
    snapshot: Snapshot, filename: str, old: Document, *, name: str | None, description: str | None
) -> str:
    """Return the index text with a file's line following its new name and description; None: that one stays.

    A title or hook that a person worded otherwise than the file did is theirs and stays.
    """
    text = snapshot.index_document.text
    entry = snapshot.index.find(filename)
    if entry is None:
        return text
    return change_entry(
        text,
        filename,
        title=name if entry.title == old.name else None,
        hook=description if is_own_hook(entry, old.description) else None,
    )
