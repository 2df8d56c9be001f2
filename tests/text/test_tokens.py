"""Tokens are a quarter of the UTF-8 bytes; a cut never splits a line it need not split."""

import pytest

from agentic_memory.lines import dominant_ending, one_line, split_lines
from agentic_memory.tokens import cut_to_tokens, estimate_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 0), ("ab", 1), ("abcd", 1), ("abcde", 1), ("abcdef", 2), ("中", 1), ("中文", 2), ("\udce9", 1)],
)
def test_tokens_are_rounded_half_up(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_agentscope_estimates_the_same() -> None:
    from agentscope._utils._common import _estimate_tokens as upstream

    for text in ("", "a", "hello world", "中文 text", "🎉" * 7):
        assert estimate_tokens(text) == upstream(text)


@pytest.mark.parametrize(
    ("text", "max_tokens", "cut"),
    [
        ("one\ntwo\n", 0, ""),
        ("one\ntwo\n", -1, ""),
        ("one\ntwo\n", 2, "one\ntwo\n"),
        ("one\ntwo\n", 1, "one\n"),
        ("one\r\ntwo", 1, "one\r\n"),
        ("a long line\nx", 2, "a long li"),
        ("中文中文", 1, "中"),
        ("x🎉🎉", 1, "x🎉"),
        ("\n\n\n\n\n\n\n\n", 1, "\n\n\n\n\n"),
    ],
)
def test_a_text_is_cut_at_a_line_or_else_at_a_character(text: str, max_tokens: int, cut: str) -> None:
    assert cut_to_tokens(text, max_tokens) == cut


def test_lines_end_where_editors_say() -> None:
    assert split_lines("a\nb\r\nc\rd\x0b\x0c\x85\u2028e") == ["a\n", "b\r\n", "c\r", "d\x0b\x0c\x85\u2028e"]
    assert split_lines("") == []


@pytest.mark.parametrize(
    ("text", "ending"),
    [("", "\n"), ("a", "\n"), ("a\nb\r\n", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb\r", "\r"), ("a\r\nb\r", "\r\n")],
)
def test_the_ending_most_lines_have(text: str, ending: str) -> None:
    assert dominant_ending(text) == ending


def test_one_line_folds_every_kind_of_break() -> None:
    assert one_line("  a \n\n b\r\nc\rd\u2028e\x85f\x0cg  h\t ") == "a b c d e f g  h"
