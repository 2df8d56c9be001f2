"""What can be done to a memory, as values: ``MemoryStore.apply`` carries out any number of them in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentic_memory.values import MemoryFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """A new memory and its line in MEMORY.md.

    Attributes:
        filename: Where, ``Conflict`` when that is taken; made from ``name``, and free, when None.
        fields: More frontmatter fields.
    """

    name: str
    description: str
    type: str
    content: str
    filename: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Some fields or the content of a memory; None: that stays.

    Attributes:
        fields: More frontmatter fields to set.
        expected: The version the change was made from; see ``MemoryStore.update``.
        allow_loss: Let much of the text go, or its name or description.
    """

    filename: str
    name: str | None = None
    description: str | None = None
    type: str | None = None
    content: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    expected: str | None = None
    allow_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """All bytes of a memory file, or of MEMORY.md.

    Attributes:
        expected: The version the new bytes were made from: when the file is another by now, they are merged into it, or
            it is a ``Conflict``. None: these bytes, whatever is there, and also when there is no such file.
        allow_loss: As in ``Update``; of MEMORY.md: let many of its entries go.
    """

    filename: str
    data: bytes = field(repr=False)
    expected: str | None
    allow_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """A memory into the trash, and its line out of MEMORY.md.

    Attributes:
        expected: The only version that may be forgotten; None: whatever is there.
    """

    filename: str
    expected: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """Another file name for a memory, and for its line in MEMORY.md; ``Conflict`` when that name is taken."""

    filename: str
    new_filename: str


Operation = Create | Update | Rewrite | Forget | Rename


def named_by(operation: Operation) -> tuple[str, ...]:
    """Return the file names that an operation gives."""
    if isinstance(operation, Rename):
        return (operation.filename, operation.new_filename)
    return () if operation.filename is None else (operation.filename,)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one operation.

    Attributes:
        filename: Where the memory is now; a forgotten one: its place in the trash (``.trash/<time>/<file name>``).
        file: The memory, or MEMORY.md; None when the transaction left none there.
    """

    operation: Operation
    filename: str
    file: MemoryFile | None


@dataclass(frozen=True, slots=True)
class Transaction:
    """Operations that were carried out together.

    Attributes:
        id: What ``MemoryStore.undo`` takes, and what the history calls them by; None when every memory is what it was, as when one came and went.
        outcomes: One for each operation, in order.
    """

    id: str | None
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Reversal:
    """What was undone.

    Attributes:
        id: The transaction that did it, which can be undone alike; None when everything was so already.
        filenames: What it changed.
        unknown: Files that were left as they are because nobody knows what they were then.
    """

    id: str | None
    filenames: tuple[str, ...]
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trashed:
    """A memory in the trash.

    Attributes:
        filename: What it was called.
        place: Where it is, relative to the memory directory.
        when: When it was forgotten, as its place tells: ``20261130T010203.000004Z``.
        version: SHA-256 of its bytes.
        size: Bytes.
    """

    filename: str
    place: str
    when: str
    version: str
    size: int
