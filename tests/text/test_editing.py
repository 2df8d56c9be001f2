"""An edit changes what it was asked to change, and no other byte."""

import pytest
from text.shapes import BODY, SHAPES, Shape

from agentic_memory.document import edit_body, edit_field, parse_document
from agentic_memory.encodings import decode
from agentic_memory.errors import InvalidMemory
from agentic_memory.frontmatter import read_block
from agentic_memory.lines import split_lines

TEXT_SHAPES = {name: shape for name, shape in SHAPES.items() if not {"binary", "git-crypt"} & set(shape.codes)}
every_text_shape = pytest.mark.parametrize("shape", TEXT_SHAPES.values(), ids=TEXT_SHAPES)


def changed_lines(old: str, new: str) -> tuple[list[str], list[str]]:
    """Return the lines of ``old`` that are not in ``new``, and those of ``new`` that stand in their place."""
    before, after = split_lines(old), split_lines(new)
    common = min(len(before), len(after))
    head = next((n for n in range(common) if before[n] != after[n]), common)
    tail = next((n for n in range(common - head) if before[-1 - n] != after[-1 - n]), common - head)
    return before[head : len(before) - tail], after[head : len(after) - tail]


@every_text_shape
@pytest.mark.parametrize("value", ["plain words", 'a: "b" # c\\', "新的值"])
@pytest.mark.parametrize("key", ["name", "description", "type", "owner"])
def test_one_field_is_changed_and_every_other_byte_stays(shape: Shape, key: str, value: str) -> None:
    document = parse_document(shape.data)
    stands = [
        field for field in read_block(document.text[slice(*document.header or (0, 0))]).fields if field.key == key
    ]
    if shape is SHAPES["JSON"] and not stands:
        with pytest.raises(InvalidMemory, match="in an editor"):
            edit_field(document, key, value)
        return
    data = edit_field(document, key, value)
    edited = parse_document(data)
    assert (edited.type if key == "type" else edited.fields[key]) == value
    others = {"name", "description", "type", *document.fields, *edited.fields} - {key}
    assert [edited.fields.get(other) for other in others] == [document.fields.get(other) for other in others]
    assert edited.body == document.body
    text = decode(data)[0]
    gone, new = changed_lines(document.text, text)
    if document.header is None:
        mark = document.text[: document.body_start]
        assert text.startswith(f"{mark}---\n{key}: ")
        assert text.removesuffix(document.body).count("\n") == (4 if document.body else 3)
    elif stands:
        assert len(new) == 1
        assert key in gone[0]
        assert all(not line.strip() or line[0] in " \t" or line == "second half\n" for line in gone[1:])
    else:
        assert not gone or (not gone[0].endswith("\n") and new[0] == gone[0] + "\n")  # it had no line end to build on
        assert len(new) - len(gone) == 1


@every_text_shape
def test_setting_a_field_to_what_it_is_changes_nothing(shape: Shape) -> None:
    document = parse_document(shape.data)
    for key in ("name", "description", "type"):
        assert edit_field(document, key, getattr(document, key)) == shape.data or "\n" in getattr(document, key)


