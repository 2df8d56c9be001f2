"""``ModelSelector``: a model reads the descriptions and decides."""

from dataclasses import replace
from typing import Final

from agentscope.model import ChatModelBase

from agentic_memory.prompts import load_prompt
from agentic_memory.selection.by_words import LexicalSelector
from agentic_memory.selection.lexical import Hit
from agentic_memory.selection.model import MAX_PICKED_FILES, pick_by_model, render_manifest
from agentic_memory.selection.selector import Request, Selection, Selector

MAX_CANDIDATES: Final = 200
MAX_DESCRIPTION_CHARS: Final = 1_024


class ModelSelector:
    """Shows a model the best candidates of all files, and takes the files it names: at most five.

    All files are candidates while they are few; of more, the best that a quick selector finds, and then the newest.

    Args:
        model: The model; the agent's own when None.
        first: The quick selector, when the request does not bring its selection along.
        instructions: What the model is told.
        max_candidates: Files put before the model.
        max_description_chars: Characters of one file's description put before it.
    """

    def __init__(
        self,
        model: ChatModelBase | None = None,
        *,
        first: Selector | None = None,
        instructions: str | None = None,
        max_candidates: int = MAX_CANDIDATES,
        max_description_chars: int = MAX_DESCRIPTION_CHARS,
    ) -> None:
        self._model = model
        self._first: Selector = first or LexicalSelector()
        self._instructions = load_prompt("retrieval_instructions.en") if instructions is None else instructions
        self._max_candidates = max_candidates
        self._max_description_chars = max_description_chars

    async def select(self, request: Request) -> Selection:
        """Return what the model named.

        Raises:
            MalformedPick: it answered with something else, twice.
        """
        model = self._model or request.model
        if model is None:
            raise ValueError("no model picks the files: pass ModelSelector one")
        first: Selection | None = None
        candidates = list(request.documents)
        if len(candidates) > self._max_candidates:
            first = await self._select_first(request)
            candidates = self._choose(request, first)
        documents = [(name, request.documents[name][1]) for name in candidates]
        pick = await pick_by_model(
            request.call,
            model,
            instructions=self._instructions,
            query=request.query,
            manifest=render_manifest(
                ((name, document.type, document.description) for name, document in documents),
                max_description=self._max_description_chars,
            ),
            filenames=candidates,
            spent=request.spent,
        )
        if first is None and request.first is None:  # who brings a quick selection along knows the lines, too
            first = await self._select_first(request)
        found = {hit.filename: hit for hit in first.hits} if first is not None else {}
        hits = (found.get(name) or Hit(name, 0.0, 0.0, 1, "") for name in pick.filenames)
        return Selection(tuple(hits), by="model", clear=True, unknown=pick.unknown)

    async def _select_first(self, request: Request) -> Selection:
        if request.first is not None:
            return await request.first()
        limit = max(MAX_PICKED_FILES, self._max_candidates // 2)
        return await self._first.select(replace(request, limit=limit))

    def _choose(self, request: Request, first: Selection) -> list[str]:
        """Return the candidates by name, so that a provider's prefix cache holds while the memory stays as it is."""
        documents = request.documents
        chosen = dict.fromkeys(first.filenames)
        for name in sorted(documents, key=lambda name: documents[name][0].mtime_ns, reverse=True):
            if len(chosen) >= self._max_candidates:
                break
            chosen[name] = None
        return sorted(chosen)[: self._max_candidates]
