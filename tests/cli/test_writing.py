"""add, edit, forget: what is left on disk."""

import io
import os
import sys
from pathlib import Path

import pytest


def test_add_writes_the_file_and_its_index_line(run, tmp_path):
    ran = run("add", "I love spicy food")
    assert ran.out == "added food.md (user): Food\n"
    assert "I love spicy food" in (tmp_path / "Memory" / "food.md").read_text()
    assert (tmp_path / "Memory" / "MEMORY.md").read_text() == "- [Food](food.md) — I love spicy food\n"


def test_add_takes_every_field(run, tmp_path):
    ran = run("add", "body", "--name", "T: x", "--description", "when", "--type", "odd", "--file", "sub/t.md")
    assert ran.code == 0
    assert "sub/t.md\todd\tT: x\twhen" in run("list").out


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_add_reads_standard_input(run, tmp_path, monkeypatch, arguments):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("我对花生过敏\n第二行\n".encode())))
    assert run("add", *arguments).code == 0
    assert (tmp_path / "Memory" / "饮食.md").read_text().endswith("我对花生过敏\n第二行\n")


def test_nothing_is_not_added(run, tmp_path):
    ran = run("add", "  \n ")
    assert ran.code == 2
    assert not (tmp_path / "Memory").exists()


def test_add_never_writes_over_a_file(run, memory):
    before = (memory / "user_profile.md").read_bytes()
    assert run("add", "x", "--file", "user_profile.md").code == 1
    assert (memory / "user_profile.md").read_bytes() == before


def test_forget_moves_to_the_trash_and_says_where(run, memory):
    before = (memory / "user_profile.md").read_bytes()
    ran = run("forget", "user_profile.md", "饮食.md")
    assert ran.code == 0
    assert not (memory / "user_profile.md").exists()
    place = ran.out.splitlines()[0].rpartition(" ")[2]
    assert Path(place).read_bytes() == before
    assert (memory / "MEMORY.md").read_text() == "# Mine\n\n- [Deploy](team/deploy.md) — How to deploy\n"


def test_forgetting_what_is_not_there_ends_with_one(run, memory):
    assert run("forget", "nope.md").code == 1


@pytest.fixture
def editor(tmp_path, monkeypatch):
    """Make $EDITOR a program that runs Python code on ``path``."""

    def make(code):
        program = tmp_path / "an editor.py"
        program.write_text(f"import sys, pathlib\npath = pathlib.Path(sys.argv[1])\n{code}\n")
        monkeypatch.setenv("EDITOR", f"{sys.executable} '{program}'")

    return make


def test_edit_writes_exactly_what_was_typed(run, memory, editor):
    before = (memory / "team" / "deploy.md").read_bytes()
    editor("path.write_bytes(path.read_bytes().replace(b'make deploy', b'make ship'))")
    assert run("edit", "team/deploy.md").code == 0
    assert (memory / "team" / "deploy.md").read_bytes() == before.replace(b"make deploy", b"make ship")


def test_a_new_description_reaches_the_index_and_a_hand_written_hook_stays(run, memory, editor):
    index = (memory / "MEMORY.md").read_text().replace("How to deploy", "my own words")
    (memory / "MEMORY.md").write_text(index)
    editor("path.write_bytes(path.read_bytes().replace(b'description: ', b'description: Now '))")
    assert run("edit", "user_profile.md").code == 0
    assert run("edit", "team/deploy.md").code == 0
    assert (memory / "MEMORY.md").read_text() == index.replace("— Who", "— Now Who")


def test_edit_of_the_index(run, memory, editor):
    editor("path.write_text('# Other\\n')")
    assert run("edit", "MEMORY.md").code == 0
    assert (memory / "MEMORY.md").read_text() == "# Other\n"


def test_an_edit_that_changes_nothing_writes_nothing(run, memory, editor):
    editor("pass")
    os.utime(memory / "user_profile.md", (1, 1))
    assert "is unchanged" in run("edit", "user_profile.md").err
    assert (memory / "user_profile.md").stat().st_mtime == 1


def test_when_somebody_else_was_faster_both_versions_are_kept(run, memory, editor):
    theirs = memory / "user_profile.md"
    editor(f"pathlib.Path({str(theirs)!r}).write_text('theirs'); path.write_text('mine')")
    ran = run("edit", "user_profile.md")
    assert ran.code == 1
    assert theirs.read_text() == "theirs"
    place = next(line for line in ran.err.splitlines() if "yours:" in line).partition(": ")[2].strip()
    assert Path(place).read_text() == "mine"
    assert "mine" not in run("list").out


def test_a_file_deleted_while_it_was_edited_is_a_conflict_too(run, memory, editor):
    theirs = memory / "user_profile.md"
    editor(f"pathlib.Path({str(theirs)!r}).unlink(); path.write_text('mine')")
    ran = run("edit", "user_profile.md")
    assert ran.code == 1
    place = next(line for line in ran.err.splitlines() if "yours:" in line).partition(": ")[2].strip()
    assert Path(place).read_text() == "mine"


def test_a_failing_or_missing_editor_changes_nothing(run, memory, editor, monkeypatch):
    before = (memory / "user_profile.md").read_bytes()
    editor("path.write_text('half'); sys.exit(3)")
    assert run("edit", "user_profile.md").code == 1
    monkeypatch.setenv("EDITOR", "no-such-editor-here")
    ran = run("edit", "user_profile.md")
    assert ran.code == 2
    assert "set EDITOR" in ran.err
    assert (memory / "user_profile.md").read_bytes() == before


def test_edit_of_what_is_not_there_starts_no_editor(run, memory, editor, tmp_path):
    editor(f"pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    assert run("edit", "nope.md").code == 1
    assert not (tmp_path / "ran").exists()