@pytest.mark.parametrize(
    ("before", "key", "value", "after"),
    [
        # quotes stay
        ('name: "a"', "name", "b", 'name: "b"'),
        ("name: 'a'", "name", "it's", "name: 'it''s'"),
        ('name: "a"', "name", 'say "x"', 'name: "say \\"x\\""'),
        ("name: a", "name", "b", "name: b"),
        # quotes come only where YAML needs them
        ("name: a", "name", "b: c", 'name: "b: c"'),
        ("name: a", "name", "no", 'name: "no"'),
        ("name: a", "name", 'b: "c"', "name: 'b: \"c\"'"),
        # comments, blanks and odd spacing stay
        ("name:   a   # mine", "name", "b", "name:   a   # mine"),
        ("kind:   a   # mine", "kind", "b", "kind:   b   # mine"),
        ('name: "a"   # mine', "name", "b", 'name: "b"   # mine'),
        ("name:\ta  ", "name", "b", "name:\tb  "),
        ("name :  a", "name", "b", "name :  b"),
        # from and to nothing
        ("name:", "name", "b", "name: b"),
        ("name: # later", "owner", "b", "name: # later\nowner: b"),
        ("kind: # later", "kind", "b", "kind: b # later"),
        ("name: a", "name", "", "name:"),
        ('name: "a"', "name", "", 'name: ""'),
        # several lines become one
        (
            "name: a\ndescription: |\n  x\n\n  y\n\n# c\ntype: t",
            "description",
            "z",
            "name: a\ndescription: z\n\n# c\ntype: t",
        ),
        ("description: x\n  y\ntype: t", "description", "z", "description: z\ntype: t"),
        ("description: b: c\ntype: t", "description", "z", "description: z\ntype: t"),
        # a value of several lines is folded into one
        ("name: a", "name", " b\n\n c\r\nd ", "name: b c d"),
        # type is where it was
        ("name: a\nmetadata:\n  type: x\n  k: v", "type", "y", "name: a\nmetadata:\n  type: y\n  k: v"),
        ("name: a\nmetadata: {type: x, k: v}", "type", "y", "name: a\nmetadata: {type: y, k: v}"),
        ("name: a\nmetadata: {type: x, k: v}", "type", "y, z", 'name: a\nmetadata: {type: "y, z", k: v}'),
        ("type: x\nmetadata:\n  type: y", "type", "z", "type: z\nmetadata:\n  type: y"),
        ("type:\nmetadata:\n  type: y", "type", "z", "type:\nmetadata:\n  type: z"),
        ("type: x\nmetadata:\n  type: y", "type", "", "type:\nmetadata:\n  type:"),
        # new fields come in the usual order
        ("type: t", "name", "a", "name: a\ntype: t"),
        ("name: a\ntype: t", "description", "b", "name: a\ndescription: b\ntype: t"),
        ("name: a\nowner: o", "type", "t", "name: a\ntype: t\nowner: o"),
        ("name: a", "owner", "o", "name: a\nowner: o"),
        ("  name: a", "owner", "o", "  name: a\n  owner: o"),
        # the last of two counts
        ("name: a\nname: b", "name", "c", "name: a\nname: c"),
        # odd colons
        ("name：a", "name", "b", "name: b"),
        ("name:a", "name", "b", "name: b"),
    ],
)
def test_the_line_reads_as_a_person_would_write_it(before: str, key: str, value: str, after: str) -> None:
    data = f"---\n{before}\n---\n\nbody\n".encode()
    if "name:   a   # mine" in before:
        # `#` in a name is part of it, so an edit replaces it as well.
        after = "name:   b"
    assert edit_field(parse_document(data), key, value).decode() == f"---\n{after}\n---\n\nbody\n"


def test_a_file_without_a_header_gets_one_and_keeps_its_text() -> None:
    data = edit_field(parse_document(b"\xef\xbb\xbftext\r\nmore\r\n"), "name", "a")
    assert data == b"\xef\xbb\xbf---\r\nname: a\r\n---\r\n\r\ntext\r\nmore\r\n"
    assert edit_field(parse_document(b""), "name", "a") == b"---\nname: a\n---\n"


def test_lines_are_added_with_the_files_own_ending() -> None:
    data = b"---\r\nname: a\r\n---\r\n\r\nx\r\n"
    assert edit_field(parse_document(data), "type", "user") == data.replace(b"a\r\n", b"a\r\ntype: user\r\n", 1)
    old_mac = data.replace(b"\r\n", b"\r")
    assert edit_field(parse_document(old_mac), "type", "user") == old_mac.replace(b"a\r", b"a\rtype: user\r", 1)


def test_a_stray_byte_survives_an_edit_elsewhere() -> None:
    data = b"---\nname: a\nowner: caf\xe9\n---\n\nna\xefve\n"
    assert edit_field(parse_document(data), "name", "新") == data.replace(b"name: a", "name: 新".encode())
    assert edit_body(parse_document(data), "new\n") == b"---\nname: a\nowner: caf\xe9\n---\n\nnew\n"


