"""The index is read in every form people write it, and edited line by line."""

import pytest

from agentic_memory.index import (
    IndexEntry,
    add_entry,
    change_entry,
    drop_entry,
    is_own_hook,
    parse_index,
    render_entry,
)

INDEX = """\
# Memory

Kept by hand; see [the notes](free_text.md).

- [User profile](user_profile.md) — likes tea
- [Deploy](team/deploy.md) — Fridays

## Older

- [Notes](notes.md) — misc
"""


@pytest.mark.parametrize(
    ("line", "title", "filename", "hook"),
    [
        ("- [T](a.md) — hook", "T", "a.md", "hook"),
        ("* [T](a.md) - hook", "T", "a.md", "hook"),
        ("+ [T](a.md): hook", "T", "a.md", "hook"),
        ("1. [T](a.md) – hook", "T", "a.md", "hook"),
        ("12) [T](a.md)：hook", "T", "a.md", "hook"),
        ("- [T](a.md) hook", "T", "a.md", "hook"),
        ("- [T](a.md)", "T", "a.md", ""),
        ("- [T](a.md) —", "T", "a.md", ""),
        ("    - [T](a.md) — nested", "T", "a.md", "nested"),
        ("\t* [T](a.md)", "T", "a.md", ""),
        ("> - [T](a.md)", "T", "a.md", ""),
        ("- [x] [T](a.md) — done", "T", "a.md", "done"),
        ("- **[T](a.md)** — bold", "T", "a.md", "bold"),
        ("- (2024-01-31) [T](a.md) — dated", "T", "a.md", "dated"),
        ("[T](a.md) — no bullet", "T", "a.md", "no bullet"),
        ("| [T](a.md) | in a table |", "T", "a.md", "in a table"),
        ("- [T](./a.md)", "T", "a.md", ""),
        ("- [T](././team/a.md)", "T", "team/a.md", ""),
        ("- [T](team\\a.md)", "T", "team/a.md", ""),
        ("- [T](a.md#part)", "T", "a.md", ""),
        ('- [T](a.md "tip") — h', "T", "a.md", "h"),
        ("- [T](a%20b.md)", "T", "a b.md", ""),
        ("- [T](a b.md)", "T", "a b.md", ""),
        ("- [T](<a b.md>) — h", "T", "a b.md", "h"),
        ("- [T](a (1).md)", "T", "a (1).md", ""),
        ("- [T](100%.md)", "T", "100%.md", ""),
        ("- [T](%ff.md)", "T", "%ff.md", ""),
        ("- [T](A.MD)", "T", "A.MD", ""),
        ("- [用户 偏好](用户.md)：喜欢茶", "用户 偏好", "用户.md", "喜欢茶"),
        ("- [用户](%E7%94%A8%E6%88%B7.md)", "用户", "用户.md", ""),
        (r"- [a \[b\] c](a.md)", "a [b] c", "a.md", ""),
        ("- [a [b] c](a.md)", "a [b] c", "a.md", ""),
        ("- [](a.md)", "a", "a.md", ""),
        ("- a.md", "a", "a.md", ""),
        ("- team/a.md — bare", "a", "team/a.md", "bare"),
        ("- `a b.md`: code", "a b", "a b.md", "code"),
        ("- **a.md** - bold", "a", "a.md", "bold"),
        ("- [[a note]] — wiki", "a note", "a note.md", "wiki"),
        ("- [[a|shown]]", "a", "a.md", ""),
        ("- [T](a.md) — a well-known, hyphen-ated hook", "T", "a.md", "a well-known, hyphen-ated hook"),
    ],
)
def test_an_entry_is_read(line: str, title: str, filename: str, hook: str) -> None:
    for end in ("", "\n", "\r\n", "\r"):
        index = parse_index(f"# Memory{end or chr(10)}{line}{end}")
        assert index.entries == (IndexEntry(title, filename, hook, 2),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeff",
        "# [Heading](a.md)\n",
        "See [that](a.md) for more.\n",
        "- [Web](https://x.org/a.md)\n",
        "- [Mail](mailto:a.md)\n",
        "- [Part](#a.md)\n",
        "- [Picture](a.png)\n",
        "- [Index](MEMORY.md)\n",
        "- [Nested index](team/memory.md)\n",
        "- about a.md and more\n",
        "- plain text\n",
        "---\n",
        "```\n- [T](a.md)\n```\n",
        "~~~~ md\n- [T](a.md)\n~~~\n- [U](b.md)\n",
        "  ```\n- [T](a.md)\n",
        "<!--\n- [T](a.md)\n-->\n",
        "<!-- - [T](a.md) -->\n",
        "- [T](a\0.md)\n",
        "- [T](\n",
        "- [[\n",
        "- " + "[" * 5000 + "\n",
        "- " + "[a](" * 5000 + "\n",
    ],
)
def test_what_is_no_entry_is_left_alone(text: str) -> None:
    assert parse_index(text).entries == ()


