"""Texts to vectors by any AgentScope embedding model: in batches, beside the replies, and never counted as done before."""

import logging
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import numpy as np
from agentscope.embedding import EmbeddingModelBase

from agentic_memory.credentials import redact
from agentic_memory.errors import AgenticMemoryError
from agentic_memory.prompts import load_prompt
from agentic_memory.selection.vectors import Vector, VectorCache, as_stored, default_folder

logger = logging.getLogger("agentic_memory")

MAX_BATCH: Final = 64
"""Texts per call, also when the model would take more: what a call gave is safe before the next begins."""
MAX_FAILURES: Final = 4
"""Calls in a row that may fail before the rest of a backlog is left for later."""
REFUSED_SECONDS: Final = 600.0
"""How long a text that the model did not take by itself is left alone."""
RETRY_SECONDS: Final = 30.0
"""How long a model that failed is left alone; until then words alone decide."""
KEPT_QUESTIONS: Final = 256


class EmbeddingFailed(AgenticMemoryError):
    """An embedding model failed, or did not answer with one vector per text."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What cosines of texts that have nothing to do with each other are, for one model: their mean and spread.

    Cosines mean something else with every model. Measured on this scale they can be compared with one threshold.
    """

    mean: float
    spread: float

    def measure(self, cosines: Vector) -> Vector:
        """Return how many spreads above the mean."""
        return (cosines - self.mean) / self.spread


class Embedder:
    """One embedding model, and on disk what it said before.

    Args:
        model: Any AgentScope embedding model that takes text.
        folder: Where vectors are kept; in the user's cache directory when None.
    """

    def __init__(self, model: EmbeddingModelBase[Any], *, folder: Path | None = None) -> None:
        place = getattr(model.credential, "base_url", None) or ""
        settings = model.parameters.model_dump_json()
        self.model_id = f"{type(model).__qualname__} {model.model} {model.dimensions} {settings} {place}"
        self._model = model
        self._cache = VectorCache(self.model_id, folder or default_folder())
        self._batch = max(1, min(MAX_BATCH, model.batch_size))
        self._questions: OrderedDict[str, Vector] = OrderedDict()
        self._scale: Scale | None = None
        self._refused: dict[str, float] = {}
        self._failed_at = -math.inf
        self._failure: Exception | None = None

    def recall(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Return what the cache has of ``texts``. Blocking; for a worker thread."""
        return self._cache.get(texts)

    async def embed_question(self, text: str) -> Vector:
        """Return the vector of a question. It is kept in memory only: questions are nobody's memory.

        Raises:
            EmbeddingFailed: the model failed, now or a moment ago.
        """
        if text in self._questions:
            self._questions.move_to_end(text)
        else:
            self._questions |= await self._ask([text])
            while len(self._questions) > KEPT_QUESTIONS:
                self._questions.popitem(last=False)
        return self._questions[text]

    async def scale(self) -> Scale:
        """Return the model's scale, from a few sentences that have nothing to do with each other.

        Raises:
            EmbeddingFailed: the model failed.
        """
        if self._scale is None:
            probes = load_prompt("embedding_probes").splitlines()
            known = await anyio.to_thread.run_sync(self.recall, probes)
            if len(known) < len(probes):
                known = await self._ask(probes)
                await anyio.to_thread.run_sync(self._cache.put, known)
            matrix = np.stack([known[probe] for probe in probes])
            pairs = (matrix @ matrix.T)[np.triu_indices(len(probes), 1)]
            self._scale = Scale(float(pairs.mean()), max(float(pairs.std()), 1e-6))
        return self._scale

    async def embed_all(self, texts: Sequence[str], done: Callable[[Mapping[str, Vector]], None]) -> None:
        """Embed a backlog call by call; what each gives is on disk, and given to ``done``, before the next begins.

        ``done`` runs in a worker thread. Of a call that fails the texts are asked for again in halves, after the others,
        until the ones to blame are alone.

        Raises:
            EmbeddingFailed: at least one call failed. The texts of all others are done.
        """
        now = time.monotonic()
        wanted = [text for text in texts if now - self._refused.get(text, -math.inf) > REFUSED_SECONDS]
        batches = deque(wanted[at : at + self._batch] for at in range(0, len(wanted), self._batch))
        failure: EmbeddingFailed | None = None
        in_a_row = finished = 0
        while batches and in_a_row < MAX_FAILURES:
            batch = batches.popleft()
            try:
                vectors = await self._ask(batch)
            except EmbeddingFailed as error:
                failure, in_a_row = error, in_a_row + 1
                if in_a_row < MAX_FAILURES:
                    self._failed_at = -math.inf  # the next call decides whether it was the texts or the model
                half = len(batch) // 2
                if half:
                    batches += batch[:half], batch[half:]
                else:
                    self._refused[batch[0]] = time.monotonic()
                continue
            in_a_row = 0
            await anyio.to_thread.run_sync(self._cache.put, vectors)
            await anyio.to_thread.run_sync(done, vectors)
            finished += len(batch)
            logger.info("memory: embedded %d of %d passages", finished, len(wanted))
        if failure is not None:
            raise failure

    async def _ask(self, texts: Sequence[str]) -> dict[str, Vector]:
        if time.monotonic() - self._failed_at < RETRY_SECONDS:
            raise EmbeddingFailed(f"{self._model.model} failed a moment ago: {self._failure}") from self._failure
        try:
            response = await self._model([redact(text) for text in texts])  # it may be somebody else's machine
            if len(response.embeddings) != len(texts):
                raise ValueError(f"{len(response.embeddings)} vectors for {len(texts)} texts")
            return {text: as_stored(vector) for text, vector in zip(texts, response.embeddings, strict=True)}
        except Exception as error:
            self._failed_at, self._failure = time.monotonic(), error
            raise EmbeddingFailed(f"{self._model.model}: {str(error) or type(error).__name__}") from error