def test_gbk_that_would_no_longer_be_told_for_it_becomes_utf8() -> None:
    document = parse_document("备注：用户喜欢绿茶\n".encode("gbk"))
    assert document.encoding == "gb18030"
    assert edit_body(document, "only 茶 is left\n") == "only 茶 is left\n".encode()


def test_gbk_stays_gbk() -> None:
    shape = SHAPES["GBK"]
    assert edit_field(parse_document(shape.data), "name", "新名字") == shape.data.replace(
        "部署步骤".encode("gbk"), "新名字".encode("gbk")
    )


@pytest.mark.parametrize(
    ("data", "key", "value", "why"),
    [
        (b"a\0b", "name", "x", "not text"),
        (b"---\nname: a\n---\n", "a: b", "x", "no key"),
        (b"---\nname: a\n---\n", "", "x", "no key"),
        (b"---\nname: a\n---\n", "#k", "x", "no key"),
        (b"---\nname: a\n---\n", "k\nl", "x", "no key"),
        (b"---\nname: a\n---\n", "k" * 101, "x", "no key"),
        (b"---\nname: a\n---\n", "name", "x\ud800", "surrogate"),
        (b"---\ntags:\n- a\n---\n", "tags", "x", "list or a mapping"),
        (b"---\ntags: [a]\n---\n", "tags", "x", "list or a mapping"),
        (b"---\nmetadata:\n  a: b\n---\n", "metadata", "x", "list or a mapping"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_reason(data: bytes, key: str, value: str, why: str) -> None:
    with pytest.raises(InvalidMemory, match=why):
        edit_field(parse_document(data), key, value)


@every_text_shape
def test_a_new_body_leaves_the_header_alone(shape: Shape) -> None:
    document = parse_document(shape.data)
    assert edit_body(document, document.body) == shape.data
    data = edit_body(document, "new\ntext\n")
    edited = parse_document(data)
    if "second-block" not in shape.codes:  # the second block is part of the body, for whoever wrote it to merge
        assert edited.fields == document.fields
    assert edited.body.replace("\r\n", "\n").replace("\r", "\n") == "new\ntext\n"
    head = document.encode(document.text[: document.body_start])
    assert data.startswith(head)


def test_an_edit_given_in_lf_keeps_crlf() -> None:
    data = SHAPES["CR LF"].data
    body = BODY.replace("Some text", "Another text") + "A new line\n"
    assert edit_body(parse_document(data), body) == data.replace(b"Some text", b"Another text") + b"A new line\r\n"


def test_lines_that_did_not_change_keep_their_own_ending() -> None:
    data = b"---\r\nname: a\r\n---\r\n\r\none\r\ntwo\nthree\r\nfour\r\n"
    assert edit_body(parse_document(data), "one\ntwo\nTHREE\nfour\n") == data.replace(b"three", b"THREE")


def test_a_body_may_begin_with_a_blank_line() -> None:
    for data in (b"---\nname: a\n---\nx\n", b"---\nname: a\n---\n\nx\n", b"---\nname: a\n---"):
        assert parse_document(edit_body(parse_document(data), "\ny\n")).body == "\ny\n"


def test_an_open_header_is_closed_when_the_new_body_would_fall_into_it() -> None:
    document = parse_document(b"---\nname: a\n\n# Title\n")
    assert edit_body(document, "Text.\n") == b"---\nname: a\n\nText.\n"
    closed = parse_document(edit_body(document, "type: x\n"))
    assert (closed.name, closed.type, closed.body) == ("a", "", "type: x\n")


def test_a_body_that_would_not_read_back_is_refused() -> None:
    document = parse_document(b"---\nname: a\n---\n\nx\n")
    with pytest.raises(InvalidMemory, match="NUL"):
        edit_body(document, "a\0b")
    with pytest.raises(InvalidMemory, match="surrogate"):
        edit_body(document, "a\ud800b")
    with pytest.raises(InvalidMemory, match="not text"):
        edit_body(parse_document(b"\0"), "x")
