"""Model calls of our own, made the way the agent makes its own."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from agentscope.agent import Agent
from agentscope.message import Msg, TextBlock
from agentscope.middleware import MiddlewareBase
from agentscope.model import ChatModelBase, ChatResponse, StructuredResponse
from pydantic import BaseModel

from agentic_memory.selection.selector import StructuredCall, call_directly

logger = logging.getLogger("agentic_memory")


def calls_of(agent: Agent, *, without: MiddlewareBase) -> StructuredCall:
    """Return calls that pass through the agent's ``on_model_call`` middlewares and fall back to its fallback model.

    So they are traced, limited and routed like those of the agent, and tried as often (``ModelConfig.max_retries``). A hook sees
    the answer as JSON in a text block; what it makes of the answer is not taken over, for the answer has a schema to keep.

    Args:
        agent: Whose.
        without: The middleware that makes the calls: it needs no look at them.
    """

    async def call(model: ChatModelBase, messages: list[Msg], answer: type[BaseModel]) -> StructuredResponse:
        hooks = [hook for hook in getattr(agent, "_model_call_middlewares", ()) if hook is not without]
        settings = agent.model_config
        fallback = settings.fallback_model if model is agent.model else None
        attempts = [one for one in (model, fallback) if one is not None for _ in range(settings.max_retries + 1)]
        for attempt in attempts[:-1]:
            try:
                return await _call_through(agent, hooks, attempt, messages, answer)
            except Exception as error:  # noqa: BLE001 - whatever it is, the agent would try again too
                logger.warning("memory: %s failed to pick, another attempt is made: %s", attempt.model, error)
        return await _call_through(agent, hooks, attempts[-1], messages, answer)

    return call


async def _call_through(
    agent: Agent, hooks: Sequence[Any], model: ChatModelBase, messages: list[Msg], answer: type[BaseModel]
) -> StructuredResponse:
    given: list[StructuredResponse] = []

    async def descend(depth: int, arguments: dict[str, Any]) -> ChatResponse:
        if depth == len(hooks):
            response = await call_directly(arguments["current_model"], arguments["messages"], answer)
            given.append(response)
            text = json.dumps(response.content, ensure_ascii=False, default=str)
            return ChatResponse(content=[TextBlock(text=text)], is_last=True, usage=response.usage)

        async def go_on(**changed: Any) -> ChatResponse:
            return await descend(depth + 1, {**arguments, **changed})

        result: ChatResponse = await hooks[depth].on_model_call(agent=agent, input_kwargs=arguments, next_handler=go_on)
        return result

    await descend(0, {"current_model": model, "messages": messages, "tools": [], "tool_choice": None})
    if not given:
        raise RuntimeError("a middleware of the agent answered the call in place of the model")
    return given[-1]
