"""A list asked of a model: one structured call, and one in plain text when the answer cannot be used.

Half an answer is no answer. The schema ends with a field that only a whole answer has, and text is read strictly but for
fences and trailing commas, so an answer that was cut at its token limit is never mended into a fact nobody stated.
"""

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar

from agentscope.message import Msg, SystemMsg, UserMsg
from agentscope.model import ChatModelBase, ChatResponse, ChatUsage
from agentscope.tool import ToolChoice
from pydantic import BaseModel, BeforeValidator, Field, ValidationError, create_model

from agentic_memory.errors import AgenticMemoryError
from agentic_memory.prompts import load_prompt

MAX_CALLS: Final = 2
STRUCTURED_TOOL: Final = "generate_structured_output"
"""AgentScope's name for the tool of a structured answer. Choosing it keeps AgentScope from trying four ways by itself: a
turn must cost what it is said to cost."""
_FENCE: Final = re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL)
_STRING_OR_COMMA: Final = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)

Item = TypeVar("Item", bound=BaseModel)


class MalformedAnswer(AgenticMemoryError):
    """A model answered with something else than the list it was asked for, twice.

    Attributes:
        cost: What the calls took all the same.
    """

    def __init__(self, message: str, cost: "Cost") -> None:
        super().__init__(message)
        self.cost = cost


@dataclass(frozen=True, slots=True)
class Cost:
    """Model calls and their tokens, 0 where the model does not tell."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        """Return the sum."""
        return Cost(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )

    def with_call(self, usage: ChatUsage | None) -> "Cost":
        """Return this and one more call."""
        return self + Cost(1, usage.input_tokens if usage else 0, usage.output_tokens if usage else 0)


NO_COST: Final = Cost()


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a list of objects under ``key``, each of the shape ``item``.

    Attributes:
        instructions: The system message.
        text: The user message.
        key: Name of the list in the answer.
        item: Shape of one object.
    """

    instructions: str
    text: str
    key: str
    item: type[BaseModel]

    def schema(self) -> type[BaseModel]:
        """Return the model of a whole answer. Items of another shape do not spoil the others: they are left to us."""
        return _schema(self.key, self.item)


@cache
def _schema(key: str, item: type[BaseModel]) -> type[BaseModel]:
    shape = Annotated[list[item], BeforeValidator(_only(item))]  # type: ignore[valid-type]  # made at run time
    fields: dict[str, Any] = {
        key: (shape, Field(description="Empty when there is none.")),
        "complete": (Literal[True], Field(description="true, after everything else.")),
    }
    return create_model("Answer", **fields)


@dataclass(frozen=True, slots=True)
class Answer:
    """The objects of an answer as the model gave them, and what it cost to get them."""

    items: tuple[Any, ...]
    cost: Cost


async def ask(model: ChatModelBase, question: Question) -> Answer:
    """Ask once with a schema, and once more in plain text when that gave nothing that can be used.

    Raises:
        MalformedAnswer: neither answer was the list.
        Exception: whatever the model raised in the second call.
    """
    messages: list[Msg] = [
        SystemMsg(name="system", content=question.instructions),
        UserMsg(name="user", content=question.text),
    ]
    schema = question.schema()
    cost, reason = Cost(), ""
    try:
        structured = await model.generate_structured_output(
            messages, structured_model=schema, tool_choice=ToolChoice(mode=STRUCTURED_TOOL)
        )
    except Exception as error:  # noqa: BLE001 - models refuse schemas and tool choices in their own ways; text is left
        cost, reason = cost.with_call(None), f"{type(error).__name__}: {error}"[:300]
    else:
        cost = cost.with_call(structured.usage)
        items = _listed(structured.content, question.key, whole=False)
        if items is not None:
            return Answer(items, cost)
        reason = f"it has no list {question.key!r}, or it was cut short"
    request = load_prompt("answer_as_json").format(reason=reason, schema=json.dumps(schema.model_json_schema()))
    text, usage = await _say(model, [*messages, UserMsg(name="user", content=request)])
    cost = cost.with_call(usage)
    items = _listed(read_object(text), question.key, whole=True)
    if items is None:
        raise MalformedAnswer(f"the model answered {text[:200]!r}, which holds no list {question.key!r}", cost)
    return Answer(items, cost)


def read_object(text: str) -> Any:
    """Return the JSON object in a model's text, fenced or not and with trailing commas or without; None for none.

    An object that does not end is none.
    """
    for candidate in (*_FENCE.findall(text), text):
        start = candidate.find("{")
        if start < 0:
            continue
        tidy = _STRING_OR_COMMA.sub(lambda match: match[0] if match[0][0] == '"' else "", candidate[start:])
        try:
            found, _ = json.JSONDecoder(strict=False).raw_decode(tidy)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return None


def read_items(items: Sequence[Any], shape: type[Item]) -> tuple[list[Item], list[str]]:
    """Return the items that have ``shape``, and what is wrong with each of the others."""
    read: list[Item] = []
    wrong: list[str] = []
    for number, item in enumerate(items, 1):
        try:
            read.append(shape.model_validate(item))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "the whole"
            wrong.append(f"item {number} was left out: {place}: {first['msg']}")
    return read, wrong


def _listed(content: Any, key: str, *, whole: bool) -> tuple[Any, ...] | None:
    """Return the list; None when there is none. ``whole``: that nothing was cut is known otherwise."""
    if not isinstance(content, Mapping) or not isinstance(content.get(key), list):
        return None
    if not whole and content.get("complete") is not True:
        return None
    return tuple(content[key])


def _only(shape: type[BaseModel]) -> Callable[[Any], Any]:
    return lambda items: read_items(items, shape)[0] if isinstance(items, list) else items


async def _say(model: ChatModelBase, messages: list[Msg]) -> tuple[str, ChatUsage | None]:
    response = await model(messages)
    last: ChatResponse | None = None
    if isinstance(response, AsyncGenerator):
        async for chunk in response:
            if chunk.is_last:
                last = chunk
    else:
        last = response
    if last is None:
        return "", None
    return "".join(block.text for block in last.content if block.type == "text"), last.usage
