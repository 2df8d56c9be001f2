"""What is written reads back, by us and by any strict YAML reader."""

import pytest
import yaml

from agentic_memory.check import is_memory_path
from agentic_memory.document import memory_filename, parse_document, render_document
from agentic_memory.errors import InvalidMemory


def render(**parts: str) -> str:
    given = {"name": "a", "description": "b", "type": "user", "content": "text\n"} | parts
    return render_document(**given).decode()


def test_a_new_file_looks_as_a_person_would_write_it() -> None:
    text = render(name="Deploy steps", description="How we ship", type="project", content="Run the tests.\nShip.")
    assert text == ("---\nname: Deploy steps\ndescription: How we ship\ntype: project\n---\n\nRun the tests.\nShip.\n")


def test_a_file_without_content_is_its_header() -> None:
    assert render(content="") == render(content="\n\n") == "---\nname: a\ndescription: b\ntype: user\n---\n"


@pytest.mark.parametrize(
    "value",
    [
        *("no", "true", "1.0", "0x1F", "1e3", "12:30:45", "2024-01-31", "null", "~", "", "=", "<<", ".inf"),
        *("a: b", "a:", "a #b", "#a", "- a", "-", "? a", "[a", "{a}", "!a", "&a", "*a", "|", ">", "@a", "`a`", "%a"),
        *(
            '"a" b',
            "'a' b",
            "it's",
            'say "x"',
            "C:\\dir",
            "\\",
            "a\tb",
            "---",
            "...",
            "名：字",
            "名字: x",
            "🎉",
            "a\x07b",
        ),
        *("a\u200bb", "a\ufeffb", "\ufeffa", "a\x85b", "a\u2028b", "a\x00b", "a\uffffb", "{{x}}", "key：v", "a，b"),
    ],
)
def test_strict_yaml_reads_the_same_string(value: str) -> None:
    text = render(name=value, description=value)
    document = parse_document(text.encode())
    folded = value.replace("\x85", " ").replace("\u2028", " ")
    assert (document.name, document.description) == (folded, folded)
    header = yaml.safe_load(text.split("---\n")[1])
    assert (header["name"] or "", header["description"] or "") == (folded, folded)
    assert header["type"] == "user"


@pytest.mark.parametrize(
    "value",
    ["Deploy steps", "用户的偏好：简洁", "v1.2-rc (old)", "a/b", "it's", "50% off", "a, b; c!", "https://a.b/c"],
)
def test_values_that_need_no_quotes_get_none(value: str) -> None:
    assert f"name: {value}\n" in render(name=value)


def test_line_breaks_in_a_value_become_spaces() -> None:
    assert "description: one two three\n" in render(description="one\n\n  two\r\nthree\n")


def test_extra_fields_follow_in_their_order() -> None:
    data = render_document(name="a", description="b", type="c", content="", extra={"source": "x: y", "no": "1"})
    assert dict(parse_document(data).fields) == {
        "name": "a",
        "description": "b",
        "type": "c",
        "source": "x: y",
        "no": "1",
    }
    assert data.endswith(b'type: c\nsource: "x: y"\n"no": "1"\n---\n')


def test_content_that_looks_like_a_header_stays_content() -> None:
    content = "---\nname: other\ndescription: not mine\n---\n\ntext\n"
    document = parse_document(render(description="", type="", content=content).encode())
    assert (document.name, document.description, document.type, document.body) == ("a", "", "", content)


@pytest.mark.parametrize("key", ["name", "metadata", "a: b", "", "-", "a\nb"])
def test_an_extra_key_that_would_not_read_back_is_refused(key: str) -> None:
    with pytest.raises(InvalidMemory, match="extra field"):
        render_document(name="a", description="b", type="c", content="", extra={key: "x"})


@pytest.mark.parametrize(("content", "why"), [("a\0b", "NUL"), ("a\ud800b", "surrogate")])
def test_content_that_would_not_read_back_is_refused(content: str, why: str) -> None:
    with pytest.raises(InvalidMemory, match=why):
        render(content=content)


@pytest.mark.parametrize(
    ("name", "filename"),
    [
        ("User profile", "user_profile.md"),
        ("  Team / Deploy: steps!  ", "team_deploy_steps.md"),
        ("notes.md", "notes.md"),
        ("v1.2-rc", "v1.2-rc.md"),
        ("用户 偏好", "用户_偏好.md"),
        ("हिन्दी", "हिन्दी.md"),
        ("cafe\u0301", "caf\u00e9.md"),
        ("../../etc/passwd", "etc_passwd.md"),
        (".hidden", "hidden.md"),
        ("-rf", "rf.md"),
        ("C:\\x", "c_x.md"),
        ("MEMORY", "memory_note.md"),
        ("Memory.md", "memory_note.md"),
        ("memory!", "memory_note.md"),
        ("CON", "con_note.md"),
        ("", "untitled.md"),
        ("🎉", "untitled.md"),
        ("...", "untitled.md"),
        ("a\nb\0c", "a_b_c.md"),
    ],
)
def test_a_file_name_is_made_from_the_name(name: str, filename: str) -> None:
    assert memory_filename(name) == filename


def test_a_long_name_is_cut_at_a_character() -> None:
    for name in ("a" * 400, "部署" * 200, "a" + "部" * 200, "ab" + "部" * 200, "a " * 300):
        filename = memory_filename(name)
        assert 250 <= len(filename.encode()) <= 255
        assert is_memory_path(filename)
        assert "_.md" not in filename


def test_a_name_that_only_a_sync_tool_gives_is_still_a_memory() -> None:
    assert is_memory_path(memory_filename("a.sync-conflict-20240131-120000-ABCDEFG"))
