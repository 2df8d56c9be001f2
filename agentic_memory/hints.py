"""Memory files as a ``HintBlock``, and the ledger of those that stand in an agent's context."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from agentscope.message import HintBlock
from agentscope.state import AgentState

from agentic_memory.document import Document
from agentic_memory.excerpt import cut_around
from agentic_memory.fence import as_attribute, fence_id, printable
from agentic_memory.history.entries import Version, Who
from agentic_memory.orders import find_orders
from agentic_memory.prompts import load_prompt
from agentic_memory.shown import as_shown, without_secrets
from agentic_memory.tokens import estimate_tokens
from agentic_memory.values import MemoryFile

STATE_KEY: Final = "agentic_memory"
"""Where this package's state stands in ``AgentState.middle_context``, by memory directory."""
DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class ShownFile:
    """One file as a hint shows it. ``left_out`` are 1-based inclusive ranges of its lines; empty when it is whole.

    ``altered``: it is whole, but for secrets, comments or invisible characters that are not shown as they are.
    """

    filename: str
    version: str
    text: str
    left_out: tuple[tuple[int, int], ...] = ()
    altered: bool = False

    @property
    def tokens(self) -> int:
        """Estimated size."""
        return estimate_tokens(self.text)


def show_file(
    file: MemoryFile,
    document: Document,
    *,
    path: str,
    max_tokens: int,
    focus: int = 1,
    place: str = "",
    scope: str = "",
    hide_secrets: bool = True,
    author: str = "",
) -> ShownFile:
    """Render one file in its fence; of one longer than ``max_tokens`` the part around line ``focus``.

    Args:
        file, document: What is shown.
        path: Its absolute path.
        max_tokens: Bound on the text inside the fence, the lines that tell what is left out not counted.
        focus: 1-based line that has to be seen.
        place: Its place in the hint, ``1/3``.
        scope: The layer it belongs to, where there are several.
        hide_secrets: Whether keys and passwords in it stay out of the hint.
        author: Who wrote it last and when, as far as the history knows; else its age on the disk is told.
    """
    whole = as_shown(document.text).rstrip("\n")
    shown: str = whole
    left_out: tuple[tuple[int, int], ...] = ()
    if estimate_tokens(whole) > max_tokens:
        pieces = cut_around(whole, max_tokens=max_tokens, focus=focus, header_end=document.body_line - 1)
        shown, left_out = _join(pieces, path, last_line=whole.count("\n") + 1)
    shown = without_secrets(shown, hide=hide_secrets)
    attributes = f' n="{place}"' if place else ""
    attributes += f' scope="{as_attribute(scope)}"' if scope else ""
    attributes += f' type="{as_attribute(file.type)}"' if file.type else ""
    written = author or _age(file.mtime_ns)
    attributes += f' written="{as_attribute(written)}"' if written else ""
    if find_orders(shown):
        attributes += f' caution="{as_attribute(load_prompt("hint_caution"))}"'
    text = load_prompt("hint_file").format(
        id=fence_id(shown), file=as_attribute(path), attributes=attributes, text=shown
    )
    altered = not left_out and shown != printable(document.text).rstrip("\n")
    return ShownFile(file.filename, file.version, text, left_out, altered)


