"""The values that cross the backend seam: what was seen, and what shall change."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import Final, Literal

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Default size up to which a file's bytes are read; a larger one is an obstacle, never half a file."""


class Precondition(Enum):
    """What a writer can demand of a path besides a version."""

    ABSENT = "absent"
    ANY = "any"


ABSENT: Final = Precondition.ABSENT
"""Nothing is at that path. As a precondition: create, and never over anything."""
ANY: Final = Precondition.ANY
"""No precondition: for callers that mean to overwrite whatever is there."""

Absent = Literal[Precondition.ABSENT]
Expected = str | Literal[Precondition.ABSENT, Precondition.ANY]
"""A version (64 hex digits), ABSENT or ANY."""

ObstacleKind = Literal[
    "outside",  # a symlink that leaves the root
    "dangling",  # a symlink to nothing
    "loop",  # a symlink into itself
    "special",  # FIFO, socket, device
    "directory",  # a directory whose name matches the suffix asked for
    "unreadable",  # permission denied, or an I/O error
    "too_large",  # over max_bytes
]


def version_of(data: bytes) -> str:
    """Return the version of ``data``: its SHA-256 as 64 lowercase hex digits."""
    return sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file as it was seen.

    Attributes:
        path: Relative to the snapshot's root with ``/`` between parts; absolute when it came from ``fetch``.
        size: Bytes.
        mtime_ns: Modification time, nanoseconds since 1970; only shown to people, never proof of anything.
        version: SHA-256 of the bytes.
        data: The bytes, or None when the caller said it knows this version.
    """

    path: str
    size: int
    mtime_ns: int
    version: str
    data: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something under the root that was not opened, and why. Never proof that there is no file."""

    path: str
    kind: ObstacleKind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """What one snapshot saw.

    Attributes:
        root: The absolute root that was asked for.
        exists: False when there is no such directory; then both tuples are empty.
        files: Sorted by path.
        obstacles: Sorted by path.
    """

    root: str
    exists: bool
    files: tuple[FileRecord, ...]
    obstacles: tuple[Obstacle, ...] = ()

    def find(self, path: str) -> FileRecord | Obstacle | Absent:
        """Return what is at ``path`` (relative): a file, the obstacle on or above it, or ABSENT."""
        at = bisect_left(self.files, path, key=lambda record: record.path)
        if at < len(self.files) and self.files[at].path == path:
            return self.files[at]
        for obstacle in self.obstacles:
            if path == obstacle.path or path.startswith(f"{obstacle.path}/"):
                return obstacle
        return ABSENT


@dataclass(frozen=True, slots=True)
class Put:
    """Write ``data`` to ``path`` if ``expected`` holds. Missing parent directories are made."""

    path: str
    data: bytes = field(repr=False)
    expected: Expected


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the file at ``path`` if ``expected`` holds. A symlink: the link goes, never its target."""

    path: str
    expected: Expected


@dataclass(frozen=True, slots=True)
class Move:
    """Rename ``source`` to ``target`` if ``expected`` holds for the source and nothing is at the target."""

    source: str
    target: str
    expected: Expected


Change = Put | Delete | Move
Changes = Sequence[Change]
