"""An embedding model whose vectors a test can foresee: words that mean the same have the same direction.

``tests/`` is on pytest's path: ``from concepts import ConceptModel``.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from agentscope.credential import CredentialBase
from agentscope.embedding import EmbeddingModelBase, EmbeddingResponse

DIMENSIONS = 1_024
IDLE = frozenset("the a an is are my our her his of in on at to and i who where what may has never once".split())
SAME = {"automobile": "car", "vehicle": "car", "physician": "doctor", "茶": "tea", "toddler": "child", "kids": "child"}


class ConceptModel(EmbeddingModelBase[str]):
    """A real AgentScope embedding model around a bag of words.

    Args:
        refuse: Tells of a batch whether the call fails.
        answer: Makes the answer of a batch, in place of the right one.
        name: Vectors of one name are not those of another.
        batch_size: Texts per call.
    """

    def __init__(
        self,
        *,
        refuse: Callable[[list[str]], bool] = lambda _: False,
        answer: Callable[[list[str]], list[list[float]]] | None = None,
        same: Mapping[str, str] = SAME,
        name: str = "concepts",
        batch_size: int = 8,
    ) -> None:
        super().__init__(CredentialBase(), name, DIMENSIONS, None, 1_000, batch_size, 0, 0.0)
        self.refuse = refuse
        self.answer = answer
        self.same = same
        self.asked: list[str] = []
        self.calls = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def _call_api(self, inputs: list[str], **kwargs: Any) -> EmbeddingResponse:
        self.calls += 1
        await self.gate.wait()
        if self.refuse(inputs):
            raise ConnectionError("the embedding service is down")
        self.asked += inputs
        return EmbeddingResponse(embeddings=(self.answer or self.embed)(inputs))

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return the right vectors."""
        return [sum(self._directions(text), np.zeros(DIMENSIONS)).tolist() for text in texts]

    def _directions(self, text: str) -> list[Any]:
        words = [word for word in re.findall(r"\w+", text.lower()) if word not in IDLE] or ["nothing"]
        return [self._direction(self.same.get(word, word)) for word in words]

    @staticmethod
    def _direction(concept: str) -> Any:
        seed = int.from_bytes(sha256(concept.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).normal(size=DIMENSIONS)
