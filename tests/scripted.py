"""A chat model that says what a test tells it to, and remembers what it was asked.

The folder ``tests/`` is on pytest's ``pythonpath``, so every test module can write::

    from scripted import ScriptedModel, call_tool

    model = ScriptedModel([call_tool("Read", file_path="/m/a.md"), "Done."], selections=[["a.md"]])
    agent = Agent(name="assistant", system_prompt="You help.", model=model, ...)
    await agent.reply(UserMsg("user", "hi"))
    assert "a.md" in model.calls[-1].text

It is a real ``ChatModelBase``: AgentScope's own call path (retries, streaming, accumulation, token counts) runs
around it, and the given formatter renders every call as it would go over the wire. Only the provider is missing.
"""

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from agentscope.credential import CredentialBase
from agentscope.formatter import FormatterBase, OpenAIChatFormatter
from agentscope.message import DataBlock, HintBlock, Msg, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage, StructuredResponse
from pydantic import BaseModel

Block = TextBlock | ThinkingBlock | ToolCallBlock | DataBlock
Answer = str | Block | Sequence[str | Block] | BaseException
Reply = Answer | Callable[["ModelCall"], Answer | Awaitable[Answer]]
"""One answer: a text, a block, several of them, an exception to raise, or a function of the call (may be async)."""

Structure = Sequence[str] | dict[str, Any] | BaseException
Selection = Structure | Callable[["StructuredCall"], Structure | Awaitable[Structure]]
"""One structured answer: a list of file names, a whole object, an exception, or a function of the call."""

_numbers = count(1)


class ScriptExhaustedError(AssertionError):
    """The code under test called the model more often than the test said it would."""


