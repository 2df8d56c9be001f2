"""What came of learning from one turn, for receipts and programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from agentic_memory.writeback.answers import NO_COST, Cost
from agentic_memory.writeback.plans import Learned

LearnStatus = Literal["learned", "nothing", "proposed", "known", "waiting", "failed"]
"""``learned``: memory was changed; ``nothing``: there was nothing to learn, or it was known; ``proposed``: a person is
asked; ``known``: the turn was learnt before; ``waiting``: it could not be learnt yet, it is in the queue and tried again;
``failed``: it was given up and lies in ``.queue/failed``."""


@dataclass(frozen=True, slots=True)
class LearnReport:
    """What came of one turn.

    Attributes:
        key: The turn.
        status: See ``LearnStatus``.
        learned: What was written, in order.
        proposed: Paths of proposals written for a person, relative to the memory directory.
        dropped: What was not done, and why.
        cost: Model calls and tokens.
        error: Why the turn waits or failed.
        transaction: What ``MemoryStore.undo`` takes; None when no memory was changed.
    """

    key: str
    status: LearnStatus
    learned: tuple[Learned, ...] = ()
    proposed: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    cost: Cost = NO_COST
    error: str = ""
    transaction: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "key": self.key,
            "status": self.status,
            "learned": [_fields(item) for item in self.learned],
            "proposed": list(self.proposed),
            "dropped": list(self.dropped),
            "cost": _fields(self.cost),
            "error": self.error,
            "transaction": self.transaction,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read the JSON form back."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        known["learned"] = tuple(Learned(**item) for item in known.get("learned", ()))
        known["cost"] = Cost(**known.get("cost", {}))
        for name in ("proposed", "dropped"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def written_names(learned: Sequence[Learned], names: Sequence[str]) -> tuple[Learned, ...]:
    """Return ``learned`` with the file names that new memories got, in order."""
    given = iter(names)
    return tuple(
        Learned(item.operation, next(given, ""), item.title, item.reason)
        if item.operation == "ADD" and not item.filename
        else item
        for item in learned
    )
