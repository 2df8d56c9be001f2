"""AgentScope's own memory middleware under the same faults, measured and not judged: what its index and reply become."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.middleware import AgenticMemoryMiddleware
from agentscope.tool import Toolkit
from scripted import ScriptedModel

from faults.case import Fault, Place
from faults.conversation import INDEX, Call, plant

PATIENCE_SECONDS = 20
FIRST_CALL = Call(index_is_there=True, number=0, name="start: snapshot")


async def play_upstream(place: Place, fault: Fault, read_index: Callable[[], Awaitable[bytes]]) -> str:
    """Let the fault strike before its first call, and return the cell of the table.

    Its retrieval is off, so that the calls come in one order.
    """
    await plant(place.backend, place.workdir)
    parameters = AgenticMemoryMiddleware.Parameters(retrieval_async=False)
    backend: Any = place.backend
    memory = AgenticMemoryMiddleware(workdir=place.workdir, parameters=parameters, backend=backend.inner)
    model = ScriptedModel(["Done."])
    agent = Agent(name="assistant", system_prompt="", model=model, toolkit=Toolkit(), middlewares=[memory])
    await fault.strike(place, FIRST_CALL)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await agent.reply(UserMsg("user", "Where do I live?"))
    except TimeoutError:
        reply = "the reply hangs"
    except Exception as error:
        reply = f"the reply ends with {type(error).__name__}"
    else:
        reply = "went on" if "the order matters" in model.calls[0].text else "went on, told that memory is empty"
    finally:
        await fault.lift(place)
    index = await read_index()
    kept = "" if index == INDEX else f"; MEMORY.md {len(INDEX):,} to {len(index):,} bytes"
    return f"{reply}{kept}"
