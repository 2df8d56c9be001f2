"""A turn's plan carried out: memories, proposals and the mark that it was learnt, in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from agentic_memory.backends import Change
from agentic_memory.document import memory_filename
from agentic_memory.errors import WriteRefused
from agentic_memory.operations import Operation
from agentic_memory.shelf import Snapshot
from agentic_memory.store import MemoryStore
from agentic_memory.writeback.decisions import Decision
from agentic_memory.writeback.plans import Plan, Rules, make_plan
from agentic_memory.writeback.proposals import Proposal, ids_of, propose, put_proposal
from agentic_memory.writeback.report import LearnReport, written_names
from agentic_memory.writeback.turn import Turn

Review = Literal["auto", "propose"]
"""``auto``: what may be done is done; ``propose``: a person accepts each change first."""
RulesOn = Callable[[Snapshot], Rules]
"""What holds for a plan on a snapshot; asked again when somebody was faster."""


async def commit(
    store: MemoryStore,
    decisions: Sequence[Decision],
    rules_on: RulesOn,
    *,
    turn: Turn,
    done: Sequence[Change],
    review: Review,
) -> LearnReport:
    """Carry out decisions, or propose them; either way the turn is done with.

    Raises:
        Conflict: another process has learnt the turn meanwhile.
        BackendUnavailable: nothing was written.
    """
    root = await store.root()
    plan, proposals = Plan(), tuple[Proposal, ...]()
    refused: dict[Decision, str] = {}

    def carry_out(snapshot: Snapshot) -> tuple[Sequence[Operation], Sequence[Change]]:
        nonlocal plan, proposals
        rules = rules_on(snapshot)
        wanted = [decision for decision in decisions if decision not in refused]
        if review == "propose":
            plan, asked = Plan(), tuple(wanted)
        else:
            plan = make_plan(snapshot, wanted, rules)
            asked = plan.for_people
        proposals, dropped = _proposals(snapshot, asked, rules, turn)
        plan = replace(plan, dropped=(*plan.dropped, *dropped, *refused.values()))
        return plan.operations, [*done, *(put_proposal(one, root=root) for one in proposals)]

    with store.acting_as(who="consolidation", why="learnt from a conversation", session=turn.session, reply=turn.reply):
        while True:
            try:
                transaction = await store.apply_planned(carry_out)
                break
            except WriteRefused as error:
                # One memory that a guard does not let in must not keep the others out.
                culprits = [one for one in decisions if one not in refused and _is_about(one, error.filename)]
                if not culprits:
                    raise
                refused.update({one: f"{one.operation} {one.title[:80]!r}: {error}" for one in culprits})
    names = [outcome.filename for outcome in transaction.outcomes]
    learned = written_names([item for item in plan.learned if item.operation != "NONE"], names)
    return LearnReport(
        turn.key,
        "learned" if plan.operations else "proposed" if proposals else "nothing",
        learned,
        ids_of(proposals),
        plan.dropped,
        transaction=transaction.id if plan.operations else None,
    )


def _is_about(decision: Decision, filename: str) -> bool:
    if decision.filename is not None:
        return filename in {decision.filename, *decision.others}
    stem = memory_filename(decision.fact.title).removesuffix(".md") if decision.fact else ""
    return filename.removesuffix(".md").rstrip("0123456789").rstrip("_") in {stem, stem.rstrip("0123456789_")}


def _proposals(
    snapshot: Snapshot, decisions: Sequence[Decision], rules: Rules, turn: Turn
) -> tuple[tuple[Proposal, ...], tuple[str, ...]]:
    free = replace(rules, rewrite_people=True, ignore_marks=True)
    found: dict[str, Proposal] = {}
    dropped: list[str] = []
    for decision in decisions:
        plan = make_plan(snapshot, [decision], free)
        dropped.extend(plan.dropped)
        proposal = propose(plan, made=turn.when)
        if proposal is not None:
            found[proposal.id] = proposal
    return tuple(found.values()), tuple(dropped)
