"""The searching part of a store: which files answer a question, by words and by meaning."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio.to_thread
from agentscope.embedding import EmbeddingModelBase

from agentic_memory.selection.by_meaning import HybridSelector
from agentic_memory.selection.by_words import LexicalSelector
from agentic_memory.selection.lexical import Hit
from agentic_memory.selection.relations import with_neighbour
from agentic_memory.selection.selector import Request, Selection
from agentic_memory.shelf import Snapshot, as_matches, shelf_for
from agentic_memory.store_base import StoreBase
from agentic_memory.values import Match

SEARCH_SECONDS: Final = 10.0
"""How long a search waits for an embedding model; then words decide alone."""


class StoreSearching(StoreBase):
    """Searching a memory. See ``MemoryStore``."""

    def __init__(self, *, embedding_model: EmbeddingModelBase[Any] | None = None, **place: Any) -> None:
        super().__init__(**place)
        self._hybrid = None if embedding_model is None else HybridSelector(embedding_model)

    async def search(self, query: str, *, limit: int = 5) -> list[Match]:
        """Find memories by words, and by meaning with an embedding model, best first. Nothing relevant is an empty list."""
        if limit < 1 or not query.strip():
            return []
        snapshot = await self.load()
        hits = await self.rank(snapshot, query, limit=limit)
        return as_matches(snapshot, [hit for hit in hits if hit.filename in snapshot.documents], query)

    async def rank(self, snapshot: Snapshot, query: str, *, limit: int) -> list[Hit]:
        """Rank the files of a snapshot, off the event loop."""
        return [*(await self.select(snapshot, query, limit=limit, patience=SEARCH_SECONDS)).hits]

    async def select(self, snapshot: Snapshot, query: str, *, limit: int, patience: float) -> Selection:
        """Rank the files of a snapshot and tell how it went. For vectors it waits at most ``patience`` seconds.

        A file that the first one links to and needs comes with it.
        """
        selector = self._hybrid or LexicalSelector()
        found = await selector.select(self.request(snapshot, query, limit=limit, patience=patience))
        hits = await anyio.to_thread.run_sync(with_neighbour, snapshot.documents, found.hits, query)
        return replace(found, hits=tuple(hits[:limit]))

    def request(self, snapshot: Snapshot, query: str, *, limit: int, patience: float) -> Request:
        """Put together what a selector is asked about the files of a snapshot."""
        shelf = self._shelf or shelf_for(self._backend.cache_key, snapshot.root)
        return Request(
            query=query,
            limit=limit,
            documents=snapshot.documents,
            words=lambda: shelf.index_for_search(snapshot),
            kept=shelf.kept,
            patience=patience,
            uses=shelf.uses.counts,
        )

    async def uses(self) -> dict[str, int]:
        """Return how often each memory was shown to an agent on this machine, as far as this process knows."""
        return dict((await self._uses_here()).counts)

    async def note_use(self, filenames: Sequence[str]) -> None:
        """Count memories as shown to an agent once more. No round trip; where it cannot be kept it is left out."""
        if filenames:
            uses = (await self._shelf_here()).uses
            if uses.lasting:
                await anyio.to_thread.run_sync(uses.note, filenames)
            else:
                uses.note(filenames)

    async def _forget_use(self, filename: str) -> bool:
        return await anyio.to_thread.run_sync((await self._shelf_here()).uses.forget, filename)

    async def embed(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Make the vectors of all files now, instead of beside the next searches; nothing without an embedding model.

        Args:
            progress: Called with how many passages are done, of how many.

        Raises:
            EmbeddingFailed: some could not be made; all others are kept.
            BackendUnavailable: it cannot be told what files there are.
        """
        if self._hybrid is not None:
            await self._hybrid.embed(self.request(await self._look(), "", limit=0, patience=0.0), progress)

    async def aclose(self) -> None:
        """Release what the store holds. The backend belongs to whoever made it."""
        if self._hybrid is not None:
            await self._hybrid.aclose()
