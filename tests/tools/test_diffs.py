"""Diffs are right whatever the size of the texts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.tools import diffs
from agentic_memory.tools.diffs import unified_diff

TEXTS = st.lists(
    st.sampled_from(["a\n", "b\n", "c\r\n", "@@ -1 +1 @@\n", "-x\n", "\n", "x\x0cy\n"]), max_size=30
).flatmap(lambda lines: st.sampled_from(["", "end"]).map(lambda end: "".join(lines) + end))


def apply(diff: str, before: str) -> str:
    """Apply a unified diff as ``patch`` does, with every context line and line number checked."""
    old = re.findall(r"[^\n]*\n|[^\n]+", before)
    new: list[str] = []
    at = 0
    lines = re.findall(r"[^\n]*\n", diff)[2:]
    for number, line in enumerate(lines):
        follows = lines[number + 1] if number + 1 < len(lines) else ""
        text = line[1:-1] if follows.startswith("\\") else line[1:]
        if line.startswith("@@"):
            start, count, new_start, new_count = (
                re.findall(r"[-+](\d+)(?:,(\d+))?", line)[0] + re.findall(r"[-+](\d+)(?:,(\d+))?", line)[1]
            )
            begin = int(start) - (count != "0")
            new += old[at:begin]
            at = begin
            assert len(new) == int(new_start) - (new_count != "0")
        elif line.startswith("+"):
            new.append(text)
        elif not line.startswith("\\"):
            assert old[at] == text
            at += 1
            if line.startswith(" "):
                new.append(text)
    return "".join(new + old[at:])


@given(TEXTS, TEXTS)
def test_a_diff_turns_the_old_text_into_the_new(before: str, after: str) -> None:
    diff = unified_diff(before, after, path="/m/a.md")
    assert apply(diff, before) == after
    assert bool(diff) == (before != after)


@given(TEXTS, TEXTS)
def test_a_diff_too_large_to_minimise_is_still_right(before: str, after: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffs, "MAX_COMPARED", 0)
        assert apply(unified_diff(before, after, path="/m/a.md"), before) == after


def test_a_diff_names_the_file_and_its_real_line_numbers() -> None:
    before = "".join(f"{number}\n" for number in range(1, 101))
    assert unified_diff(before, before.replace("50\n", "fifty\n"), path="/m/a.md").splitlines() == [
        *("--- a//m/a.md", "+++ b//m/a.md", "@@ -47,7 +47,7 @@"),
        *(" 47", " 48", " 49", "-50", "+fifty", " 51", " 52", " 53"),
    ]


def test_a_new_file_differs_from_nothing() -> None:
    assert unified_diff("", "a\n", path="/m/a.md", created=True) == "--- /dev/null\n+++ b//m/a.md\n@@ -0,0 +1 @@\n+a\n"
