"""Extraction: what one turn taught that a later conversation will need, as typed candidates."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Final, Literal

from agentscope.model import ChatModelBase
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from agentic_memory.dates import absolute, find_relative_dates
from agentic_memory.fence import fence_id
from agentic_memory.lines import one_line
from agentic_memory.prompts import load_prompt
from agentic_memory.writeback.answers import Cost, Question, ask, read_items
from agentic_memory.writeback.turn import Turn

MAX_CANDIDATES: Final = 20
MAX_TITLE_CHARACTERS: Final = 80

CandidateType = Literal["user", "feedback", "project", "reference", "procedure"]
Language = Literal["en", "zh"]
_Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
_Stated = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def _listed(value: Any) -> Any:
    """Take nothing, or one bare item, for the list that was meant."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


class StepAnswer(BaseModel):
    """One step of a procedure."""

    action: _Stated
    outcome: _Text = ""


class CandidateAnswer(BaseModel):
    """The shape of one candidate in a model's answer."""

    type: CandidateType
    text: _Stated = Field(description="One fact that can be understood alone, with absolute dates.")
    title: _Text = Field(default="", description="Two to six words.")
    when: _Text = Field(default="", description="In which situation a later conversation needs it.")
    why: _Text = Field(default="", description="The reason, as far as it was given.")
    how: _Text = Field(default="", description="How to apply it.")
    steps: Annotated[list[StepAnswer], BeforeValidator(_listed)] = Field(
        default_factory=list, description="Of a procedure: what was done, in order, and what came of it."
    )
    failed: Annotated[list[str], BeforeValidator(_listed)] = Field(
        default_factory=list, description="Of a procedure: what did not work."
    )
    next: _Text = Field(default="", description="Of a procedure: what is still to be done.")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something a turn taught.

    Attributes:
        type: As in the frontmatter of a memory.
        title: Short.
        text: The fact, or the goal of a procedure.
        when: When to read it; the title when the model did not say.
        details: Markdown below the fact: why, how, steps.
    """

    type: CandidateType
    title: str
    text: str
    when: str
    details: str = ""

    @property
    def content(self) -> str:
        """The Markdown of a memory that holds nothing else."""
        return f"{self.text}\n\n{self.details}\n" if self.details else f"{self.text}\n"


@dataclass(frozen=True, slots=True)
class Extraction:
    """The candidates of a turn, what of the answer could not be used, and the cost."""

    candidates: tuple[Candidate, ...]
    dropped: tuple[str, ...]
    cost: Cost


async def extract(model: ChatModelBase, turn: Turn, *, language: Language = "en") -> Extraction:
    """Ask a model what the turn taught.

    Raises:
        MalformedAnswer: it did not answer with candidates.
    """
    transcript = load_prompt("turn").format(
        id=fence_id(turn.text), day=f"{turn.when:%Y-%m-%d %A}", time=f"{turn.when:%H:%M}", text=turn.text
    )
    question = Question(load_prompt(f"extraction.{language}"), transcript, "memories", CandidateAnswer)
    answer = await ask(model, question)
    read, dropped = read_items(answer.items, CandidateAnswer)
    dropped += [f"{one_line(item.text)[:80]!r}: over {MAX_CANDIDATES} in one turn" for item in read[MAX_CANDIDATES:]]
    found = tuple(_candidate(item, day=turn.when.date()) for item in read[:MAX_CANDIDATES])
    return Extraction(found, tuple(dropped), answer.cost)


def _candidate(answer: CandidateAnswer, *, day: date) -> Candidate:
    text = _dated(answer.text.strip(), day)
    title = one_line(answer.title).strip() or _shorten(one_line(text))
    return Candidate(
        answer.type,
        _shorten(title),
        text,
        one_line(answer.when).strip() or title,
        _dated("\n\n".join(_details(answer)), day),
    )


def _dated(text: str, day: date) -> str:
    """Write out the dates that the model left relative, where they mean one thing only."""
    for found in reversed(find_relative_dates(text)):
        written = absolute(found, on=day)
        if written is not None:
            text = text[: found.start] + written + text[found.end :]
    return text


def _details(answer: CandidateAnswer) -> Iterator[str]:
    if answer.why.strip():
        yield f"**Why:** {answer.why.strip()}"
    if answer.how.strip():
        yield f"**How to apply:** {answer.how.strip()}"
    if answer.steps:
        yield "\n".join(f"{number}. {_step(step)}" for number, step in enumerate(answer.steps, 1))
    if failed := [line for item in answer.failed if (line := one_line(item).strip())]:
        yield "**Did not work:**\n" + "\n".join(f"- {line}" for line in failed)
    if answer.next.strip():
        yield f"**Next:** {answer.next.strip()}"


def _step(step: StepAnswer) -> str:
    outcome = one_line(step.outcome).strip()
    return one_line(step.action).strip() + (f" → {outcome}" if outcome else "")


def _shorten(text: str) -> str:
    if len(text) <= MAX_TITLE_CHARACTERS:
        return text
    cut = text[:MAX_TITLE_CHARACTERS].rsplit(" ", 1)[0]
    return f"{cut.rstrip(' ,.;:，。；：')}…"
