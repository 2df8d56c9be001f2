"""What tools have told an agent: text that is not its own, nor that of the person it talks to."""

import json
from typing import Final

from agentscope.message import ToolResultBlock
from agentscope.state import AgentState

from agentic_memory.tools.reads import normalise_path

_OF_MEMORY: Final = frozenset({"MemorySearch", "MemoryAdd", "MemoryUpdate", "MemoryForget", "Write", "Edit"})


def tool_results(state: AgentState, *, root: str) -> list[str]:
    """Return the texts of tool results in the context, in order; what was read from the memory itself is left out."""
    root = f"{normalise_path(root)}/"
    own: set[str] = set()
    texts: list[str] = []
    for message in state.context:
        for call in message.get_content_blocks("tool_call"):
            if call.name in _OF_MEMORY or root in _path_of(call.input):
                own.add(call.id)
        results = message.get_content_blocks("tool_result")
        texts += [_text_of(result) for result in results if result.id not in own]
    return texts


def _path_of(arguments: str) -> str:
    try:
        path = json.loads(arguments).get("file_path", "")
    except (ValueError, AttributeError):
        return ""
    return normalise_path(path) if isinstance(path, str) and path else ""


def _text_of(result: ToolResultBlock) -> str:
    if isinstance(result.output, str):
        return result.output
    return "\n".join(getattr(block, "text", "") for block in result.output)
