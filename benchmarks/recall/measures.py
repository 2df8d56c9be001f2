"""Figures of one selector on one set of questions, with bootstrap confidence intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from contenders import Select
from datasets import Question, Store

SEED = 20240531
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one selector did with one question."""

    question: Question
    chosen: tuple[str, ...]
    tokens: int
    milliseconds: float

    @property
    def rank(self) -> int:
        """1-based rank of the first needed file; 0 when none was chosen."""
        return next((at for at, name in enumerate(self.chosen, 1) if name in self.question.needed), 0)


@dataclass(frozen=True, slots=True)
class Figure:
    """A mean with its 95 % interval, in per cent or in the unit of the values."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} [{self.low:.1f}, {self.high:.1f}]"


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one selector; None where there is no question of that sort."""

    questions: int
    any1: Figure | None
    any5: Figure | None
    all5: Figure | None
    reciprocal_rank: Figure | None
    precision: Figure | None
    false_recall: Figure | None
    tokens: Figure | None
    milliseconds: float = field(default=0.0)


def run(store: Store, select: Select, questions: Sequence[Question]) -> list[Outcome]:
    """Ask every question once."""
    outcomes = []
    for question in questions:
        started = perf_counter()
        chosen = tuple(select(question.text))
        took = (perf_counter() - started) * 1000
        tokens = sum(len(store.files[name]) for name in chosen) // 4
        outcomes.append(Outcome(question, chosen, tokens, took))
    return outcomes


def summarize(outcomes: Sequence[Outcome]) -> Summary:
    """Return the figures; the questions without an answer count for false recall only."""
    answered = [outcome for outcome in outcomes if outcome.question.needed]
    unanswered = [outcome for outcome in outcomes if not outcome.question.needed]
    chosen = [outcome for outcome in answered if outcome.chosen]
    return Summary(
        questions=len(outcomes),
        any1=_percent([outcome.rank == 1 for outcome in answered]),
        any5=_percent([outcome.rank > 0 for outcome in answered]),
        all5=_percent([outcome.question.needed <= set(outcome.chosen) for outcome in answered]),
        reciprocal_rank=_percent([1 / outcome.rank if outcome.rank else 0 for outcome in answered]),
        precision=_percent(
            [len(outcome.question.needed & set(outcome.chosen)) / len(outcome.chosen) for outcome in chosen]
        ),
        false_recall=_percent([bool(outcome.chosen) for outcome in unanswered]),
        tokens=_figure([outcome.tokens for outcome in outcomes]),
        milliseconds=float(np.median([outcome.milliseconds for outcome in outcomes])) if outcomes else 0.0,
    )


def _percent(values: Sequence[float]) -> Figure | None:
    return _figure([100 * value for value in values])


def _figure(values: Sequence[float]) -> Figure | None:
    if not values:
        return None
    data = np.asarray(values, dtype=float)
    picks = np.random.default_rng(SEED).integers(0, len(data), (RESAMPLES, len(data)))
    low, high = np.percentile(data[picks].mean(axis=1), [2.5, 97.5])
    return Figure(float(data.mean()), float(low), float(high))
