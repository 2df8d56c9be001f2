"""What write-back costs a reply that does not wait for it: the same replies with and without, side by side.

On the local disk, with a model that answers in 10 ms and learns in 50 ms, sooner than any real one, so that memory's part
of a reply is large. Somebody reads an answer for longer than it takes to learn from it;
once more without that pause, where what is being learnt runs beside the next reply.
"""

import asyncio
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

READING_SECONDS = 0.2
REPLIES = 80
WARM = 10
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


async def timed_reply(agent: Agent, number: int) -> float:
    """Return the seconds until ``agent.reply`` returns."""
    question = UserMsg("user", f"Question {number}: which tea should I drink today, and why that one?")
    began = time.perf_counter()
    await agent.reply(question)
    seconds = time.perf_counter() - began
    agent.state.context.clear()  # else a conversation that grows would be measured
    return seconds


async def measure(workdir: Path) -> list[Row]:
    pairs = [agent_with(workdir / "off", "off"), agent_with(workdir / "extract", "extract")]
    for _, memory in pairs:  # what will be learnt is there already, so that both have the same memory throughout
        await memory.store.add(name="Tea", description="Offering tea", type="user", content=FACT["text"])
    times: dict[tuple[bool, int], list[float]] = {}
    for reading in (True, False):
        for number in range(WARM + REPLIES):
            # In turns, and each as often after the other as after itself: the machine's noise meets both alike.
            for which in (0, 1) if number % 2 else (1, 0):
                seconds = await timed_reply(pairs[which][0], number)
                if number >= WARM:
                    times.setdefault((reading, which), []).append(seconds)
                if reading:  # alike for both: a process that has rested longer is served sooner
                    await asyncio.sleep(READING_SECONDS)
                    await pairs[1][1].aclose(timeout=60)
        await pairs[1][1].aclose(timeout=60)
    quick = {key: statistics.quantiles(found, n=4)[0] for key, found in times.items()}  # the rest is the machine's
    return [
        Row("reply without write-back", quick[True, 0] * 1e3, "ms"),
        Row("reply with write-back", quick[True, 1] * 1e3, "ms"),
        Row("with : without", quick[True, 1] / quick[True, 0], "x", 1.05, f"somebody reads; {REPLIES} replies each"),
        Row("with : without", quick[False, 1] / quick[False, 0], "x", None, "no pause at all, learning runs beside"),
    ]


def main() -> int:
    options = arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="agentic-memory-write-back-") as place:
        rows = asyncio.run(measure(Path(place)))
    return report(rows, options)


if __name__ == "__main__":
    sys.exit(main())
