"""history, diff, restore: what people see, and what is on disk afterwards."""

import json
from hashlib import sha256

import pytest


def digits(data: bytes) -> str:
    return sha256(data).hexdigest()[:12]


@pytest.fixture
def changed(run, memory):
    """The profile as it was before it was changed by hand, and then by the command line."""
    profile = memory / "user_profile.md"
    first = profile.read_bytes()
    run("forget", "user_profile.md")
    run("add", "Second.", "--file", "user_profile.md", "--name", "Profile", "--type", "user", "--description", "d")
    return first, profile


def test_history_lists_the_newest_first(run, changed):
    first, profile = changed
    rows = [line.split("\t") for line in run("history", "user_profile.md").out.splitlines()]
    assert [(row[0], row[2], row[3], row[4]) for row in rows] == [
        (digits(profile.read_bytes()), "person", str(len(profile.read_bytes())), "added"),
        ("(gone)", "person", "0", "forgotten"),
        (digits(first), "unknown", str(len(first)), "found"),
    ]


def test_history_as_json_has_whole_versions(run, changed):
    versions = json.loads(run("history", "user_profile.md", "--json").out)
    assert [version["version"] for version in versions][2] == sha256(changed[0]).hexdigest()
    assert versions[0]["when"].endswith("+00:00")


def test_restore_brings_back_what_was_forgotten(run, memory):
    before = {path.name: path.read_bytes() for path in memory.glob("*.md")}
    run("forget", "user_profile.md")
    ran = run("restore", "user_profile.md", digits(before["user_profile.md"])[:6])
    assert ran.out == f"restored user_profile.md to {digits(before['user_profile.md'])}\n"
    assert (memory / "user_profile.md").read_bytes() == before["user_profile.md"]
    assert "](user_profile.md)" in (memory / "MEMORY.md").read_text()


def test_diff_without_versions_shows_the_last_change(run, changed):
    out = run("diff", "user_profile.md").out
    assert "-Lives in Hangzhou." in out
    assert "+Second." in out


def test_diff_between_two_versions(run, changed):
    first, profile = changed
    there, back = digits(first), digits(profile.read_bytes())
    assert "+Lives in Hangzhou." in run("diff", "user_profile.md", back, there).out
    ran = run("diff", "user_profile.md", back)
    assert (ran.code, ran.out) == (0, "")
    assert "No difference" in ran.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["history", "nope.md"], 1, "no memory"),
        (["history", "../x.md"], 2, "inside the memory"),
        (["restore", "user_profile.md", "abc"], 2, "too short"),
        (["restore", "user_profile.md", "abcdefabcdef"], 1, "begins with"),
        (["diff", "user_profile.md"], 1, "no version before"),
        (["restore", "user_profile.md"], 1, "name the version"),
        (["restore"], 2, "either FILE, or --all"),
        (["restore", "--all"], 2, "either FILE, or --all"),
        (["restore", "--all", "--at", "yesterday"], 2, "is no time"),
        (["undo"], 1, "knows of no change"),
        (["undo", "abcdef"], 1, "no change begins with"),
    ],
)
def test_what_cannot_be_found_is_said(run, memory, arguments, code, says):
    ran = run(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert says in ran.err


def test_an_edit_in_the_editor_keeps_what_a_person_wrote(run, memory, monkeypatch):
    before = (memory / "user_profile.md").read_bytes()
    monkeypatch.setenv("EDITOR", "sed -i s/Hangzhou/Suzhou/")
    run("edit", "user_profile.md")
    run("restore", "user_profile.md", digits(before))
    assert (memory / "user_profile.md").read_bytes() == before


def everything(memory):
    return {path.name: path.read_bytes() for path in memory.glob("*.md")}


def test_undo_takes_back_the_last_change_and_then_itself(run, memory):
    before = everything(memory)
    run("forget", *(name for name in before if name != "MEMORY.md"))
    after = everything(memory)
    assert [*after] == ["MEMORY.md"]
    ran = run("undo")
    assert ran.out.count("restored") == len(before)
    assert everything(memory) == before
    run("undo")
    assert everything(memory) == after


def test_history_of_all_files_names_what_undo_takes(run, memory):
    before = everything(memory)
    run("add", "First.", "--name", "First")
    run("add", "Second.", "--name", "Second")
    rows = [line.split("\t") for line in run("history").out.splitlines()]
    (first,) = {row[0] for row in rows if row[3] == "first.md"}
    assert {(row[2], row[3], row[4]) for row in rows if row[0] == first} >= {("person", "first.md", "added")}
    ran = run("undo", first[:6])
    assert (ran.code, ran.err.startswith("To take that back: agentic-memory undo ")) == (0, True)
    assert everything(memory).keys() - before.keys() == {"second.md"}
    assert json.loads(run("history", "--json").out)[0]["why"] == f"undid {first}"


def test_restore_without_a_version_takes_out_of_the_trash(run, memory):
    before = everything(memory)
    run("forget", "user_profile.md")
    assert run("restore", "user_profile.md").code == 0
    assert (memory / "user_profile.md").read_bytes() == before["user_profile.md"]
    assert not [path for path in (memory / ".trash").rglob("*") if path.is_file()]


def test_restore_all_goes_back_to_a_time(run, memory):
    before = everything(memory)
    run("add", "Later.", "--name", "Later")
    ran = run("restore", "--all", "--at", "2026-01-01T00:00")
    assert ran.code == 0
    assert "later.md" not in everything(memory)
    assert everything(memory).keys() == before.keys()


def test_purge_leaves_no_copy_and_says_so(run, memory):
    run("edit", "user_profile.md")
    run("add", "Second.", "--name", "Second")
    run("forget", "user_profile.md")
    assert run("purge", "user_profile.md").code == 2
    ran = run("purge", "user_profile.md", "--yes")
    assert ran.code == 0
    assert "removed .trash/" in ran.out
    assert "no copy of user_profile.md is left" in ran.err
    left = [path for path in memory.rglob("*") if path.is_file() and b"Hangzhou" in path.read_bytes()]
    assert left == []
    assert run("history", "user_profile.md").code == 1


def test_status_tells_what_the_history_takes_and_tidy_makes_it_smaller(run, memory):
    run("forget", "user_profile.md")
    status = json.loads(run("status", "--json").out)["history"]
    assert (status["versions"], status["trash_files"]) == (3, 1)
    assert "3 versions" in run("status").out
    ran = run("tidy", "--max-age-days", "30")
    assert (ran.code, ran.out.split(";")[0]) == (0, "dropped 0 versions")
    assert run("tidy", "--max-age-days", "0").code == 2
