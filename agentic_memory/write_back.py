"""What a reply taught, on its way to memory: noticed when it completed, and learnt without holding up the answer.

A turn is safe three times over: in the agent's state from the moment the reply ends, in the queue of the memory a moment
later, and there until it was learnt.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from agentscope.agent import Agent
from agentscope.event import ReplyEndEvent, ReplyStartEvent
from agentscope.message import Msg
from agentscope.model import ChatModelBase
from agentscope.state import AgentState
from agentscope.types import ReplyFinishedReason

from agentic_memory.errors import AgenticMemoryError, InvalidMemory
from agentic_memory.parameters import MemoryParameters
from agentic_memory.store import MemoryStore
from agentic_memory.writeback.learner import Learner
from agentic_memory.writeback.queue import Queue, Waiting, look_at_queue
from agentic_memory.writeback.report import LearnReport
from agentic_memory.writeback.turn import Turn, key_of, render_done, render_said

logger = logging.getLogger("agentic_memory")

STATE_KEY: Final = "agentic_memory_turns"
"""Where turns stand in ``AgentState.middle_context``, by memory directory."""
MAX_AT_WORK: Final = 2
"""Turns that one middleware learns from at a time; others wait their turn."""
MAX_IN_HAND: Final = 32
"""Turns that one middleware keeps at hand; beyond it they are left in the queue for later."""
MAX_KEPT: Final = 64
"""Turns kept in one agent's state until the queue has them; usually none, and one for a moment."""

_in_hand: set[tuple[Any, str]] = set()
"""Turns that this process is learning, by place and key: process-wide, for a service has a middleware for every turn."""
_running: set[asyncio.Task[Any]] = set()
"""Keeps the tasks: an event loop does not, and the middleware of a turn is gone before its write-back is done."""

Told = Callable[[LearnReport], None]


