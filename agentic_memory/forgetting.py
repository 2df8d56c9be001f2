"""Caches that hold what was made of a memory's texts, so that a purge reaches them wherever they are.

A cache registers a function when its module is imported; a purge calls all of them, also for caches that nobody in this
process has opened.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import anyio.to_thread

from agentic_memory.backends import Backend
from agentic_memory.document import parse_document

Forget = Callable[[Backend, str, Mapping[str, bytes]], Awaitable[Sequence[str]]]
"""Drop what was made of these versions, given with their bytes, of the memory at that root; say where, a line each."""

_caches: Final[list[Forget]] = []


def register_cache(forget: Forget) -> Forget:
    """Let a purge call ``forget``; also usable as a decorator."""
    _caches.append(forget)
    return forget


async def forget_versions(backend: Backend, root: str, texts: Mapping[str, bytes]) -> list[str]:
    """Drop what any cache made of these versions; return where something was dropped."""
    return [line for forget in _caches for line in await forget(backend, root, texts)]


@register_cache
async def forget_vectors(_backend: Backend, _root: str, texts: Mapping[str, bytes]) -> list[str]:
    """Remove the vectors of the texts from the files of embedding models in the user's cache directory."""

    def work() -> int:
        from agentic_memory.selection.vectors import forget_texts
        from agentic_memory.selection.windows import split_windows

        documents = map(parse_document, texts.values())
        return forget_texts({window.text for document in documents for window in split_windows(document)})

    gone = await anyio.to_thread.run_sync(work)
    return [f"files of vectors: {gone} vectors"] if gone else []
