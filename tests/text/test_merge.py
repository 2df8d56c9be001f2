"""Merging memory files: what both sides may change, and what is refused with a diff."""

import pytest

from agentic_memory.document import parse_document
from agentic_memory.index import parse_index
from agentic_memory.merge import MAX_DIFF_LINES, Merge, merge_documents, merge_files, merge_indexes

MEMORY = "---\nname: Travel\ndescription: When travel is planned\ntype: user\n---\n\nPrefers trains.\nHas a dog.\n"
INDEX = "# Notes\n\n- [A](a.md) — first\n- [B](b.md) — second\n"


def merged(base: str, ours: str, theirs: str) -> str | None:
    merge = merge_documents(base.encode(), ours.encode(), theirs.encode(), filename="a.md")
    assert (merge.data is None) is bool(merge.clashes)
    return None if merge.data is None else merge.data.decode()


def merged_index(base: str, ours: str, theirs: str) -> str | None:
    merge = merge_indexes(base.encode(), ours.encode(), theirs.encode())
    assert (merge.data is None) is bool(merge.clashes)
    return None if merge.data is None else merge.data.decode()


# --------------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "expected"),
    [
        ("a\nb\nc\n", "a\nb\nC\n", "A\nb\nc\n", "A\nb\nC\n"),
        ("a\nb\nc\n", "a\nB\nc\n", "A\nb\nC\n", "A\nB\nC\n"),
        ("a\nb\n", "a\nb\nours\n", "a\nb\ntheirs\n", "a\nb\ntheirs\nours\n"),
        ("a", "a\nours", "a\ntheirs\n", "a\ntheirs\nours\n"),
        ("a\n", "a\n\nours\n", "a\n\ntheirs\n", "a\n\ntheirs\n\nours\n"),
        ("", "ours\n", "theirs\n", "theirs\nours\n"),
        ("a\n", "a\nx\ny\n", "a\nx\n", "a\nx\ny\n"),
        ("a\nb\nc\n", "c\n", "a\nb\nc\nd\n", "c\nd\n"),
        ("a\nb\n", "all\nnew\n", "a\nb\n" + "output\n" * 1100, "all\nnew\n" + "output\n" * 1100),
        ("a\nb\nc\n", "a\nc\n", "a\nc\n", "a\nc\n"),
        ("a\nb\nc\n", "a\nx\nc\nd\n", "a\nx\nc\n", "a\nx\nc\nd\n"),
    ],
    ids=[
        "apart",
        "side by side",
        "both append",
        "both append, no break",
        "both append a paragraph",
        "both begin",
        "one appends more",
        "removed and appended",
        "replaced and appended",
        "same",
        "same and more",
    ],
)
def test_both_changes_stay(base, ours, theirs, expected) -> None:
    assert merged(base, ours, theirs) == expected


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        ("a\nb\nc\n", "a\nours\nc\n", "a\ntheirs\nc\n"),
        ("a\nb\nc\n", "a\nc\n", "a\ntheirs\nc\n"),
        ("a\nb\nc\n", "a\nours\nc\n", "a\nc\n"),
        ("a\nb\nc\nd\n", "a\nB\nC\nd\n", "a\nb\nX\nd\n"),
    ],
    ids=["changed", "removed", "removed by them", "overlapping"],
)
def test_one_line_changed_by_both_is_refused(base, ours, theirs) -> None:
    assert merged(base, ours, theirs) is None


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        ("a\r\nb\r\nC\r\n", "A\r\nb\r\nC\r\n"),
        ("a\rb\rC\r", "A\rb\rC\r"),
        ("\ufeffa\nb\nC\n", "\ufeffA\nb\nC\n"),
        ("a\nb\nC", "A\nb\nC"),
        ("a\r\nb\nC\r\n", "A\r\nb\nC\r\n"),
    ],
    ids=["crlf", "cr", "bom", "no last break", "mixed"],
)
def test_line_endings_and_byte_order_mark_are_theirs(theirs, expected) -> None:
    assert merged("a\nb\nc\n", "A\nb\nc\n", theirs) == expected


