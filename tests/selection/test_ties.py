"""Use and recency decide between level scores, and nowhere else."""

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_memory.document import parse_document
from agentic_memory.selection.by_words import LEVEL, break_ties
from agentic_memory.selection.lexical import Hit, LexicalIndex
from agentic_memory.selection.selector import Request

NAMES = [f"{letter}.md" for letter in "abcdef"]
counts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5))
ages = st.lists(st.integers(0, 3), min_size=6, max_size=6)


def request(mtimes, uses) -> Request:
    document = parse_document(b"")
    documents = {name: (SimpleNamespace(mtime_ns=at), document) for name, at in zip(NAMES, mtimes, strict=True)}
    return Request(query="q", limit=6, documents=documents, words=LexicalIndex, uses=uses)


def hits(*scores: float) -> list[Hit]:
    return [
        Hit(filename=name, score=score, coverage=1.0, line=1, passage="")
        for name, score in zip(NAMES, scores, strict=False)
    ]


def test_of_level_files_the_one_used_more_comes_first_though_it_is_older() -> None:
    found = break_ties(hits(1.0, 1.0), request([9, 0, 0, 0, 0, 0], {"b.md": 1}))
    assert [(hit.filename, hit.score) for hit in found] == [("b.md", 1.0), ("a.md", 1.0)]


def test_of_level_files_used_alike_the_newer_comes_first() -> None:
    found = break_ties(hits(1.0, 1.0), request([0, 9, 0, 0, 0, 0], {"a.md": 2, "b.md": 2}))
    assert [hit.filename for hit in found] == ["b.md", "a.md"]


@settings(max_examples=100, deadline=None)
@given(ages, counts, st.integers(1, 6))
def test_use_never_moves_a_file_past_a_score_that_is_better(mtimes, uses, many) -> None:
    scores = [10.0 * (1 - 2 * LEVEL) ** at for at in range(many)]
    assert break_ties(hits(*scores), request(mtimes, uses)) == hits(*scores)


@settings(max_examples=100, deadline=None)
@given(ages, counts, st.lists(st.sampled_from([1.0, 1.0005, 2.0]), max_size=6))
def test_the_scores_and_the_files_stay_the_same(mtimes, uses, scores) -> None:
    before = hits(*sorted(scores, reverse=True))
    after = break_ties(before, request(mtimes, uses))
    assert {hit.filename for hit in after} == {hit.filename for hit in before}
    for old, new in zip(before, after, strict=True):
        assert old.filename == new.filename or abs(old.score - new.score) <= 2 * LEVEL * old.score
