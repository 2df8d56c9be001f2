"""dream: told first, done with --apply, taken back with undo."""

import json

import pytest


@pytest.fixture
def expired(run, memory):
    path = memory / "fair.md"
    path.write_text(
        "---\nname: Fair\ndescription: When planning May\ntype: project\nexpires: 2020-05-01\n---\n\nIn town.\n"
    )
    return path


def test_a_dream_is_told_before_it_is_done(run, expired):
    ran = run("dream")
    assert ran.code == 0
    assert ran.out == "archive fair.md: its header says that its time is over\n"
    assert "Nothing was changed; do it with --apply." in ran.err
    assert expired.exists()


def test_apply_does_it_and_undo_takes_it_back(run, memory, expired):
    before = expired.read_bytes()
    ran = run("dream", "--apply")
    assert not expired.exists()
    assert (memory / ".archive" / "fair.md").read_bytes() == before
    assert run("undo", ran.err.split()[-1]).code == 0
    assert expired.read_bytes() == before


def test_what_a_person_wrote_is_not_tidied_up(run, memory):
    files = {path: path.read_bytes() for path in memory.rglob("*.md")}
    ran = run("dream", "--apply")
    assert "There is nothing to tidy up." in ran.err
    assert {path: path.read_bytes() for path in memory.rglob("*.md")} == files


def test_a_dream_as_json(run, expired):
    report = json.loads(run("dream", "--json").out)
    assert report["changes"] == [
        {"kind": "archive", "files": ["fair.md"], "why": "its header says that its time is over"}
    ]
    assert report["applied"] is False


def test_a_dream_with_the_offline_model_does_no_harm(run, memory, expired):
    assert run("dream", "--with-model").code == 0
    assert expired.exists()
