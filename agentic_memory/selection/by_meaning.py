"""``HybridSelector``: words and vectors decide together."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio.to_thread
from agentscope.embedding import EmbeddingModelBase

from agentic_memory.selection.by_words import break_ties
from agentic_memory.selection.embedding import Embedder, EmbeddingFailed, Scale
from agentic_memory.selection.fusion import POOL, fuse, relevant_words
from agentic_memory.selection.lexical import Hit, stands_out
from agentic_memory.selection.nearness import NearnessIndex
from agentic_memory.selection.selector import Request, Selection
from agentic_memory.selection.vectors import Vector

if TYPE_CHECKING:
    from agentic_memory.document import Document

logger = logging.getLogger("agentic_memory")

T = TypeVar("T")

SMALL_BACKLOG: Final = 64
"""Passages without vectors that a question may wait for; for more it does not even begin to."""


@dataclass(slots=True)
class _Kept:
    """What is kept of one memory and one model between questions."""

    index: NearnessIndex = field(default_factory=NearnessIndex)
    backlog: "asyncio.Task[None] | None" = None


@dataclass(frozen=True, slots=True)
class _Question:
    """A question as a vector, and the scale of its model."""

    vector: Vector
    scale: Scale


class HybridSelector:
    """Chooses by words and by meaning: a question in other words than the file's, or in another language, finds it too.

    Vectors are made beside the replies. While they are missing, or when the model fails, words decide alone, and the
    selection says so.

    Args:
        model: Any AgentScope embedding model that takes text; ``LocalEmbeddingModel`` needs no network.
        folder: Where vectors are kept, outside of any memory; in the user's cache directory when None.
    """

    def __init__(self, model: EmbeddingModelBase[Any], *, folder: Path | None = None) -> None:
        self._embedder = Embedder(model, folder=folder)
        self._late: set[asyncio.Task[Any]] = set()
        self._asking: dict[str, asyncio.Task[_Question]] = {}

    async def select(self, request: Request) -> Selection:
        """Return what is relevant by words or by meaning, best first."""
        deadline = time.monotonic() + request.patience
        kept = self._kept(request)
        ranked, missing = await asyncio.gather(
            anyio.to_thread.run_sync(lambda: request.words().rank(request.query, limit=max(POOL, request.limit))),
            anyio.to_thread.run_sync(self._catch_up, kept.index, request.documents),
        )
        words = [hit for hit in ranked if hit.filename in request.documents]
        failed: list[tuple[str, Exception]] = []
        question: _Question | None = None
        try:
            question = await self._in_time(self._asked(request.query), deadline)
            if missing:
                missing = await self._wait_for(kept, missing, request, deadline)
        except EmbeddingFailed as error:
            failed.append(("embed", error))
        except TimeoutError:
            if missing:  # a process that lives for one question only would never get to it
                self._begin(kept, missing)
            failed.append(("embed", TimeoutError(f"no vector of the question within {request.patience:g} s")))
        answer = relevant_words(words, request.limit)
        if question is None or not kept.index:
            hits = break_ties(answer, request)
            return Selection(tuple(hits), clear=stands_out(hits), failed=tuple(failed), waiting=len(missing))
        hits = break_ties(await self._fuse(request, words, question, kept.index), request)
        clear = stands_out(answer) and hits[0].filename == answer[0].filename
        return Selection(tuple(hits), by="hybrid", clear=clear, failed=tuple(failed), waiting=len(missing))

    async def embed(self, request: Request, progress: Callable[[int, int], None] | None = None) -> None:
        """Make all vectors that are missing, and wait for them.

        Args:
            request: Whose ``documents`` are meant.
            progress: Called with how many passages are done, of how many, after each call of the model.

        Raises:
            EmbeddingFailed: some could not be made; all others are there.
        """
        kept = self._kept(request)
        missing = await anyio.to_thread.run_sync(self._catch_up, kept.index, request.documents)
        done = 0

        def take(vectors: Mapping[str, Vector]) -> None:
            nonlocal done
            kept.index.put(vectors)
            done += len(vectors)
            if progress is not None:
                progress(done, len(missing))

        await self._embedder.embed_all(missing, take)

    async def aclose(self) -> None:
        """Stop what is still being embedded; what is done is kept."""
        here = asyncio.get_running_loop()
        running = [task for task in self._late if task.get_loop() is here]  # those of another loop ended with it
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _fuse(self, request: Request, words: list[Hit], question: _Question, index: NearnessIndex) -> list[Hit]:
        return await anyio.to_thread.run_sync(
            lambda: fuse(
                request.documents, words, question.vector, scale=question.scale, index=index, limit=request.limit
            )
        )

    def _kept(self, request: Request) -> _Kept:
        kept: _Kept = request.kept.setdefault(f"vectors of {self._embedder.model_id}", _Kept())
        return kept

    def _catch_up(self, index: NearnessIndex, documents: Mapping[str, tuple[Any, "Document"]]) -> list[str]:
        """Bring the index up to date as far as vectors are known, and return the texts that still need one."""
        missing = index.update(documents)
        if missing and (known := self._embedder.recall(missing)):
            index.put(known)
            missing = [text for text in missing if text not in known]
        return missing

    def _asked(self, query: str) -> "asyncio.Task[_Question]":
        """Return the work on a question's vector: that of the same question under way in this event loop, if there is one."""
        task = self._asking.get(query)
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._asking[query] = self._start(self._ask(query))
            task.add_done_callback(lambda done: self._asking.pop(query) if self._asking.get(query) is done else None)
        return task

    async def _ask(self, query: str) -> _Question:
        return _Question(await self._embedder.embed_question(query), await self._embedder.scale())

    async def _wait_for(self, kept: _Kept, missing: list[str], request: Request, deadline: float) -> list[str]:
        """See that the missing vectors are being made; wait for a few, and return the texts still without one."""
        backlog = self._begin(kept, missing)
        if len(missing) <= SMALL_BACKLOG:
            await asyncio.wait({backlog}, timeout=max(0.0, deadline - time.monotonic()))
            missing = await anyio.to_thread.run_sync(kept.index.update, request.documents)
            if backlog.done() and not backlog.cancelled() and (error := backlog.exception()) is not None:
                raise error
        return missing

    def _begin(self, kept: _Kept, missing: list[str]) -> "asyncio.Task[None]":
        """Return the work on the backlog that is under way in this event loop, begun now if it was not."""
        if kept.backlog is None or kept.backlog.done() or kept.backlog.get_loop() is not asyncio.get_running_loop():
            kept.backlog = self._start(self._embedder.embed_all(missing, kept.index.put))
        return kept.backlog

    async def _in_time(self, task: "asyncio.Task[T]", deadline: float) -> T:
        """Wait for a task until the deadline; it goes on afterwards, so that the next question finds it done."""
        await asyncio.wait({task}, timeout=max(0.0, deadline - time.monotonic()))
        if not task.done():
            raise TimeoutError
        return task.result()

    def _start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._late.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: "asyncio.Task[Any]") -> None:
        self._late.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("memory: not all vectors could be made, they are tried again: %s", error)
