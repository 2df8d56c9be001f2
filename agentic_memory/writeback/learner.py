"""``Learner``: from a turn to memories. Extraction, consolidation, and one transaction through the store."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal
from weakref import WeakKeyDictionary

from agentscope.message import Msg
from agentscope.model import ChatModelBase

from agentic_memory.errors import AgenticMemoryError
from agentic_memory.history.entries import Version
from agentic_memory.layers import LayeredSnapshot
from agentic_memory.prompts import load_prompt
from agentic_memory.shelf import Snapshot
from agentic_memory.store import MemoryStore
from agentic_memory.writeback.answers import NO_COST, Cost, MalformedAnswer, Question, ask, read_items
from agentic_memory.writeback.candidates import Candidate, Language, extract
from agentic_memory.writeback.commit import Review, commit
from agentic_memory.writeback.decisions import Decision, DecisionAnswer, add_all, read_decisions
from agentic_memory.writeback.nearest import Near, find_near, render_near
from agentic_memory.writeback.plans import Rules
from agentic_memory.writeback.queue import MAX_ATTEMPTS, Waiting, look_at_queue, marks_of
from agentic_memory.writeback.report import LearnReport
from agentic_memory.writeback.sentences import share_kept
from agentic_memory.writeback.turn import Turn, key_of, turn_key, turn_of

logger = logging.getLogger("agentic_memory")

CALL_TIMEOUT_SECONDS: Final = 120.0
"""For all model calls of one step: an extraction or a consolidation that takes longer is tried again later."""
MIN_ALIKE_SHARE: Final = 0.6
"""Share of a fact's words in a file that changed meanwhile, from which a model has to look at the two together."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """Decisions, and the snapshot and memories they were made on."""

    snapshot: Snapshot
    facts: tuple[Candidate, ...]
    near: tuple[Near, ...]
    decisions: tuple[Decision, ...]
    dropped: tuple[str, ...]
    cost: Cost


class Learner:
    """Learn from turns what later conversations will need.

    Each turn takes one model call to extract and, where something near is known, one to consolidate; either is repeated
    once when the answer cannot be used. What a turn teaches is written in one transaction together with the mark that it
    was learnt. A turn that cannot be learnt stays in the queue of the memory.

    Args:
        store: The memory.
        model: Who extracts and decides.
        language: Of the prompts.
        review: Whether changes are made or proposed.
        rewrite_people: Whether text that a person wrote may be rewritten; else it is only added to, and what would take
            it away is proposed.
    """

    def __init__(
        self,
        store: MemoryStore,
        model: ChatModelBase,
        *,
        language: Language = "en",
        review: Review = "auto",
        rewrite_people: bool = False,
    ) -> None:
        self._store = store
        self._model = model
        self._language: Language = language
        self._review: Review = review
        self._rewrite_people = rewrite_people

    async def learn(
        self, messages: Sequence[Msg], *, key: str | None = None, now: datetime | None = None
    ) -> LearnReport:
        """Learn from messages, once: a ``key`` that was learnt before is not learnt again.

        Args:
            messages: What was said and done, oldest first.
            key: Names the turn; made from the ids of the messages when None. Any text.
            now: When it was said, with a time zone; dates are written out by it.

        Raises:
            BackendUnavailable: the memory cannot be reached, so the turn is not even in the queue.
        """
        root = await self._store.root()
        name = key_of(messages) if key is None else turn_key(key)
        turn = turn_of(messages, key=name, when=now, memory_dir=root)
        return await self.take(turn)

    async def take(self, turn: Turn) -> LearnReport:
        """Put a turn into the queue and learn it."""
        queue = await look_at_queue(self._store)
        waiting = await queue.add(turn)
        if waiting is None:
            return LearnReport(turn.key, "known")
        return await self.learn_waiting(waiting)

    async def drain(self, *, most: int = 100, now: datetime | None = None) -> list[LearnReport]:
        """Learn what waits in the queue and is due, at most ``most`` turns."""
        queue = await look_at_queue(self._store)
        due = queue.due(now or datetime.now(UTC))
        return [await self.learn_waiting(waiting) for waiting in due[:most]]

    async def learn_waiting(self, waiting: Waiting) -> LearnReport:
        """Learn one turn of the queue. What goes wrong is in the report, and the turn stays in the queue."""
        turn, cost = waiting.turn, NO_COST
        try:
            async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
                extraction = await extract(self._model, turn, language=self._language)
            cost, dropped = extraction.cost, extraction.dropped
            async with _lock_of(self._store):
                report = await self._consolidate(waiting, extraction.candidates)
        except Exception as error:  # noqa: BLE001 - models and places fail in their own ways; the turn must survive all
            return await self._put_off(waiting, error, cost)
        return _with(report, dropped, cost)

    # ------------------------------------------------------------------ consolidation

    async def _consolidate(self, waiting: Waiting, facts: tuple[Candidate, ...]) -> LearnReport:
        judged = await self._judge(waiting.turn, facts)
        try:
            return await self._write(waiting, judged, final=False)
        except _Overtaken:
            # Somebody wrote something alike while the model decided: it has to see that, once.
            again = await self._judge(waiting.turn, facts)
            report = await self._write(waiting, again, final=True)
            return _with(report, (), judged.cost)

    async def _judge(self, turn: Turn, facts: tuple[Candidate, ...]) -> _Judged:
        snapshot = own_snapshot(await self._store.load())
        near = await find_near(self._store, snapshot, facts) if facts else ()
        if not near:
            return _Judged(snapshot, facts, near, add_all(facts), (), NO_COST)
        text = load_prompt("new_facts").format(
            day=f"{turn.when:%Y-%m-%d}",
            facts="\n".join(
                f"({number}) [{fact.type}] {fact.title}: {fact.content}" for number, fact in enumerate(facts, 1)
            ),
            memories=render_near(snapshot, near),
        )
        question = Question(load_prompt(f"consolidation.{self._language}"), text, "decisions", DecisionAnswer)
        async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
            answer = await ask(self._model, question)
        read, wrong = read_items(answer.items, DecisionAnswer)
        decisions, dropped = read_decisions(read, facts, [memory.filename for memory in near])
        return _Judged(snapshot, facts, near, decisions, (*wrong, *dropped), answer.cost)

    async def _write(self, waiting: Waiting, judged: _Judged, *, final: bool) -> LearnReport:
        turn = waiting.turn
        own = await own_files(self._store, judged.decisions)

        def rules_on(snapshot: Snapshot) -> Rules:
            changed = _changed_since(judged.snapshot, snapshot)
            if not final and any(_alike(fact, snapshot, name) for fact in judged.facts for name in changed):
                raise _Overtaken
            return Rules(
                own=own,
                seen={memory.filename: memory.version for memory in judged.near if memory.whole},
                near=frozenset((*(memory.filename for memory in judged.near), *changed)),
                day=turn.when.date(),
                language=self._language,
                rewrite_people=self._rewrite_people,
            )

        report = await commit(
            self._store,
            judged.decisions,
            rules_on,
            turn=turn,
            done=marks_of(waiting, root=await self._store.root()),
            review=self._review,
        )
        return _with(report, judged.dropped, judged.cost)

    async def _put_off(self, waiting: Waiting, error: Exception, cost: Cost) -> LearnReport:
        if isinstance(error, MalformedAnswer):
            cost += error.cost
        text = str(error) if isinstance(error, AgenticMemoryError) else f"{type(error).__name__}: {error}"
        logger.warning("memory: a turn was not learnt, it stays in the queue: %s", text)
        try:
            queue = await look_at_queue(self._store)
            if await queue.is_done(waiting.turn.key):
                await queue.drop(waiting)
                return LearnReport(waiting.turn.key, "known", cost=cost)  # another process was faster
            turn = await queue.put_off(waiting, text, now=datetime.now(UTC))
        except AgenticMemoryError as worse:
            return LearnReport(waiting.turn.key, "waiting", cost=cost, error=f"{text}; and {worse}")
        status: Literal["failed", "waiting"] = "failed" if turn.attempts >= MAX_ATTEMPTS else "waiting"
        return LearnReport(turn.key, status, cost=cost, error=text)


