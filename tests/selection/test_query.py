import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_memory.selection.query import MAX_QUERY_CHARS, build_query

ASKED = "Shall I book the hotel in Kyoto for five nights?"


@pytest.mark.parametrize(
    "text",
    [
        "hi",
        "Hello!",
        "thanks a lot!",
        "Thank you so much",
        "ok",
        "好的",
        "好的，谢谢你",
        "谢谢！",
        "👍",
        "",
        "   ",
        "...",
        "早上好",
        "ありがとう",
    ],
)
def test_small_talk_costs_no_search(text: str) -> None:
    assert build_query([text], ["Where is Kyoto?", ASKED]).small_talk


def test_silence_is_small_talk() -> None:
    assert build_query([]).small_talk


@pytest.mark.parametrize(
    "text", ["What tea do I like?", "我喜欢喝什么茶？", "deploy", "hi, where is the spare key?", "Bach"]
)
def test_a_question_stands_by_itself(text: str) -> None:
    query = build_query([text], ["Tell me about Lisbon", ASKED])
    assert (query.text, query.small_talk) == (text, False)


@pytest.mark.parametrize(
    "text", ["yes, do it", "yes", "go ahead", "and for her?", "继续", "what about that one?", "why?"]
)
def test_a_message_that_only_goes_on_takes_the_last_turn_along(text: str) -> None:
    query = build_query([text], ["We were in Lisbon", ASKED])
    assert query.text.startswith(text)
    assert ASKED in query.text
    assert not query.small_talk


def test_going_on_from_nothing_asks_for_nothing() -> None:
    assert build_query(["yes, do it"]).small_talk


def test_context_is_bounded() -> None:
    query = build_query(["yes"], ["Kyoto " * 10_000] * 50)
    assert len(query.text) < 2500


def test_a_huge_paste_keeps_its_head_and_its_tail() -> None:
    paste = "Why does the solver crash? " + "trace line 42 in module\n" * 40_000 + " The depot is Liège."
    query = build_query([paste])
    assert len(query.text) <= MAX_QUERY_CHARS
    assert query.text.startswith("Why does the solver crash?")
    assert query.text.endswith("The depot is Liège.")


def test_several_new_messages_are_searched_together_newest_first() -> None:
    query = build_query(["Where is the spare key?", "And the bicycle lock?"])
    assert query.text.index("bicycle") < query.text.index("spare key")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=200), max_size=4), st.lists(st.text(max_size=200), max_size=4))
def test_any_text_gives_a_query_of_bounded_size(new: list[str], history: list[str]) -> None:
    assert len(build_query(new, history).text) <= MAX_QUERY_CHARS + 2000
