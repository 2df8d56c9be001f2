"""One turn of a conversation as it is kept until it is learnt: what was said and done, without what memory put there."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Self

from agentscope.message import DataBlock, HintBlock, Msg, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock

from agentic_memory.errors import InvalidMemory
from agentic_memory.tokens import cut_to_tokens, estimate_tokens

MAX_TURN_TOKENS: Final = 6_000
"""What a model is shown of one turn: half of it is for what people said, half for what was done about it."""
MAX_CALL_TOKENS: Final = 100
MAX_RESULT_TOKENS: Final = 200
MEMORY_TOOLS: Final = frozenset(("MemorySearch", "MemoryAdd", "MemoryUpdate", "MemoryForget"))
"""Tools that read or write memory whatever their arguments; others do when these name the memory directory."""
CUT: Final = "[... cut ...]"


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said and done between one question and its answer.

    Attributes:
        key: Names the turn: two of one key are one. Safe as a file name.
        text: The transcript.
        when: When it ended, with the time zone of the one who asked where that is known.
        session, reply, agent: Where it took place; empty when unknown.
        attempts: How often it was tried to learn it.
        error: Why the last attempt failed.
        retry_at: Not to be tried again before.
    """

    key: str
    text: str = field(repr=False)
    when: datetime
    session: str = ""
    reply: str = ""
    agent: str = ""
    attempts: int = 0
    error: str = ""
    retry_at: datetime | None = None

    def failed(self, error: str, *, retry_at: datetime) -> Self:
        """Return the turn after one more attempt."""
        return replace(self, attempts=self.attempts + 1, error=error[:500], retry_at=retry_at)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        data: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name in ("when", "retry_at"):
            data[name] = data[name] and data[name].isoformat()
        return data

    def as_bytes(self) -> bytes:
        """Return the form that is kept in a file."""
        return json.dumps(self.as_dict(), ensure_ascii=False, indent=1).encode("utf-8", "surrogatepass")

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Read the JSON form back.

        Raises:
            InvalidMemory: it is not what ``as_dict`` gave.
        """
        try:
            fields = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
            for name in ("when", "retry_at"):
                moment = fields.get(name)
                fields[name] = moment and datetime.fromisoformat(moment)
            turn = cls(**fields)
            if not turn.key.isalnum() or not isinstance(turn.text, str) or turn.when.tzinfo is None:
                raise TypeError("a field has another type")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidMemory(f"this is no waiting turn: {error}") from error
        return turn

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a file back; errors as ``from_dict``."""
        try:
            found = json.loads(data.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise InvalidMemory(f"this is no waiting turn: {error}") from error
        return cls.from_dict(found)


def turn_key(*parts: str) -> str:
    """Return the key of a turn from what makes it this one: user, agent, session, the ids of the messages."""
    return sha256(json.dumps(parts).encode()).hexdigest()[:32]


def key_of(messages: Sequence[Msg], *, scope: Sequence[str] = ()) -> str:
    """Return the key of a turn from its messages: the ids of what people said, or of all when nobody did."""
    said = [message.id for message in messages if message.role == "user"]
    return turn_key(*scope, *(said or [message.id for message in messages]))


def turn_of(
    messages: Sequence[Msg],
    *,
    key: str,
    when: datetime | None = None,
    memory_dir: str = "",
    session: str = "",
    reply: str = "",
    agent: str = "",
) -> Turn:
    """Make a turn of messages; what of them came out of ``memory_dir`` is left out."""
    lines = [
        line for message in messages for line in (_said if message.role == "user" else _done_in(memory_dir))(message)
    ]
    text = "\n".join(lines)
    if estimate_tokens(text) > MAX_TURN_TOKENS:
        said = render_said([message for message in messages if message.role == "user"])
        done = render_done([message for message in messages if message.role != "user"], memory_dir=memory_dir)
        text = f"{said}\n\n{done}"
    return Turn(key, _whole(text), when or datetime.now(UTC).astimezone(), session, reply, agent)


def render_said(messages: Sequence[Msg]) -> str:
    """Render what people said."""
    lines = "\n".join(line for message in messages for line in _said(message))
    return _whole(_cut_middle(lines, MAX_TURN_TOKENS // 2))


def render_done(messages: Sequence[Msg], *, memory_dir: str = "") -> str:
    """Render what the assistant said and did, without anything that memory supplied.

    Hints and thoughts are left out; a call that reads or writes memory stands there by name only.
    """
    lines = "\n".join(line for message in messages for line in _done_in(memory_dir)(message))
    return _whole(_cut_middle(lines, MAX_TURN_TOKENS // 2))


def _whole(text: str) -> str:
    """Return ``text`` without halves of characters, with which no session could be saved."""
    return text.encode("utf-8", "replace").decode()


def _said(message: Msg) -> Iterator[str]:
    for block in message.get_content_blocks():
        if isinstance(block, TextBlock) and block.text.strip():
            yield f"{message.name}: {block.text.strip()}"
        elif isinstance(block, DataBlock):
            yield f"{message.name}: [{block.source.media_type}]"


def _done_in(memory_dir: str) -> Callable[[Msg], Iterator[str]]:
    return lambda message: _done(message, memory_dir)


def _done(message: Msg, memory_dir: str) -> Iterator[str]:
    hidden: set[str] = set()
    for block in message.get_content_blocks():
        match block:
            case TextBlock() if block.text.strip():
                yield f"assistant: {block.text.strip()}"
            case ToolCallBlock():
                if _is_memory_call(block, memory_dir):
                    hidden.add(block.id)
                    yield f"[the assistant used its memory: {block.name}]"
                else:
                    yield f"[call] {block.name} {_cut_middle(block.input, MAX_CALL_TOKENS)}"
            case ToolResultBlock() if block.id not in hidden:
                yield f"[result, {block.state}] {_cut_middle(_text_of(block), MAX_RESULT_TOKENS)}"
            case HintBlock() | ThinkingBlock() | _:
                continue


def _is_memory_call(call: ToolCallBlock, memory_dir: str) -> bool:
    if call.name in MEMORY_TOOLS:
        return True
    # By its last part: a command may spell the rest of the path in many ways.
    tail = memory_dir.rstrip("/").rpartition("/")[2]
    return bool(tail) and re.search(rf"(?<![\w-]){re.escape(tail)}(?![\w-])", call.input) is not None


def _text_of(result: ToolResultBlock) -> str:
    if isinstance(result.output, str):
        return result.output
    return "\n".join(block.text for block in result.output if isinstance(block, TextBlock))


def _cut_middle(text: str, max_tokens: int) -> str:
    """Return the head and the tail of a text that is too long: how it began and what came of it."""
    if estimate_tokens(text) <= max_tokens:
        return text
    head = cut_to_tokens(text, max_tokens // 2)
    tail = cut_to_tokens(text[::-1], max_tokens // 2 - estimate_tokens(CUT))[::-1]
    return f"{head.rstrip()}\n{CUT}\n{tail.lstrip()}"
