"""What a model decides about new facts, read with its invariants: see docs/writeback.md for each operation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field

from agentic_memory.writeback.candidates import Candidate

Operation = Literal["ADD", "UPDATE", "DELETE", "NONE", "MERGE", "EXPIRE", "PIN", "LOCK"]
ON_FACTS: Final = frozenset(("ADD", "UPDATE", "NONE"))
"""Operations of which each fact gets one."""


def _upper(value: Any) -> Any:
    return value.strip().upper() if isinstance(value, str) else value


def _text(value: Any) -> Any:
    return "" if value is None else value


def _number(value: Any) -> Any:
    """Take ``"3"``, ``"#3"``, ``[3]`` and ``"[3]"`` for 3: models copy how a number was shown."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        value = value.strip().strip("#[]().").strip()
        return int(value) if value.isdecimal() else None
    return value


def _numbers(value: Any) -> Any:
    return [] if value is None else [_number(item) for item in (value if isinstance(value, list) else [value])]


_Number = Annotated[int | None, BeforeValidator(_number)]
_Words = Annotated[str, BeforeValidator(_text)]


class DecisionAnswer(BaseModel):
    """The shape of one decision in a model's answer."""

    operation: Annotated[Operation, BeforeValidator(_upper)]
    fact: _Number = Field(default=None, description="Number of the new fact.")
    memory: _Number = Field(default=None, description="Number of the memory.")
    others: Annotated[list[int | None], BeforeValidator(_numbers)] = Field(
        default_factory=list, description="MERGE: numbers of the memories that go into it."
    )
    replaces: _Words = Field(default="", description="Exact words of the memory that no longer hold.")
    text: _Words = Field(default="", description="New words; those of the fact when empty.")
    until: _Words = Field(default="", description="EXPIRE: last day, YYYY-MM-DD.")
    reason: _Words = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One operation on facts and memories that exist.

    Attributes:
        operation: What is to be done.
        fact: The new fact it is about; None for an operation on memories alone.
        filename: The memory it is about; None for ADD.
        others: MERGE: the memories that go into it.
        replaces: Words of the memory that no longer hold.
        text: New words; empty: those of the fact.
        until: EXPIRE: the last day.
        reason: Why, in the model's words.
    """

    operation: Operation
    fact: Candidate | None = None
    filename: str | None = None
    others: tuple[str, ...] = ()
    replaces: str = ""
    text: str = ""
    until: date | None = None
    reason: str = ""

    @property
    def title(self) -> str:
        """Return what it is about, for a report."""
        return self.fact.title if self.fact else self.filename or ""


def add_all(facts: Sequence[Candidate]) -> tuple[Decision, ...]:
    """Decide without a model, where nothing is near that the facts could repeat."""
    return tuple(Decision("ADD", fact, reason="nothing like it was known") for fact in facts)


def read_decisions(
    answers: Sequence[DecisionAnswer], facts: Sequence[Candidate], filenames: Sequence[str]
) -> tuple[tuple[Decision, ...], tuple[str, ...]]:
    """Turn answers by number into decisions; what breaks an invariant is dropped and said.

    No fact is lost on the way: one that got no valid ADD, UPDATE or NONE is added. NONE has to name the memory that says
    it already, so that on an empty memory it cannot swallow anything.

    Args:
        answers: As the model gave them.
        facts: In the order of their numbers, from 1.
        filenames: Memories in the order of their numbers, from 1.
    """
    reader = _Reader(facts, filenames)
    for number, answer in enumerate(answers, 1):
        reader.read(number, answer)
    missing = [fact for number, fact in enumerate(facts, 1) if number not in reader.decided]
    added = [Decision("ADD", fact, reason="no valid decision was made on it") for fact in missing]
    return (*reader.decisions, *added), tuple(reader.dropped)


class _Reader:
    def __init__(self, facts: Sequence[Candidate], filenames: Sequence[str]) -> None:
        self._facts = facts
        self._filenames = filenames
        self.decided: set[int] = set()
        self.decisions: list[Decision] = []
        self.dropped: list[str] = []

    def read(self, number: int, answer: DecisionAnswer) -> None:
        wrong = next(self._wrong(answer), None)
        if wrong is not None:
            self.dropped.append(f"decision {number} ({answer.operation}) was dropped: {wrong}")
            return
        fact = None
        if answer.operation in ON_FACTS and answer.fact is not None:
            self.decided.add(answer.fact)
            fact = self._facts[answer.fact - 1]
        memory = None if answer.operation == "ADD" or answer.memory is None else self._filenames[answer.memory - 1]
        others = (self._filenames[other - 1] for other in dict.fromkeys(answer.others) if other is not None)
        self.decisions.append(
            Decision(
                answer.operation,
                fact,
                memory,
                tuple(others) if answer.operation == "MERGE" else (),
                answer.replaces.strip() if answer.operation in {"UPDATE", "DELETE"} else "",
                answer.text.strip() if answer.operation in {"UPDATE", "MERGE"} else "",
                date.fromisoformat(answer.until.strip()) if answer.operation == "EXPIRE" else None,
                answer.reason.strip(),
            )
        )

    def _wrong(self, answer: DecisionAnswer) -> Iterator[str]:
        operation = answer.operation
        if operation in ON_FACTS:
            if answer.fact is None or not 1 <= answer.fact <= len(self._facts):
                yield f"there is no fact {answer.fact}"
            elif answer.fact in self.decided:
                yield f"fact {answer.fact} was decided on before"
        if operation != "ADD" and not self._exists(answer.memory):
            yield f"there is no memory {answer.memory}"
        if operation == "MERGE":
            if not answer.others or not all(self._exists(other) for other in answer.others):
                yield f"there are no memories {answer.others} to merge with"
            elif answer.memory in answer.others:
                yield "a memory cannot be merged into itself"
            elif not answer.text.strip():
                yield "it gives no text for the merged memory"
        if operation == "EXPIRE" and not _is_date(answer.until.strip()):
            yield f"{answer.until!r} is no date YYYY-MM-DD"

    def _exists(self, number: int | None) -> bool:
        return number is not None and 1 <= number <= len(self._filenames)


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