@pytest.mark.parametrize("encoding", ["gb18030", "utf-16"])
def test_the_encoding_is_theirs(encoding) -> None:
    base, ours, theirs = "姓名：张三\n住在杭州\n", "姓名：张三\n住在北京\n", "姓名：李四\n住在杭州\n"
    merge = merge_documents(base.encode(encoding), ours.encode(), theirs.encode(encoding))
    assert merge.data == "姓名：李四\n住在北京\n".encode(encoding)


def test_unknown_bytes_stay() -> None:
    merge = merge_documents(b"caf\xe9\nb\nc\n", b"caf\xe9\nB\nc\n", b"caf\xe9\nb\nC\xff\n")
    assert merge.data == b"caf\xe9\nB\nC\xff\n"


def test_what_is_not_text_is_refused() -> None:
    merge = merge_documents(b"a\0\n", b"b\0\n", b"c\0\n")
    assert merge.data is None
    assert "not text" in merge.clashes[0].place


def test_a_blank_line_after_a_lone_carriage_return_stays_a_line() -> None:
    merge = merge_documents(b"a\rb\nc\nd\n", b"a\r\rb\nc\nd\n", b"a\rb\nc\nD\n")
    assert merge.data is not None
    assert parse_document(merge.data).text.replace("\r", "\n") == "a\n\nb\nc\nD\n"


# --------------------------------------------------------------------------- frontmatter


def test_fields_and_body_merge_apart() -> None:
    ours = MEMORY.replace("When travel is planned", "When booking").replace("Has a dog.\n", "Has a dog.\nLikes tea.\n")
    theirs = MEMORY.replace("type: user", "type: project").replace("Prefers trains.", "Prefers ships.")
    assert merged(MEMORY, ours, theirs) == (
        "---\nname: Travel\ndescription: When booking\ntype: project\n---\n\nPrefers ships.\nHas a dog.\nLikes tea.\n"
    )


def test_neighbouring_fields_do_not_clash_and_added_ones_follow_theirs() -> None:
    ours = MEMORY.replace("type: user\n", "type: user\nowner: me\n")
    theirs = MEMORY.replace("type: user\n", "kind: note\ntype: user\nsince: 2024\n")
    assert merged(MEMORY, ours, theirs) == MEMORY.replace(
        "type: user\n", "kind: note\ntype: user\nsince: 2024\nowner: me\n"
    )


def test_one_field_changed_by_both_is_refused_and_named() -> None:
    merge = merge_documents(
        MEMORY.encode(), MEMORY.replace("Travel", "Ours").encode(), MEMORY.replace("Travel", "Theirs").encode()
    )
    assert merge.data is None
    assert [clash.place for clash in merge.clashes] == ["field name"]
    assert "-name: Theirs\n+name: Ours" in merge.as_diff(path="a.md")


def test_the_same_value_written_differently_is_one_change() -> None:
    ours, theirs = MEMORY.replace("Travel", '"Trips"'), MEMORY.replace("Travel", "Trips")
    assert merged(MEMORY, ours, theirs) == theirs


@pytest.mark.parametrize("kept", ["ours", "theirs"])
def test_a_field_taken_out_by_one_side_is_gone(kept) -> None:
    without, changed = MEMORY.replace("type: user\n", ""), MEMORY.replace("Travel", "Trips")
    sides = (without, changed) if kept == "theirs" else (changed, without)
    assert merged(MEMORY, *sides) == without.replace("Travel", "Trips")


def test_a_field_taken_out_and_changed_is_refused() -> None:
    assert merged(MEMORY, MEMORY.replace("type: user\n", ""), MEMORY.replace("type: user", "type: project")) is None


