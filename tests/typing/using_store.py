"""The store and its values, from a program without an agent."""

import json

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


def stores() -> list[MemoryStore]:
    return [
        MemoryStore(workdir="/m"),
        MemoryStore(workdir="/m", memory_dir="Notes", backend=InMemoryBackend()),
        MemoryStore(workdir="/m", backend=adapt(LocalBackend())),
    ]


def wrong(file: MemoryFile) -> None:
    file.content = "values do not change"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
