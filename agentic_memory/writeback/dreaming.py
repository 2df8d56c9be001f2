"""A dream dreamt: look, ask a model where there is one, and write all of it in one transaction, or nothing."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import anyio.to_thread
from agentscope.model import ChatModelBase
from pydantic import BaseModel

from agentic_memory.backends import Change, Put
from agentic_memory.backends.values import ANY
from agentic_memory.descriptions import names_only_a_topic
from agentic_memory.duplicates import Duplicate, find_duplicates
from agentic_memory.history.entries import Version
from agentic_memory.lines import one_line
from agentic_memory.operations import Operation, Update
from agentic_memory.prompts import load_prompt
from agentic_memory.shelf import INDEX_FILENAME, Snapshot
from agentic_memory.store import MemoryStore
from agentic_memory.writeback.answers import NO_COST, Cost, Question, ask, read_items
from agentic_memory.writeback.candidates import Language
from agentic_memory.writeback.decisions import DecisionAnswer, read_decisions
from agentic_memory.writeback.dream import Dreamt, Known, dream_alone, order_index
from agentic_memory.writeback.learner import own_snapshot
from agentic_memory.writeback.nearest import MAX_NEAR, is_marked, render_near, show_near
from agentic_memory.writeback.plans import Rules, make_plan

ARCHIVE: Final = ".archive"
MAX_OPERATIONS: Final = 20
"""Changes of one dream: as many as somebody reads through."""


class DescriptionAnswer(BaseModel):
    """The shape of one better description in a model's answer."""

    memory: int
    description: str


@dataclass(frozen=True, slots=True)
class DreamReport:
    """What a dream did, or would do.

    Attributes:
        changes: Each with its reason.
        applied: Whether they were made.
        left: What would be tidier and is left to a person or to a model, in words.
        overtaken: Changes that were not made, since somebody changed the memory meanwhile.
        cost: Model calls and tokens.
        transaction: What ``MemoryStore.undo`` takes.
    """

    changes: tuple[Dreamt, ...] = ()
    applied: bool = False
    left: tuple[str, ...] = ()
    overtaken: tuple[Dreamt, ...] = ()
    cost: Cost = NO_COST
    transaction: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "changes": [change.as_dict() for change in self.changes],
            "applied": self.applied,
            "left": list(self.left),
            "overtaken": [change.as_dict() for change in self.overtaken],
            "model_calls": self.cost.calls,
            "transaction": self.transaction,
        }


async def dream(
    store: MemoryStore,
    *,
    model: ChatModelBase | None = None,
    apply: bool = False,
    most: int = MAX_OPERATIONS,
    now: datetime | None = None,
    language: Language = "en",
) -> DreamReport:
    """Tidy a memory up while nobody uses it: on a copy of it in mind, then in one transaction.

    What somebody changes meanwhile stays: a change that was thought out on another version of a file is left out. Text that
    a person wrote, and what is locked, is not changed; what is pinned does not go away.

    Args:
        store: The memory.
        model: Merges near duplicates and improves descriptions; without one the rest is done.
        apply: Whether the changes are made; else they are only told.
        most: How many changes at most.
        now: The moment, for what has expired.
        language: Of the prompts.

    Raises:
        Exception: what the model raises; then nothing was changed.
    """
    today = (now or datetime.now(UTC).astimezone()).date()
    snapshot = own_snapshot(await store.load())
    histories = await store.histories()
    expired = {problem.file for problem in await store.check() if problem.code == "expired"}
    own = (name for name, versions in histories.items() if _by_programs(versions))
    known = Known(frozenset(own), histories, frozenset(expired & snapshot.documents.keys()), today)
    texts = _in_order_of_right(snapshot, known)
    duplicates = await anyio.to_thread.run_sync(find_duplicates, texts)
    changes = list(dream_alone(snapshot, duplicates, known))
    near, left = _near(snapshot, duplicates, known, changes)
    cost = NO_COST
    if model is not None:
        merged, spent = await _merge(model, snapshot, near, known, language)
        described, more = await _describe(model, snapshot, known, [*changes, *merged], language)
        changes, cost = [*changes, *merged, *described], spent + more
    else:
        left += [f"{copy.path} and {copy.original} say nearly the same ({copy.similarity:.0%})" for copy in near]
    order = order_index(snapshot, await store.uses())
    if order is not None and _by_programs(await store.history(INDEX_FILENAME)):
        changes.append(order)
    elif order is not None:
        left.append(f"{INDEX_FILENAME} is not in the order of use; a person wrote in it")
    report = DreamReport(tuple(changes[:most]), left=(*left, *_over(changes[most:])), cost=cost)
    return await _make(store, report) if apply and report.changes else report


def _by_programs(versions: Sequence[Version]) -> bool:
    """Tell whether all that a file ever was is known, and none of it came from a person."""
    return (
        bool(versions) and versions[-1].previous is None and not {one.who for one in versions} & {"person", "unknown"}
    )


