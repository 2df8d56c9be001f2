"""What write-back costs a reply that does not wait for it: the same replies with and without, side by side.

On the local disk, with a model that answers in 10 ms and learns in 50 ms, sooner than any real one, so that memory's part
of a reply is large. Somebody reads an answer for longer than it takes to learn from it;
once more without that pause, where what is being learnt runs beside the next reply.
"""

import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Literal

from _measure import Row, arguments, report
from agentscope.agent import Agent
from agentscope.credential import CredentialBase
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import TextBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatModelBase, ChatResponse
from agentscope.tool import Toolkit

from agentic_memory import AgenticMemoryMiddleware

REPLIES = 20
ROUNDS = 5
ANSWER_SECONDS = 0.01
LEARN_SECONDS = 0.05

FACT = {"type": "user", "title": "Tea", "text": "The user likes Longjing tea.", "when": "Offering tea"}
LEARNT = {
    "memories": {"memories": [FACT], "complete": True},
    "decisions": {"decisions": [{"operation": "NONE", "fact": 1, "memory": 1}], "complete": True},
}


class QuickModel(ChatModelBase):
    """Talks after ``ANSWER_SECONDS``, learns after ``LEARN_SECONDS``."""

    def __init__(self) -> None:
        super().__init__(
            credential=CredentialBase(), model="quick", parameters=self.Parameters(), stream=False, max_retries=0
        )
        self.formatter = OpenAIChatFormatter()

    async def _call_api(
        self, model_name: str, messages: Any, tools: Any = None, tool_choice: Any = None, **kwargs: Any
    ) -> ChatResponse:
        if not tools:
            await asyncio.sleep(ANSWER_SECONDS)
            return ChatResponse(content=[TextBlock(text="Longjing, of course. " * 20)], is_last=True)
        await asyncio.sleep(LEARN_SECONDS)
        wanted = tools[0]["function"]
        answer = next(LEARNT[key] for key in LEARNT if key in wanted["parameters"]["properties"])
        call = ToolCallBlock(id="1", name=wanted["name"], input=json.dumps(answer))
        return ChatResponse(content=[call], is_last=True)


def agent_with(workdir: Path, write_back: Literal["off", "extract"]) -> tuple[Agent, AgenticMemoryMiddleware]:
    memory = AgenticMemoryMiddleware(
        workdir=str(workdir),
        parameters=AgenticMemoryMiddleware.Parameters(write_back=write_back, retrieval_async=False),
    )
    agent = Agent("assistant", "You help.", QuickModel(), toolkit=Toolkit(), middlewares=[memory])
    return agent, memory


async def median_reply(agent: Agent, memory: AgenticMemoryMiddleware, *, reading: bool) -> float:
    """Return the median seconds until ``agent.reply`` returns."""
    times = []
    for number in range(REPLIES):
        question = UserMsg("user", f"Question {number}: which tea should I drink today, and why that one?")
        began = time.perf_counter()
        await agent.reply(question)
        times.append(time.perf_counter() - began)
        agent.state.context.clear()  # else a conversation that grows would be measured
        if reading:
            await asyncio.sleep(LEARN_SECONDS * 3)  # both alike: what has rested is slower
            await memory.aclose(timeout=60)
    return statistics.median(times)


async def measure(workdir: Path) -> list[Row]:
    plain, writing = agent_with(workdir / "off", "off"), agent_with(workdir / "extract", "extract")
    for agent, memory in (plain, writing):
        await median_reply(agent, memory, reading=True)  # warm
    pairs: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for reading, found in pairs.items():
        for _ in range(ROUNDS):
            gc.collect()
            found.append((await median_reply(*plain, reading=reading), await median_reply(*writing, reading=reading)))
            await writing[1].aclose(timeout=60)
    rows = [
        Row("reply without write-back", min(one for one, _ in pairs[True]) * 1e3, "ms"),
        Row("reply with write-back", min(two for _, two in pairs[True]) * 1e3, "ms"),
    ]
    for reading, bound, note in ((True, 1.05, "somebody reads the answer"), (False, None, "no pause at all")):
        ratio = min(two for _, two in pairs[reading]) / min(one for one, _ in pairs[reading])
        rows.append(
            Row("with : without", ratio, "x", bound, f"{note}; fastest of {ROUNDS} rounds of {REPLIES} replies")
        )
    return rows


def main() -> int:
    options = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="agentic-memory-write-back-") as place:
        rows = asyncio.run(measure(Path(place)))
    return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
