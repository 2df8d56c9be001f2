"""The order of use in an index: what moves, and that everything else stays."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_memory.index import parse_index
from agentic_memory.lines import split_lines, strip_ending
from agentic_memory.ordering import order_by_use

LINES = [
    "- [A](a.md) — first",
    "- [B](b.md)",
    "- [C](c.md)",
    "* [D](d.md)",
    "- [A](a.md), [B](b.md)",
    "  - [E](e.md)",
    "1. [F](f.md)",
    "| [G](g.md) | hook |",
    "# Heading",
    "free text",
    "  goes on",
    "",
    "- a plain item",
    "```",
    "<!-- [H](h.md)",
    "-->",
]
indexes = st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(["\n", "\r\n"])), max_size=12).map(
    lambda lines: "".join(map("".join, lines))
)
counts = st.dictionaries(st.sampled_from([f"{letter}.md" for letter in "abcdefgh"]), st.integers(0, 3))


def test_what_is_used_most_comes_first_and_the_rest_keeps_its_order() -> None:
    text = "- [A](a.md)\n- [B](b.md)\n- [C](c.md)\n- [D](d.md)"
    assert order_by_use(text, {"c.md": 1, "d.md": 4}) == "- [D](d.md)\n- [C](c.md)\n- [A](a.md)\n- [B](b.md)"


def test_an_entry_does_not_pass_a_heading_or_text() -> None:
    text = "# One\n- [A](a.md)\n- [B](b.md)\n\n# Two\n- [C](c.md)\n- [D](d.md)\n"
    assert order_by_use(text, {"d.md": 9, "b.md": 1}) == (
        "# One\n- [B](b.md)\n- [A](a.md)\n\n# Two\n- [D](d.md)\n- [C](c.md)\n"
    )


def test_an_entry_that_goes_on_stays_and_is_not_passed() -> None:
    for more in ("  and more\n", "and more\n", "  - [D](d.md)\n", "\n  and more\n"):
        text = f"- [A](a.md)\n- [B](b.md)\n{more}- [C](c.md)\n"
        assert order_by_use(text, {"c.md": 9, "b.md": 8, "d.md": 7}) == text


def test_nothing_used_changes_nothing() -> None:
    text = "- [B](b.md)\r\n- [A](a.md)"
    assert order_by_use(text, {}) == text


@settings(max_examples=150, deadline=None)
@given(indexes, counts)
def test_no_line_is_lost_and_no_other_line_moves(text, uses) -> None:
    ordered = order_by_use(text, uses)
    before, after = ([strip_ending(line) for line in split_lines(one)] for one in (text, ordered))
    assert sorted(after) == sorted(before)
    for old, new in zip(before, after, strict=True):
        assert old == new or (old.startswith(("- [", "* [")) and new[:3] == old[:3])
    assert sorted(entry.filename for entry in parse_index(ordered).entries) == sorted(
        entry.filename for entry in parse_index(text).entries
    )
    assert order_by_use(ordered, uses) == ordered
