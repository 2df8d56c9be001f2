"""The MemoryAdd tool."""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from agentscope.state import AgentState
from agentscope.tool import ToolChunk

from agentic_memory.backends import FileRecord
from agentic_memory.document import Document
from agentic_memory.lines import one_line
from agentic_memory.selection.lexical import stands_out
from agentic_memory.shelf import Snapshot
from agentic_memory.store import MemoryStore
from agentic_memory.titles import describe, title_of
from agentic_memory.tools.answers import Refusal, answer, answers_errors
from agentic_memory.tools.guarding import tell_remarks
from agentic_memory.tools.inputs import check_text
from agentic_memory.tools.memory_tool import MemoryTool
from agentic_memory.tools.reads import note_read
from agentic_memory.tools.twins import Twin, fact_key, find_twin

SHORTLIST: Final = 10
"""Files that are searched for a twin of a fact: those that share most words with it."""

_ABOUT_THE_USER: Final = re.compile(r"\b(?:user|i|i'm|my|me)\b|用户|我", re.IGNORECASE)


class _AlreadyKnown(Exception):
    """Every fact was in memory by the time it was to be written."""


class MemoryAdd(MemoryTool):
    """Create one memory and its line in MEMORY.md. A fact that is there already is named, not written twice."""

    name = "MemoryAdd"
    prompt = "tool_memory_add"
    arguments: ClassVar = {
        "thinking": {"type": "string"},
        "content": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "name": {"type": "string"},
        "description": {"type": "string"},
        "type": {"type": "string"},
    }
    required = ("thinking", "content")

    @answers_errors
    async def call(
        self,
        thinking: str = "",  # noqa: ARG002 - for the transcript; it is never stored
        content: Sequence[str] = (),
        name: str = "",
        description: str = "",
        type: str = "",  # noqa: A002 - the frontmatter field's name
        _agent_state: AgentState | None = None,
    ) -> ToolChunk:
        """Add the facts that are new, in three round trips."""
        facts = _facts_of([content] if isinstance(content, str) else content)
        for text in (*facts, name, description, type):
            check_text(text, "an argument")
        store = self._store_of(_agent_state)
        snapshot = await store.load()
        near = await _near(store, snapshot, facts)
        twins = {fact: twin for fact in facts if (twin := find_twin(fact, near))}
        new = [fact for fact in facts if fact not in twins]
        if not new:
            return answer(f"Nothing was added. {_tell(twins)}", filename=None, known=[*twins])

        def check(current: Snapshot) -> None:
            # Others may have added the same since: two agents at once, or this one twice.
            known = {filename: record.version for filename, (record, _) in snapshot.documents.items()}
            changed = {
                filename: held for filename, held in current.documents.items() if known.get(filename) != held[0].version
            }
            late = {fact: twin for fact in new if (twin := find_twin(fact, changed))}
            if late:
                twins.update(late)
                raise _AlreadyKnown

        while True:
            title = one_line(name) or title_of(new[0])
            try:
                file = await store.add(
                    name=title,
                    description=one_line(description) or describe(new[0]),
                    type=one_line(type) or ("user" if _ABOUT_THE_USER.search(new[0]) else "reference"),
                    content=_list_of(new),
                    check=check,
                )
                break
            except _AlreadyKnown:
                new = [fact for fact in new if fact not in twins]
                if not new:
                    return answer(f"Nothing was added. {_tell(twins)}", filename=None, known=[*twins])
        if _agent_state is not None:
            note_read(_agent_state, snapshot.path_of(file.filename), file.version)
        told = f"Added {file.filename} ({title}) and its line in MEMORY.md."
        if twins:
            told += f" {_tell(twins)}"
        elif related := await _related(store, snapshot, new[0]):
            told += f" {related} may be about the same subject: if so, use MemoryUpdate there and forget this one."
        told += tell_remarks(b"", _list_of(new).encode())
        return answer(told, filename=file.filename, known=[*twins])


async def _near(
    store: MemoryStore, snapshot: Snapshot, facts: Sequence[str]
) -> Mapping[str, tuple[FileRecord, Document]]:
    names: dict[str, None] = {}
    for fact in facts:
        names.update(dict.fromkeys(hit.filename for hit in await store.rank(snapshot, fact, limit=SHORTLIST)))
    return {name: snapshot.documents[name] for name in names}


async def _related(store: MemoryStore, snapshot: Snapshot, fact: str) -> str | None:
    hits = await store.rank(snapshot, fact, limit=2)
    return hits[0].filename if stands_out(hits) else None


def _facts_of(content: Sequence[str]) -> list[str]:
    """Return the facts to add, each once.

    Raises:
        Refusal: there is none.
    """
    facts: dict[tuple[str, ...], str] = {}
    for text in content:
        if text.strip():
            facts.setdefault(fact_key(text) or (text,), text.strip())
    if not facts:
        raise Refusal("content is empty: give at least one fact as a complete sentence")
    return [*facts.values()]


def _list_of(facts: Sequence[str]) -> str:
    return facts[0] if len(facts) == 1 else "\n".join("- " + fact.replace("\n", "\n  ") for fact in facts)


def _tell(twins: Mapping[str, Twin]) -> str:
    lines = "; ".join(f'{twin.filename} has "{one_line(twin.text)}"' for twin in twins.values())
    return f"Already in memory: {lines}."