def test_links_after_a_fence_or_a_comment_count_again() -> None:
    text = "```\n- [A](a.md)\n```\n- [B](b.md)\n<!-- x\n- [C](c.md)\ny -->\n- [D](d.md)\n"
    assert [entry.filename for entry in parse_index(text).entries] == ["b.md", "d.md"]


def test_several_links_on_a_line_are_several_entries() -> None:
    index = parse_index("- [A](a.md), [B](b.md) — both; [C](c.md) — third\n")
    assert [(entry.filename, entry.hook) for entry in index.entries] == [
        ("a.md", ""),
        ("b.md", "both"),
        ("c.md", "third"),
    ]


def test_a_file_listed_twice_is_a_problem_at_the_second_line() -> None:
    index = parse_index("- [A](a.md)\n- [B](b.md)\n- [A again](./a.md)\n")
    (problem,) = index.problems
    assert (problem.code, problem.file, problem.line) == ("duplicate-entry", "MEMORY.md", 3)
    assert "a.md" in problem.message
    assert "line 1" in problem.message
    assert index.find("a.md") == index.entries[0]


def test_find_does_not_mind_how_accents_are_encoded() -> None:
    index = parse_index("- [A](cafe\u0301.md)\n")
    assert index.find("caf\u00e9.md") is index.entries[0]
    assert index.find("cafe.md") is None


def test_an_entry_is_written_as_the_prompt_shows_it() -> None:
    assert render_entry(title="User profile", filename="user_profile.md", hook="likes tea") == (
        "- [User profile](user_profile.md) — likes tea"
    )
    assert render_entry(title="T", filename="a.md", hook="") == "- [T](a.md)"


def test_what_would_break_the_line_is_made_safe() -> None:
    line = render_entry(title="a [b](c.md)\nd", filename="x (1) 100%#?.md", hook="— see [q](q.md)\nand more")
    assert "\n" not in line
    (entry,) = parse_index(line).entries
    assert entry == IndexEntry("a [b](c.md) d", "x (1) 100%#?.md", "see [q](q.md) and more", 1)


def test_a_long_hook_is_cut_at_a_word() -> None:
    line = render_entry(title="T", filename="a.md", hook="word " * 100)
    assert len(line) <= 150
    assert line.endswith("word…")


def test_a_long_chinese_hook_fills_the_line() -> None:
    line = render_entry(title="标题", filename="用户.md", hook="喜欢喝茶" * 100)
    assert len(line) == 150
    assert line.endswith("…")


def test_a_long_title_is_cut_before_the_line_grows() -> None:
    line = render_entry(title="long title " * 30, filename="a.md", hook="hook")
    assert len(line) <= 150
    assert parse_index(line).entries[0].filename == "a.md"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "- [T](t.md) — h\n"),
        ("# Memory\n", "# Memory\n- [T](t.md) — h\n"),
        ("# Memory", "# Memory\n- [T](t.md) — h"),
        ("- [A](a.md)", "- [A](a.md)\n- [T](t.md) — h"),
        ("- [A](a.md)\n\n## End\n", "- [A](a.md)\n- [T](t.md) — h\n\n## End\n"),
        ("- [A](a.md)\r\n", "- [A](a.md)\r\n- [T](t.md) — h\r\n"),
        ("- [A](a.md)\r", "- [A](a.md)\r- [T](t.md) — h\r"),
        ("- [A](a.md)\n  more of it\n\ntext\n", "- [A](a.md)\n  more of it\n- [T](t.md) — h\n\ntext\n"),
        ("| [A](a.md) | x |\n| plain | y |\n\ntext\n", "| [A](a.md) | x |\n| plain | y |\n- [T](t.md) — h\n\ntext\n"),
        ("# M\n```\nopen\n", "# M\n- [T](t.md) — h\n```\nopen\n"),
    ],
)
def test_an_entry_is_added_behind_the_last(before: str, after: str) -> None:
    assert add_entry(before, title="T", filename="t.md", hook="h") == after