class _Overtaken(Exception):
    """Something alike was written between decision and write."""


def own_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return what is seen of the memory that is written to, without those that are only read beside it."""
    seen = snapshot.views[0].snapshot if isinstance(snapshot, LayeredSnapshot) else None
    return seen or snapshot


async def own_files(store: MemoryStore, decisions: Sequence[Decision]) -> Mapping[str, str]:
    """Return those of the files decided on whose every version a program made, and the newest version of each.

    A change by an editor, or one that nobody recorded, counts as a person's.
    """
    asked = {
        name
        for decision in decisions
        if decision.replaces or decision.operation in {"DELETE", "MERGE"}
        for name in (decision.filename, *decision.others)
        if name
    }
    own: dict[str, str] = {}
    for filename in sorted(asked):
        try:
            versions = await store.history(filename)
        except FileNotFoundError:
            continue
        if versions[0].version is not None and _by_programs(versions):
            own[filename] = versions[0].version
    return own


def _by_programs(versions: Sequence[Version]) -> bool:
    return versions[-1].previous is None and all(version.who not in {"person", "unknown"} for version in versions)


def _changed_since(before: Snapshot, now: Snapshot) -> list[str]:
    if before is now:
        return []
    old = before.documents
    return [
        name for name, (record, _) in now.documents.items() if name not in old or old[name][0].version != record.version
    ]


def _alike(fact: Candidate, snapshot: Snapshot, filename: str) -> bool:
    return share_kept(fact.text, snapshot.documents[filename][1].body) >= MIN_ALIKE_SHARE


def _with(report: LearnReport, dropped: Sequence[str], cost: Cost) -> LearnReport:
    return replace(report, dropped=(*dropped, *report.dropped), cost=cost + report.cost)


_locks: "WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Lock]]" = WeakKeyDictionary()


def _lock_of(store: MemoryStore) -> asyncio.Lock:
    """Return the lock under which this process consolidates one memory, so that a turn sees what the last one taught.

    By place: an agent service has a store for every turn. Between processes the transaction decides.
    """
    locks = _locks.setdefault(asyncio.get_running_loop(), {})
    return locks.setdefault(f"{store.backend.cache_key!r} {store.named_root}", asyncio.Lock())
