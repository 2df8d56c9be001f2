"""Texts in, records out: the shapes that Mem0's users know, and the memory files they become."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from agentscope.message import AssistantMsg, Msg, UserMsg

from agentic_memory.backends import FileRecord
from agentic_memory.document import Document
from agentic_memory.errors import InvalidMemory
from agentic_memory.facade.owners import IDS, Owner
from agentic_memory.frontmatter import is_key
from agentic_memory.lines import one_line
from agentic_memory.operations import Create
from agentic_memory.rendering import FIELD_ORDER
from agentic_memory.selection.lexical import Hit
from agentic_memory.titles import describe, title_of
from agentic_memory.values import MemoryFile
from agentic_memory.writeback.plans import Learned

OWN_FIELDS: Final = frozenset({*FIELD_ORDER, "metadata", "created", "role", "actor_id", "agent_id", "run_id"})
"""Fields of a file that are no metadata."""

Messages = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A text, a message with ``role``, ``content`` and maybe ``name``, or several."""
Record = dict[str, Any]
"""One memory: ``id``, ``memory``, ``hash``, ``metadata``, ``created_at``, ``updated_at``, the ids, ``score`` when searched."""


@dataclass(frozen=True, slots=True)
class Said:
    """One text to keep, and who said it."""

    text: str
    role: str = ""
    actor: str = ""

    def message(self) -> Msg:
        """Return it as AgentScope has it."""
        if self.role == "assistant":
            return AssistantMsg(self.actor or "assistant", self.text)
        return UserMsg(self.actor or "user", self.text)

    def create(self, fields: Mapping[str, str]) -> Create:
        """Return the memory it becomes."""
        own = {key: value for key, value in (("role", self.role), ("actor_id", self.actor)) if value}
        return Create(
            name=title_of(self.text),
            description=describe(self.text),
            type="user",
            content=self.text,
            fields={**fields, **own},
        )


EVENTS: Final = {"ADD": "ADD", "DELETE": "DELETE", "EXPIRE": "DELETE"}
"""Mem0's word for an operation of write-back; everything else is an ``UPDATE``."""


def learned(owner: Owner, one: Learned, documents: Mapping[str, tuple[FileRecord, Document]]) -> Record:
    """Return what ``add`` says of one operation, with the text that ``documents`` have now, or the title of what went."""
    held = documents.get(one.filename)
    text = one.title if held is None else held[1].body.strip()
    return {"id": owner.id_of(one.filename), "memory": text, "event": EVENTS.get(one.operation, "UPDATE")}


def texts_in(messages: Messages) -> list[Said]:
    """Return the texts to keep.

    Raises:
        InvalidMemory: there is none.
    """
    if isinstance(messages, str):
        found = [Said(messages.strip())]
    else:
        listed = [messages] if isinstance(messages, Mapping) else messages
        found = [
            Said(content.strip(), str(message.get("role") or ""), str(message.get("name") or ""))
            for message in listed
            if isinstance(content := message.get("content"), str) and message.get("role") != "system"
        ]
    found = [one for one in found if one.text]
    if not found:
        raise InvalidMemory("there is nothing to add: give a text, or messages with content")
    return found


def told(owner: Owner, said: Said, filename: str, added: Sequence[str]) -> Record:
    """Return what ``add`` says of one text."""
    record: Record = {
        "id": owner.id_of(filename),
        "memory": said.text,
        "event": "ADD" if filename in added else "NONE",
    }
    return {**record, "actor_id": said.actor or None, "role": said.role} if said.role else record


def record_of(owner: Owner, file: MemoryFile) -> Record:
    """Return what Mem0's users get of one memory."""
    text = file.content.strip()
    fields = dict(file.fields)
    changed = datetime.fromtimestamp(file.mtime_ns / 1e9, UTC).isoformat() if file.mtime_ns > 0 else None
    record: Record = {
        "id": owner.id_of(file.filename),
        "memory": text,
        "hash": hashlib.md5(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest(),
        "metadata": read_metadata(fields) or None,
        "created_at": fields.get("created"),
        "updated_at": changed,
        **owner.ids,
    }
    own_ids = {key: fields[key] for key in ("agent_id", "run_id", "actor_id", "role") if fields.get(key)}
    return {**own_ids, **record}


def fits(record: Record, owner: Owner, wanted: Mapping[str, Any]) -> bool:
    """Tell whether a memory of ``owner`` has the further ids and the metadata that ``wanted`` names."""
    metadata = record["metadata"] or {}
    return all(
        record.get(key) == value if key in IDS else metadata.get(key) == value
        for key, value in wanted.items()
        if key not in owner.ids
    )


def scores_of(hits: Sequence[Hit]) -> list[float]:
    """Return a score between 0 and 1 for each hit, falling: the best one's share of the query, and in proportion."""
    return [round(hits[0].coverage * hit.score / hits[0].score, 4) for hit in hits]


def metadata_fields(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata as fields of a file.

    Raises:
        InvalidMemory: a key cannot be one, or means something else already.
    """
    for key in metadata:
        if key in OWN_FIELDS or not is_key(key):
            raise InvalidMemory(f"metadata cannot be called {key!r}: use another name of letters, digits, '_' and '-'")
    return {key: written for key, value in metadata.items() if (written := _write(value))}


def read_metadata(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata that the fields of a file hold; what a person wrote there is metadata too."""
    return {key: _read(value) for key, value in fields.items() if key not in OWN_FIELDS}


def _write(value: Any) -> str:
    """Write a JSON value so that ``_read`` gives it back: texts as they are, unless they would read as something else."""
    if isinstance(value, str) and value and one_line(value) == value and _read(value) == value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if one_line(text) == text else json.dumps(value)


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def plain(text: str) -> str:
    """Return ``text`` without what does not make it another text: how its words are spaced."""
    return " ".join(text.split())
