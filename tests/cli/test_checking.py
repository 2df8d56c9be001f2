"""check and repair: what is printed for people and for programs, and exit codes that CI can use."""

import json

import pytest

from agentic_memory.cli.reports import as_github, as_sarif
from agentic_memory.values import Problem

WRONG = {
    "error": "---\nname: C\ndescription: When merging\ntype: user\n---\n<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n",
    "warning": "---\nname: C\ndescription: Rule: no\ntype: user\n---\n",
    "info": "---\nname: C\ndescription: When merging\n---\n",
}
SEVERITIES = ["error", "warning", "info"]


@pytest.fixture
def wrong(memory):
    def make(severity):
        (memory / "c.md").write_text(WRONG[severity])
        with open(memory / "MEMORY.md", "a") as index:
            index.write("- [C](c.md) — When merging\n")
        (memory / "user_profile.md").write_text("---\nname: Profile\ndescription: Who the user is\ntype: user\n---\n")

    return make


@pytest.mark.parametrize("found", SEVERITIES)
@pytest.mark.parametrize("limit", [None, *SEVERITIES])
def test_the_exit_code_follows_the_worst_problem(run, wrong, found, limit):
    wrong(found)
    ran = run("check", *(("--fail-on", limit) if limit else ()))
    assert ran.code == int(SEVERITIES.index(found) <= SEVERITIES.index(limit or "warning"))
    assert f"{found}: " in ran.out


@pytest.mark.parametrize("arguments", [["--fail-on", "bogus"], ["--format", "xml"]])
def test_wrong_use_ends_with_two(run, memory, arguments):
    assert run("check", *arguments).code == 2


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_what_cannot_be_told_ends_with_three_and_prints_no_clean_report(run, tmp_path, form):
    (tmp_path / "Memory").write_text("a file where the directory should be")
    ran = run("check", "--format", form)
    assert (ran.code, ran.out) == (3, "")


def test_json_has_two_names(run, wrong):
    wrong("warning")
    assert run("check", "--json").out == run("check", "--format", "json").out


def test_sarif_names_files_as_the_checkout_does(run, wrong):
    wrong("warning")
    ran = run("check", "--format", "sarif")
    assert ran.code == 1
    log = json.loads(ran.out)
    assert_sarif(log)
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("frontmatter-not-yaml", "warning")
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "Memory/c.md"},
        "region": {"startLine": 3},
    }


def test_sarif_of_nothing_says_so(run, memory):
    log = json.loads(run("check", "--format", "sarif").out)
    assert_sarif(log)
    assert log["runs"][0]["results"] == []


def test_sarif_of_any_name_and_of_a_place_elsewhere_is_valid():
    problems = [
        Problem("b", "饮食 50%#?.md", None, "m", "f", "info"),
        Problem("a", "x.md", 7, "two\nlines", "f\x1b", "error"),
        Problem("a", "y.md", 1, "m", "f", "error"),
    ]
    log = as_sarif(problems, root="/else where/Memory")
    assert_sarif(log)
    uris = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in log["runs"][0]["results"]
    ]
    assert uris[0] == "file:///else%20where/Memory/%E9%A5%AE%E9%A3%9F%2050%25%23%3F.md"
    assert [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]] == ["b", "a"]


def assert_sarif(log):
    """Hold a log to what SARIF 2.1.0 demands of the parts that are in it: no package ships the schema."""
    assert set(log) == {"$schema", "version", "runs"}
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    for run in log["runs"]:
        assert set(run) == {"tool", "columnKind", "results"}
        assert run["columnKind"] in {"utf16CodeUnits", "unicodeCodePoints"}
        driver = run["tool"]["driver"]
        assert driver["name"]
        assert all(isinstance(driver[key], str) for key in ("name", "version"))
        rules = driver["rules"]
        assert len({rule["id"] for rule in rules}) == len(rules)
        for rule in rules:
            assert rule["shortDescription"]["text"]
            assert rule["defaultConfiguration"]["level"] in {"none", "note", "warning", "error"}
        for result in run["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert result["level"] in {"none", "note", "warning", "error"}
            assert isinstance(result["message"]["text"], str)
            (location,) = result["locations"]
            place = location["physicalLocation"]
            assert set(place) <= {"artifactLocation", "region"}
            assert " " not in place["artifactLocation"]["uri"]
            assert place["artifactLocation"]["uri"].isascii()
            if "region" in place:
                assert isinstance(place["region"]["startLine"], int)
                assert place["region"]["startLine"] >= 1


def test_github_annotations_name_file_and_line(run, wrong):
    wrong("warning")
    ran = run("check", "--format", "github")
    assert ran.code == 1
    (line,) = ran.out.splitlines()
    assert line.startswith("::warning file=Memory/c.md,line=3,title=frontmatter-not-yaml::the frontmatter is not YAML")
    assert line.endswith("put the value in quotes")


def test_nothing_in_a_memory_can_give_a_workflow_a_command():
    problem = Problem("a", "x,line=1::error::\n::set-env.md", 2, "100% wrong\r\n::warning::a", "fix\x1b[31m", "error")
    (line,) = as_github([problem], root="/m")
    assert line == (
        "::error file=/m/x%2Cline=1%3A%3Aerror%3A%3A%0A%3A%3Aset-env.md,line=2,title=a::"
        "100%25 wrong ::warning::a; fix\\x1b[31m"
    )


def test_repair_shows_a_diff_and_writes_only_with_apply(run, wrong, memory):
    wrong("warning")
    before = (memory / "c.md").read_bytes()
    ran = run("repair")
    assert ran.code == 1
    assert '+description: "Rule: no"' in ran.out
    assert "--apply" in ran.err
    assert (memory / "c.md").read_bytes() == before
    shown = json.loads(run("repair", "--json").out)
    assert (shown["transaction"], shown["changes"]) == (None, ["c.md"])
    ran = run("repair", "--apply")
    assert ran.code == 0
    assert '"Rule: no"' in (memory / "c.md").read_text()
    again = run("repair", "--apply")
    assert (again.code, again.out) == (0, "")
    undo = ran.err.splitlines()[0].partition("agentic-memory ")[2].split()
    assert run(*undo).code == 0
    assert (memory / "c.md").read_bytes() == before


def test_repair_names_what_is_left(run, memory):
    (memory / "plain.md").write_text("just text\n")
    ran = run("repair")
    assert "+- [plain](plain.md)" in ran.out
    assert "1 problem left for a person" in ran.err


def test_a_diff_drives_nobodys_terminal(run, memory):
    (memory / "c.md").write_text("---\nname: a\x1b[31m\ndescription: When: x\ntype: user\n---\n")
    ran = run("repair")
    assert "\x1b" not in ran.out
