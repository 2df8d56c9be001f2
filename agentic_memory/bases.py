"""The texts that writers started from, by version: what a merge needs to tell who changed what.

An agent's record of what it has read holds versions, which survive in a saved session; the bytes are kept here, for the
process, as far as there is room. A version proves its bytes, so it does not matter who remembered them, or for which
file. What is not found is no error: without a base a newer file is refused, not merged.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from threading import Lock
from typing import Final

from agentic_memory.backends import version_of
from agentic_memory.errors import AgenticMemoryError

MAX_BASES_BYTES: Final = 64 * 1024 * 1024
"""Bytes kept in one process; beyond it what was used longest ago is dropped."""

BaseSource = Callable[[str], Awaitable[bytes | None]]
"""Another place to look for the bytes of a version: a history, say. None when it has them not."""

# Process-wide on purpose: an agent service builds new tools for every turn, and so does a store's next reader.
_bases: OrderedDict[str, bytes] = OrderedDict()
_lock = Lock()
_held_bytes = 0


def remember_base(data: bytes, *, version: str | None = None) -> str:
    """Keep ``data`` as a text that somebody may build on, and return its version.

    Args:
        data: The whole file.
        version: Its version, where the caller has just been told it by a backend; computed when None.
    """
    global _held_bytes
    version = version_of(data) if version is None else version
    if len(data) > MAX_BASES_BYTES:
        return version
    with _lock:
        if version not in _bases:
            _held_bytes += len(data)
        _bases[version] = data
        _bases.move_to_end(version)
        while _held_bytes > MAX_BASES_BYTES:
            _held_bytes -= len(_bases.popitem(last=False)[1])
    return version


def base_of(version: str) -> bytes | None:
    """Return the bytes of ``version`` if they are still kept."""
    with _lock:
        data = _bases.get(version)
        if data is not None:
            _bases.move_to_end(version)
        return data


def forget_base(version: str) -> None:
    """Drop the bytes of ``version``, for a text that nobody may find any more."""
    global _held_bytes
    with _lock:
        _held_bytes -= len(_bases.pop(version, b""))


async def find_base(version: str, *, elsewhere: BaseSource | None = None) -> bytes | None:
    """Return the bytes of ``version`` from here or ``elsewhere``; None when they are in neither.

    An ``elsewhere`` that fails, or answers with other bytes, counts as not having them: a merge is a convenience, and
    what it falls back to loses nothing.
    """
    data = base_of(version)
    if data is not None or elsewhere is None:
        return data
    try:
        data = await elsewhere(version)
    except (AgenticMemoryError, OSError):
        return None
    return data if data is not None and version_of(data) == version else None
