"""Which memories matter now: the query, the candidates, the pick."""

from agentic_memory.selection.by_meaning import HybridSelector
from agentic_memory.selection.by_model import ModelSelector
from agentic_memory.selection.by_words import LexicalSelector
from agentic_memory.selection.embedding import EmbeddingFailed
from agentic_memory.selection.lexical import Hit
from agentic_memory.selection.local import LocalEmbeddingModel
from agentic_memory.selection.selector import Request, Selection, Selector

__all__ = [
    "EmbeddingFailed",
    "Hit",
    "HybridSelector",
    "LexicalSelector",
    "LocalEmbeddingModel",
    "ModelSelector",
    "Request",
    "Selection",
    "Selector",
]
