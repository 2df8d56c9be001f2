"""What holds for any three texts."""

from hypothesis import given, settings
from hypothesis import strategies as st
from text.shapes import SHAPES

from agentic_memory.document import parse_document
from agentic_memory.encodings import decode
from agentic_memory.index import parse_index
from agentic_memory.lines import split_lines, strip_ending
from agentic_memory.merge import Merge, merge_documents, merge_indexes
from agentic_memory.merge_lines import Line, find_changes, merge_lines

quick = settings(max_examples=100, deadline=None)
few_lines = st.lists(st.sampled_from(["a", "b", "c", "", "- x", "## h", "---", "name: a", "type: t"]), max_size=8)
lines = st.lists(st.text("abc", max_size=2), max_size=12)
ending = st.sampled_from(["\n", "\r\n", "\r"])
header = st.sampled_from(["", "---\nname: a\ndescription: d\n---\n\n", "---\ntype: user\ntags:\n  - x\nname: b\n---\n"])
file_text = st.tuples(header, few_lines.map("\n".join), st.sampled_from(["", "\n"])).map("".join)
file_bytes = st.one_of(
    st.binary(max_size=60),
    st.tuples(file_text, ending).map(lambda parts: parts[0].replace("\n", parts[1]).encode()),
    st.tuples(file_text, st.binary(max_size=3)).map(lambda parts: parts[0].encode() + parts[1]),
    st.sampled_from(
        ["姓名：张三\n住在杭州\n".encode("gb18030"), "\ufeffa\nb\n".encode("utf-16-le"), "\ufeffa\n".encode()]
    ),
    st.sampled_from([shape.data for shape in SHAPES.values() if len(shape.data) < 2000]),
)
entry = st.sampled_from(
    [f"- [{name}]({name}.md) — {hook}" for name in "abcd" for hook in "xy"] + ["# t", "text", "  more", ""]
)
index_text = st.tuples(st.lists(entry, max_size=8).map("\n".join), st.sampled_from(["", "\n"])).map("".join)


def texts_of(data: bytes) -> list[str]:
    return [strip_ending(line) for line in split_lines(decode(data)[0].removeprefix("\ufeff"))]


def merge(base: bytes, ours: bytes, theirs: bytes, *, index: bool) -> Merge:
    return merge_indexes(base, ours, theirs) if index else merge_documents(base, ours, theirs, filename="a.md")


@settings(quick, max_examples=250)
@given(file_bytes, file_bytes, file_bytes, st.booleans())
def test_any_bytes_merge_or_clash_and_nothing_raises(base: bytes, ours: bytes, theirs: bytes, index: bool) -> None:
    result = merge(base, ours, theirs, index=index)
    assert (result.data is None) is bool(result.clashes)
    result.as_diff(path="a.md").encode("utf-8")


@quick
@given(file_bytes, file_bytes, st.booleans())
def test_what_one_side_left_alone_is_as_the_other_has_it(base: bytes, other: bytes, index: bool) -> None:
    assert merge(base, base, other, index=index).data == other
    assert merge(base, other, base, index=index).data == other
    assert merge(base, other, other, index=index).data == other


