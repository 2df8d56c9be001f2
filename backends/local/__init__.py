"""The local disk."""

from agentic_memory.backends.local.backend import LocalBackend

__all__ = ["LocalBackend"]
