"""What the offline model can see: a conversation, taken apart into the memory it shows and what was done so far."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from agentscope.message import HintBlock, Msg, TextBlock, ToolCallBlock, ToolResultBlock, ToolResultState

INDEX: Final = "MEMORY.md"

_DIRECTORY_LINE = re.compile(r"^\s*Memory directory:\s*`([^`\n]+)`", re.MULTILINE)
_DIRECTORY_MENTION = re.compile(r"^.*(?:memory|记忆).*?`((?:/|~)[^`\n]+)`", re.MULTILINE | re.IGNORECASE)
_ENTRY = re.compile(
    r"^\s*[-*+]\s+\[(?P<title>(?:[^\]\\]|\\.)*)\]\((?P<file><[^>]*>|[^)\s]+)\)\s*(?:[—–:-]+\s*)?(?P<hook>.*)$"
)
_SECTION = re.compile(rf"^## {re.escape(INDEX)}[ \t]*\n(?P<body>.*?)(?:^</memory-index\b|\Z)", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(
    r'^<memory id="(?P<id>[^"]*)" file="(?P<file>[^"]*)"[^>\n]*>\n(?P<text>.*?)\n?^</memory (?P=id)>',
    re.MULTILINE | re.DOTALL,
)
# Upstream's form of a hint: a path on a line of its own, the body, a rule between two files.
_HEADED = re.compile(
    r"^Memory[^\n:]*: (?P<file>[^\n]+\.md):\n+(?P<text>.*?)(?=\n+---\n+Memory|\Z)", re.MULTILINE | re.DOTALL
)
_NOTICE = re.compile(r"<(system-[a-z]+)>.*?</\1>", re.DOTALL)
_NUMBERED = re.compile(r"^\s*\d+\t", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class IndexLine:
    """One entry of the index as it stands there."""

    line: str
    title: str
    filename: str
    hook: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool call of this reply that has its result.

    Attributes:
        denied: A person or a rule refused it; trying again would be rude.
        failed: It did not work, refused or not.
    """

    name: str
    input: dict[str, Any]
    output: str = field(repr=False)
    failed: bool = False
    denied: bool = False

    @property
    def path(self) -> str:
        """The file it was about; empty for tools that take none."""
        return str(self.input.get("file_path", ""))

    @property
    def text(self) -> str:
        """What a Read showed, without line numbers."""
        return _NUMBERED.sub("", self.output)


@dataclass(frozen=True, slots=True)
class View:
    """A conversation as the rules need it.

    Attributes:
        text: What the person said last.
        memory_dir: Absolute path of the memory directory; None when no system message names it.
        index_text: The index as the system prompt shows it.
        entries: Its entries.
        shown: Text of memory files by file name, from hints; the latest wins.
        suggested: The files that this reply's hints hold.
        uses: What this reply did so far, oldest first.
    """

    text: str
    memory_dir: str | None
    index_text: str = field(repr=False)
    entries: tuple[IndexLine, ...]
    shown: dict[str, str] = field(repr=False)
    suggested: tuple[str, ...]
    uses: tuple[ToolUse, ...]

    def path_of(self, filename: str) -> str:
        """Return the absolute path of a memory file."""
        return f"{self.memory_dir}/{filename}"

    def entry_of(self, filename: str) -> IndexLine | None:
        """Return the index entry of a memory file."""
        return next((entry for entry in self.entries if entry.filename == filename), None)

    def read_text(self, filename: str) -> str | None:
        """Return what this reply's latest successful Read of a memory file showed."""
        path = self.path_of(filename)
        reads = [use for use in self.uses if use.name == "Read" and use.path == path and not use.failed]
        return reads[-1].text if reads else None


def view_of(messages: Sequence[Msg]) -> View:
    """Take a conversation apart. Blocks that are not understood are passed over."""
    system = "\n".join(_text_of(message) for message in messages if message.role == "system")
    memory_dir = find_memory_dir(system)
    last = max((at for at, message in enumerate(messages) if _spoken(message)), default=-1)
    shown: dict[str, str] = {}
    suggested: dict[str, None] = {}
    for at, message in enumerate(messages):
        for hint in _hints(message):
            files = split_hint(hint, memory_dir)
            shown.update(files)
            if at > last:
                suggested.update(dict.fromkeys(files))
    section = _SECTION.search(system)
    index_text = section["body"].rstrip("\n") if section else ""
    return View(
        text=_spoken(messages[last]) if last >= 0 else "",
        memory_dir=memory_dir,
        index_text=index_text,
        entries=parse_entries(index_text),
        shown=shown,
        suggested=tuple(suggested),
        uses=_uses(messages[last + 1 :]),
    )


def find_memory_dir(system: str) -> str | None:
    """Return the memory directory that a system prompt names, without a trailing slash."""
    match = _DIRECTORY_LINE.search(system) or _DIRECTORY_MENTION.search(system)
    return (match[1].rstrip("/") or "/") if match else None


def parse_entries(index_text: str) -> tuple[IndexLine, ...]:
    """Return the entries of an index; other lines are passed over."""
    found = []
    for line in index_text.splitlines():
        if match := _ENTRY.match(line):
            filename = unquote(match["file"].strip("<>")).removeprefix("./")
            found.append(IndexLine(line, match["title"], filename, match["hook"].strip()))
    return tuple(found)


def split_hint(hint: str, memory_dir: str | None) -> dict[str, str]:
    """Return the memory files that a hint holds: file name -> text."""
    found = {}
    for match in [*_FENCED.finditer(hint)] or [*_HEADED.finditer(hint)]:
        filename = match["file"].strip()
        if memory_dir is not None:
            filename = filename.removeprefix(f"{memory_dir}/")
        found[filename] = match["text"]
    return found


def _spoken(message: Msg) -> str:
    """Return what a person said, without notices that a program put beside it."""
    if message.role != "user" or _is_exposed_hint(message):
        return ""
    return _NOTICE.sub("", _text_of(message)).strip()


def _hints(message: Msg) -> list[str]:
    if _is_exposed_hint(message):
        return [_text_of(message)]
    # Hints with a source come from others: the runtime's clock, team mates, background tools.
    return [_plain(block.hint) for block in message.content if isinstance(block, HintBlock) and block.source is None]


def _is_exposed_hint(message: Msg) -> bool:
    """Tell whether a message is a hint in plain text, the form it takes for formatters that drop hint blocks."""
    return message.role == "user" and _FENCED.search(_text_of(message)) is not None


def _text_of(message: Msg) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def _plain(content: str | Sequence[object]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def _uses(messages: Sequence[Msg]) -> tuple[ToolUse, ...]:
    blocks = [block for message in messages if message.role == "assistant" for block in message.content]
    results = {block.id: block for block in blocks if isinstance(block, ToolResultBlock)}
    found = []
    for call in blocks:
        if isinstance(call, ToolCallBlock) and (result := results.get(call.id)):
            output = _plain(result.output)
            found.append(
                ToolUse(
                    name=call.name,
                    input=_arguments(call.input),
                    output=output,
                    failed=result.state not in {ToolResultState.SUCCESS, ToolResultState.RUNNING},
                    denied=result.state in {ToolResultState.DENIED, ToolResultState.INTERRUPTED},
                )
            )
    return tuple(found)


def _arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json.loads(text)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}
