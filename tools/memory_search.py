"""The MemorySearch tool."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from agentscope.state import AgentState
from agentscope.tool import ToolChunk, ToolMiddlewareBase

from agentic_memory.bases import remember_base
from agentic_memory.excerpt import cut_around
from agentic_memory.fence import as_attribute, fence_id, printable
from agentic_memory.prompts import load_prompt
from agentic_memory.selection.lexical import Hit
from agentic_memory.shelf import Snapshot
from agentic_memory.shown import as_shown, without_secrets
from agentic_memory.tokens import BYTES_PER_TOKEN, count_bytes, estimate_tokens
from agentic_memory.tools.answers import Refusal, answer, answers_errors
from agentic_memory.tools.memory_tool import MemoryTool, StoreSource
from agentic_memory.tools.reads import note_read

MAX_KEYWORDS: Final = 10
MAX_LIMIT: Final = 20
MIN_SHOWN_TOKENS: Final = 60
"""Room below which no further memory is begun."""
NOTE_BYTES: Final = 400
"""Kept free for the line that names what found no room."""
FUSION_RANK: Final = 60
"""The constant of reciprocal rank fusion, as its authors chose it."""


class MemorySearch(MemoryTool):
    """Search a memory by words. What was found whole counts as read, so the agent may go on and change it.

    Args:
        store: The memory.
        max_tokens: Tokens of all memory text in one answer, however many keywords there are.
        max_bytes: The most UTF-8 bytes of one answer.
        limit: Memories per query or keyword when the model does not say.
        hide_secrets: Whether keys and passwords that stand in a memory stay out of the answer.
    """

    name = "MemorySearch"
    prompt = "tool_memory_search"
    arguments: ClassVar = {
        "query": {"type": "string"},
        "keywords": {"type": "array", "items": {"type": "string"}, "maxItems": MAX_KEYWORDS},
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT},
    }
    required = ()
    is_read_only = True
    is_concurrency_safe = True

    def __init__(
        self,
        store: StoreSource,
        *,
        max_tokens: int = 2_400,
        max_bytes: int = 12_288,
        limit: int = 5,
        hide_secrets: bool = True,
        middlewares: list[ToolMiddlewareBase] | None = None,
    ) -> None:
        super().__init__(store, middlewares=middlewares)
        self._max_tokens = max_tokens
        self._max_bytes = max_bytes
        self._limit = limit
        self._hide_secrets = hide_secrets
        self.input_schema["properties"]["limit"]["default"] = limit

    @answers_errors
    async def call(
        self,
        query: str = "",
        keywords: Sequence[str] = (),
        limit: int | None = None,
        _agent_state: AgentState | None = None,
    ) -> ToolChunk:
        """Search, in one round trip whatever the number of keywords."""
        keywords = [keywords] if isinstance(keywords, str) else keywords
        asked = [*dict.fromkeys(text.strip() for text in (query, *keywords) if text and text.strip())]
        if not asked:
            raise Refusal("nothing was asked for: give a query, or keywords that are not empty")
        if len(asked) > MAX_KEYWORDS + 1:
            raise Refusal(f"{len(asked)} keywords are too many: give the {MAX_KEYWORDS} that matter most")
        most = min(max(self._limit if limit is None else limit, 1), MAX_LIMIT)
        store = self._store_of(_agent_state)
        snapshot = await store.load()
        ranked = [await store.rank(snapshot, text, limit=most) for text in asked]
        named = ", ".join(f'"{as_attribute(text)}"' for text in asked)
        found = _merge(snapshot, ranked)
        if not found:
            return answer(load_prompt("search_nothing").format(asked=named[: self._max_bytes // 8]), found=[])
        head = load_prompt("search_results").format(asked=named[: self._max_bytes // 8])
        text, shown = self._show(snapshot, found, head, _agent_state)
        await store.note_use(shown)
        return answer(text, found=shown)

    def _show(
        self, snapshot: Snapshot, found: dict[str, int], head: str, state: AgentState | None
    ) -> tuple[str, list[str]]:
        """Return the answer, and the files that it shows."""
        parts, shown = [head], list[str]()
        tokens, room = self._max_tokens, self._max_bytes - count_bytes(head) - NOTE_BYTES
        for number, (filename, line) in enumerate(found.items()):
            share = min(tokens // (len(found) - number), room // BYTES_PER_TOKEN)
            if share < MIN_SHOWN_TOKENS and shown:
                break
            text, whole = _excerpt(snapshot, filename, line, share, hide_secrets=self._hide_secrets)
            if count_bytes(text) + 2 > room:
                break
            tokens -= estimate_tokens(text)
            room -= count_bytes(text) + 2
            parts.append(text)
            shown.append(filename)
            if whole and state is not None:
                record, document = snapshot.documents[filename]
                data = document.encode(document.text)
                note_read(state, snapshot.path_of(filename), remember_base(data, version=record.version))
        if left := [name for name in found if name not in shown]:
            names = ", ".join(map(as_attribute, left))
            note = load_prompt("search_more")
            fitting = names.encode()[: NOTE_BYTES - count_bytes(note)].decode("utf-8", "ignore")
            parts.append(note.format(names=fitting))
        return "\n\n".join(parts), shown


def _merge(snapshot: Snapshot, ranked: Sequence[Sequence[Hit]]) -> dict[str, int]:
    """Return the files of several rankings, best first by reciprocal rank, each once, with the line that matched."""
    scores: defaultdict[str, float] = defaultdict(float)
    lines: dict[str, int] = {}
    for hits in ranked:
        for place, hit in enumerate(hits):
            filename = snapshot.successor_of(hit.filename)
            scores[filename] += 1 / (FUSION_RANK + place)
            lines.setdefault(filename, hit.line if filename == hit.filename else 1)
    best = sorted(scores, key=lambda name: -scores[name])
    return {name: lines[name] for name in best if snapshot.documents[name][1].encoding != "binary"}


def _excerpt(snapshot: Snapshot, filename: str, line: int, max_tokens: int, *, hide_secrets: bool) -> tuple[str, bool]:
    """Return a file in its fence, whole or around ``line``, and whether all of it is there as it is."""
    document = snapshot.documents[filename][1]
    text = as_shown(document.text).rstrip("\n")
    told = {"scope": snapshot.scope_of(filename), "type": document.type}
    attributes: dict[str, Any] = {key: value for key, value in told.items() if value}
    if estimate_tokens(text) > max_tokens:
        pieces = cut_around(text, max_tokens=max_tokens, focus=line, header_end=document.body_line - 1)
        attributes["lines"] = ", ".join(f"{first}-{first + piece.count(chr(10))}" for first, piece in pieces)
        text = "\n[…]\n".join(piece for _, piece in pieces)
    text = without_secrets(text, hide=hide_secrets)
    written = "".join(f' {key}="{as_attribute(value)}"' for key, value in attributes.items())
    path = as_attribute(snapshot.path_of(filename))
    shown = load_prompt("hint_file").format(id=fence_id(text), file=path, attributes=written, text=text)
    return shown, text == printable(document.text).rstrip("\n")
