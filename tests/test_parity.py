"""docs/parity.md: every row says what became of a behaviour, and names a test that is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "parity.md"
STATES = {"same", "more", "otherwise", "refused"}

if not PAGE.is_file():
    pytest.skip("these tests are about a checkout; here only the installed package is tested", allow_module_level=True)


def rows() -> list[list[str]]:
    """Every row of every table of the page that has the four columns."""
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if len(row) == 4 and row[0] != "behaviour" and set(row[0]) - set("-: ")]


@cache
def names_in(path: str) -> frozenset[str]:
    """Names of the tests of one file; ``Class::name`` for those in a class."""
    found = set()
    for node in ast.parse((ROOT / path).read_text("utf-8")).body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {prefix + one.name for one in members if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    return frozenset(found)


def test_the_page_has_a_row_for_each_behaviour():
    assert len(rows()) >= 60
    names = [row[0] for row in rows()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_a_row_says_what_became_of_it_and_names_a_test_that_is_there(row):
    _, state, how, tests = row
    assert state in STATES
    assert len(how) > 10, "a row says how, and a refused one why"
    named = re.findall(r"`(tests/[^`]+)`", tests)
    assert bool(named) is (state != "refused"), "what is here needs a test, what is not has none"
    for name in named:
        path, _, test = name.partition("::")
        assert (ROOT / path).is_file(), f"{path} is not there"
        assert test in names_in(path), f"{path} has no {test}"