async def _make(store: MemoryStore, report: DreamReport) -> DreamReport:
    root = await store.root()
    made: list[Dreamt] = []

    def plan(snapshot: Snapshot) -> tuple[Sequence[Operation], Sequence[Change]]:
        made[:] = [change for change in report.changes if change.holds(snapshot)]
        # The index in its new order is of the version there is now; what the others change of it goes line by line.
        in_turn = sorted(made, key=lambda change: change.kind != "order")
        archived = [change.filenames[0] for change in made if change.kind == "archive"]
        copies = [
            Put(posixpath.join(root, ARCHIVE, name), document.encode(document.text), ANY)
            for name in archived
            for _, document in [snapshot.documents[name]]
        ]
        return [operation for change in in_turn for operation in change.operations], copies

    with store.acting_as(who="consolidation", why="dreamt"):
        done = await store.apply_planned(plan, allow_loss=True)
    overtaken = tuple(change for change in report.changes if change not in made)
    return replace(report, changes=tuple(made), applied=True, overtaken=overtaken, transaction=done.id)


def _in_order_of_right(snapshot: Snapshot, known: Known) -> dict[str, str]:
    """Return the bodies, those first that stay when another says the same: pinned, a person's, the oldest."""

    def right(name: str) -> tuple[bool, bool, int, str]:
        document = snapshot.documents[name][1]
        pinned = is_marked(document.fields, "pinned") or is_marked(document.fields, "locked")
        return (not pinned, name in known.own, snapshot.documents[name][0].mtime_ns, name)

    return {name: snapshot.documents[name][1].body for name in sorted(snapshot.documents, key=right)}


def _near(
    snapshot: Snapshot, duplicates: Sequence[Duplicate], known: Known, changes: Sequence[Dreamt]
) -> tuple[list[Duplicate], list[str]]:
    """Return the pairs a model may merge, and in words those that are left to a person."""
    touched = {name for change in changes for name in change.filenames}
    near: list[Duplicate] = []
    left: list[str] = []
    for copy in duplicates:
        if {copy.path, copy.original} & touched:
            continue
        documents = {name: snapshot.documents[name][1] for name in (copy.path, copy.original)}
        whole = all(show_near(snapshot, name).whole for name in documents)
        if (
            whole
            and known.may_go(copy.path, documents[copy.path])
            and known.may_change(copy.original, documents[copy.original])
        ):
            near.append(copy)
            touched |= documents.keys()
        else:
            left.append(f"{copy.path} and {copy.original} say nearly the same; a person has to decide")
    return near[: MAX_NEAR // 2], left


async def _merge(
    model: ChatModelBase, snapshot: Snapshot, pairs: Sequence[Duplicate], known: Known, language: Language
) -> tuple[list[Dreamt], Cost]:
    if not pairs:
        return [], NO_COST
    names = [name for pair in pairs for name in (pair.original, pair.path)]
    shown = [show_near(snapshot, name) for name in names]
    text = load_prompt("dream_memories").format(memories=render_near(snapshot, shown))
    answer = await ask(model, Question(load_prompt(f"dream_merge.{language}"), text, "decisions", DecisionAnswer))
    decisions, _ = read_decisions(read_items(answer.items, DecisionAnswer)[0], (), names)
    versions = {memory.filename: memory.version for memory in shown}
    rules = Rules(own={name: versions[name] for name in names}, seen=versions, near=frozenset(), day=known.today)
    found: list[Dreamt] = []
    touched: set[str] = set()
    for decision in decisions:
        about = (decision.filename or "", *decision.others)
        if decision.operation != "MERGE" or touched & {*about}:
            continue
        plan = make_plan(snapshot, [decision], rules)
        if plan.operations:
            touched.update(about)
            why = one_line(decision.reason) or "they say nearly the same"
            found.append(Dreamt("merge", about, why, plan.operations, {name: versions[name] for name in about}))
    return found, answer.cost


async def _describe(
    model: ChatModelBase, snapshot: Snapshot, known: Known, changes: Sequence[Dreamt], language: Language
) -> tuple[list[Dreamt], Cost]:
    touched = {name for change in changes for name in change.filenames}
    names = [
        name
        for name, (_, document) in snapshot.documents.items()
        if name not in touched
        and known.may_change(name, document)
        and names_only_a_topic(document.description, name=document.name)
    ][:MAX_NEAR]
    if not names:
        return [], NO_COST
    shown = [show_near(snapshot, name) for name in names]
    text = load_prompt("dream_memories").format(memories=render_near(snapshot, shown))
    answer = await ask(
        model, Question(load_prompt(f"dream_describe.{language}"), text, "descriptions", DescriptionAnswer)
    )
    found: dict[str, Dreamt] = {}
    for item in read_items(answer.items, DescriptionAnswer)[0]:
        words = one_line(item.description).strip()
        if not 1 <= item.memory <= len(names) or not words:
            continue
        name = names[item.memory - 1]
        document = snapshot.documents[name][1]
        if not names_only_a_topic(words, name=document.name):
            version = snapshot.documents[name][0].version
            update = Update(filename=name, description=words, expected=version)
            why = f'"{document.description}" says what it is about, not when to read it; now: "{words}"'
            found[name] = Dreamt("describe", (name,), why, (update,), {name: version})
    return list(found.values()), answer.cost


def _over(changes: Sequence[Dreamt]) -> list[str]:
    return [f"{change.kind} {change.filenames[0]}: over the number of changes of one dream" for change in changes]
