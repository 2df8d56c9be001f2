"""Replacing a piece of text leaves the rest of the file alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.lines import normalise_newlines
from agentic_memory.tools.newlines import NewlineMap, is_uniformly_crlf
from agentic_memory.tools.replacement import explain_no_match, replace_text

PIECES = st.lists(st.sampled_from(["a", "b", "ab", "é", "\udce9", "\n", "\r", "\r\n"]), max_size=12).map("".join)
OLD = st.lists(st.sampled_from(["a", "b", "\n"]), min_size=1, max_size=4).map("".join)
NEW = st.lists(st.sampled_from(["a", "c", "\n"]), max_size=4).map("".join)


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\nb\n", "a\nb", "a\nB", "a\nB\n"),
        ("a\r\nb\r\n", "a\nb", "a\nB", "a\r\nB\r\n"),
        ("a\rb\r", "a\nb", "x\ny\nz", "x\ry\rz\r"),
        ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
        ("a\nb\r\nc\r\n", "a\nb\nc", "a\nb\nC", "a\nb\r\nC\r\n"),
        ("a\r\nb\n", "a\r\n", "a\n", "a\nb\n"),
        ("a\r\nb\r\n", "a\r\nb", "a\nc\nd", "a\r\nc\r\nd\r\n"),
        ("one line", "one", "two\nthree", "two\nthree line"),
        ("\ufeffa\r\nb", "a\nb", "c", "\ufeffc"),
        ("caf\udce9\nb\n", "b", "c", "caf\udce9\nc\n"),
        ("a\r\n\nb", "\nb", "b", "a\r\nb"),
    ],
)
def test_an_edit_changes_only_what_it_names(text: str, old: str, new: str, expected: str) -> None:
    assert replace_text(text, old, new).text == expected


def test_a_text_without_a_match_stays_as_it_is() -> None:
    result = replace_text("a\r\nb", "c", "d")
    assert (result.text, result.lines) == ("a\r\nb", ())


def test_matches_are_numbered_as_read_numbers_lines() -> None:
    assert replace_text("x\r\n\x0cy\r\nx\rx", "x", "z").lines == (1, 4, 5)


@given(PIECES, OLD, NEW)
def test_a_model_sees_what_plain_replacing_would_have_given(text: str, old: str, new: str) -> None:
    shown = normalise_newlines(text)
    result = replace_text(text, old, new)
    assert normalise_newlines(result.text) == shown.replace(old, new)
    assert len(result.lines) == shown.count(old)


@given(PIECES, OLD)
def test_replacing_text_by_itself_changes_no_byte(text: str, old: str) -> None:
    assert replace_text(text, old, old).text == text


@given(st.text(alphabet="ab\n", max_size=20), OLD, NEW)
def test_a_file_with_one_kind_of_line_ending_keeps_it(shown: str, old: str, new: str) -> None:
    expected = shown.replace(old, new)
    for ending in ("\r\n", "\r") if "\n" in shown else ():
        assert replace_text(shown.replace("\n", ending), old, new).text == expected.replace("\n", ending)


@given(PIECES)
def test_a_place_in_the_normalised_text_is_found_in_the_text(text: str) -> None:
    seen = NewlineMap(text)
    for place in range(len(seen.normal) + 1):
        assert normalise_newlines(text[: seen.raw(place)]) == seen.normal[:place]
        assert normalise_newlines(text[seen.raw(place) :]) == seen.normal[place:]


@pytest.mark.parametrize(
    ("text", "uniform"),
    [("a\r\nb\r\n", True), ("a\r\nb", True), ("a\r\nb\n", False), ("a\r\nb\r", False), ("a", False), ("", False)],
)
def test_crlf_counts_as_the_convention_when_no_line_ends_otherwise(text: str, uniform: bool) -> None:
    assert is_uniformly_crlf(text) is uniform


@pytest.mark.parametrize(
    ("text", "old", "hint"),
    [
        ("alpha\nbeta\n", "     1\talpha\n     2\tbeta", "line numbers"),
        ("one\n  two\n    three\n", "two\n  three", "white space from what begins on line 2"),
        (
            "The user lives in Hangzhou.\nOther\n",
            "The user lives in Beijing.",
            "nearest line is 1: The user lives in Hangzhou.",
        ),
        ("caf\udce9 noir\n", "caf\ufffd noir", "not UTF-8"),
    ],
)
def test_an_edit_without_a_match_explains_why(text: str, old: str, hint: str) -> None:
    assert hint in explain_no_match(text, old)


def test_no_explanation_is_given_where_nothing_is_alike() -> None:
    assert explain_no_match("alpha\n", "zzz 123") == ""
    assert explain_no_match("", "\n") == ""


def test_an_explanation_can_always_be_sent_as_utf8() -> None:
    explain_no_match("caf\udce9 noir et blanc\n", "cafe noir et blanc").encode("utf-8")