def _join(pieces: Sequence[tuple[int, str]], path: str, *, last_line: int) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Join pieces (first line, text) of a file with lines that say what is left out between and after them."""
    parts: list[str] = []
    left_out: list[tuple[int, int]] = []
    following = 1
    for first, text in (*pieces, (last_line + 1, "")):
        if first > following:
            left_out.append((following, first - 1))
            parts.append(load_prompt("hint_rest").format(first=following, last=first - 1, file=as_attribute(path)))
        if text:
            parts.append(text)
            following = first + text.count("\n") + 1
    return "\n".join(parts), tuple(left_out)


def render_hint(files: Sequence[ShownFile]) -> str:
    """Render the text of one hint."""
    return "\n\n".join([load_prompt("hint"), *(file.text for file in files)])


_WHO: Final[Mapping[Who, str]] = MappingProxyType(
    {
        "agent": "by an agent",
        "tool": "by an agent, out of what a tool had answered",
        "person": "by a person",
        "store": "by a program",
        "consolidation": "by an agent that sorts memory",
        "unknown": "",
    }
)


def say_author(version: Version) -> str:
    """Say when a version came to be, and who made it if that is known."""
    return f"{version.when:%Y-%m-%d} {_WHO[version.who]}".strip()


def _age(mtime_ns: int) -> str:
    days = (time.time_ns() - mtime_ns) // DAY_NS
    if mtime_ns <= 0 or days < 0:
        return ""  # a sandbox that keeps no times, or a clock that is wrong: say nothing rather than something false
    return {0: "today", 1: "yesterday"}.get(days, f"{days} days ago")


class HintLedger:
    """Which memory files stand in an agent's context, by what hint. Lives in ``state.middle_context``."""

    def __init__(self, state: AgentState, root: str) -> None:
        self._state = state
        self._root = root

    @property
    def data(self) -> dict[str, Any]:
        """This memory's own part of the state, JSON-serialisable; made when there is none."""
        memories = self._state.middle_context.get(STATE_KEY)
        if not isinstance(memories, dict):
            memories = self._state.middle_context[STATE_KEY] = {}
        own = memories.get(self._root)
        if not isinstance(own, dict):
            own = memories[self._root] = {}
        return own

    def peek(self, key: str) -> Any:
        """Return one entry of ``data`` without making anything."""
        memories = self._state.middle_context.get(STATE_KEY)
        own = memories.get(self._root) if isinstance(memories, dict) else None
        return own.get(key) if isinstance(own, dict) else None

    def add(self, block: HintBlock, files: Sequence[ShownFile], *, reply_id: str, tokens: int) -> None:
        """Record a hint that was put into the context."""
        self.data.setdefault("hints", []).append(
            {
                "block": block.id,
                "reply": reply_id,
                "files": {file.filename: file.version for file in files},
                "left_out": {file.filename: [*map(list, file.left_out)] for file in files if file.left_out},
                "tokens": tokens,
            }
        )

    def hints(self) -> list[dict[str, Any]]:
        """Return the records of all hints put into the context, live or not."""
        return list(self.peek("hints") or ())

    def live(self) -> list[dict[str, Any]]:
        """Return the records of hints that still stand in the context; forget those compressed away or removed."""
        hints = self.hints()
        if not hints:
            return []
        present = {block.id for block in _hint_blocks(self._state)}
        self.data["hints"] = [hint for hint in hints if hint["block"] in present]
        return list(self.data["hints"])

    def shows(self, filename: str, version: str, *, line: int) -> bool:
        """Tell whether the context holds that 1-based line of that file with that content."""
        return any(
            not any(first <= line <= last for first, last in hint.get("left_out", {}).get(filename, ()))
            for hint in self.live()
            if hint["files"].get(filename) == version
        )

    def missing(self, blocks: Sequence[HintBlock]) -> list[HintBlock]:
        """Return those of ``blocks`` that do not stand in the context."""
        present = {block.id for block in _hint_blocks(self._state)} if blocks else set()
        return [block for block in blocks if block.id not in present]

    def trim(self, *, max_tokens: int, reply_id: str) -> tuple[str, ...]:
        """Bound what earlier replies left in the context, and return the files whose text was taken out.

        While their hints together stay under ``max_tokens`` nothing is touched: changing an early message costs the
        provider's prefix cache everything after it. Over it, the oldest are replaced by a line that names them until
        half of the budget is free again, so that it happens rarely.
        """
        earlier = [hint for hint in self.live() if hint["reply"] != reply_id]
        total = sum(hint["tokens"] for hint in earlier)
        if total <= max_tokens:
            return ()
        removed: dict[str, None] = {}
        blocks = {block.id: block for block in _hint_blocks(self._state)}
        for hint in earlier:
            if total <= max_tokens // 2:
                break
            if hint["files"]:  # a line that shows no file stays: it is as short as what would replace it
                names = ", ".join(as_attribute(name) for name in hint["files"])
                blocks[hint["block"]].hint = load_prompt("hint_removed").format(names=names)
            removed.update(dict.fromkeys(hint["files"]))
            total -= hint["tokens"]
            self.data["hints"] = [item for item in self.data["hints"] if item["block"] != hint["block"]]
        return tuple(removed)


def _hint_blocks(state: AgentState) -> Iterator[HintBlock]:
    for message in state.context:
        if message.role == "assistant":
            for block in message.content:
                if isinstance(block, HintBlock):
                    yield block
