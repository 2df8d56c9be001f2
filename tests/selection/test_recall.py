"""The figures of docs/recall.md that must not get worse, on the set that ships."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from agentic_memory.document import parse_document
from agentic_memory.selection.lexical import LexicalIndex, stands_out

SET = Path(__file__).parents[2] / "benchmarks" / "recall" / "datasets.py"
pytestmark = pytest.mark.skipif(not SET.exists(), reason="the benchmarks are not beside the tests")


@pytest.fixture(scope="module")
def datasets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("recall_datasets", SET)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a slotted dataclass looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def search(datasets: ModuleType) -> Callable:
    [store] = datasets.load_own()
    index = LexicalIndex()
    index.update({name: ("1", parse_document(data, filename=name)) for name, data in store.files.items()})
    return index.search


def asked(datasets: ModuleType, language: str, *, answered: bool) -> list:
    [store] = datasets.load_own()
    return [
        question
        for question in store.questions
        if question.split == "test" and question.language == language and bool(question.needed) is answered
    ]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_nine_of_ten_questions_find_a_file_that_answers(datasets, search, language: str) -> None:
    questions = asked(datasets, language, answered=True)
    found = sum(any(hit.filename in question.needed for hit in search(question.text)) for question in questions)
    assert found >= 0.9 * len(questions) > 40


def test_at_most_one_question_in_ten_is_answered_by_chance(datasets, search) -> None:
    questions = asked(datasets, "en", answered=False) + asked(datasets, "zh", answered=False)
    assert sum(bool(search(question.text)) for question in questions) <= 0.1 * len(questions) < 10


def test_what_stands_out_is_right(datasets, search) -> None:
    clear = [
        hits[0].filename in question.needed
        for language in ("en", "zh")
        for question in asked(datasets, language, answered=True)
        if stands_out(hits := search(question.text))
    ]
    assert len(clear) > 40
    assert sum(clear) >= 0.95 * len(clear)


def test_the_set_is_as_large_and_as_mixed_as_its_page_says(datasets) -> None:
    [store] = datasets.load_own()
    assert len(store.files) >= 300
    assert sum(not question.needed for question in store.questions) >= 40
    assert sum(bool(question.needed) for question in store.questions) >= 200
