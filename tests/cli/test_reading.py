"""list, show, search, check, status: what is printed, and the exit code."""

import json
import subprocess
import sys

import pytest


def test_list_prints_one_tab_separated_line_per_memory(run, memory):
    ran = run("list")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "team/deploy.md\tproject\tDeploy\tHow to deploy",
        "user_profile.md\tuser\tProfile\tWho the user is",
        "饮食.md\tuser\t饮食\t吃什么",
    ]


def test_list_of_one_type(run, memory):
    assert [line.split("\t")[0] for line in run("list", "--type", "project").out.splitlines()] == ["team/deploy.md"]


def test_list_as_json_leaves_out_only_the_content(run, memory):
    files = json.loads(run("list", "--json").out)
    assert [file["filename"] for file in files] == ["team/deploy.md", "user_profile.md", "饮食.md"]
    assert files[1]["fields"]["mood"] == "calm"
    assert "content" not in files[0]


def test_an_empty_directory_is_no_error(run, tmp_path):
    assert run("list").code == 0
    assert "No memories in" in run("list").err
    assert json.loads(run("list", "--json").out) == []
    assert run("check").code == 0
    assert "not there yet" in run("status").out
    assert not list(tmp_path.iterdir())  # looking makes nothing


def test_a_description_of_many_lines_or_with_escapes_stays_one_harmless_line(run, memory):
    (memory / "evil.md").write_text('---\nname: "a\\e[31mred\\tb"\ndescription: "x\\ny"\ntype: user\n---\n\nbody\n')
    line = next(line for line in run("list").out.splitlines() if line.startswith("evil.md"))
    assert "\x1b" not in line
    assert line.count("\t") == 3


def test_names_that_no_terminal_takes_are_spelled_out(run, memory):
    with open(bytes(memory) + b"/bad\xff\x1b.md", "w") as file:
        file.write("text\n")
    (memory / "two\nlines.md").write_text("text\n")
    assert "bad" not in run("list").out, "a name that is not UTF-8 is no memory"
    assert json.loads(run("list", "--json").out)
    checked = run("check").out
    assert "bad\\xff\\x1b.md: error" in checked
    assert "two lines.md: warning" in checked


def test_show_prints_the_bytes_of_a_file_into_a_pipe(memory):
    command = [sys.executable, "-P", "-m", "agentic_memory.cli", "show", "team/deploy.md", "-C", str(memory.parent)]
    assert (
        subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == (memory / "team/deploy.md").read_bytes()
    )


def test_show_as_json_and_of_the_index(run, memory):
    shown = json.loads(run("show", "user_profile.md", "--json").out)
    assert shown["type"] == "user"
    assert shown["content"].strip() == "Lives in Hangzhou."
    assert json.loads(run("show", "MEMORY.md", "--json").out)["content"].startswith("# Mine")


@pytest.mark.parametrize("filename", ["nope.md", "team/nope.md"])
def test_what_is_not_there_is_said_in_one_line(run, memory, filename):
    ran = run("show", filename)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    assert filename in ran.err


@pytest.mark.parametrize("filename", ["../secret.md", "/etc/passwd", ".history/x.md"])
def test_nothing_outside_the_memory_is_shown(run, memory, filename):
    (memory.parent / "secret.md").write_text("secret")
    ran = run("show", filename)
    assert (ran.code, ran.out) == (2, "")


def test_search_finds_a_line_and_says_where(run, memory):
    ran = run("search", "Hangzhou")
    assert ran.code == 0
    assert ran.out.startswith("user_profile.md:")
    assert "Lives in Hangzhou." in ran.out
    assert run("search", "花生").out.startswith("饮食.md:")


def test_search_without_a_match_ends_with_one(run, memory):
    ran = run("search", "zeppelin")
    assert (ran.code, ran.out) == (1, "")
    assert "Nothing in memory matches" in ran.err
    ran = run("search", "zeppelin", "--json")
    assert (ran.code, json.loads(ran.out)) == (1, [])


def test_search_as_json_is_bounded(run, memory):
    assert len(json.loads(run("search", "deploy Hangzhou", "--json", "--limit", "1").out)) == 1
    assert run("search", "x", "--limit", "0").code == 2


def test_check_of_a_sound_memory_ends_with_zero(run, memory):
    ran = run("check")
    assert (ran.code, ran.out) == (0, "")
    assert "3 memories" in ran.err


def test_check_lists_problems_with_file_and_fix(run, memory):
    (memory / "MEMORY.md").write_text("- [Gone](gone.md) — nothing\n")
    ran = run("check")
    assert ran.code == 1
    assert "MEMORY.md:1: " in ran.out
    assert "gone.md" in ran.out
    problems = json.loads(run("check", "--json").out)
    assert all(problem["fix"] for problem in problems)


def test_status_tells_place_contents_and_model(run, memory, monkeypatch):
    out = run("status").out
    assert str(memory) in out
    assert "3 (1 project, 2 user)" in out
    assert "offline (no key is set)" in out
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert "anthropic:" in run("status").out
    monkeypatch.setenv("AGENTIC_MEMORY_MODEL", "nonsense:x")
    ran = run("status", "--json")
    assert (ran.code, json.loads(ran.out)["model"]) == (0, None)


def test_a_memory_that_cannot_be_reached_ends_with_three(run, tmp_path):
    (tmp_path / "Memory").write_text("a file where the directory should be")
    for command in (["list"], ["status"], ["check"], ["search", "x"], ["add", "x"]):
        ran = run(*command)
        assert (ran.code, ran.err.count("\n")) == (3, 1), ran
        assert "Traceback" not in ran.err


def test_another_memory_directory_can_be_named(run, memory, tmp_path):
    memory.rename(tmp_path / "other place")
    assert "user_profile.md" in run("list", "--memory-dir", "other place").out
    assert run("list", "-C", str(tmp_path / "nowhere")).code == 0


@pytest.mark.parametrize("arguments", [["bogus"], ["list", "--bogus"], ["show"], ["search"]])
def test_wrong_use_ends_with_two(run, arguments):
    assert run(*arguments).code == 2


def test_an_unforeseen_error_is_one_line_unless_debugging(run, monkeypatch):
    import agentic_memory.store

    def explode(*_, **__):
        raise RuntimeError("boom\nboom")

    monkeypatch.setattr(agentic_memory.store.MemoryStore, "__init__", explode)
    ran = run("list")
    assert ran.code == 1
    assert ran.err == "agentic-memory: unexpected RuntimeError: boom boom (set AGENTIC_MEMORY_DEBUG=1 to see where)\n"
    monkeypatch.setenv("AGENTIC_MEMORY_DEBUG", "1")
    from agentic_memory.cli import main

    with pytest.raises(RuntimeError, match="boom"):
        main(["list"])
