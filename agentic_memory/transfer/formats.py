"""Which formats there are, and which one a source has."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from agentic_memory.errors import InvalidMemory
from agentic_memory.index import parse_index
from agentic_memory.transfer.items import Files, Parser, text_of
from agentic_memory.transfer.json_sources import (
    looks_like_chatgpt,
    looks_like_claude,
    looks_like_mem0,
    looks_like_own,
    parse_chatgpt,
    parse_claude,
    parse_mem0,
    parse_own,
)
from agentic_memory.transfer.markdown_sources import (
    looks_like_basic_memory,
    looks_like_openclaw,
    looks_like_reme,
    parse_basic_memory,
    parse_memory_directory,
    parse_openclaw,
    parse_reme,
)

PARSERS: Final[Mapping[str, Parser]] = MappingProxyType(
    {
        "mem0": parse_mem0,
        "reme": parse_reme,
        "claude-code": parse_memory_directory,
        "openclaw": parse_openclaw,
        "basic-memory": parse_basic_memory,
        "chatgpt": parse_chatgpt,
        "claude": parse_claude,
        "agentic-memory": parse_own,
    }
)

_BY_VALUE: Final[tuple[tuple[str, Callable[[Any], bool]], ...]] = (
    ("agentic-memory", looks_like_own),
    ("claude", looks_like_claude),
    ("chatgpt", looks_like_chatgpt),
    ("mem0", looks_like_mem0),
)
_BY_FILES: Final[tuple[tuple[str, Callable[[Files], bool]], ...]] = (
    ("openclaw", looks_like_openclaw),
    ("reme", looks_like_reme),
    ("basic-memory", looks_like_basic_memory),
)


def detect_format(files: Files) -> str:
    """Return the name of the format that a source has.

    Raises:
        InvalidMemory: it cannot be told.
    """
    for path, data in files.items():
        if path.lower().endswith(".json"):
            with suppress(ValueError):
                value = json.loads(text_of(data))
                for name, looks in _BY_VALUE:
                    if looks(value):
                        return name
        elif path.lower().endswith(".jsonl"):
            with suppress(ValueError):
                if looks_like_mem0([json.loads(text_of(data).partition("\n")[0])]):
                    return "mem0"
    for name, fits in _BY_FILES:
        if fits(files):
            return name
    index = files.get("MEMORY.md")
    if index is not None and (len(files) > 1 or parse_index(text_of(index)).entries):
        return "claude-code"
    raise InvalidMemory(f"it cannot be told what this is; name the format with --from: {', '.join(PARSERS)}")
