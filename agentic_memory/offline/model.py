"""A chat model for when there is none: no network, no weights, no key, and no reasoning.

It carries out "remember ...", "forget ..." and "what do you know about ...?", in English and Chinese, with the tools
it is given, and answers by quoting what memory holds. Everything else it declines, and says why. It exists so that
the whole path - prompt, retrieval, tools, files - can be tried and tested on any machine.
"""

import json
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, Literal
from uuid import uuid4

import anyio.to_thread
from agentscope.credential import CredentialBase
from agentscope.formatter import FormatterBase, OpenAIChatFormatter
from agentscope.message import Msg, TextBlock, ToolCallBlock
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage
from agentscope.tool import ToolChoice
from pydantic import BaseModel

from agentic_memory.offline.rules import Call, Step, Tools, next_step
from agentic_memory.offline.schema import answer_schema
from agentic_memory.offline.view import view_of

MAX_CHUNKS: Final = 200
"""A long answer is streamed in larger pieces rather than in more."""

_PIECE = re.compile(r"\s*\S{1,12}\s*")
_STRUCTURED_TOOLS = ("generate_structured_output", "GenerateStructuredOutput")


class OfflineModel(ChatModelBase):
    """Act on memory by fixed rules. Deterministic, except for the ids of its tool calls.

    It takes the place of any AgentScope chat model, streams when asked to, and as a retrieval model picks the files
    that share words with the message. Pass ``formatter`` only if something else looks at it: the rules read the
    messages themselves.
    """

    class Parameters(ChatModelBase.Parameters):
        """There is nothing to set."""

    type: Literal["offline_chat"] = "offline_chat"

    def __init__(
        self,
        credential: CredentialBase | None = None,
        model: str = "offline",
        parameters: BaseModel | None = None,
        stream: bool = True,  # noqa: FBT001, FBT002 - the position it has in every AgentScope model
        context_size: int = 128_000,
        formatter: FormatterBase | None = None,
    ) -> None:
        super().__init__(
            credential=credential or CredentialBase(),
            model=model,
            parameters=parameters or self.Parameters(),
            stream=stream,
            max_retries=0,
            context_size=context_size,
        )
        self.formatter = formatter or OpenAIChatFormatter()

    async def _call_api(
        self,
        model_name: str,
        messages: list[Msg],
        tools: list[dict[str, Any]] | None = None,
        tool_choice: ToolChoice | None = None,
        **kwargs: Any,
    ) -> ChatResponse | AsyncGenerator[ChatResponse, None]:
        del model_name, kwargs
        self._validate_tool_choice(tool_choice, tools)
        offered = _offered(tools, tool_choice)
        # A memory of megabytes takes a second to match; a model that waits for a network would not block the loop either.
        step = await anyio.to_thread.run_sync(_step, messages, offered)
        blocks = _blocks(step)
        usage = ChatUsage(
            input_tokens=await self.count_tokens(messages, tools),
            output_tokens=sum(len(_payload(block).encode()) for block in blocks) // 4 + 1,
            time=0.0,
        )
        if self.stream:
            return _stream(blocks, usage)
        return ChatResponse(content=[*blocks], is_last=True, usage=usage)


def _offered(tools: Sequence[dict[str, Any]] | None, choice: ToolChoice | None) -> Tools:
    schemas = [tool["function"] for tool in tools or ()]
    offered = {schema["name"]: schema.get("parameters") or {} for schema in schemas}
    if choice is None:
        return offered
    if choice.mode == "none":
        return {}
    if choice.mode not in {"auto", "required"}:
        return {choice.mode: offered[choice.mode]}
    return {name: schema for name, schema in offered.items() if not choice.tools or name in choice.tools}


def _step(messages: Sequence[Msg], tools: Tools) -> Step:
    if len(tools) == 1 and (only := next(iter(tools))) in _STRUCTURED_TOOLS:
        return Step(calls=(Call(only, answer_schema(tools[only], messages)),))
    step = next_step(view_of(messages), tools)
    # A reply that owes a structured result ends with it, once the work is done.
    if not step.calls and (wanted := next((name for name in _STRUCTURED_TOOLS if name in tools), None)):
        return Step(step.text, (Call(wanted, answer_schema(tools[wanted], messages)),))
    return step


def _blocks(step: Step) -> list[TextBlock | ToolCallBlock]:
    blocks: list[TextBlock | ToolCallBlock] = [TextBlock(text=step.text)] if step.text else []
    for call in step.calls:
        arguments = json.dumps(call.input, ensure_ascii=False)
        blocks.append(ToolCallBlock(id=f"offline_{uuid4().hex}", name=call.name, input=arguments))
    return blocks


def _payload(block: TextBlock | ToolCallBlock) -> str:
    return block.text if isinstance(block, TextBlock) else block.input


async def _stream(blocks: Sequence[TextBlock | ToolCallBlock], usage: ChatUsage) -> AsyncGenerator[ChatResponse, None]:
    """Yield increments, as providers do; AgentScope puts them together. The usage comes last, on its own."""
    response_id = uuid4().hex
    for block in blocks:
        if isinstance(block, TextBlock):
            for piece in _pieces(block.text):
                delta = TextBlock(id=block.id, text=piece)
                yield ChatResponse(content=[delta], is_last=False, id=response_id)
        else:
            yield ChatResponse(content=[block], is_last=False, id=response_id)
    yield ChatResponse(content=[], is_last=False, id=response_id, usage=usage)


def _pieces(text: str) -> list[str]:
    pieces = _PIECE.findall(text) or [text]
    size = -(-len(pieces) // MAX_CHUNKS)
    return ["".join(pieces[at : at + size]) for at in range(0, len(pieces), size)]
