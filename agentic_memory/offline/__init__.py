"""A model for when there is none: it acts on memory by rules, and says plainly that it does not reason."""

from agentic_memory.offline.model import OfflineModel

__all__ = ["OfflineModel"]
