"""What a model decides is read with its invariants; no fact is lost on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.writeback.candidates import Candidate
from agentic_memory.writeback.decisions import Decision, DecisionAnswer, Operation, add_all, read_decisions

FACTS = [Candidate("user", "Home", "Lives in Hangzhou.", "w"), Candidate("user", "Editor", "Likes Emacs.", "w")]
FILES = ["home.md", "editor.md", "old.md"]


def read(*answers: dict, facts=FACTS, files=FILES) -> tuple[tuple[Decision, ...], tuple[str, ...]]:
    return read_decisions([DecisionAnswer.model_validate(answer) for answer in answers], facts, files)


def test_numbers_become_facts_and_file_names() -> None:
    decided, dropped = read(
        {"operation": "NONE", "fact": 1, "memory": 1},
        {"operation": "update", "fact": "#2", "memory": "[2]", "replaces": " Likes Vim. ", "reason": "changed"},
        {"operation": "MERGE", "memory": 1, "others": [3, 3], "text": "both"},
        {"operation": "EXPIRE", "memory": 3, "until": "2026-03-05"},
    )
    assert dropped == ()
    assert [(one.operation, one.filename, one.others) for one in decided] == [
        ("NONE", "home.md", ()),
        ("UPDATE", "editor.md", ()),
        ("MERGE", "home.md", ("old.md",)),
        ("EXPIRE", "old.md", ()),
    ]
    assert (decided[1].fact, decided[1].replaces) == (FACTS[1], "Likes Vim.")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"operation": "ADD", "fact": 3}, "no fact 3"),
        ({"operation": "ADD", "fact": 0}, "no fact 0"),
        ({"operation": "ADD"}, "no fact None"),
        ({"operation": "UPDATE", "fact": 1, "memory": 4}, "no memory 4"),
        ({"operation": "UPDATE", "fact": 1, "memory": -1}, "no memory -1"),
        ({"operation": "NONE", "fact": 1}, "no memory None"),
        ({"operation": "DELETE", "memory": 99}, "no memory 99"),
        ({"operation": "DELETE", "memory": "home.md"}, "no memory None"),
        ({"operation": "MERGE", "memory": 1, "text": "x"}, "no memories"),
        ({"operation": "MERGE", "memory": 1, "others": [9], "text": "x"}, "no memories"),
        ({"operation": "MERGE", "memory": 1, "others": [1], "text": "x"}, "into itself"),
        ({"operation": "MERGE", "memory": 1, "others": [2], "text": " "}, "no text"),
        ({"operation": "EXPIRE", "memory": 1, "until": "soon"}, "no date"),
        ({"operation": "EXPIRE", "memory": 1, "until": "20260305"}, "no date"),
        ({"operation": "PIN"}, "no memory None"),
        ({"operation": "LOCK", "memory": 7}, "no memory 7"),
    ],
)
def test_what_breaks_an_invariant_is_dropped_and_said_and_the_facts_are_added(answer, reason) -> None:
    decided, dropped = read(answer)
    assert [(one.operation, one.fact) for one in decided] == [("ADD", fact) for fact in FACTS]
    assert len(dropped) == 1
    assert reason in dropped[0]


def test_on_an_empty_memory_none_cannot_swallow_a_fact() -> None:
    decided, dropped = read(
        {"operation": "NONE", "fact": 1, "memory": 1}, {"operation": "NONE", "fact": 2, "memory": 0}, files=[]
    )
    assert decided == tuple(Decision("ADD", fact, reason="no valid decision was made on it") for fact in FACTS)
    assert len(dropped) == 2


def test_the_first_decision_on_a_fact_counts() -> None:
    decided, dropped = read(
        {"operation": "ADD", "fact": 1}, {"operation": "NONE", "fact": 1, "memory": 1}, {"operation": "ADD", "fact": 2}
    )
    assert [one.operation for one in decided] == ["ADD", "ADD"]
    assert "before" in dropped[0]


def test_fields_of_other_operations_do_not_leak() -> None:
    decided, _ = read({"operation": "ADD", "fact": 1, "memory": 1, "replaces": "x", "text": "y", "others": [2]})
    assert decided[0] == Decision("ADD", FACTS[0])


_numbers = st.none() | st.integers(-3, 6)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"operation": st.sampled_from(Operation.__args__)},
            optional={
                "fact": _numbers,
                "memory": _numbers,
                "others": st.lists(_numbers, max_size=3),
                "replaces": st.text(max_size=3),
                "text": st.text(max_size=3),
                "until": st.sampled_from(["", "2026-03-05", "2026-02-30"]),
            },
        ),
        max_size=8,
    )
)
def test_whatever_is_answered_each_fact_is_decided_on_once_and_every_file_exists(answers) -> None:
    decided, _ = read(*answers)
    assert sorted(one.fact.title for one in decided if one.fact) == ["Editor", "Home"]
    for one in decided:
        assert one.filename is None or one.filename in FILES
        assert set(one.others) <= set(FILES)
        assert (one.filename is None) == (one.operation == "ADD")


def test_without_anything_near_all_is_added() -> None:
    assert [(one.operation, one.fact) for one in add_all(FACTS)] == [("ADD", fact) for fact in FACTS]
