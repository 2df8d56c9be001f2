"""Exports that are JSON: Mem0, ChatGPT, Claude, and this package's own."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from agentic_memory.transfer.items import Files, Item, Parsed, left_out, split_list, split_sections, text_of, unreadable
from agentic_memory.values import Problem

FORMAT = "agentic-memory"
"""What this package's own export says it is."""


def read_json(files: Files, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of each JSON file; of one with a value per line, the list of them."""
    for path, data in files.items():
        name = path.rpartition("/")[2].lower()
        text = text_of(data)
        if name.endswith(".json"):
            try:
                yield path, json.loads(text)
            except ValueError as error:
                problems.append(unreadable(path, f"not JSON: {error}", line=getattr(error, "lineno", None)))
        elif name.endswith(".jsonl"):
            values = []
            for number, line in enumerate(text.split("\n"), 1):
                try:
                    if line.strip():
                        values.append(json.loads(line))
                except ValueError as error:
                    problems.append(unreadable(path, f"not JSON: {error}", line=number))
            yield path, values


# ------------------------------------------------------------------ Mem0


def parse_mem0(files: Files) -> Parsed:
    """Read what Mem0's ``get_all`` or ``search`` gives, or a platform export: records with ``memory``."""
    problems: list[Problem] = []
    items: list[Item] = []
    for path, value in read_json(files, problems):
        for number, record in enumerate(_records(value), 1):
            text = _first(record, "memory", "text", "data", "content") if isinstance(record, dict) else ""
            if not text:
                problems.append(unreadable(path, f"record {number} has no memory in it"))
                continue
            identity = {key: _plain(record.get(key)) for key in ("agent_id", "run_id", "actor_id")}
            metadata = record.get("metadata")
            extra = {key: _plain(value) for key, value in metadata.items()} if isinstance(metadata, dict) else {}
            categories = record.get("categories")
            fields = {
                "created": _plain(record.get("created_at")),
                "updated": _plain(record.get("updated_at")),
                "tags": ", ".join(map(str, categories)) if isinstance(categories, list) else "",
                **identity,
                **{key: value for key, value in extra.items() if key not in {"type", "name", "description"}},
            }
            items.append(
                Item(
                    key=f"mem0:{_plain(record.get('id')) or text}",
                    content=text,
                    name=extra.get("name", ""),
                    description=extra.get("description", ""),
                    type=extra.get("type", "") or "user",
                    owner=_plain(record.get("user_id")),
                    fields=fields,
                )
            )
    return Parsed(tuple(items), tuple(problems))


def looks_like_mem0(value: Any) -> bool:
    """Tell whether a JSON value holds Mem0's records."""
    records = _records(value)
    return bool(records) and any(isinstance(one, dict) and isinstance(one.get("memory"), str) for one in records)


def _records(value: Any) -> list[Any]:
    if isinstance(value, dict):
        for key in ("results", "memories", "data"):
            if isinstance(value.get(key), list):
                return list(value[key])
        return [value] if "memory" in value else []
    return list(value) if isinstance(value, list) else []


# ------------------------------------------------------------------ ChatGPT


def parse_chatgpt(files: Files) -> Parsed:
    """Read ChatGPT's memories: ``memories.json``, what conversations saved (messages to ``bio``), or a pasted list."""
    problems: list[Problem] = []
    items: dict[str, Item] = {}
    for path, value in read_json(files, problems):
        found = [*(_bio_messages(value) if _is_conversations(value) else _chatgpt_memories(value))]
        if not found and not _is_conversations(value):
            problems.append(left_out(path, "no memories in it"))
        for key, text, created in found:
            items.setdefault(text, Item(key=f"chatgpt:{key or text}", content=text, fields={"created": created}))
    for created, text in _listed(files):
        items.setdefault(text, Item(key=f"chatgpt:{text}", content=text, fields={"created": created}))
    return Parsed(tuple(items.values()), tuple(problems))


def looks_like_chatgpt(value: Any) -> bool:
    """Tell whether a JSON value is ChatGPT's conversations."""
    return _is_conversations(value)


def _is_conversations(value: Any) -> bool:
    return isinstance(value, list) and any(
        isinstance(one, dict) and isinstance(one.get("mapping"), dict) for one in value
    )


def _bio_messages(conversations: list[Any]) -> Iterator[tuple[str, str, str]]:
    for conversation in conversations:
        mapping = conversation.get("mapping") if isinstance(conversation, dict) else None
        for node in (mapping if isinstance(mapping, dict) else {}).values():
            message = node.get("message") if isinstance(node, dict) else None
            if not isinstance(message, dict) or message.get("recipient") != "bio":
                continue
            content = message.get("content")
            parts = content.get("parts") if isinstance(content, dict) else None
            text = "\n".join(part for part in parts or () if isinstance(part, str)).strip()
            if text:
                yield _plain(message.get("id")), text, _day(message.get("create_time"))


def _chatgpt_memories(value: Any) -> Iterator[tuple[str, str, str]]:
    for record in _records(value):
        if isinstance(record, str) and record.strip():
            yield "", record.strip(), ""
        elif isinstance(record, dict) and (text := _first(record, "content", "memory", "text")):
            created = record.get("created_at") or record.get("created_timestamp") or record.get("create_time")
            yield _plain(record.get("id")), text, _day(created)


# ------------------------------------------------------------------ Claude


def parse_claude(files: Files) -> Parsed:
    """Read ``memories.json`` of a Claude export, a memory for each section, or a pasted list of memories."""
    problems: list[Problem] = []
    items: list[Item] = []
    values = dict(read_json(files, problems))
    projects = {
        one["uuid"]: one.get("name") or ""
        for path, value in values.items()
        if path.endswith("projects.json")
        for one in _records(value)
        if isinstance(one, dict) and "uuid" in one
    }
    for path, value in values.items():
        if path.endswith("projects.json"):
            continue
        if not looks_like_claude(value):
            problems.append(left_out(path, "no memories in it"))
            continue
        for account in value if isinstance(value, list) else [value]:
            items.extend(_sections(account.get("conversations_memory"), "claude:conversations", "", "user"))
            for uuid, text in (account.get("project_memories") or {}).items():
                name = projects.get(uuid) or f"Project {uuid[:8]}"
                items.extend(_sections(text, f"claude:project/{uuid}", name, "project"))
    items.extend(
        Item(key=f"claude:{text}", content=text, fields={"created": created}) for created, text in _listed(files)
    )
    return Parsed(tuple(items), tuple(problems))


def looks_like_claude(value: Any) -> bool:
    """Tell whether a JSON value is the memory file of a Claude export."""
    accounts = value if isinstance(value, list) else [value]
    return any(
        isinstance(one, dict) and ({"conversations_memory", "project_memories"} & one.keys()) for one in accounts
    )


def _sections(text: Any, key: str, name: str, kind: str) -> Iterator[Item]:
    if not isinstance(text, str):
        return
    for title, body in split_sections(text):
        label = f"{name}: {title}" if name and title else name or title
        yield Item(key=f"{key}#{title}", content=body, name=label, type=kind)


# ------------------------------------------------------------------ our own


def parse_own(files: Files) -> Parsed:
    """Read what ``agentic-memory export`` wrote as JSON."""
    problems: list[Problem] = []
    items: list[Item] = []
    for path, value in read_json(files, problems):
        if not looks_like_own(value):
            problems.append(unreadable(path, f"not an export of {FORMAT}"))
            continue
        for number, record in enumerate(value["memories"], 1):
            if not isinstance(record, dict) or not isinstance(record.get("content"), str):
                problems.append(unreadable(path, f"memory {number} has no content"))
                continue
            fields = record.get("fields")
            items.append(
                Item(
                    key=_plain(fields.get("imported_from")) if isinstance(fields, dict) else "",
                    content=record["content"],
                    name=_plain(record.get("name")),
                    description=_plain(record.get("description")),
                    type=_plain(record.get("type")),
                    filename=_plain(record.get("filename")),
                    fields={key: _plain(value) for key, value in (fields or {}).items()},
                )
            )
    return Parsed(tuple(items), tuple(problems))


def looks_like_own(value: Any) -> bool:
    """Tell whether a JSON value is this package's export."""
    return isinstance(value, dict) and value.get("format") == FORMAT and isinstance(value.get("memories"), list)


# ------------------------------------------------------------------ small things


def _listed(files: Files) -> Iterator[tuple[str, str]]:
    for path, data in files.items():
        if path.lower().endswith((".txt", ".md")):
            yield from split_list(text_of(data))


def _first(record: Mapping[str, Any], *keys: str) -> str:
    return next((value.strip() for key in keys if isinstance(value := record.get(key), str) and value.strip()), "")


def _plain(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _day(value: Any) -> str:
    if isinstance(value, int | float):
        try:
            return datetime.fromtimestamp(value, UTC).date().isoformat()
        except (ValueError, OverflowError, OSError):
            return ""
    return _plain(value)