@quick
@given(lines, lines)
def test_changes_turn_the_old_lines_into_the_new(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    at = 0
    for change in find_changes(old, new):
        assert change.start > at or not made
        made += [*old[at : change.start], *new[change.at : change.until]]
        at = change.end
    assert made + old[at:] == new


@settings(quick, max_examples=250)
@given(lines, lines, lines)
def test_every_line_that_either_side_added_is_there(base: list[str], ours: list[str], theirs: list[str]) -> None:
    merged, clashes = merge_lines(*([Line(text) for text in side] for side in (base, ours, theirs)))
    if not clashes:
        there = {line.text for line in merged}
        assert (set(ours) | set(theirs)) - set(base) <= there


places = st.lists(st.integers(0, 5), max_size=6).map(sorted)


@settings(quick, max_examples=200)
@given(places, places)
def test_insertions_never_clash_and_all_stay_in_order(first: list[int], second: list[int]) -> None:
    base = [f"base {number}" for number in range(5)]
    ours, theirs = insert(base, first, "ours"), insert(base, second, "theirs")
    merged, clashes = merge_lines(*([Line(text) for text in side] for side in (base, ours, theirs)))
    assert not clashes
    assert len(merged) == len(base) + len(first) + len(second)
    for side in (ours, theirs):
        assert [line.text for line in merged if line.text in side] == side


def insert(base: list[str], at: list[int], name: str) -> list[str]:
    made = list(base)
    for number, place in reversed(list(enumerate(at))):
        made.insert(place, f"{name} {number}")
    return made


@quick
@given(st.lists(st.integers(0, 9), min_size=10, max_size=10), ending, st.sampled_from(["utf-8", "utf-16", "gb18030"]))
def test_disjoint_edits_are_both_there_as_their_file_is_written(who: list[int], end: str, encoding: str) -> None:
    base = [f"第 {number} 行：在杭州" for number in range(10)]
    ours = [f"{text} 我们" if side in {1, 2, 3} else text for text, side in zip(base, who, strict=True)]
    theirs = [f"{text} 他们" if side in {4, 5, 6} else text for text, side in zip(base, who, strict=True)]
    expected = [our if our != text else their for text, our, their in zip(base, ours, theirs, strict=True)]
    data = [end.join((*side, "")).encode(encoding) for side in (base, theirs, expected)]
    ours_sent = "\n".join((*ours, "")).encode()
    result = merge_documents(data[0], ours_sent, data[1])
    if theirs == base:  # nothing newer to keep: what was sent is what is written
        assert result.data == ours_sent
    else:
        assert result.data == data[2] if ours != base else data[1]


@settings(quick, max_examples=200)
@given(index_text, index_text, index_text)
def test_a_merged_index_lists_what_either_side_added_and_no_file_more_often(base: str, ours: str, theirs: str) -> None:
    result = merge_indexes(base.encode(), ours.encode(), theirs.encode())
    if result.data is None:
        return
    names = [[entry.filename for entry in parse_index(text).entries] for text in (base, ours, theirs)]
    there = [entry.filename for entry in parse_index(result.data.decode()).entries]
    assert (set(names[1]) | set(names[2])) - set(names[0]) <= set(there)
    assert set(names[1]) & set(names[2]) <= set(there)
    assert all(there.count(name) <= max(names[1].count(name), names[2].count(name)) for name in set(there))


@quick
@given(st.lists(st.sampled_from("abcdef"), unique=True), st.permutations("abcdef"), st.sampled_from("abcdef"))
def test_the_order_of_their_entries_is_kept(gone: list[str], order: list[str], anchor: str) -> None:
    base = "".join(f"- [{name}]({name}.md)\n" for name in "abcdef")
    ours = base.replace(f"- [{anchor}]({anchor}.md)\n", f"- [{anchor}]({anchor}.md)\n- [new](new.md)\n")
    theirs = "".join(f"- [{name}]({name}.md)\n" for name in order if name not in gone)
    result = merge_indexes(base.encode(), ours.encode(), theirs.encode())
    assert result.data is not None
    there = [entry.filename[:-3] for entry in parse_index(result.data.decode()).entries]
    assert [name for name in there if name != "new"] == [name for name in order if name not in gone]
    assert there.count("new") == 1


@quick
@given(few_lines, few_lines, st.sampled_from(["x", "y: z", "# no", '"q"']), st.sampled_from(["s", "t: u"]))
def test_fields_changed_apart_are_both_there(our_body: list[str], their_body: list[str], one: str, two: str) -> None:
    def write(description: str, kind: str, body: list[str]) -> bytes:
        return "\n".join(("---", "name: n", f"description: {description}", f"type: {kind}", "---", "", *body)).encode()

    base = write("d", "k", ["text"])
    result = merge_documents(base, write(one, "k", ["text", *our_body]), write("d", two, ["text", *their_body]))
    assert result.data is not None
    document = parse_document(result.data)
    ours, theirs = parse_document(write(one, "k", [])), parse_document(write("d", two, []))
    assert (document.description, document.type) == (ours.description, theirs.type)
    assert set(our_body) | set(their_body) <= set(texts_of(result.data)) | {""}
