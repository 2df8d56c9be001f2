"""A model is shown nothing that a person cannot see, and lines keep their numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.fence import printable
from agentic_memory.shown import as_shown, reveal, without_comments


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200bb", "a<U+200B>b"),
        ("\u202eevil\u202c", "<U+202E>evil<U+202C>"),
        ("a\u200db", "a<U+200D>b"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("用户喜欢绿茶 ❤\ufe0f", "用户喜欢绿茶 ❤\ufe0f"),
    ],
)
def test_invisible_characters_are_spelled_out_where_they_hide_something(text, shown):
    assert reveal(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a <!-- b --> c", "a  c"),
        ("a\n<!-- b\nc -->\nd", "a\n\n\nd"),
        ("a <!-- never closed\nb", "a \n"),
        ("```html\n<!-- code -->\n```\n<!-- no -->x", "```html\n<!-- code -->\n```\nx"),
        ("<!--\n```\n-->\nx\n```\ny", "\n\n\nx\n```\ny"),
    ],
)
def test_comments_are_not_shown_and_code_is(text, shown):
    assert without_comments(text) == shown


@given(st.text(alphabet="ab<!->`~\n\u200b "))
def test_lines_keep_their_numbers(text):
    assert as_shown(text).count("\n") == printable(text).count("\n")


@given(st.text(alphabet=st.characters(exclude_characters="\u00ad"), max_size=50).filter(str.isascii))
def test_plain_text_is_shown_as_it_is(text):
    if "<!--" not in text:
        assert as_shown(text) == printable(text)
