"""Mending: safe fixes only. Nothing is lost, nothing gets worse, and a second run finds nothing to do."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text.shapes import SHAPES
from text.test_properties import file_bytes

from agentic_memory.check import check_memory, is_memory_path
from agentic_memory.document import Document, parse_document
from agentic_memory.index import parse_index
from agentic_memory.mending import _all_fields as all_fields
from agentic_memory.mending import mend_document, mend_index

GOOD = "---\nname: {0}\ndescription: When asked about {0}\ntype: user\n---\n\ntext\n"


def mended(text: str, filename: str = "a.md") -> str:
    return mend_document(parse_document(text.encode(), filename=filename), filename=filename).text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "---\nname: a\ndescription: Note: never force-push\ntype: user\n---\nx: y\n",
            '---\nname: a\ndescription: "Note: never force-push"\ntype: user\n---\nx: y\n',
        ),
        ("---\nname: a\ndescription: Fixes # 13\n---\n", '---\nname: a\ndescription: "Fixes # 13"\n---\n'),
        ("---\nname：部署\ndescription： 怎么上线\n---\n", "---\nname: 部署\ndescription: 怎么上线\n---\n"),
        ("---\nname:a\ndescription:b\n---\n", "---\nname: a\ndescription: b\n---\n"),
        ("---\r\nname: @a\r\n---\r\nx\r\n", '---\r\nname: "@a"\r\n---\r\nx\r\n'),
        ("---\nname: a\nJust text.\n", "---\nname: a\n---\nJust text.\n"),
        ("---\nname: a\n\n# Title\n\nNote: x\n", "---\nname: a\n\n---\n# Title\n\nNote: x\n"),
        ("\n\n---\nname: a\n---\nx\n", "---\nname: a\n---\nx\n"),
        ("---\nname: a\ndescription: it is: so\nmetadata:\n  type: user\n  note: x: y\n---\n",
         '---\nname: a\ndescription: "it is: so"\nmetadata:\n  type: user\n  note: "x: y"\n---\n'),
        ("---\ndescription: When deploying\n---\n# Deploy rules #\n", "---\nname: Deploy rules\ndescription: When deploying\n---\n# Deploy rules #\n"),
        ("---\ndescription: When deploying\n---\nx\n", "---\nname: a\ndescription: When deploying\n---\nx\n"),
        ("---\ndescription: When deploying\n---\n```\n# code\n```\n", "---\nname: a\ndescription: When deploying\n---\n```\n# code\n```\n"),
    ],
)  # fmt: skip
def test_a_header_is_mended_in_its_place(before, after):
    assert mended(before) == after


@pytest.mark.parametrize(
    "text",
    [
        GOOD.format("a"),
        "no header\n",
        "<!-- generated -->\n---\nname: a\n---\n",
        "---\nname: a\n---\n---\ndescription: b\n---\n",
        "---\nname: a\nname: b\n---\n",
        "---\nname: a\n---\n<<<<<<< x\n1\n=======\n2\n>>>>>>> y\n",
        "---\ndescription: When: deploying\n---\n\0",
    ],
)
def test_what_needs_a_decision_is_left_to_people(text):
    assert mended(text) == text


def test_no_name_is_given_that_says_just_what_the_description_says():
    text = "---\ndescription: When deploying\n---\n"
    assert mended(text, "team/when_deploying.md") == text


@pytest.mark.parametrize("name", SHAPES)
def test_no_shape_of_a_file_says_something_else_afterwards(name):
    holds_to_the_promise(SHAPES[name].data)


@settings(max_examples=150, deadline=None)
@given(file_bytes)
def test_no_bytes_say_something_else_afterwards(data):
    holds_to_the_promise(data)


def holds_to_the_promise(data: bytes) -> None:
    old = parse_document(data, filename="some_note.md")
    new = mend_document(old, filename="some_note.md")
    assert mend_document(new, filename="some_note.md") is new
    assert new == parse_document(new.encode(new.text), filename="some_note.md")
    if new is not old:
        assert (new.description, new.type, new.body) == (old.description, old.type, old.body)
        # GBK of which too little is left to be told for it becomes UTF-8.
        assert new.encoding == old.encoding or (old.encoding, new.encoding) == ("gb18030", "utf-8")
        assert new.name == old.name or not old.name
        assert {**new.fields, "name": ""} == {**old.fields, "name": ""}
        assert not Counter(problem.code for problem in new.problems) - Counter(problem.code for problem in old.problems)
        escaped = " ".join(value for *_, value in all_fields(new))
        assert not Counter(words(old.text)) - Counter(words(f"{new.text} {escaped}"))


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


# ------------------------------------------------------------------ the index


def documents(*paths: str) -> dict[str, Document]:
    return {path: parse_document(GOOD.format(path[:-3]).encode(), filename=path) for path in paths}


def mend(text: str, *paths: str, others: tuple[str, ...] = (), max_tokens: int = 4000, may_drop: bool = True) -> str:
    return mend_index(text, documents(*paths), other_paths=others, max_tokens=max_tokens, may_drop=may_drop)


def test_memories_that_are_not_listed_are_listed_behind_the_last_entry():
    text = "# Mine\n\n- [a](a.md)\n  more of it\n\nfree text\n"
    assert mend(text, "a.md", "b.md", "c d.md") == (
        "# Mine\n\n- [a](a.md)\n  more of it\n- [b](b.md) — When asked about b\n"
        "- [c d](c%20d.md) — When asked about c d\n\nfree text\n"
    )
    assert mend("", "a.md") == "- [a](a.md) — When asked about a\n"
    assert mend("") == ""


def test_only_as_many_are_listed_as_the_budget_allows():
    paths = [f"{number:03}.md" for number in range(200)]
    text = mend("", *paths, max_tokens=500)
    listed = [entry.filename for entry in parse_index(text).entries]
    assert listed == paths[: len(listed)]
    assert 40 < len(listed) < 60
    full = "".join(f"- [x]({path})\n" for path in paths)
    assert mend(full, *paths, "new.md", max_tokens=500) == full


def test_an_entry_that_can_only_mean_one_memory_gets_its_name():
    assert (
        mend("- [A](Team/User-Profile.md) — mine\n", "team/user_profile.md") == "- [A](team/user_profile.md) — mine\n"
    )
    assert mend("- [A](old/a.md)\n", "new/a.md") == "- [A](new/a.md)\n"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("- [A](A.md)\n- [a](a.md)\n", ["a.md"]),  # listed under its own name as well
        ("- [x](old/a.md)\n- [y](y/a.md)\n- [z](z/a.md)\n", ["y/a.md", "z/a.md"]),  # one of two
        ("- [x](x/a.md) — one\n- [y](y/a.md) — two\n- [a](a.md)\n", ["a.md"]),
    ],
)
def test_an_entry_that_may_mean_several_is_left(text, paths):
    assert mend(text, *paths) == text


def test_lines_that_only_repeat_another_go_and_others_stay():
    text = "- [A](a.md) — hook\n- [A](a.md) — hook\n* [A](./a.md)\n- [A](a.md) — another hook\n- [Other](a.md)\n- [A](a.md)\n  text\n- see [A](a.md)\n"
    assert mend(text, "a.md") == (
        "- [A](a.md) — hook\n- [A](a.md) — another hook\n- [Other](a.md)\n- [A](a.md)\n  text\n- see [A](a.md)\n"
    )


def test_an_entry_without_a_file_goes_only_where_that_can_be_undone():
    text = "- [A](a.md)\n- [Gone](gone.md) — once\n- [Kept](kept.md)\n  with text\n- [Locked](locked.md)\n"
    assert (
        mend(text, "a.md", others=("locked.md",))
        == "- [A](a.md)\n- [Kept](kept.md)\n  with text\n- [Locked](locked.md)\n"
    )
    assert mend(text, "a.md", others=("locked.md",), may_drop=False) == text


PATHS = [
    "a.md",
    "b.md",
    "team/b.md",
    "用户.md",
    "c d.md",
    "cafe\u0301.md",
    "caf\u00e9.md",
    "odd\nname.md",
    f"{'long' * 40}.md",
]
index_line = st.one_of(
    st.tuples(
        st.sampled_from(["- ", "* ", "1. ", "- [ ] ", "", "  - ", "| "]),
        st.sampled_from(["[A]", "[B]", "[]", "[x [y]]"]),
        st.sampled_from(
            ["(a.md)", "(A.md)", "(b.md)", "(team/b.md)", "(gone.md)", "(<c d.md>)", "(用户.md)", "(x/a.md)"]
        ),
        st.sampled_from(["", " — hook", ": hook", " — another", f" — {'word ' * 40}", ", [B](b.md) — more"]),
    ).map("".join),
    st.sampled_from(
        ["# Heading", "", "free text", "free text " * 20, "```", "<!--", "-->", "  hanging", "- a.md: x", "- [[a]]"]
    ),
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(index_line, max_size=12),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.lists(st.sampled_from(PATHS), unique=True),
    st.lists(file_bytes, min_size=3, max_size=3),
    st.sampled_from([20, 4000]),
)
def test_a_mended_memory_has_no_new_problem_loses_no_line_and_needs_no_second_run(
    lines, ending, ended, paths, data, budget
):
    text = ending.join(lines) + (ending if ended else "")
    before = {
        path: parse_document(data[at % 3], filename=path) for at, path in enumerate(paths) if is_memory_path(path)
    }
    after = {path: mend_document(document, filename=path) for path, document in before.items()}
    new = mend_index(text, after, other_paths=(), max_tokens=budget, may_drop=True)

    def problems(index: str, files: dict[str, Document]) -> Counter[tuple[str, str]]:
        parsed = parse_index(index) if index or text else None
        found = check_memory(documents=files, index=parsed, max_index_tokens=budget)
        return Counter((problem.code, problem.file) for problem in found)

    old_problems, left = problems(text, before), problems(new, after)
    if not text:
        old_problems.update(("not-in-index", path) for path in before)  # told as one: index-missing
    assert left <= old_problems
    assert mend_index(new, after, other_paths=(), max_tokens=budget, may_drop=True) == new
    cautious = mend_index(text, after, other_paths=(), max_tokens=budget, may_drop=False)
    assert cautious.count("gone.md") > 0 or "gone.md" not in text
    kept = {line for line in text.split(ending) if line and not parse_index(line).entries}
    assert kept <= set(new.splitlines())
