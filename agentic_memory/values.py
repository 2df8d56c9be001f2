"""The values a memory is made of, as its users see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the memory that a person should look at. It never stops the rest from working.

    Attributes:
        code: Stable and kebab-case (``frontmatter-not-yaml``), for programs.
        file: Path relative to the memory directory.
        line: 1-based; None when it concerns the file as a whole.
        message: What is wrong, for people.
        fix: What to do about it.
        severity: ``error``: something is lost to the agent; ``warning``: something is worse than it could be;
            ``info``: worth knowing.
    """

    code: str
    file: str
    line: int | None
    message: str
    fix: str
    severity: Severity = "warning"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "code": self.code,
            "file": self.file,
            "line": self.line,
            "message": self.message,
            "fix": self.fix,
            "severity": self.severity,
        }


@dataclass(frozen=True, slots=True)
class Objection:
    """Why something must not be written.

    Attributes:
        code: Stable and kebab-case (``text-lost``), for programs.
        message: What is wrong and what to do instead, in words a model can act on.
        confirmable: Whether a person may let it be written all the same.
    """

    code: str
    message: str
    confirmable: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """What ``MemoryStore.repair`` did, or would do.

    Attributes:
        changes: The files that change, with their new bytes.
        diff: The whole change as a unified diff.
        mended: The problems that go away by it.
        left: Those that need a person.
        transaction: What ``MemoryStore.undo`` takes; None: nothing was written.
    """

    changes: Mapping[str, bytes] = field(repr=False)
    diff: str = field(repr=False)
    mended: tuple[Problem, ...]
    left: tuple[Problem, ...]
    transaction: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form; of the changes, the names."""
        return {
            "transaction": self.transaction,
            "changes": list(self.changes),
            "diff": self.diff,
            "mended": [problem.as_dict() for problem in self.mended],
            "left": [problem.as_dict() for problem in self.left],
        }


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One memory.

    Attributes:
        filename: Path relative to the memory directory, ``/`` between parts.
        name, description, type: Frontmatter fields as strings; empty when absent.
        content: The text after the frontmatter.
        version: SHA-256 of the file's bytes: what ``update(expected=)`` takes.
        size: Bytes.
        mtime_ns: Modification time as the backend tells it; for people, never for decisions.
        fields: Every top-level frontmatter field as a string.
        problems: What is wrong with this file.
    """

    filename: str
    name: str
    description: str
    type: str
    content: str = field(repr=False)
    version: str
    size: int
    mtime_ns: int
    fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    problems: tuple[Problem, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "filename": self.filename,
            "name": self.name,
            "description": self.description,
            "type": self.type,
            "content": self.content,
            "version": self.version,
            "size": self.size,
            "mtime_ns": self.mtime_ns,
            "fields": dict(self.fields),
            "problems": [problem.as_dict() for problem in self.problems],
        }


@dataclass(frozen=True, slots=True)
class Match:
    """One search result.

    Attributes:
        filename: Path relative to the memory directory.
        score: Higher is better; comparable within one search only.
        passage: The part of the file that matched best.
        line: 1-based line of the file where the passage starts.
        name, description, type: As in ``MemoryFile``.
        because: Why it is here when not for its own words: ``linked from a.md``, ``supersedes b.md``.
    """

    filename: str
    score: float
    passage: str
    line: int
    name: str = ""
    description: str = ""
    type: str = ""
    because: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "filename": self.filename,
            "score": self.score,
            "passage": self.passage,
            "line": self.line,
            "name": self.name,
            "description": self.description,
            "type": self.type,
            "because": self.because,
        }
