"""Where bytes live: one seam, and the places that keep its promises."""

from agentic_memory.backends.adapt import adapt
from agentic_memory.backends.base import Backend
from agentic_memory.backends.docker import DockerBackend
from agentic_memory.backends.e2b import E2BBackend
from agentic_memory.backends.local import LocalBackend
from agentic_memory.backends.memory import InMemoryBackend
from agentic_memory.backends.values import (
    ABSENT,
    ANY,
    Change,
    Delete,
    FileRecord,
    Move,
    Obstacle,
    Put,
    Tree,
    version_of,
)

__all__ = [
    "ABSENT",
    "ANY",
    "Backend",
    "Change",
    "Delete",
    "DockerBackend",
    "E2BBackend",
    "FileRecord",
    "InMemoryBackend",
    "LocalBackend",
    "Move",
    "Obstacle",
    "Put",
    "Tree",
    "adapt",
    "version_of",
]