def test_a_list_and_a_metadata_block_merge_by_lines() -> None:
    base = "---\nname: a\ntags:\n  - x\nmetadata:\n  type: user\n---\nb\n"
    ours = base.replace("  - x\n", "  - x\n  - ours\n").replace("type: user", "type: project")
    theirs = base.replace("  - x\n", "  - x\n  - theirs\n").replace("metadata:\n", "metadata:\n  origin: me\n")
    assert merged(base, ours, theirs) == (
        "---\nname: a\ntags:\n  - x\n  - theirs\n  - ours\nmetadata:\n  origin: me\n  type: project\n---\nb\n"
    )


def test_blank_lines_around_a_delimiter_stay() -> None:
    base = "---\n\nname: a\n\ndescription: d\n\n---\n\n\nbody\n"
    theirs, ours = base.replace("body", "their body"), base.replace("description: d", "description: ours")
    assert merged(base, ours, theirs) == "---\n\nname: a\n\ndescription: ours\n\n---\n\n\ntheir body\n"


def test_frontmatter_that_they_added_stays() -> None:
    assert merged("one\ntwo\n", "one\ntwo\nthree\n", "---\nname: n\n---\none\ntwo\n") == (
        "---\nname: n\n---\none\ntwo\nthree\n"
    )


def test_a_comment_that_they_put_beside_a_field_does_not_give_way() -> None:
    theirs = MEMORY.replace("Travel\n", "Travel\n# keep this name\n")
    assert merged(MEMORY, MEMORY.replace("Travel", "Trips"), theirs) is not None
    assert "# keep this name" in (merged(MEMORY, MEMORY.replace("Travel", "Trips"), theirs) or "")


# --------------------------------------------------------------------------- the index


def test_entries_added_by_both_stay_theirs_first() -> None:
    ours, theirs = INDEX + "- [C](c.md) — ours\n", INDEX + "- [D](d.md) — theirs\n"
    assert merged_index(INDEX, ours, theirs) == INDEX + "- [D](d.md) — theirs\n- [C](c.md) — ours\n"


def test_an_added_entry_follows_its_neighbour_in_their_order() -> None:
    ours = INDEX.replace("- [B]", "- [New](new.md)\n- [B]")
    theirs = "# Sorted\n- [B](b.md) — second\n\ntext\n- [A](a.md) — first, by hand\n\nend\n"
    assert merged_index(INDEX, ours, theirs) == theirs.replace("by hand\n", "by hand\n- [New](new.md)\n")


def test_an_entry_put_first_stays_in_front_of_the_one_it_preceded() -> None:
    ours = INDEX.replace("- [A]", "- [New](new.md)\n- [A]")
    assert merged_index(INDEX, ours, INDEX + "text\n") == ours + "text\n"


def test_an_entry_that_one_side_took_out_is_gone() -> None:
    without_a = INDEX.replace("- [A](a.md) — first\n", "")
    assert merged_index(INDEX, without_a, INDEX + "- [C](c.md)\n") == without_a + "- [C](c.md)\n"
    assert merged_index(INDEX, INDEX + "- [C](c.md)\n", without_a) == without_a + "- [C](c.md)\n"


@pytest.mark.parametrize("who", ["ours", "theirs"])
def test_an_entry_taken_out_and_changed_is_refused(who) -> None:
    sides = [INDEX.replace("- [A](a.md) — first\n", ""), INDEX.replace("first", "other")]
    assert merged_index(INDEX, *(sides if who == "ours" else sides[::-1])) is None


def test_one_entry_worded_differently_by_both_is_refused_and_named() -> None:
    merge = merge_indexes(
        INDEX.encode(), INDEX.replace("first", "ours").encode(), INDEX.replace("first", "theirs").encode()
    )
    assert [clash.place for clash in merge.clashes] == ["the entry of a.md"]


