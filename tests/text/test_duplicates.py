"""The same memory twice is found by what it says, in a time that grows with the number of files."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.duplicates import MIN_SIMILARITY, Duplicate, find_duplicates

TEXT = (
    "The billing service is deployed from the release branch, never on a Friday, and only after the nightly tests have "
    "passed on staging. Ask Alice when the migration takes longer than ten minutes; she has the list of customers."
)
CHINESE = "用户住在杭州，喜欢喝绿茶，不吃辣。每天早上七点起床，先跑步再上班，周末常去西湖边散步。"


def paths(*texts: str) -> list[tuple[str, str]]:
    found = find_duplicates({f"{number}.md": text for number, text in enumerate(texts)})
    return [(one.path, one.original) for one in found]


@pytest.mark.parametrize("text", [TEXT, CHINESE])
def test_a_word_more_or_less_is_still_the_same(text):
    changed = text.replace("Friday", "Monday").replace("绿茶", "红茶")
    assert changed != text
    assert paths(text, "something else entirely, with more than enough words to be compared", changed) == [
        ("2.md", "0.md")
    ]


def test_case_punctuation_and_line_breaks_do_not_count():
    assert find_duplicates({"a": TEXT, "b": TEXT.upper().replace(" ", "\n").replace(",", " -")}) == [
        Duplicate("b", "a", 1.0)
    ]


def test_of_many_copies_each_is_told_once():
    assert paths(TEXT, TEXT, TEXT, f"{TEXT} And more.") == [("1.md", "0.md"), ("2.md", "0.md"), ("3.md", "0.md")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("", ""),
        ("todo", "todo"),
        ("just three words", "just three words"),
        ("Likes tea with milk and sugar", "Likes tea without milk and sugar"),
        (
            TEXT,
            TEXT.replace("deployed", "built").replace("Alice", "Bob").replace("nightly", "unit").replace("ten", "two"),
        ),
        (TEXT, f"{TEXT} {CHINESE}"),
        (TEXT, " ".join(reversed(TEXT.split()))),
    ],
)
def test_what_says_little_or_something_else_is_not_the_same(one, other):
    assert paths(one, other) == []


def test_short_texts_count_when_they_are_the_same_word_for_word():
    assert paths("Lives in Hangzhou now.", "lives in hangzhou now") == [("1.md", "0.md")]


def test_planted_copies_among_two_thousand_files_are_all_found_and_nothing_else():
    draw = random.Random(5)
    words = [f"w{number}" for number in range(3000)]
    texts = {f"{number}.md": " ".join(draw.choices(words, k=80)) for number in range(2000)}
    copies = {}
    for number in range(100):
        copy = texts[f"{number}.md"].split()
        copy[draw.randrange(80)] = "other"
        copies[f"copy{number}.md"] = " ".join(copy)
    found = find_duplicates(texts | copies)
    assert {one.path for one in found} == set(copies)
    assert all(f"copy{one.original}" == one.path and one.similarity > 0.9 for one in found)


def test_files_of_one_template_are_not_compared_with_all_others(monkeypatch):
    from agentic_memory import duplicates

    compared = []
    similarity = duplicates._similarity
    monkeypatch.setattr(duplicates, "_similarity", lambda one, other: compared.append(1) or similarity(one, other))
    draw = random.Random(5)
    form = "Notes of the weekly meeting of the team, held in the big room with everybody there:"
    find_duplicates({f"{n}.md": f"{form} {' '.join(str(draw.random()) for _ in range(9))}" for n in range(500)})
    assert len(compared) < 500 * 30


@given(st.lists(st.text(alphabet="ab 一二\n", max_size=60), max_size=12))
def test_any_texts_can_be_compared(texts):
    for one in find_duplicates(dict(zip("abcdefghijkl", texts, strict=False))):
        assert one.original < one.path
        assert MIN_SIMILARITY <= one.similarity <= 1
