"""``.proposals/``: changes that a person is asked about, each one Markdown file that can be edited before it is accepted.

Below a short header stands the memory file as it would be, whole.
"""

import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Self

from agentic_memory.backends import ABSENT, Delete, FileRecord, Move, Put
from agentic_memory.backends.values import ANY
from agentic_memory.document import parse_document, render_document
from agentic_memory.errors import InvalidMemory, MemoryNotFound
from agentic_memory.lines import one_line
from agentic_memory.operations import Create, Forget, Operation, Rewrite, Transaction
from agentic_memory.store import MemoryStore
from agentic_memory.writeback.plans import Plan

FOLDER: Final = ".proposals"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One change that waits for a person.

    Attributes:
        id: Its file name without ``.md``.
        operation, title, reason: What it is, and why.
        made: When.
        file: The memory it changes; empty for a new one.
        version: What that memory was; empty for a new one.
        forgets: Memories that go to the trash with it, and what they were.
        text: The memory file as it would be, all of it; empty when only memories go.
    """

    id: str
    operation: str
    title: str
    reason: str
    made: datetime
    file: str = ""
    version: str = ""
    forgets: Mapping[str, str] = field(default_factory=dict)
    text: str = field(default="", repr=False)

    def render(self) -> bytes:
        """Return the file."""
        header: dict[str, Any] = {
            "operation": self.operation,
            "title": self.title,
            "reason": self.reason,
            "made": self.made.isoformat(),
            "file": self.file,
            "version": self.version,
            "forgets": dict(self.forgets),
        }
        lines = "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items())
        return f"---\n{lines}\n---\n{self.text}".encode("utf-8", "surrogateescape")

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**fields, "made": self.made.isoformat(), "forgets": dict(self.forgets)}

    @classmethod
    def parse(cls, data: bytes, *, id: str) -> Self:  # noqa: A002 - the field's name
        """Read a file back, also after a person edited what stands below its header.

        Raises:
            InvalidMemory: the header is no longer one.
        """
        whole = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
        head, closing, text = whole.removeprefix("---\n").partition("\n---\n")
        try:
            if not closing:
                raise ValueError("its header has no end")
            pairs = (line.partition(": ") for line in head.splitlines() if line.strip())
            fields = {key: json.loads(value) for key, _, value in pairs}
            if not isinstance(fields["forgets"], dict):
                raise TypeError("'forgets' is no mapping")
            made = datetime.fromisoformat(fields.pop("made"))
            return cls(id=id, made=made, text=text, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidMemory(
                f"{FOLDER}/{id}.md cannot be read ({error}): leave its header as it was written, or reject it"
            ) from error

    def operations(self) -> list[Operation]:
        """Return what accepting it does."""
        done: list[Operation] = [Forget(filename=name, expected=version) for name, version in self.forgets.items()]
        data = self.text.encode("utf-8", "surrogateescape")
        if self.file:
            return [Rewrite(filename=self.file, data=data, expected=self.version), *done]
        if not self.text:
            return done
        document = parse_document(data)
        return [
            Create(
                name=document.name or self.title,
                description=document.description,
                type=document.type,
                content=document.body,
            ),
            *done,
        ]


def propose(plan: Plan, *, made: datetime) -> Proposal | None:
    """Make a proposal of the plan of one decision; None when it changes nothing."""
    if not plan.operations or not plan.learned:
        return None
    learned = plan.learned[0]
    proposal = Proposal("", learned.operation, one_line(learned.title), one_line(learned.reason), made)
    for operation in plan.operations:
        match operation:
            case Create():
                text = render_document(
                    name=operation.name,
                    description=operation.description,
                    type=operation.type,
                    content=operation.content,
                )
                proposal = replace(proposal, text=text.decode())
            case Rewrite():
                text = operation.data
                proposal = replace(
                    proposal,
                    file=operation.filename,
                    version=operation.expected or "",
                    text=text.decode("utf-8", "surrogateescape"),
                )
            case Forget():
                forgets = {**proposal.forgets, operation.filename: operation.expected or ""}
                proposal = replace(proposal, forgets=forgets)
    # The same proposal made twice is one file.
    same = replace(proposal, made=datetime.fromtimestamp(0, UTC), reason="").render()
    return replace(proposal, id=sha256(same).hexdigest()[:12])


def put_proposal(proposal: Proposal, *, root: str) -> Put:
    """Return the write that leaves a proposal for a person."""
    return Put(_path(root, proposal.id), proposal.render(), ANY)


async def list_proposals(store: MemoryStore) -> tuple[list[Proposal], list[str]]:
    """Read what waits for a person, the oldest first; and what is wrong with files that cannot be read."""
    tree = await store.backend.snapshot(posixpath.join(await store.root(), FOLDER), suffix=".md")
    found: list[Proposal] = []
    wrong = [f"{FOLDER}/{obstacle.path}: {obstacle.kind}" for obstacle in tree.obstacles]
    for record in tree.files:
        try:
            found.append(Proposal.parse(record.data or b"", id=record.path.removesuffix(".md")))
        except InvalidMemory as error:
            wrong.append(str(error))
    return sorted(found, key=lambda one: (one.made, one.id)), wrong


async def accept(store: MemoryStore, id: str) -> Transaction:  # noqa: A002 - the field's name
    """Carry out a proposal as it stands in its file now, and take it away, in one transaction.

    A memory that changed meanwhile is merged with what is proposed.

    Raises:
        MemoryNotFound: there is no such proposal.
        Conflict: somebody changed the same lines; edit the proposal or reject it.
        InvalidMemory: it cannot be read.
    """
    record, root = await _find(store, id)
    proposal = Proposal.parse(record.data or b"", id=id)
    with store.acting_as(who="person", why=f"accepted: {proposal.title}"):
        return await store.apply(proposal.operations(), also=[Delete(_path(root, id), record.version)])


async def reject(store: MemoryStore, id: str) -> str:  # noqa: A002 - the field's name
    """Move a proposal to the trash and return its place there, relative to the memory directory."""
    record, root = await _find(store, id)
    trashed = f".trash/{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}/{FOLDER.removeprefix('.')}/{id}.md"
    await store.backend.transact([Move(_path(root, id), posixpath.join(root, trashed), record.version)], within=root)
    return trashed


async def _find(store: MemoryStore, id: str) -> tuple[FileRecord, str]:  # noqa: A002 - the field's name
    root = await store.root()
    if not id.isalnum():
        raise MemoryNotFound(f"{id!r} is no proposal: give the name that `proposals` lists")
    record = await store.backend.fetch(_path(root, id), within=root)
    if record is ABSENT:
        raise MemoryNotFound(f"there is no proposal {id!r}: `proposals` lists those there are")
    return record, root


def _path(root: str, id: str) -> str:  # noqa: A002 - the field's name
    return posixpath.join(root, FOLDER, f"{id}.md")


def ids_of(proposals: Sequence[Proposal]) -> tuple[str, ...]:
    """Return where proposals stand, relative to the memory directory."""
    return tuple(f"{FOLDER}/{proposal.id}.md" for proposal in proposals)