def test_neighbouring_entries_and_free_text_merge() -> None:
    ours = INDEX.replace("# Notes", "# My notes").replace("first", "ours") + "\n## More\n\n- [C](c.md)\n"
    theirs = INDEX.replace("second", "theirs").replace("- [A]", "by hand\n- [A]")
    assert merged_index(INDEX, ours, theirs) == (
        "# My notes\n\nby hand\n- [A](a.md) — ours\n- [B](b.md) — theirs\n\n## More\n\n- [C](c.md)\n"
    )


def test_free_text_worded_differently_by_both_is_refused() -> None:
    assert merged_index(INDEX, INDEX.replace("Notes", "Ours"), INDEX.replace("Notes", "Theirs")) is None


def test_an_entry_that_both_moved_is_there_once() -> None:
    entries = [f"- [T{n}](t{n}.md)\n" for n in range(8)]
    moved_by_us, moved_by_them = entries[1:5] + entries[:1] + entries[5:], entries[1:] + entries[:1]
    text = merged_index("x\n\n" + "".join(entries), "y\n\n" + "".join(moved_by_us), "x\n\n" + "".join(moved_by_them))
    assert text is not None
    assert text.startswith("y\n")
    assert sorted(entry.filename for entry in parse_index(text).entries) == [f"t{n}.md" for n in range(8)]


def test_an_index_emptied_by_hand_takes_what_was_added() -> None:
    assert merged_index("- [A](a.md)\n", "- [A](a.md)\n- [B](b.md)\n", "# Fresh start\n") == (
        "# Fresh start\n- [B](b.md)\n"
    )


def test_twenty_eight_entries_meet_one_added_by_hand() -> None:
    base = "".join(f"- [T{n}](t{n}.md) — hook {n}\n" for n in range(28))
    ours, theirs = (
        base.replace("hook 3\n", "better 3\n") + "- [O](o.md)\n",
        base.replace("- [T9]", "- [H](h.md)\n- [T9]"),
    )
    text = merged_index(base, ours, theirs)
    assert text is not None
    assert len(parse_index(text).entries) == 30
    assert "better 3" in text


def test_the_name_decides_which_merge_it_is() -> None:
    base, ours, theirs = (
        text.encode()
        for text in (INDEX, INDEX + "- [C](c.md)\n", "# Notes\n- [B](b.md) — second\n- [A](a.md) — first\n")
    )
    assert merge_files(base, ours, theirs, filename="/m/MEMORY.md").data == merge_indexes(base, ours, theirs).data
    assert merge_files(base, ours, theirs, filename="/m/a.md") == merge_documents(
        base, ours, theirs, filename="/m/a.md"
    )


# --------------------------------------------------------------------------- the refusal


def refusal(base: bytes, ours: bytes, theirs: bytes) -> Merge:
    merge = merge_documents(base, ours, theirs)
    assert merge.data is None
    return merge


def test_a_refusal_shows_both_wordings_and_where() -> None:
    diff = refusal(b"a\nb\nc\n", b"a\nours\nc\n", b"0\na\ntheirs\nc\n").as_diff(path="/m/a.md")
    assert diff == "--- /m/a.md as it is now\n+++ /m/a.md as you wanted it\n@@ line 3 @@\n-theirs\n+ours"


def test_a_refusal_is_short_however_much_clashes() -> None:
    base = "".join(f"{n}\n" for n in range(3000)).encode()
    merge = refusal(base, base.replace(b"\n", b" ours\n"), base.replace(b"\n", b" theirs " + b"x" * 999 + b"\n"))
    lines = merge.as_diff(path="a.md").split("\n")
    assert len(lines) == MAX_DIFF_LINES
    assert lines[-1].endswith("more lines")
    assert max(map(len, lines)) < 500


def test_a_refusal_can_be_sent_whatever_the_bytes() -> None:
    refusal(b"caf\xe9\n", b"caf\xe8\n", b"caf\xff\n").as_diff(path="a.md").encode("utf-8")