def test_a_listed_file_is_not_added_again() -> None:
    for filename in ("notes.md", "team/deploy.md"):
        assert add_entry(INDEX, title="T", filename=filename, hook="h") == INDEX


@pytest.mark.parametrize(
    ("line", "change", "after"),
    [
        ("- [T](a.md) — h", {"title": "N"}, "- [N](a.md) — h"),
        ("- [T](a.md) — h", {"hook": "n"}, "- [T](a.md) — n"),
        ("- [T](a.md) — h", {"new_filename": "b c.md"}, "- [T](b%20c.md) — h"),
        ("- [T](a.md) — h", {"hook": ""}, "- [T](a.md)"),
        ("- [T](a.md)", {"hook": "n"}, "- [T](a.md) — n"),
        ("* [T]( ./a.md 'tip' ):  h  ", {"title": "N"}, "* [N]( ./a.md 'tip' ):  h  "),
        ("* [T]( ./a.md 'tip' ):  h  ", {"hook": "n"}, "* [T]( ./a.md 'tip' ):  n  "),
        ("* [T](<a.md>) - h", {"new_filename": "b.md"}, "* [T](b.md) - h"),
        ("- a.md: h", {"hook": "n"}, "- a.md: n"),
        ("- a.md: h", {"title": "N"}, "- [N](a.md): h"),
        ("- `a.md`: h", {"new_filename": "b.md"}, "- [a](b.md): h"),
        ("- [[a]] — h", {"hook": "n"}, "- [[a]] — n"),
        ("| [T](a.md) | h |", {"hook": "n"}, "| [T](a.md) | n |"),
        ("- [T](a.md), [U](u.md) — h", {"hook": "n"}, "- [T](a.md) — n, [U](u.md) — h"),
        ("- [U](u.md), [T](a.md) — h", {"hook": "n"}, "- [U](u.md), [T](a.md) — n"),
        ("- [T](a.md) — h", {}, "- [T](a.md) — h"),
        ("- [T](a.md) — h", {"title": "T", "hook": "h", "new_filename": "a.md"}, "- [T](a.md) — h"),
        ("- [T](other.md) — h", {"title": "N"}, "- [T](other.md) — h"),
    ],
)
def test_only_what_was_asked_for_changes(line: str, change: dict[str, str], after: str) -> None:
    around = "# Memory\r\n\r\n{}\r\n- [Z](z.md) — z"
    assert change_entry(around.format(line), "a.md", **change) == around.format(after)


def test_a_rename_reaches_every_line_that_lists_the_file() -> None:
    text = "- [A](a.md) — x\n- [B](b.md)\n- [Again](a.md) — y\n"
    changed = change_entry(text, "a.md", new_filename="c.md", hook="n")
    assert changed == "- [A](c.md) — n\n- [B](b.md)\n- [Again](c.md) — y\n"


def test_a_dropped_entry_takes_its_line_and_nothing_else() -> None:
    assert drop_entry(INDEX, "team/deploy.md") == INDEX.replace("- [Deploy](team/deploy.md) — Fridays\n", "")
    assert drop_entry(INDEX, "absent.md") == INDEX
    assert drop_entry(INDEX, "free_text.md") == INDEX


@pytest.mark.parametrize(
    ("filename", "after"),
    [
        ("a.md", "- [B](b.md) — b; [C](c.md)\n"),
        ("b.md", "- [A](a.md), [C](c.md)\n"),
        ("c.md", "- [A](a.md), [B](b.md) — b\n"),
    ],
)
def test_other_links_on_the_line_stay(filename: str, after: str) -> None:
    assert drop_entry("- [A](a.md), [B](b.md) — b; [C](c.md)\n", filename) == after


def test_every_line_of_a_file_is_dropped() -> None:
    assert drop_entry("- [A](a.md)\n- [B](b.md)\n- [A](a.md)\n", "a.md") == "- [B](b.md)\n"


def test_dropping_the_last_line_keeps_the_missing_line_end() -> None:
    assert drop_entry("- [A](a.md)\n- [B](b.md)", "b.md") == "- [A](a.md)"
    assert drop_entry("- [A](a.md)", "a.md") == ""


def test_a_hook_made_from_a_description_is_known_again() -> None:
    description = "Long: [see](x.md) and " + "more words " * 40
    entry = parse_index(render_entry(title="T", filename="a.md", hook=description)).entries[0]
    assert is_own_hook(entry, description)
    assert not is_own_hook(IndexEntry("T", "a.md", "worded by a person", 1), description)
