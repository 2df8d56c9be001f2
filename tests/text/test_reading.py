"""What is read from every shape a memory file takes."""

import pytest
from text.shapes import SHAPES, Shape

from agentic_memory.document import parse_document
from agentic_memory.encodings import replace_surrogates
from agentic_memory.frontmatter import read_block

every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@every_shape
def test_fields_type_and_body_are_read(shape: Shape) -> None:
    document = parse_document(shape.data, filename="a.md")
    assert dict(document.fields) == shape.fields
    assert document.name == shape.fields.get("name", "").strip()
    assert document.description == shape.fields.get("description", "").strip()
    assert document.type == shape.type
    assert document.body == shape.body


@every_shape
def test_problems_are_listed_with_file_line_and_remedy(shape: Shape) -> None:
    problems = parse_document(shape.data, filename="dir/a.md").problems
    assert sorted(problem.code for problem in problems) == sorted(shape.codes)
    assert all(problem.file == "dir/a.md" and problem.message and problem.fix for problem in problems)


@every_shape
def test_text_encodes_to_the_same_bytes(shape: Shape) -> None:
    document = parse_document(shape.data)
    assert document.encode(document.text) == shape.data


@every_shape
def test_body_line_is_where_the_body_starts(shape: Shape) -> None:
    document = parse_document(shape.data)
    if document.encoding == "binary":
        return
    above = document.text[: document.body_start]
    assert document.body_line == len(above.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    assert above + document.body == document.text


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        (b"---\nname: a\ndescription: b: c\n---\n", "frontmatter-not-yaml", 3),
        (b"\n---\nname: a\ndescription: b # c\n---\n", "comment-in-value", 4),
        (b"---\nname: a\r\nx: y\rname: b\n---\n", "duplicate-key", 4),
        (b"---\nname: a\n---\n\n\nx\ny caf\xe9\n", "not-utf8", 7),
        (b"---\nname: a\n---\n\n---\nname: b\n---\n", "second-block", 5),
        (b"---\nx: y: z\nmetadata:\n  a: b: c\n  type\xef\xbc\x9a user\n---\n", "full-width-colon", 5),
        (b"---\nname: a\n\ntext\n", "frontmatter-unterminated", 3),
    ],
)
def test_a_problem_names_its_line(data: bytes, code: str, line: int) -> None:
    assert (code, line) in [(problem.code, problem.line) for problem in parse_document(data).problems]


def test_not_utf8_names_the_byte() -> None:
    (problem,) = parse_document(b"caf\xe9s\n").problems
    assert "0xE9" in problem.message


def test_latin1_text_is_not_taken_for_chinese() -> None:
    for text in (
        "«Où êtes-vous?» dit le garçon à côté\n",
        "Grüße aus Köln, schöne Straße\n",
        "São Paulo não é fácil\n",
    ):
        assert parse_document(text.encode("latin-1")).encoding == "surrogateescape"


def test_gbk_mixed_with_english_is_read_as_chinese() -> None:
    text = "User prefers 简洁的中文回答, uses Python 3.11 and vim.\n"
    document = parse_document(text.encode("gbk"))
    assert (document.encoding, document.text) == ("gb18030", text)


def test_surrogates_can_be_shown() -> None:
    document = parse_document(b"caf\xe9 \xf0\x9f\x8e\x89")
    assert replace_surrogates(document.text) == "caf\N{REPLACEMENT CHARACTER} 🎉"
    assert replace_surrogates("plain é") == "plain é"


def test_values_stand_where_fields_say() -> None:
    block = 'name: "a"\r\ndescription: café 🎉 # x\r\nmetadata:\r\n  type: user # y\r\n'
    spans = {(field.parent, field.key): block[field.start : field.end] for field in read_block(block).fields}
    assert spans["", "name"] == '"a"'
    assert spans["", "description"] == "café 🎉 # x"
    assert spans["metadata", "type"] == "user"


@pytest.mark.parametrize("size", [1, 200_000])
@pytest.mark.parametrize(
    "piece", ["[", "{", "- ", "? ", "a: ", '"', "'", "&a ", "*a ", "! ", "\t", "x: |\n", "# c\n", "-"]
)
def test_hostile_headers_are_read_without_recursion(piece: str, size: int) -> None:
    text = f"---\nname: a\nbad: {piece * (size // len(piece) + 1)}\n---\nbody\n"
    document = parse_document(text.encode())
    assert document.name == "a"
    assert document.body.endswith("body\n")


def test_alias_bomb_is_not_expanded() -> None:
    levels = [f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9)}]" for n in range(1, 30)]
    data = "\n".join(("---", "k0: &k0 [x]", *levels, "name: a", "---", "")).encode()
    document = parse_document(data)
    assert document.name == "a"
    assert sum(map(len, document.fields.values())) < 3 * len(data)
