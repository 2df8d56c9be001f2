"""Edits of memory files and of the index: exact, minimal, and nothing else touched."""

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from agentic_memory.offline.intent import Fact, describe_fact
from agentic_memory.offline.text import (
    add_entries,
    add_statements,
    drop_entry,
    matching_statements,
    remove_statements,
    render_file,
    replacement_between,
    statements_of,
    withdraw_hook,
)

LINES = st.lists(st.sampled_from(["", "a", "b", "- x", "- [A](a.md) — x", "end"]), max_size=8).map("\n".join)

HANGZHOU = describe_fact("I live in Hangzhou")
OSLO = describe_fact("I moved to Oslo")


@given(LINES, LINES)
def test_a_replacement_turns_the_old_text_into_the_new_one(old, new):
    change = replacement_between(old, new)
    if change is None:
        assert old == new
    else:
        assert old.find(change.old) == old.rfind(change.old)
        assert old.replace(change.old, change.new, 1) == new


def test_a_removed_line_takes_its_break_along():
    change = replacement_between("one\ntwo\nthree\n", "one\nthree\n")
    assert "one\ntwo\nthree\n".replace(change.old, change.new) == "one\nthree\n"
    assert change.new


@given(st.text(min_size=1, max_size=60).filter(lambda text: text.isprintable() and text.strip() == text))
@example("=")
@example("<<")
def test_a_new_file_has_frontmatter_that_yaml_reads_back(text):
    fact = Fact(text, "user", text, "user_x.md")
    header = yaml.safe_load(render_file([fact]).split("---\n")[1]) if "---" not in text else {"name": text}
    assert header["name"] == text


def test_statements_are_added_once_below_the_last_line():
    file = render_file([HANGZHOU])
    grown = add_statements(file, [OSLO])
    assert grown == file + "- I moved to Oslo\n"
    assert add_statements(grown, [OSLO, HANGZHOU]) == grown


def test_an_index_keeps_free_text_and_order_and_gets_one_line_per_file():
    index = "# Mine\n\n- [Cat](cat.md) — Tom\n\nfree text"
    grown = add_entries(index, [HANGZHOU, OSLO])
    assert grown == "# Mine\n\n- [Cat](cat.md) — Tom\n- [Location](user_location.md) — I live in Hangzhou\n\nfree text"


def test_an_entry_learns_a_new_fact_until_its_line_is_long():
    index = "- [Location](user_location.md) — I live in Hangzhou"
    assert add_entries(index, [OSLO]) == f"{index}; I moved to Oslo"
    assert add_entries(add_entries(index, [OSLO]), [OSLO]) == f"{index}; I moved to Oslo"
    long = f"{index} {'x' * 150}"
    assert add_entries(long, [OSLO]) == long


def test_dropping_an_entry_leaves_all_other_lines():
    index = "# Mine\n- [A](a.md) — a\n- [B](b.md) — b\ntext"
    assert drop_entry(index, "a.md") == "# Mine\n- [B](b.md) — b\ntext"
    assert drop_entry(index, "c.md") == index


def test_a_forgotten_statement_leaves_the_header_and_the_hook_too():
    file = add_statements(render_file([HANGZHOU]), [OSLO])
    left = remove_statements(file, ["- I live in Hangzhou"])
    assert "Hangzhou" not in left
    assert statements_of(left) == ["- I moved to Oslo"]
    index = add_entries("", [HANGZHOU, OSLO])
    assert "Hangzhou" not in withdraw_hook(add_entries(index, [OSLO]), "user_location.md", ["- I live in Hangzhou"])


def test_forgetting_the_last_statement_says_so_and_clears_the_description():
    left = remove_statements(render_file([HANGZHOU]), ["- I live in Hangzhou"])
    assert "Hangzhou" not in left
    assert "name: Location" in left
    assert statements_of(left) == []


def test_words_of_the_topic_win_over_words_of_its_subject():
    file = add_statements(render_file([HANGZHOU]), [OSLO])
    assert matching_statements(file, "Oslo") == ["- I moved to Oslo"]
    assert matching_statements(file, "my address") == ["- I live in Hangzhou", "- I moved to Oslo"]
    assert matching_statements(file, "spaceships") == []
