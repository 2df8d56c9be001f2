"""Caches that hold texts of a memory, so that a purge reaches them wherever they are.

A cache registers a function when its module is imported; a purge calls all of them, also for caches that nobody in this
process has opened.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from agentic_memory.backends import Backend

Forget = Callable[[Backend, str, frozenset[str]], Awaitable[Sequence[str]]]
"""Drop what was made of these versions of the memory at that root, and say where: one line for each place."""

_caches: Final[list[Forget]] = []


def register_cache(forget: Forget) -> Forget:
    """Let a purge call ``forget``; also usable as a decorator."""
    _caches.append(forget)
    return forget


async def forget_versions(backend: Backend, root: str, versions: frozenset[str]) -> list[str]:
    """Drop what any cache made of these versions; return where something was dropped."""
    return [line for forget in _caches for line in await forget(backend, root, versions)]
