"""What is kept of a turn: all that people said and did, and nothing that memory supplied."""

from datetime import UTC, datetime

import pytest
from agentscope.message import (
    AssistantMsg,
    Base64Source,
    DataBlock,
    HintBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserMsg,
)
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.errors import InvalidMemory
from agentic_memory.tokens import estimate_tokens
from agentic_memory.writeback.turn import MAX_TURN_TOKENS, Turn, key_of, turn_of

WHEN = datetime(2026, 3, 5, 9, 30, tzinfo=UTC)


def assistant(*blocks) -> AssistantMsg:
    return AssistantMsg("assistant", list(blocks))


def call(name: str, arguments: str, result: str, *, state: str = "success") -> list:
    return [
        ToolCallBlock(id="1", name=name, input=arguments),
        ToolResultBlock(id="1", name=name, output=result, state=state),
    ]


def text_of(*messages) -> str:
    return turn_of(messages, key="k", memory_dir="/w/Memory").text


def test_what_was_said_and_done_stands_in_order() -> None:
    text = text_of(
        UserMsg("ada", "Deploy it."),
        assistant(
            *call("Bash", '{"command": "make deploy"}', "port 80 is taken", state="error"), TextBlock(text="Failed.")
        ),
        UserMsg("ada", "Use 8080."),
    )
    assert text.splitlines() == [
        "ada: Deploy it.",
        '[call] Bash {"command": "make deploy"}',
        "[result, error] port 80 is taken",
        "assistant: Failed.",
        "ada: Use 8080.",
    ]


def test_hints_and_thoughts_are_left_out() -> None:
    answer = assistant(
        HintBlock(hint="<memory>Lives in Hangzhou</memory>"), ThinkingBlock(thinking="hmm"), TextBlock(text="Ok.")
    )
    assert text_of(UserMsg("user", "Hi"), answer) == "user: Hi\nassistant: Ok."


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Read", '{"file_path": "/w/Memory/user_profile.md"}'),
        ("Bash", '{"command": "cat ./Memory/*.md"}'),
        ("Glob", '{"path": "/w/Memory"}'),
        ("MemorySearch", '{"query": "home"}'),
        ("Write", '{"file_path": "Memory/a.md", "content": "Lives in Hangzhou"}'),
    ],
)
def test_what_came_out_of_memory_or_went_there_is_named_only(name, arguments) -> None:
    text = text_of(UserMsg("user", "Hi"), assistant(*call(name, arguments, "Lives in Hangzhou"), TextBlock(text="Ok.")))
    assert "Hangzhou" not in text
    assert f"[the assistant used its memory: {name}]" in text


def test_a_directory_with_a_longer_name_is_not_the_memory() -> None:
    text = text_of(UserMsg("user", "Hi"), assistant(*call("Bash", '{"command": "ls MemoryLeaks/"}', "a.txt")))
    assert "a.txt" in text


def test_pictures_are_told_of() -> None:
    picture = DataBlock(source=Base64Source(data="AA==", media_type="image/png"))
    assert text_of(UserMsg("user", [TextBlock(text="Look"), picture])) == "user: Look\nuser: [image/png]"


def test_a_huge_turn_keeps_both_ends_of_what_was_said_and_of_what_was_done() -> None:
    said = "FIRST\n" + "words of the user\n" * 50_000 + "LAST"
    done = "BEGUN\n" + "words of the assistant\n" * 50_000 + "DONE"
    text = text_of(UserMsg("user", said), assistant(TextBlock(text=done)))
    assert estimate_tokens(text) <= MAX_TURN_TOKENS + 10
    assert all(word in text for word in ("FIRST", "LAST", "BEGUN", "DONE", "[... cut ...]"))


def test_one_line_without_end_is_cut_too() -> None:
    assert estimate_tokens(text_of(UserMsg("user", "x" * 1_000_000))) < MAX_TURN_TOKENS


def test_a_key_names_the_messages_of_people_in_their_session() -> None:
    question, answer = UserMsg("user", "Hi"), AssistantMsg("assistant", "Hello")
    assert key_of([question]) == key_of([question, answer])
    assert key_of([question], scope=("a", "s1")) != key_of([question], scope=("a", "s2"))
    assert key_of([question], scope=("a", "bc")) != key_of([question], scope=("ab", "c"))
    assert key_of([UserMsg("user", "Hi")]) != key_of([question])
    assert key_of([question]).isalnum()


@given(st.text(), st.text(max_size=20), st.integers(0, 5))
def test_a_turn_is_kept_as_it_was(text, error, attempts) -> None:
    turn = Turn("k1", text, WHEN, "s", "r", "a", attempts, error, WHEN if attempts else None)
    assert Turn.from_bytes(turn.as_bytes()) == turn
    assert Turn.from_dict(turn.as_dict()) == turn


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"null", b"\xff", b'{"key":"../x","text":"a","when":"2026-03-05T00:00:00+00:00"}',
     b'{"key":"k","text":1,"when":"2026-03-05T00:00:00+00:00"}', b'{"key":"k","text":"a","when":"2026-03-05T00:00:00"}'],
)  # fmt: skip
def test_what_is_no_turn_is_refused(data) -> None:
    with pytest.raises(InvalidMemory, match="no waiting turn"):
        Turn.from_bytes(data)
