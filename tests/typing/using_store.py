"""The store and its values, from a program without an agent."""

import json
from datetime import datetime

from agentic_memory import (
    AgenticMemoryError,
    BackendUnavailable,
    Conflict,
    InvalidMemory,
    Match,
    MemoryFile,
    MemoryStore,
    Problem,
    UnsafePath,
)
from agentic_memory.backends import InMemoryBackend, LocalBackend, adapt
from agentic_memory.history.purging import Purged
from agentic_memory.history.retention import Retention
from agentic_memory.history.tidying import Usage
from agentic_memory.operations import Create, Forget, Reversal, Transaction


async def keep_a_preference() -> str:
    async with MemoryStore(workdir="~/notes", backend=LocalBackend()) as store:
        file: MemoryFile = await store.add(
            name="Answer style", description="When you phrase an answer", type="user", content="Short, in Chinese."
        )
        file = await store.update(file.filename, content="Very short, in Chinese.", expected=file.version)
        matches: list[Match] = await store.search("chinese", limit=3)
        problems: list[Problem] = await store.check()
        where: str = await store.forget(file.filename)
    return json.dumps([where, [match.as_dict() for match in matches], [problem.as_dict() for problem in problems]])


async def change(store: MemoryStore, filename: str, content: str) -> bytes | None:
    file = await store.get(filename)
    try:
        await store.update(filename, content=content, expected=file.version)
    except Conflict as conflict:
        return conflict.current
    except (InvalidMemory, UnsafePath) as error:
        raise ValueError(error) from error
    except (BackendUnavailable, AgenticMemoryError):
        return None
    return content.encode()


async def sort_out(store: MemoryStore, when: datetime) -> tuple[str, ...]:
    with store.acting_as(who="consolidation", why="sorted out"):
        done: Transaction = await store.apply(
            [Create(name="A", description="d", type="user", content="x"), Forget(filename="b.md")]
        )
    if done.id is not None:
        undone: Reversal = await store.undo(done.id)
        await store.restore_all(when, why=f"after {undone.id}")
    purged: Purged = await store.purge("b.md")
    usage: Usage = await store.usage()
    return (*purged.removed, f"{usage.bytes} bytes")


def stores() -> list[MemoryStore]:
    return [
        MemoryStore(workdir="/m", history=(LocalBackend(), "/var/history"), retention=Retention(max_age_days=365)),
        MemoryStore(workdir="/m", history=InMemoryBackend()),
        MemoryStore(workdir="/m"),
        MemoryStore(workdir="/m", memory_dir="Notes", backend=InMemoryBackend()),
        MemoryStore(workdir="/m", backend=adapt(LocalBackend())),
    ]


def wrong(file: MemoryFile) -> None:
    file.content = "values do not change"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
