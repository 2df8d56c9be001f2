"""When a text says a fact already."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.writeback.sentences import says, share_kept


@pytest.mark.parametrize(
    ("text", "fact", "expected"),
    [
        ("- Likes **Vim**.\n- Lives here\n", "likes vim", True),
        ("The user likes Vim. The user lives in Hangzhou.", "The user lives in  Hangzhou", True),
        ("No longer likes Vim.", "likes Vim", False),
        ("Likes Vim and Emacs.", "Likes Vim", False),
        ("喜欢绿茶。住在杭州。", "住在杭州", True),
        ("不喜欢绿茶。", "喜欢绿茶", False),
        ("Version 1.5 is out.", "Version 1.5 is out", True),
        ("", "Likes Vim", False),
        ("Likes Vim", "", False),
        ("Likes Vim", "...", False),
        ("1. Likes Vim", "Likes Vim!", True),
    ],
)
def test_a_fact_is_said_as_a_sentence_of_its_own(text, fact, expected) -> None:
    assert says(text, fact) is expected


@given(st.lists(st.from_regex(r"[a-z]{2,8}( [a-z]{2,8}){1,3}", fullmatch=True), min_size=1, max_size=5))
def test_a_text_says_each_of_its_own_sentences(sentences) -> None:
    text = "\n".join(f"- {sentence}." for sentence in sentences)
    assert all(says(text, sentence.upper()) for sentence in sentences)


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [("a b c d", "D c", 0.5), ("喜欢绿茶", "绿茶", 1 / 3), ("", "x", 1.0), ("a b", "b a c", 1.0)],
)
def test_the_share_of_words_kept(old, new, share) -> None:
    assert share_kept(old, new) == pytest.approx(share)
