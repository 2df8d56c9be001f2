"""1,000 turns over 50 sessions, with processes that die at random: each turn is learnt once, none is lost."""

import asyncio
import random
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from agentscope.agent import Agent
from agentscope.message import Msg, UserMsg
from agentscope.model import StructuredResponse
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from scripted import ScriptedModel

from agentic_memory.backends import InMemoryBackend
from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.store import MemoryStore
from agentic_memory.writeback import Learner
from agentic_memory.writeback.queue import list_failed, look_at_queue

SESSIONS = 50


class Pupil(ScriptedModel):
    """Learns each turn as a line in the memory of its session; sometimes it is slow, down, or answers nonsense.

    Every line has a number of its own, so that what was learnt twice stands there twice.
    """

    def __init__(self, chance: random.Random, *, failing: float) -> None:
        super().__init__(default="I would rather not say.")
        self._chance = chance
        self._failing = failing

    async def generate_structured_output(
        self, messages: list[Msg], structured_model: Any, **kwargs: Any
    ) -> StructuredResponse:
        if self._chance.random() < 0.3:
            await asyncio.sleep(0)
        if self._chance.random() < self._failing:
            if self._chance.random() < 0.5:
                raise RuntimeError("the model is down")
            return StructuredResponse(content={"memory": [{"text": "a"}]})
        text = messages[-1].get_text_content()
        wanted = next(iter(structured_model.model_fields))
        item = self._fact(text) if wanted == "memories" else self._decision(text)
        return StructuredResponse(content={wanted: [item], "complete": True})

    def _fact(self, text: str) -> dict[str, Any]:
        session, turn = re.search(r"session (\d+) turn (\d+)", text).groups()
        line = f"Learnt turn {turn} of session {session} as {self._chance.getrandbits(60)}"
        return {"type": "project", "title": f"Session {session}", "text": line, "when": f"session {session}"}

    def _decision(self, text: str) -> dict[str, Any]:
        session = re.search(r"of session (\d+) as", text.split("Memories:", maxsplit=1)[0]).group(1)
        there = re.search(rf'<memory number="(\d+)" id="\w+" title="Session {session}"', text)
        return {"fact": 1, **({"operation": "UPDATE", "memory": int(there[1])} if there else {"operation": "ADD"})}


class World:
    """One process after another that serves all sessions; the host saves a session's state when it has the answer."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.backend = InMemoryBackend()
        self.saved = {session: AgentState(session_id=f"s{session}").model_dump_json() for session in range(SESSIONS)}
        self.start()

    def start(self) -> None:
        self.memory = AgenticMemoryMiddleware(
            workdir="/w",
            backend=self.backend,
            parameters=AgenticMemoryMiddleware.Parameters(
                write_back="extract",
                write_back_model=Pupil(self.chance, failing=0.05),
                retrieval_async=False,
                history=False,
            ),
        )
        self.agent = Agent("a", "Help.", ScriptedModel(default="Ok."), toolkit=Toolkit(), middlewares=[self.memory])

    async def turn(self, session: int, number: int) -> None:
        state = AgentState.model_validate_json(self.saved[session])
        self.agent.state = state
        question = UserMsg("user", f"This is session {session} turn {number}")
        async for item in self.agent.reply_stream(question, yield_final_msg=True):
            if isinstance(item, Msg):
                state.context = state.context[-4:]  # long conversations are compressed
                self.saved[session] = state.model_dump_json()
        if self.chance.random() < 0.5:  # others save a moment later
            await asyncio.sleep(0)
            self.saved[session] = state.model_dump_json()

    async def die(self) -> None:
        """End the process: what runs stops where it is."""
        tasks = list(self.memory._write_back._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.start()


@pytest.mark.parametrize("turns_in_all", [200, pytest.param(1_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
async def test_each_turn_is_learnt_once_and_none_is_lost_whatever_dies(turns_in_all) -> None:
    chance = random.Random(20_261_130)
    world = World(chance)
    turns = [(session, number) for session in range(SESSIONS) for number in range(turns_in_all // SESSIONS)]
    chance.shuffle(turns)
    restarts = 0
    for session, number in turns:
        await world.turn(session, number)
        if chance.random() < 0.05:
            for _ in range(chance.randrange(30)):
                await asyncio.sleep(0)
            await world.die()
            restarts += 1
        elif chance.random() < 0.1:
            await world.memory.aclose(timeout=5)
    await world.memory.aclose(timeout=60)
    # Every session comes once more, so that what its state still holds is found; then whatever waits is worked off.
    for session in range(SESSIONS):
        await world.turn(session, 10_000 + session)
    await world.memory.aclose(timeout=60)
    store = MemoryStore(workdir="/w", backend=world.backend, history=False)
    learner = Learner(store, Pupil(chance, failing=0))
    assert restarts >= turns_in_all // 50
    while await learner.drain(now=datetime.now(UTC) + timedelta(days=2)):
        pass
    queue = await look_at_queue(store)
    assert (queue.waiting(), await list_failed(store)) == ([], [])
    lines = re.findall(
        r"Learnt turn (\d+) of session (\d+) as", "\n".join(file.content for file in await store.get_all())
    )
    learnt = Counter((int(session), int(turn)) for turn, session in lines)
    wanted = {*turns, *((session, 10_000 + session) for session in range(SESSIONS))}
    assert set(learnt) == wanted
    assert set(learnt.values()) == {1}