def call_tool(name: str, /, **arguments: Any) -> ToolCallBlock:
    """Return the block by which a model calls the tool ``name``."""
    return ToolCallBlock(id=f"call-{next(_numbers)}", name=name, input=json.dumps(arguments, ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call as the model saw it.

    Attributes:
        messages: Copies; what the agent does to its context later does not show here.
        payload: The same messages as the formatter renders them for the provider: what really reaches the model.
        tools: JSON schemas of the tools offered.
        tool_choice: As given.
    """

    messages: list[Msg]
    payload: list[dict[str, Any]] = field(repr=False)
    tools: list[dict[str, Any]] = field(repr=False)
    tool_choice: Any = None

    @property
    def system_prompt(self) -> str:
        """The text of the system messages."""
        return "\n".join(text_of(message) for message in self.messages if message.role == "system")

    @property
    def text(self) -> str:
        """All text of all messages, hints and tool results included."""
        return "\n".join(text_of(message) for message in self.messages)

    @property
    def hints(self) -> list[str]:
        """The text of every hint block in the context, oldest first."""
        return [_hint_text(block) for message in self.messages for block in message.get_content_blocks("hint")]

    @property
    def wire(self) -> str:
        """The payload as JSON text, to look for a word that must, or must not, reach the provider."""
        return json.dumps(self.payload, ensure_ascii=False, default=str)

    @property
    def tool_names(self) -> list[str]:
        """The names of the tools offered."""
        return [tool["function"]["name"] for tool in self.tools]


@dataclass(frozen=True, slots=True)
class StructuredCall:
    """One call for a structured answer.

    Attributes:
        messages: Copies.
        schema: The JSON schema asked for.
        kwargs: Whatever else was passed.
    """

    messages: list[Msg]
    schema: dict[str, Any] = field(repr=False)
    kwargs: dict[str, Any] = field(repr=False)

    @property
    def text(self) -> str:
        """All text of all messages."""
        return "\n".join(text_of(message) for message in self.messages)


class ScriptedModel(ChatModelBase):
    """Answer from a list, in order.

    Args:
        replies: One entry per model call.
        selections: One entry per ``generate_structured_output``. A list of names is sent as
            ``{"selected_files": [...]}``. The answer is not validated against the schema: a model class of a user's
            own may answer anything, and callers have to live with that.
        default: Answer for calls beyond ``replies``. Without it such a call raises ``ScriptExhaustedError``.
        default_selection: The same for ``selections``.
        formatter: Any AgentScope formatter; OpenAI's chat format unless given.
        stream: Whether replies come in pieces, texts cut in two.
        hold_structured: Let structured calls wait until the test calls ``structured_gate.set()``. Whether one has
            arrived is told by ``structured_started``.
        context_size: In tokens; large, so that nothing is compressed by surprise.
    """

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        selections: Iterable[Selection] = (),
        default: Reply | None = None,
        default_selection: Selection | None = None,
        formatter: FormatterBase | None = None,
        stream: bool = False,
        hold_structured: bool = False,
        context_size: int = 1_000_000,
        name: str = "scripted",
    ) -> None:
        super().__init__(
            credential=CredentialBase(),
            model=name,
            parameters=self.Parameters(),
            stream=stream,
            max_retries=0,
            context_size=context_size,
        )
        self.formatter = formatter or OpenAIChatFormatter()
        self.calls: list[ModelCall] = []
        self.structured: list[StructuredCall] = []
        self.structured_started = asyncio.Event()
        self.structured_gate = asyncio.Event()
        if not hold_structured:
            self.structured_gate.set()
        self._replies = iter(list(replies))
        self._selections = iter(list(selections))
        self._default = default
        self._default_selection = default_selection

    async def _call_api(
        self,
        model_name: str,
        messages: list[Msg],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> ChatResponse | AsyncGenerator[ChatResponse, None]:
        seen = deepcopy(messages)
        call = ModelCall(seen, await self.formatter.format(deepcopy(messages)), deepcopy(tools or []), tool_choice)
        self.calls.append(call)
        entry = next(self._replies, self._default)
        if entry is None:
            raise ScriptExhaustedError(f"model call {len(self.calls)} was not scripted; its messages: {call.text}")
        answer = await _settle(entry, call)
        if isinstance(answer, BaseException):
            raise answer
        parts = [answer] if isinstance(answer, str | Block) else list(answer)
        blocks = [TextBlock(text=part) if isinstance(part, str) else part for part in parts]
        usage = ChatUsage(input_tokens=await self.count_tokens(messages, tools), output_tokens=1, time=0.0)
        if self.stream:
            return _stream(blocks, usage)
        return ChatResponse(content=blocks, is_last=True, usage=usage)

    async def generate_structured_output(
        self, messages: list[Msg], structured_model: type[BaseModel] | dict[str, Any], **kwargs: Any
    ) -> StructuredResponse:
        """Answer with the next selection, once the gate is open."""
        schema = structured_model if isinstance(structured_model, dict) else structured_model.model_json_schema()
        call = StructuredCall(deepcopy(messages), deepcopy(schema), kwargs)
        self.structured.append(call)
        self.structured_started.set()
        await self.structured_gate.wait()
        entry = next(self._selections, self._default_selection)
        if entry is None:
            raise ScriptExhaustedError(f"structured call {len(self.structured)} was not scripted: {call.text}")
        answer = await _settle(entry, call)
        if isinstance(answer, BaseException):
            raise answer
        return StructuredResponse(content=answer if isinstance(answer, dict) else {"selected_files": answer})


def text_of(message: Msg) -> str:
    """Return the text a message carries in any of its blocks."""
    return "\n".join(_block_text(block) for block in message.get_content_blocks())


def _block_text(block: Any) -> str:
    match block:
        case TextBlock():
            return block.text
        case ThinkingBlock():
            return block.thinking
        case HintBlock():
            return _hint_text(block)
        case ToolCallBlock():
            return f"{block.name}({block.input})"
        case ToolResultBlock():
            return block.output if isinstance(block.output, str) else "\n".join(map(_block_text, block.output))
        case _:
            return ""


def _hint_text(block: Any) -> str:
    return block.hint if isinstance(block.hint, str) else "\n".join(map(_block_text, block.hint))


async def _settle(entry: Any, call: Any) -> Any:
    answer = entry(call) if callable(entry) else entry
    return await answer if inspect.isawaitable(answer) else answer


async def _stream(blocks: list[Block], usage: ChatUsage) -> AsyncGenerator[ChatResponse, None]:
    for block in blocks:
        pieces: list[Block] = [block]
        if isinstance(block, TextBlock) and len(block.text) > 1:
            half = len(block.text) // 2
            pieces = [block.model_copy(update={"text": part}) for part in (block.text[:half], block.text[half:])]
        for piece in pieces:
            yield ChatResponse(content=[piece], is_last=False)
    yield ChatResponse(content=[], is_last=False, usage=usage)
