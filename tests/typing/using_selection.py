"""A selector of a user's own, and an embedding model, as the type checkers see them. Nobody runs this."""

from agentic_memory import AgenticMemoryMiddleware, MemoryStore
from agentic_memory.selection import (
    Hit,
    HybridSelector,
    LexicalSelector,
    LocalEmbeddingModel,
    ModelSelector,
    Request,
    Selection,
    Selector,
)


class Pinned:
    """Puts one file before what the words find."""

    async def select(self, request: Request) -> Selection:
        found = await LexicalSelector().select(request)
        first = Hit("rules.md", 1.0, 1.0, 1, "") if "rules.md" in request.documents else None
        hits = found.hits if first is None else (first, *found.hits)
        return Selection(hits[: request.limit], by="pinned")


mine: Selector = Pinned()
others: list[Selector] = [
    LexicalSelector(),
    HybridSelector(LocalEmbeddingModel()),
    ModelSelector(first=HybridSelector(LocalEmbeddingModel())),
]
memory = AgenticMemoryMiddleware(workdir=".", selector=mine, embedding_model=LocalEmbeddingModel())
store = MemoryStore(workdir=".", embedding_model=LocalEmbeddingModel())


async def prepare() -> None:
    await store.embed(print)
