"""The reference, and the test double."""

from agentic_memory.backends.memory.backend import InMemoryBackend

__all__ = ["InMemoryBackend"]
