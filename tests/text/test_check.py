"""Every problem is found, where it is, with what to do about it."""

import re
from datetime import date

import pytest

from agentic_memory import check
from agentic_memory.check import check_memory, is_memory_path
from agentic_memory.document import parse_document
from agentic_memory.index import parse_index
from agentic_memory.problems import KINDS, make_problem
from agentic_memory.values import Problem

GOOD = "---\nname: {0}\ndescription: About {0}\ntype: user\n---\n\ntext\n"


def check_files(files: dict[str, str], index: str | None = None, **more: object) -> list[Problem]:
    documents = {path: parse_document(text.encode(), filename=path) for path, text in files.items()}
    if index is None:
        index = "".join(f"- [{path[:-3]}](<{path}>)\n" for path in files)
    return check_memory(documents=documents, index=parse_index(index), **more)  # type: ignore[arg-type]


def places(problems: list[Problem]) -> list[tuple[str, str, int | None]]:
    return [(problem.code, problem.file, problem.line) for problem in problems]


def test_a_sound_memory_has_no_problems() -> None:
    assert check_files({"a.md": GOOD.format("a"), "team/b.md": GOOD.format("b")}) == []
    assert check_memory(documents={}, index=None) == []
    assert check_files({}, "") == []


def test_the_docstring_explains_every_code() -> None:
    rows = re.findall(r"^([a-z0-9-]+) +(error|warning|info) ", check.__doc__ or "", re.MULTILINE)
    assert dict(rows) == {code: kind.severity for code, kind in KINDS.items()}


def test_every_code_says_what_is_wrong_and_what_to_do() -> None:
    blanks = (
        "advice byte count date description encoding filename first key kind length limit lines other proposal reason share target "
        "text title tokens value"
    )
    details = dict.fromkeys(blanks.split(), "X")
    for code in KINDS:
        problem = make_problem(code, "a.md", 1, **details)
        assert problem.message
        assert problem.fix
        assert "{" not in problem.message + problem.fix


@pytest.mark.parametrize(
    ("header", "codes"),
    [
        ("name: a\ndescription: When b\ntype: user", []),
        ("name: a\ndescription: When b\nmetadata:\n  type: user", []),
        ("description: When b\ntype: user", ["missing-name"]),
        ("name: a\ndescription:\ntype: user", ["missing-description"]),
        ("name: ' '\ndescription: When b", ["missing-name", "missing-type"]),
        ("name: a: b\ndescription: When b\ntype: user", ["frontmatter-not-yaml"]),
    ],
)
def test_what_a_header_lacks_is_listed(header: str, codes: list[str]) -> None:
    assert [problem.code for problem in check_files({"a.md": f"---\n{header}\n---\n"})] == codes


def test_a_file_without_a_header_is_one_problem() -> None:
    assert places(check_files({"a.md": "just text\n"})) == [("no-frontmatter", "a.md", None)]


def test_a_binary_file_is_one_problem() -> None:
    assert places(check_files({"a.md": "a\0b"})) == [("binary", "a.md", None)]


def test_files_and_entries_without_each_other() -> None:
    problems = check_files({"a.md": GOOD.format("a"), "b.md": GOOD.format("b")}, "- [A](a.md)\n- [C](c.md)\n")
    assert places(problems) == [("entry-without-file", "MEMORY.md", 2), ("not-in-index", "b.md", None)]
    assert problems[1].fix == "add a line `- [b](b.md) — ...`"


@pytest.mark.parametrize("wrong", ["A.md", "team/a.md", "Memory/a.md"])
def test_a_near_miss_is_named(wrong: str) -> None:
    problem = check_files({"a.md": GOOD.format("a")}, f"- [A]({wrong})\n")[0]
    assert (problem.code, problem.fix) == ("entry-without-file", "write a.md instead")


def test_what_could_not_be_read_is_not_said_to_be_gone() -> None:
    assert check_files({}, "- [A](a.md)\n", other_paths=["a.md"]) == []


def test_an_entry_in_another_unicode_form_is_the_same_file() -> None:
    assert check_files({"caf\u00e9.md": GOOD.format("a")}, "- [A](cafe\u0301.md)\n") == []


def test_no_index_is_one_problem_however_many_files() -> None:
    documents = {path: parse_document(GOOD.format("x").encode()) for path in ("a.md", "b.md")}
    assert places(check_memory(documents=documents, index=None)) == [("index-missing", "MEMORY.md", None)]


