"""Long-term memory for agents: Markdown an agent writes, a person edits, and no sandbox can lose.

Names are imported when they are first used: importing AgentScope takes about two seconds, which
``agentic-memory --help`` and ``import agentic_memory.errors`` need not spend.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, Final

from agentic_memory.errors import (
    AgenticMemoryError,
    BackendUnavailable,
    Conflict,
    InvalidMemory,
    MemoryNotFound,
    MissingIdentity,
    UnsafePath,
    WriteRefused,
)
from agentic_memory.scopes import Identity
from agentic_memory.values import Match, MemoryFile, Problem, Repair

if TYPE_CHECKING:
    from agentic_memory.facade.memory import Memory
    from agentic_memory.guards import WritePolicy
    from agentic_memory.history.entries import Version
    from agentic_memory.middleware import AgenticMemoryMiddleware
    from agentic_memory.places import Layer
    from agentic_memory.receipt import Receipt
    from agentic_memory.shelf import Snapshot
    from agentic_memory.store import MemoryStore

_HOMES: Final = {
    "AgenticMemoryMiddleware": "agentic_memory.middleware",
    "Layer": "agentic_memory.places",
    "Memory": "agentic_memory.facade.memory",
    "MemoryStore": "agentic_memory.store",
    "Receipt": "agentic_memory.receipt",
    "Snapshot": "agentic_memory.shelf",
    "Version": "agentic_memory.history.entries",
    "WritePolicy": "agentic_memory.guards",
}

__all__ = [
    "AgenticMemoryError",
    "AgenticMemoryMiddleware",
    "BackendUnavailable",
    "Conflict",
    "Identity",
    "InvalidMemory",
    "Layer",
    "Match",
    "Memory",
    "MemoryFile",
    "MemoryNotFound",
    "MemoryStore",
    "MissingIdentity",
    "Problem",
    "Receipt",
    "Repair",
    "Snapshot",
    "UnsafePath",
    "Version",
    "WritePolicy",
    "WriteRefused",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    if name == "__version__":
        return metadata.version("agentic-memory")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