class WriteBack:
    """The write-back of one middleware. Makes nothing and costs nothing until a reply completes."""

    def __init__(self, parameters: MemoryParameters) -> None:
        self._parameters = parameters
        self._tasks: dict[asyncio.Task[LearnReport], tuple[MemoryStore, Turn]] = {}
        self._at_work = asyncio.Semaphore(MAX_AT_WORK)

    async def watch(self, agent: Agent, store: MemoryStore, said: Sequence[Msg], *, resumed: bool) -> "Watch":
        """Begin to watch a reply, and take up turns that an earlier process left in the agent's state."""
        try:
            root = await store.root()
        except (AgenticMemoryError, OSError):
            root = (
                store.named_root
            )  # the place cannot be asked where it is; whatever is kept is kept under its given name
        notes = _Notes(agent.state, root)
        for turn in notes.turns():
            if _hand(store, turn) not in _in_hand:
                self.learn(store, turn, notes, agent.model)
        return Watch(self, agent, store, notes, said, resumed=resumed)

    def learn(
        self, store: MemoryStore, turn: Turn, notes: "_Notes", model: ChatModelBase, *, told: Told | None = None
    ) -> asyncio.Task[LearnReport]:
        """Learn a turn in the background."""
        _in_hand.add(_hand(store, turn))
        task = asyncio.create_task(self._learn(store, turn, notes, model, told))
        self._tasks[task] = (store, turn)
        _running.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[LearnReport]) -> None:
        _running.discard(task)
        _in_hand.discard(_hand(*self._tasks.pop(task)))
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("memory: write-back failed: %s", error)

    async def _learn(
        self, store: MemoryStore, turn: Turn, notes: "_Notes", model: ChatModelBase, told: Told | None
    ) -> LearnReport:
        try:
            queue = await look_at_queue(store)
            waiting = await queue.add(turn)
        except AgenticMemoryError as error:
            logger.warning("memory: a turn stays in the agent's state, the queue cannot be reached: %s", error)
            report = LearnReport(turn.key, "waiting", error=str(error))
        else:
            notes.drop(turn.key)
            report = await self._work_off(store, queue, turn, waiting, model)
        if told is not None:
            told(report)
        return report

    async def _work_off(
        self, store: MemoryStore, queue: Queue, turn: Turn, waiting: Waiting | None, model: ChatModelBase
    ) -> LearnReport:
        if waiting is None:
            return LearnReport(turn.key, "known")
        if len(self._tasks) > MAX_IN_HAND:
            return LearnReport(turn.key, "waiting", error="many turns are being learnt; it is tried again later")
        parameters = self._parameters
        learner = Learner(
            store,
            parameters.write_back_model or model,
            language=parameters.language,
            review=parameters.write_back_review,
        )
        async with self._at_work:
            report = await learner.learn_waiting(waiting)
            due = [found for found in queue.due(datetime.now(UTC)) if _hand(store, found.turn) not in _in_hand]
            for left in due[:1]:  # so that what failed or was left behind gets its turn, and a turn stays bounded
                await learner.learn_waiting(left)
        return report

    async def aclose(self, *, timeout: float) -> None:
        """Let what is being learnt be finished within ``timeout`` seconds; the rest is left in the queue."""
        tasks = dict(self._tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        try:
            async with asyncio.timeout(max(timeout, 1.0)):
                for task in late:
                    store, turn = tasks[task]
                    await (await look_at_queue(store)).add(turn)
        except (AgenticMemoryError, TimeoutError) as error:
            logger.warning("memory: up to %d turns are in the agents' states only: %s", len(late), error)


def _hand(store: MemoryStore, turn: Turn) -> tuple[Any, str]:
    return (store.backend.cache_key, f"{store.named_root}\0{turn.key}")


class Watch:
    """One reply, watched for its end."""

    def __init__(
        self,
        write_back: WriteBack,
        agent: Agent,
        store: MemoryStore,
        notes: "_Notes",
        said: Sequence[Msg],
        *,
        resumed: bool,
    ) -> None:
        self._write_back = write_back
        self._store = store
        self._agent = agent
        self._notes = notes
        self._said = list(said)
        self._completed: str | None = None
        self._asked: dict[str, Any] | None = notes.asked(agent.state.reply_id) if resumed else None
        self._turn: Turn | None = None
        self._begun = False

    def see(self, item: Any) -> LearnReport | None:
        """Look at one item of the reply's stream.

        Returns:
            What is to be said of the turn, at the item that completes it: it is in the agent's state now.
        """
        if isinstance(item, ReplyStartEvent):
            self._asked = _question(self._agent, self._said)
            self._notes.ask(item.reply_id, self._asked)
        elif isinstance(item, ReplyEndEvent):
            done = item.finished_reason == ReplyFinishedReason.COMPLETED
            self._completed = item.reply_id if done else None
            self._notes.ask(item.reply_id, None)
        elif isinstance(item, Msg) and self._turn is None:
            done = item.finished_reason == ReplyFinishedReason.COMPLETED and item.id == self._completed
            if done and (turn := self._turn_of(item)) is not None:
                self._turn = turn
                self._notes.keep(turn)
                return LearnReport(turn.key, "waiting")
        return None

    def learn(self, told: Told) -> asyncio.Task[LearnReport] | None:
        """Begin to learn the turn that was seen to complete, if one was and nobody has begun; the last thing in a reply."""
        if self._turn is None or self._begun:
            return None
        self._begun = True
        return self._write_back.learn(self._store, self._turn, self._notes, self._agent.model, told=told)

    def _turn_of(self, answer: Msg) -> Turn | None:
        asked, state = self._asked, self._agent.state
        if asked is None or not asked["said"].strip():
            return None  # nobody said anything, so there is nothing to learn from anybody
        own = [message for message in state.context if message.role == "assistant" and message.id == answer.id]
        return Turn(
            asked["key"],
            f"{asked['said']}\n\n{render_done(own or [answer], memory_dir=self._store.named_root)}",
            datetime.now(UTC).astimezone(),
            state.session_id,
            answer.id,
            self._agent.name,
        )


def _question(agent: Agent, said: Sequence[Msg]) -> dict[str, Any]:
    key = key_of(said, scope=(agent.name, agent.state.session_id))
    return {"key": key, "said": render_said(said)}


class _Notes:
    """What stands in an agent's state: the question of a reply that is not over, and turns that no queue has yet."""

    def __init__(self, state: AgentState, place: str) -> None:
        self._state = state
        self._place = place

    def _data(self) -> dict[str, Any]:
        places = self._state.middle_context.get(STATE_KEY)
        if not isinstance(places, dict):
            places = self._state.middle_context[STATE_KEY] = {}
        own = places.get(self._place)
        if not isinstance(own, dict):
            own = places[self._place] = {}
        return own

    def asked(self, reply_id: str) -> dict[str, Any] | None:
        """Return the question of a reply that goes on."""
        asked = self._data().get("asked")
        return asked if isinstance(asked, dict) and asked.get("reply") == reply_id and "key" in asked else None

    def ask(self, reply_id: str, question: dict[str, Any] | None) -> None:
        """Keep the question of a reply until it ends, for it may end in another process; None: it has ended."""
        if question is None:
            self._data().pop("asked", None)
        else:
            self._data()["asked"] = {**question, "reply": reply_id}

    def turns(self) -> list[Turn]:
        """Return the turns that no queue has yet, as far as is known."""
        found: list[Turn] = []
        for data in self._data().get("turns") or ():
            try:
                found.append(Turn.from_dict(data))
            except InvalidMemory as error:
                logger.warning("memory: a turn in the agent's state cannot be read: %s", error)
        return found

    def keep(self, turn: Turn) -> None:
        """Keep a turn until a queue has it."""
        turns = [data for data in self._data().get("turns") or () if data.get("key") != turn.key]
        if len(turns) >= MAX_KEPT:
            logger.warning(
                "memory: %d turns are not in the queue yet; the oldest is no longer kept in the state", len(turns)
            )
        self._data()["turns"] = [*turns, turn.as_dict()][-MAX_KEPT:]

    def drop(self, key: str) -> None:
        """Let go of a turn."""
        turns = [data for data in self._data().get("turns") or () if data.get("key") != key]
        if turns:
            self._data()["turns"] = turns
        else:
            self._data().pop("turns", None)
