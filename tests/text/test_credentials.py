"""Secrets are found by shape and by label, and what only looks like one is left alone."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.check import check_memory
from agentic_memory.credentials import REDACTED, find_secrets, redact, secrets_in
from agentic_memory.document import parse_document
from agentic_memory.guards import WritePolicy, objections_to, without_new_secrets

SET = Path(__file__).parents[2] / "benchmarks" / "_credential_cases.py"
MIN_RECALL = 0.95
MAX_FALSE_ALARMS = 0.02


@pytest.fixture(scope="module")
def cases():
    if not SET.exists():
        pytest.skip("the benchmarks are not beside the tests")
    spec = importlib.util.spec_from_file_location("credential_cases", SET)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def token(cases) -> str:
    return cases.tokens(cases.Draw(5))["github"]


@pytest.mark.parametrize("split", ["dev", "held-out"])
def test_what_is_found_and_what_is_not_stays_within_its_bounds(cases, split):
    secrets = [case for case in cases.secret_cases(rounds=2, seed=9) if case.split == split]
    harmless = [case for case in cases.harmless_cases(rounds=2, seed=9) if case.split == split]
    missed = {case.form for case in secrets if case.secret in redact(case.text)}
    alarms = {case.form for case in harmless if find_secrets(case.text)}
    assert len(missed) <= len(secrets) * (1 - MIN_RECALL), missed
    assert len(alarms) <= len(harmless) * MAX_FALSE_ALARMS, alarms


def test_every_provider_is_found_without_any_label(cases):
    missed = [
        kind
        for kind, token in cases.tokens(cases.Draw(3)).items()
        if token.removeprefix("https://hooks.slack.com/") in redact(f"x {token} y")
    ]
    assert missed == []


def test_a_finding_holds_a_place_and_never_the_secret(token):
    text = f"The key:\n{token}\n"
    (finding,) = find_secrets(text)
    assert text[finding.start : finding.end] == token
    assert token not in repr(finding)


def test_only_the_secret_goes_and_the_text_around_it_stays(cases):
    password = cases.Draw(4).password()
    assert (
        redact(f"db:\n  password: {password}\n  port: 5432\n") == "db:\n  password: [redacted password]\n  port: 5432\n"
    )


def test_a_key_that_was_cut_off_is_redacted_to_the_end(cases):
    block = cases.Draw(2).pem("OPENSSH PRIVATE KEY")
    cut = block[: len(block) // 2]
    assert redact(f"Key:\n{cut}") == "Key:\n[redacted private-key]"


def test_our_own_versions_and_times_are_no_secrets():
    line = {"file": "a.md", "after": "0f" * 32, "before": "1e" * 32, "session": "s-2f", "when": "2026-03-05T10:00:00Z"}
    assert find_secrets(json.dumps(line)) == []


@given(st.text())
def test_redacting_twice_is_redacting_once(text):
    once = redact(text)
    assert redact(once) == once


@given(st.text(alphabet="pasword token key:=是密码 \n\"'`|()[]{}@/abc123", max_size=200))
def test_findings_are_in_order_and_inside_the_text(text):
    found = find_secrets(text)
    ends = [0, *(end for finding in found for end in (finding.start, finding.end)), len(text)]
    assert ends == sorted(ends)


def test_a_new_secret_is_an_objection_that_does_not_say_it(token):
    (objection,) = objections_to("a.md", b"", f"one\nkey {token}\n".encode(), policy=WritePolicy())
    assert objection.code == "secret"
    assert "line 2 holds a github token" in objection.message
    assert token not in objection.message


def test_a_secret_that_a_person_wrote_stays_when_something_else_is_edited(token):
    before = f"key {token}\n".encode()
    assert objections_to("a.md", before, before + b"more\n", policy=WritePolicy()) == []
    assert without_new_secrets("a.md", before, before + b"more\n") == before + b"more\n"


@pytest.mark.parametrize(("action", "codes"), [("refuse", ["secret"]), ("ask", ["secret"]), ("allow", [])])
def test_the_policy_decides_about_secrets(token, action, codes):
    objections = objections_to("a.md", b"", token.encode(), policy=WritePolicy(secrets=action))
    assert [objection.code for objection in objections] == codes
    assert all(objection.confirmable is (action == "ask") for objection in objections)


def test_the_mark_of_a_hidden_secret_is_not_written_over_the_secret(token):
    before = f"key {token}\n"
    shown = redact(before)
    assert REDACTED.search(shown)
    (objection,) = objections_to("a.md", before.encode(), shown.encode(), policy=WritePolicy())
    assert objection.code == "redacted-mark"


def test_check_names_the_line_and_not_the_secret(token):
    document = parse_document(f"---\nname: A\ndescription: When\ntype: user\n---\n\ntext\n{token}\n".encode())
    problems = [one for one in check_memory(documents={"a.md": document}, index=None) if one.code == "secret"]
    assert [(one.file, one.line) for one in problems] == [("a.md", 8)]
    assert token not in repr(problems)


def test_secrets_are_compared_by_their_text(token):
    assert secrets_in(f"a {token} b {token}") == {token}
