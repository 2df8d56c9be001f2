"""Structured answers by rule: a choice of memory files, or the smallest value that a JSON schema admits."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentscope.message import Msg

from agentic_memory.offline.words import rank

MAX_SELECTED_FILES: Final = 5
MAX_DEPTH: Final = 12
MAX_NOTE_CHARACTERS: Final = 4000

_MANIFEST_LINE = re.compile(
    r"^\s*(?:[-*]\s+)?(?:\[[^\]\n]*\]\s+)?`?(?P<file>[^\n:`]+?\.md)`?(?=\s*(?:\(|:|：|—|$))(?P<rest>.*)$"
)
_NOTICE = re.compile(r"<(system-[a-z]+)>.*?</\1>", re.DOTALL)
_LABEL = re.compile(
    r"^\s*(?:query|available memories|memory files|message|用户的?消息|记忆文件)\s*[:：]", re.IGNORECASE
)
_SPEAKER = re.compile(r"^\s*[^\s:：]{1,40}[:：]\s+")


def answer_schema(schema: Mapping[str, Any], messages: Sequence[Msg]) -> dict[str, Any]:
    """Return a value that ``schema`` admits, filled from ``messages`` where a rule knows how."""
    spoken = [
        _NOTICE.sub("", text) for message in messages if message.role == "user" if (text := message.get_text_content())
    ]
    if "selected_files" in schema.get("properties", {}):
        return {"selected_files": select_files("\n".join(spoken))}
    note = "\n".join(spoken).strip()[-MAX_NOTE_CHARACTERS:]
    value = _smallest(schema, schema, note or "-", 0)
    return value if isinstance(value, dict) else {}


def select_files(text: str) -> list[str]:
    """Return the files of a selector's list that share words with the rest of its ``text``, best first."""
    manifest: dict[str, str] = {}
    query: list[str] = []
    for line in text.splitlines():
        if match := _MANIFEST_LINE.match(line):
            manifest[match["file"].strip()] = f"{match['file']} {match['rest']}"
        else:
            query.append(_SPEAKER.sub("", _LABEL.sub("", line)))
    return rank("\n".join(query), manifest)[:MAX_SELECTED_FILES]


def _smallest(schema: Any, root: Mapping[str, Any], note: str, depth: int) -> Any:
    """Return the smallest value of ``schema``; strings carry ``note``, so that a summary keeps what people said."""
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return None
    if "$ref" in schema:
        return _smallest(_resolve(str(schema["$ref"]), root), root, note, depth + 1)
    for given in ("const", "default"):
        if given in schema:
            return schema[given]
    if schema.get("enum"):
        return schema["enum"][0]
    for options in ("anyOf", "oneOf"):
        if schema.get(options):
            return _smallest(schema[options][0], root, note, depth + 1)
    if schema.get("allOf"):
        merged: dict[str, Any] = {}
        for part in schema["allOf"]:
            merged |= _resolve(str(part["$ref"]), root) if "$ref" in part else part
        return _smallest(merged, root, note, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "null")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            required = schema.get("required", ())
            properties = schema.get("properties", {})
            return {name: _smallest(properties.get(name, {}), root, note, depth + 1) for name in required}
        case "array":
            return [_smallest(schema.get("items", {}), root, note, depth + 1)] * int(schema.get("minItems", 0))
        case "string":
            return note.ljust(int(schema.get("minLength", 0)), ".")[: schema.get("maxLength")]
        case "integer":
            return int(_smallest_number(schema, 1))
        case "number":
            return _smallest_number(schema, 0.5)
        case "boolean":
            return False
    return None


def _smallest_number(schema: Mapping[str, Any], step: float) -> float:
    if "minimum" in schema:
        return float(schema["minimum"])
    if "exclusiveMinimum" in schema:
        return float(schema["exclusiveMinimum"]) + step
    return min(0.0, float(schema.get("maximum", schema.get("exclusiveMaximum", step) - step)))


def _resolve(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, {}) if isinstance(found, Mapping) else {}
    return found if isinstance(found, Mapping) else {}
