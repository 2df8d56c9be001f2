"""The guards let ordinary edits pass and stop what looks like an accident."""

import random

import pytest

from agentic_memory.errors import WriteRefused
from agentic_memory.guards import (
    MAX_FILE_BYTES,
    MIN_LOST_BYTES,
    WritePolicy,
    objections_to,
    refuse_objections,
)
from agentic_memory.index import render_entry

REFUSE = WritePolicy()
HEADER = "---\nname: Deploys\ndescription: Before deploying\n---\n"


def paragraph(number: int) -> str:
    words = random.Random(number).choices("deploy server friday review team rollback alert window owner".split(), k=12)
    return f"{number}. " + " ".join(words)


def memory(lines: int) -> str:
    return HEADER + "".join(f"{paragraph(number)}\n" for number in range(lines))


def index(entries: int) -> str:
    return "".join(
        render_entry(title=f"Subject {number}", filename=f"subject_{number}.md", hook="When it comes up") + "\n"
        for number in range(entries)
    )


def codes(filename: str, before: str | bytes, after: str | bytes, policy: WritePolicy = REFUSE) -> list[str]:
    old, new = (text.encode() if isinstance(text, str) else text for text in (before, after))
    return [objection.code for objection in objections_to(filename, old, new, policy=policy)]


def test_an_index_that_max_tokens_cut_from_10180_bytes_to_171_is_refused():
    whole = index(150)[:10_180]
    assert codes("MEMORY.md", whole, whole[:171]) == ["entries-lost", "text-lost"]


def test_a_bullet_index_of_28_entries_rewritten_as_5_is_refused():
    assert "entries-lost" in codes("MEMORY.md", index(28), index(5))


def test_a_sectioned_index_without_links_is_guarded_by_its_text():
    whole = "".join(f"## Section {number}\n\n{paragraph(number)}\n\n" for number in range(40))
    assert codes("MEMORY.md", whole, "# Memory\n\n" + index(3)) == ["text-lost"]


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_few_entries_may_always_be_merged(gone):
    assert codes("MEMORY.md", index(6), index(6 - gone)) == []


def test_a_third_of_the_entries_may_go():
    assert codes("MEMORY.md", index(30), index(20)) == []
    assert "entries-lost" in codes("MEMORY.md", index(30), index(19))


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2, 0.3, 0.4])
def test_a_long_memory_cut_off_is_refused(share):
    whole = memory(60)
    assert codes("a.md", whole, whole[: int(len(whole) * share)]) == ["text-lost"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (memory(60), memory(35)),
        (memory(60), memory(70)),
        (memory(12), HEADER + "Never on Friday.\n"),
        (memory(60), memory(60).replace("deploy", "release")),
        (memory(60), HEADER + "".join(f"{paragraph(number)}\n" for number in range(100, 140))),
        (memory(60), memory(60).replace("\n", "\r\n")),
        ("", memory(3)),
        (HEADER, HEADER.replace("Deploys", "Releases")),
    ],
    ids=["trimmed", "grown", "short", "reworded", "rewritten", "line ends", "new", "renamed"],
)
def test_ordinary_edits_pass(before, after):
    assert codes("a.md", before, after) == []


def test_chinese_text_is_measured_like_any_other():
    whole = HEADER + "".join(f"第{number}条：部署前先通知值班同事，并确认回滚方案。\n" for number in range(40))
    assert codes("a.md", whole, HEADER + "部署前先通知。\n") == ["text-lost"]
    assert codes("a.md", whole, "".join(whole.splitlines(keepends=True)[:30])) == []


def test_a_loss_below_the_floor_passes():
    line = "x" * (MIN_LOST_BYTES - 1)
    assert codes("a.md", f"{HEADER}{line}\n", HEADER) == []
    assert codes("a.md", f"{HEADER}{line}x\n", HEADER) == ["text-lost"]


def test_the_policy_decides_about_losses_and_says_so():
    whole = memory(60)
    asked = objections_to("a.md", whole.encode(), HEADER.encode(), policy=WritePolicy(losses="ask"))
    assert [(objection.code, objection.confirmable) for objection in asked] == [("text-lost", True)]
    assert codes("a.md", whole, HEADER, WritePolicy(losses="allow")) == []
    assert codes("a.md", whole, HEADER, REFUSE.with_loss(allowed=True)) == []


@pytest.mark.parametrize("policy", [REFUSE, WritePolicy(losses="ask"), WritePolicy(losses="allow")])
def test_a_stub_is_refused_whatever_the_policy(policy):
    after = HEADER + "[rest of file unchanged]\n"
    (objection,) = list(objections_to("a.md", HEADER.encode(), after.encode(), policy=policy))
    assert (objection.code, objection.confirmable) == ("stub", False)


def test_a_blanked_header_is_refused_and_named():
    (objection,) = objections_to("a.md", HEADER.encode(), b"Only text.\n", policy=REFUSE)
    assert objection.code == "blanked-header"
    assert "name and description" in objection.message


def test_a_file_may_not_grow_over_the_limit_but_a_larger_one_may_shrink():
    assert codes("a.md", "", "x" * MAX_FILE_BYTES) == []
    assert codes("a.md", "", "x" * (MAX_FILE_BYTES + 1)) == ["too-large"]
    assert codes("a.md", "x" * (MAX_FILE_BYTES + 9), "x" * (MAX_FILE_BYTES + 5)) == []


def test_bytes_that_are_no_text_are_refused_and_those_there_already_stay():
    assert codes("a.md", b"", b"a\0b") == ["binary"]
    assert codes("a.md", b"", b"caf\xe9") == ["not-utf8"]
    assert codes("a.md", b"caf\xe9\n", b"caf\xe9\nmore\n") == []
    assert codes("a.md", "用户喜欢绿茶\n".encode("gbk"), "用户喜欢绿茶和咖啡\n".encode("gbk")) == []


def test_unknown_bytes_are_not_replaced_by_the_sign_that_stood_for_them():
    assert codes("a.md", b"caf\xe9\n", "caf\ufffd\n") == ["unknown-bytes"]


def test_files_that_are_no_memories_are_not_measured():
    before, after = ("x = 1\n" * 2_000).encode(), b"x = 1\n"
    assert objections_to("code.py", before, after, policy=REFUSE, memory=False) == []
    (stub,) = objections_to("code.py", before, b"# ... rest of file unchanged\n", policy=REFUSE, memory=False)
    assert stub.code == "stub"


def test_a_writer_without_anybody_to_ask_gets_an_error_that_says_what_to_do():
    with pytest.raises(WriteRefused, match=r"a\.md was not written: .*bytes are there.*Edit") as caught:
        refuse_objections("a.md", memory(60).encode(), HEADER.encode(), policy=WritePolicy(losses="ask"))
    assert [objection.code for objection in caught.value.objections] == ["text-lost"]


def test_nothing_and_everything_is_looked_at_in_bounded_time():
    # A megabyte in one line, and in a hundred thousand.
    for text in ("x" * MAX_FILE_BYTES, "ab cd\n" * (MAX_FILE_BYTES // 6)):
        assert codes("a.md", text, text) == []
