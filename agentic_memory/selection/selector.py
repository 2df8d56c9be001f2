"""The seam of recall: what a selector is given, and what it answers."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agentscope.message import Msg
from agentscope.model import ChatModelBase, StructuredResponse
from pydantic import BaseModel

from agentic_memory.selection.lexical import Hit, LexicalIndex

if TYPE_CHECKING:
    from agentic_memory.document import Document


StructuredCall = Callable[[ChatModelBase, list[Msg], type[BaseModel]], Awaitable[StructuredResponse]]
"""Makes one structured call of a model."""


async def call_directly(model: ChatModelBase, messages: list[Msg], answer: type[BaseModel]) -> StructuredResponse:
    """Call the model, with the retries it makes by itself."""
    return await model.generate_structured_output(messages, structured_model=answer)


@dataclass(slots=True)
class Spending:
    """What choosing cost so far: model calls begun, and their tokens as the model told."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to one memory.

    Attributes:
        query: What the user means now, as ``build_query`` put it together.
        limit: How many files are wanted at most.
        documents: File name to its record (with ``version``, the SHA-256 of its bytes, and ``mtime_ns``) and document.
        words: Gives the index of the words of ``documents``. It may have to be brought up to date, so call it in a
            worker thread.
        kept: What selectors keep of this memory from one question to the next, in this process: derived and disposable.
        patience: Seconds that may be spent on waiting for vectors; without them words decide alone.
        model: The agent's own model, when an agent asks.
        call: How models are called.
        spent: Where a selector adds what its model calls cost, as they happen.
        first: Gives the selection that a quick selector is making for the same question, so that a slower one
            can choose from it. None when nobody is.
        uses: How often files were shown before; one that is not there never was. For what is level in all else.
    """

    query: str
    limit: int
    documents: Mapping[str, tuple[Any, "Document"]] = field(repr=False)
    words: Callable[[], LexicalIndex] = field(repr=False)
    kept: MutableMapping[str, Any] = field(default_factory=dict, repr=False)
    patience: float = 1.0
    model: ChatModelBase | None = field(default=None, repr=False)
    call: StructuredCall = field(default=call_directly, repr=False)
    spent: Spending = field(default_factory=Spending)
    first: "Callable[[], Awaitable[Selection]] | None" = field(default=None, repr=False)
    uses: Mapping[str, int] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a selector chose.

    Attributes:
        hits: Files, best first, each once. ``Hit.line`` is where reading should begin.
        by: Who chose, in a word, for the receipt: ``lexical``, ``hybrid``, ``model``, or a selector's own.
        clear: The first hit is so clearly meant that nobody slower has to be waited for.
        unknown: Names that were chosen and that no file has.
        failed: What failed on the way without spoiling the whole: (stage, error).
        waiting: Passages whose vectors are not there yet: their files were judged by words alone.
    """

    hits: tuple[Hit, ...] = ()
    by: str = "lexical"
    clear: bool = False
    unknown: tuple[str, ...] = ()
    failed: tuple[tuple[str, Exception], ...] = ()
    waiting: int = 0

    @property
    def filenames(self) -> tuple[str, ...]:
        """The names of the files chosen, best first."""
        return tuple(hit.filename for hit in self.hits)


def joined(selections: Sequence[Selection], hits: Sequence[Hit], *, clear: bool) -> Selection:
    """Return one selection of ``hits`` with what happened in all of ``selections``."""
    return Selection(
        hits=tuple(hits),
        by="hybrid" if any(selection.by == "hybrid" for selection in selections) else "lexical",
        clear=clear,
        failed=tuple(failure for selection in selections for failure in selection.failed),
        waiting=sum(selection.waiting for selection in selections),
    )


class Selector(Protocol):
    """Chooses the memory files that matter for a question."""

    async def select(self, request: Request) -> Selection:
        """Return at most ``request.limit`` files; none when none is relevant.

        Whatever it raises is noted on the receipt, and files that match by words stand in.
        """
        ...
