"""A memory in memory, and models that extract and decide as a test tells them to."""

from collections.abc import Callable
from typing import Any

import pytest

from agentic_memory.backends import InMemoryBackend
from agentic_memory.store import MemoryStore


@pytest.fixture
def backend() -> InMemoryBackend:
    return InMemoryBackend()


@pytest.fixture
def store(backend: InMemoryBackend) -> MemoryStore:
    return MemoryStore(workdir="/w", backend=backend)


@pytest.fixture
def make_store(backend: InMemoryBackend) -> Callable[..., MemoryStore]:
    def make(**kwargs: Any) -> MemoryStore:
        return MemoryStore(workdir="/w", backend=backend, **kwargs)

    return make
