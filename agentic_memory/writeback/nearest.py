"""The memories nearest to new facts, under small numbers: a model cannot invent one of those."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from agentic_memory.credentials import redact
from agentic_memory.excerpt import cut_around
from agentic_memory.fence import as_attribute, fence_id, printable
from agentic_memory.prompts import load_prompt
from agentic_memory.shelf import Snapshot
from agentic_memory.shown import reveal
from agentic_memory.store import MemoryStore
from agentic_memory.tokens import estimate_tokens
from agentic_memory.writeback.candidates import Candidate

MAX_NEAR_PER_FACT: Final = 4
MAX_NEAR: Final = 12
MAX_NEAR_TOKENS: Final = 4_000
"""Tokens of all memories shown for one turn."""
MAX_MEMORY_TOKENS: Final = 500
"""Tokens of one of them; of a longer one the part that matched is shown."""


@dataclass(frozen=True, slots=True)
class Near:
    """A memory that may have to do with a new fact.

    Attributes:
        filename, version: Which, and what it was when it was shown.
        text: What of it is shown.
        whole: Whether that is all of it.
    """

    filename: str
    version: str
    text: str
    whole: bool


async def find_near(store: MemoryStore, snapshot: Snapshot, facts: Sequence[Candidate]) -> tuple[Near, ...]:
    """Find the memories nearest to ``facts``, the best of each fact first, within the budget; then some of their types."""
    lines: dict[str, int] = {}
    ranked = [await store.rank(snapshot, f"{fact.title}\n{fact.text}", limit=MAX_NEAR_PER_FACT) for fact in facts]
    for place in range(MAX_NEAR_PER_FACT):
        for hits in ranked:
            if place < len(hits) and hits[place].filename in snapshot.documents:
                lines.setdefault(hits[place].filename, hits[place].line)
    for filename in _of_their_types(snapshot, facts):
        lines.setdefault(filename, 1)
    near: list[Near] = []
    room = MAX_NEAR_TOKENS
    for filename, line in lines.items():
        shown = show_near(snapshot, filename, focus=line)
        room -= estimate_tokens(shown.text)
        if room < 0 or len(near) == MAX_NEAR:
            break
        near.append(shown)
    return tuple(near)


def _of_their_types(snapshot: Snapshot, facts: Sequence[Candidate]) -> list[str]:
    """Return memories of the same types, the newest first: "prefers Emacs" has no word in common with "likes Vim"."""
    types = {fact.type for fact in facts}
    same = [name for name, (_, document) in snapshot.documents.items() if document.type in types]
    return heapq.nlargest(MAX_NEAR, same, key=lambda name: snapshot.documents[name][0].mtime_ns)


def show_near(snapshot: Snapshot, filename: str, *, focus: int = 1) -> Near:
    """Show the body of one memory; of a long one the part around line ``focus`` of the file."""
    record, document = snapshot.documents[filename]
    body = printable(document.body).strip("\n")
    whole = redact(reveal(body))
    if estimate_tokens(whole) <= MAX_MEMORY_TOKENS:
        return Near(filename, record.version, whole, whole=whole == body)
    pieces = cut_around(whole, max_tokens=MAX_MEMORY_TOKENS, focus=max(1, focus - document.body_line + 1), header_end=0)
    return Near(filename, record.version, "\n[...]\n".join(text for _, text in pieces), whole=False)


def render_near(snapshot: Snapshot, near: Sequence[Near]) -> str:
    """Render memories for the model that decides, numbered from 1."""
    shown = []
    for number, memory in enumerate(near, 1):
        document = snapshot.documents[memory.filename][1]
        attributes = f' type="{as_attribute(document.type)}"' if document.type else ""
        attributes += "" if memory.whole else ' part="true"'
        attributes += "".join(f' {mark}="true"' for mark in ("pinned", "locked") if is_marked(document.fields, mark))
        shown.append(
            load_prompt("near_memory").format(
                id=fence_id(memory.text),
                number=number,
                title=as_attribute(document.name or memory.filename),
                attributes=attributes,
                text=memory.text,
            )
        )
    return "\n".join(shown)


def is_marked(fields: Mapping[str, str], mark: str) -> bool:
    """Tell whether a memory's frontmatter says ``pinned`` or ``locked``, in any word that means yes."""
    return fields.get(mark, "").strip().casefold() in {"true", "yes", "on", "1"}
