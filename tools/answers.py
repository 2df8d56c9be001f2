"""What a tool answers: text that a model can act on, whatever happened.

Library code raises; here, and only here, what it raised becomes an answer.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar, cast

from agentscope.message import TextBlock, ToolResultState
from agentscope.tool import ToolChunk

from agentic_memory.errors import AgenticMemoryError, BackendUnavailable, Conflict

CallT = TypeVar("CallT", bound=Callable[..., Awaitable[ToolChunk]])


class Refusal(Exception):
    """A tool will not do what it was asked to; the message says why and what to do instead."""


def answer(text: str, **metadata: object) -> ToolChunk:
    """Return a successful answer."""
    # RUNNING is what AgentScope's own tools answer on success: the toolkit turns it into a SUCCESS as a whole.
    return ToolChunk(content=[TextBlock(text=text)], state=ToolResultState.RUNNING, metadata=metadata)


def as_tool_error(exc: Exception) -> ToolChunk:
    """Return what a model is told about ``exc``. A file that cannot be seen is never called missing."""
    match exc:
        case BackendUnavailable():
            text = (
                f"{str(exc).rstrip('.')}. The file may well be there: do not take it for missing. Read it to see what it "
                "holds, then try once more; if it fails again, tell the user."
            )
        case Conflict():
            text = f"{exc.path} was changed by others again and again meanwhile, so nothing was written. Read it again."
        case _:
            text = str(exc)
    return ToolChunk(content=[TextBlock(text=f"Error: {text}")], state=ToolResultState.ERROR)


def answers_errors(call: CallT) -> CallT:
    """Make a tool's ``call`` answer with what went wrong in it instead of raising."""

    @wraps(call)
    async def answering(*args: Any, **kwargs: Any) -> ToolChunk:
        try:
            return await call(*args, **kwargs)
        except (Refusal, AgenticMemoryError, OSError, ValueError) as exc:
            return as_tool_error(exc)

    # The same signature; a ParamSpec would lose that a call gives the very coroutine type AgentScope's gives.
    return cast("CallT", answering)