def test_long_and_duplicate_lines_are_listed_once() -> None:
    long = f"- [A](a.md), [B](b.md) — {'x' * 150}\n"
    files = {"a.md": GOOD.format("a"), "b.md": GOOD.format("b")}
    assert places(check_files(files, long)) == [("entry-too-long", "MEMORY.md", 1)]
    assert places(check_files(files, "- [A](a.md)\n- [B](b.md)\n- [A](a.md)\n")) == [
        ("duplicate-entry", "MEMORY.md", 3)
    ]


def test_an_index_over_budget_names_the_lines() -> None:
    files = {f"{n}.md": GOOD.format(n) for n in range(100)}
    (problem,) = check_files(files, max_index_tokens=100)
    assert (problem.code, problem.file) == ("index-over-budget", "MEMORY.md")
    lines = re.search(r"lines (\d+)-(\d+)", problem.message)
    assert lines
    assert problem.line == int(lines[1])
    assert int(lines[2]) < 100


def test_conflict_markers_are_found_in_files_and_index() -> None:
    conflict = "<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> other\n"
    problems = check_files({"a.md": GOOD.format("a") + conflict}, f"- [A](a.md)\n{conflict}")
    assert places(problems) == [("conflict-markers", "MEMORY.md", 2), ("conflict-markers", "a.md", 8)]


def test_what_only_resembles_a_conflict_is_none() -> None:
    text = GOOD.format("a") + "a <<<<<<< b\n=======\nTitle\n=======\n>>>>>>>> quote\n"
    assert check_files({"a.md": text}) == []


def test_wiki_links_are_resolved_as_people_write_them() -> None:
    links = "[[b]] [[B note]] [[b_note|shown]] [[b-note#part]] [[team/b note]] [[b note.md]] [[MEMORY]] [[A name]]"
    files = {"a.md": GOOD.format("A name") + links, "b.md": GOOD.format("b"), "team/b_note.md": GOOD.format("c")}
    assert check_files(files) == []


def test_a_dangling_wiki_link_is_found_with_its_line() -> None:
    text = GOOD.format("a") + "see [[nothing here|x]]\n```\n[[in code]]\n```\n`[[in code]]` [[ -f x ]] && y\n[[else]]\n"
    problems = check_files({"a.md": text})
    assert places(problems) == [("dangling-wikilink", "a.md", 8), ("dangling-wikilink", "a.md", 13)]
    assert "nothing here" in problems[0].message


def test_names_that_some_file_systems_take_for_one() -> None:
    files = {
        "A.md": GOOD.format("a"),
        "a.md": GOOD.format("a"),
        "caf\u00e9.md": GOOD.format("c"),
        "cafe\u0301.md": GOOD.format("c"),
    }
    assert [code for code, _, _ in places(check_files(files))].count("same-name") == 2


@pytest.mark.parametrize("copy", ["a 2.md", "a (1).md", "a-DESKTOP-1A2B3C4.md"])
def test_a_copy_is_noted_only_beside_its_original(copy: str) -> None:
    assert is_memory_path(copy)
    assert places(check_files({copy: GOOD.format("x"), "a.md": GOOD.format("a")})) == [("possible-copy", copy, None)]
    assert check_files({copy: GOOD.format("x")}) == []


def test_what_is_ignored_is_said() -> None:
    others = [
        "memory.md",
        "team/MEMORY.md",
        "a.sync-conflict-20240131-120000-ABCDEFG.md",
        ".history/b.md",
        "MEMORY.md",
        "picture.png",
    ]
    assert places(check_files({}, "", other_paths=others)) == [
        ("two-indexes", "MEMORY.md", None),
        ("sync-conflict", "a.sync-conflict-20240131-120000-ABCDEFG.md", None),
        ("nested-index", "team/MEMORY.md", None),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "A.MD",
        "team/deploy.md",
        "用户.md",
        "-rf.md",
        "a b.md",
        "conflict.md",
        "a (conflicting).md",
        "memory_note.md",
        "x.md.md",
    ],
)
def test_a_memory_path(path: str) -> None:
    assert is_memory_path(path)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "MEMORY.md",
            "memory.md",
            "team/Memory.MD",
            "",
            ".md",
            "a.txt",
            "a.md.txt",
            "a.md~",
            "#a.md#",
            "4913",
            ".#a.md",
        ),
        *(".a.md.swp", ".hidden.md", ".trash/a.md", "a/.b/c.md", "~$a.md", "/a.md", "a//b.md", "../a.md", "a/../b.md"),
        *("./a.md", "a\0.md", "a.sync-conflict-20240131-120000-ABCDEFG.md", "a (Bob's conflicted copy 2024-01-31).md"),
        *(
            "a (conflicted copy 2024-01-31 120000).md",
            "a (Conflicted copy phone 202401311200).md",
            "a (Case Conflict 1).md",
        ),
        "a_conflict-20240131-120000.md",
    ],
)
def test_no_memory_path(path: str) -> None:
    assert not is_memory_path(path)


TODAY = date(2026, 3, 4)


def test_relative_dates_are_listed_with_their_line_and_what_they_mean_if_that_is_known() -> None:
    text = GOOD.format("a") + "Ships tomorrow.\n\n评审在下周四。\n"
    unknown, _ = check_files({"a.md": text})
    assert (unknown.code, unknown.line, unknown.fix) == ("relative-date", 8, "write the date itself")
    tomorrow, thursday = check_files({"a.md": text}, written={"a.md": date(2026, 3, 4)})
    assert tomorrow.fix == "write the date itself: 2026-03-05, if it was written on 2026-03-04"
    assert (thursday.line, thursday.message) == (10, "'下周四' is true on one day only")
    stated = text.replace("type: user", "type: user\ndate: 2026-01-31T10:00:00Z")
    assert "2026-02-01" in check_files({"a.md": stated}, written={"a.md": date(2026, 3, 4)})[0].fix


def test_a_diary_is_not_told_of_every_day() -> None:
    problems = check_files({"a.md": GOOD.format("a") + "yesterday\n" * 500})
    assert len(problems) == check.MAX_DATES


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ("expires: 2026-03-03", "expired"),
        ("valid-until: '2026-03-03T23:59:59Z'", "expired"),
        ("expires: 2026-03-04", None),
        ("expires: 20991231", None),
        ("expires:", None),
        ("Expires: soon", "expiry-no-date"),
        ("expires: 2026-02-30", "expiry-no-date"),
    ],
)
def test_what_has_expired_is_listed(field: str, code: str | None) -> None:
    text = GOOD.format("a").replace("type: user", f"type: user\n{field}")
    assert [problem.code for problem in check_files({"a.md": text}, today=TODAY)] == ([code] if code else [])


@pytest.mark.parametrize(
    "description", ["x", "X.", "User profile", "deployment notes", "API keys", "项目背景", "看板与告警"]
)
def test_a_description_that_only_names_a_topic_is_listed(description: str) -> None:
    text = f"---\nname: x\ndescription: {description}\ntype: user\n---\n"
    assert places(check_files({"a.md": text})) == [("topic-description", "a.md", None)]


@pytest.mark.parametrize(
    "description",
    [
        "Before deploying",
        "How to deploy",
        "Who the user is",
        "Likes tea",
        "Reply in Chinese",
        "Gave up coffee in spring",
        "Supplier, meter and contract",
        "吃什么",
        "用户喜欢绿茶",
        "部署之前",
        "Emre, four",
    ],
)
def test_a_description_that_says_something_is_left_alone(description: str) -> None:
    assert check_files({"a.md": f"---\nname: x\ndescription: {description}\ntype: user\n---\n"}) == []


def test_text_that_stands_in_the_index_instead_of_a_file_is_listed_once_per_piece() -> None:
    fact = "- The user prefers short answers and lives in Hangzhou, near the lake.\n"
    index = f"# Index\n\nOne line per memory.\n\n- [A](a.md) — hook\n\n## Facts\n{fact * 5}\n## 事实\n{'用户住在杭州。' * 20}\n"
    assert places(check_files({"a.md": GOOD.format("a")}, index)) == [
        ("text-in-index", "MEMORY.md", 8),
        ("text-in-index", "MEMORY.md", 15),
    ]


def test_an_index_of_headings_comments_and_entries_holds_no_loose_text() -> None:
    files = {f"{n}.md": GOOD.format(f"{n} {n}") for n in range(9)}
    entries = "".join(f"## {n}\n- [{n}]({n}.md) — {'word ' * 20}\n  more about it\n" for n in range(9))
    assert check_files(files, f"# My memory\n\nWhat I know, one line each. Edit as you like.\n\n{entries}") == []


@pytest.mark.parametrize("hidden", ["pass\u200bword", "abc\u202ecba", "\U000e0041\U000e0042", "a\u2066b\u2069"])
def test_characters_that_nobody_sees_are_told_once_with_their_line(hidden: str) -> None:
    text = f"{GOOD.format('a')}{hidden}\n{hidden}\n"
    problems = check_files({"a.md": text}, f"- [a](a.md)\n- {hidden}\n")
    assert places(problems) == [("invisible-characters", "MEMORY.md", 2), ("invisible-characters", "a.md", 8)]
    assert "2 lines" in problems[1].message


def test_characters_that_belong_there_are_no_hidden_ones() -> None:
    text = f"\ufeff{GOOD.format('a')}👨\u200d👩\u200d👧 می\u200cخواهم café 中文\n"
    assert check_files({"a.md": text}) == []
