"""What each parser takes from a source, what it leaves, and what it says of broken input."""

import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.errors import InvalidMemory
from agentic_memory.transfer.formats import PARSERS, detect_format
from agentic_memory.transfer.items import split_list, split_sections
from agentic_memory.transfer.sources import read_source


def as_json(value):
    return json.dumps(value, ensure_ascii=False).encode()


MEM0 = {
    "results": [
        {
            "id": "8a1",
            "memory": "Likes green tea",
            "hash": "x",
            "metadata": {"type": "user", "topic": "drinks"},
            "created_at": "2026-01-02T03:04:05+00:00",
            "user_id": "alice",
            "categories": ["food", "habits"],
        },
        {"id": "8a2", "memory": "用户住在杭州", "user_id": "alice", "score": 0.3},
    ]
}
BIO = {
    "author": {"role": "assistant"},
    "recipient": "bio",
    "content": {"content_type": "text", "parts": ["Has a dog."]},
}
CHATGPT = [
    {
        "title": "chat",
        "mapping": {
            "root": {"id": "root", "message": None},
            "a": {"message": {"id": "m0", "recipient": "all", "content": {"parts": ["My dog is ill"]}}},
            "b": {"message": {"id": "m1", "create_time": 1767225600.5, **BIO}},
            "c": {"message": {"id": "m2", "create_time": None, **BIO}},
        },
    }
]
CLAUDE = [
    {
        "conversations_memory": "**Work context**\n\nBuilds compilers.\n\n**Personal context**\n\nLives in Wuxi.",
        "project_memories": {"0198-aa": "Uses Rust.\n\n## Style\nShort names."},
        "account_uuid": "u",
    }
]
NOTE = b"---\ntitle: Coffee\ntype: note\npermalink: drinks/coffee\ntags: [a, b]\n---\n# Coffee\n- [method] Pour over #x\n- requires [[Grinder]]\n"
TOPIC = b"---\nname: Deploy\ndescription: Before a deploy\nmetadata:\n  type: project\nstatus: done\n---\nNever on Friday.\n"
CARD = b"---\nname: green-tea\ndescription: What the user drinks\nsession_id: s1\n---\nDrinks [[tea]].\n"

SOURCES = {
    "mem0": {"mem0.json": as_json(MEM0)},
    "chatgpt": {"conversations.json": as_json(CHATGPT), "user.json": as_json({"id": "u"})},
    "claude": {"memories.json": as_json(CLAUDE), "projects.json": as_json([{"uuid": "0198-aa", "name": "Engine"}])},
    "basic-memory": {"drinks/coffee.md": NOTE},
    "claude-code": {
        "MEMORY.md": b"# Memory\n- [Deploy](deploy.md) \xe2\x80\x94 before a deploy\n\n## Style\nAlways short.\n",
        "deploy.md": TOPIC,
    },
    "openclaw": {
        "MEMORY.md": b"# Long term\n\n## Home\nLives in Wuxi.\n\n## Work\nBuilds compilers.\n",
        "USER.md": b"Call me Bo.\n",
        "SOUL.md": b"Be kind.\n",
        "memory/2026-03-05.md": b"Fixed the roof.\n",
        "memory/2026-03-06-visit.md": b"Bo came.\n",
    },
    "reme": {
        "daily/2026-03-05/green-tea.md": CARD,
        "digest/personal/home.md": b"---\nname: home\ndescription: d\n---\nLives in Wuxi.\n",
        "resource/paper.md": b"long text\n",
        "session/s1.jsonl": b"{}\n",
    },
    "agentic-memory": {
        "m.json": as_json(
            {
                "format": "agentic-memory",
                "version": 1,
                "memories": [
                    {"filename": "a.md", "name": "A", "content": "x\n", "fields": {"name": "A", "mood": "calm"}}
                ],
            }
        )
    },
}


@pytest.mark.parametrize("name", PARSERS)
def test_a_format_is_told_from_its_files(name):
    assert detect_format(SOURCES[name]) == name


def test_what_is_nothing_known_says_which_formats_there_are():
    with pytest.raises(InvalidMemory, match=r"--from: mem0, reme"):
        detect_format({"a.md": b"hello", "b.json": b"{"})


def test_mem0_records_keep_their_dates_categories_and_metadata():
    first, second = PARSERS["mem0"](SOURCES["mem0"]).items
    assert (first.key, first.content, first.type, first.owner) == ("mem0:8a1", "Likes green tea", "user", "alice")
    assert first.fields["created"] == "2026-01-02T03:04:05+00:00"
    assert (first.fields["tags"], first.fields["topic"]) == ("food, habits", "drinks")
    assert second.title == "用户住在杭州"


@pytest.mark.parametrize(
    "data",
    [
        as_json(MEM0["results"]),
        as_json({"memories": MEM0["results"]}),
        b"\n".join(as_json(record) for record in MEM0["results"]),
    ],
)
def test_mem0_comes_as_a_list_as_a_page_or_line_by_line(data):
    name = "m.json" if data.startswith((b"[", b'{"memories')) else "m.jsonl"
    assert detect_format({name: data}) == "mem0"
    assert len(PARSERS["mem0"]({name: data}).items) == 2


def test_chatgpt_gives_what_it_saved_once_and_not_what_was_said():
    parsed = PARSERS["chatgpt"](SOURCES["chatgpt"])
    assert [(item.key, item.content, item.fields["created"]) for item in parsed.items] == [
        ("chatgpt:m1", "Has a dog.", "2026-01-01")
    ]
    assert [problem.file for problem in parsed.problems] == ["user.json"]


def test_chatgpt_memories_come_as_a_file_or_as_a_pasted_list():
    listed = PARSERS["chatgpt"]({"memories.json": as_json([{"id": "1", "content": "Has a cat."}, "Has a dog."])})
    assert [item.content for item in listed.items] == ["Has a cat.", "Has a dog."]
    pasted = PARSERS["chatgpt"]({"list.txt": b"# Saved\n- Has a cat.\n\n[2026-01-02] - Has a dog.\n```\n"})
    assert [(item.content, item.fields["created"]) for item in pasted.items] == [
        ("Has a cat.", ""),
        ("Has a dog.", "2026-01-02"),
    ]


def test_claude_gives_a_memory_for_each_section_and_project():
    items = PARSERS["claude"](SOURCES["claude"]).items
    assert [(item.name, item.content, item.type) for item in items] == [
        ("Work context", "Builds compilers.", "user"),
        ("Personal context", "Lives in Wuxi.", "user"),
        ("Engine", "Uses Rust.", "project"),
        ("Engine: Style", "Short names.", "project"),
    ]


def test_a_memory_directory_keeps_names_types_fields_and_what_was_written_into_its_index():
    deploy, style = PARSERS["claude-code"](SOURCES["claude-code"]).items
    assert (deploy.filename, deploy.name, deploy.description, deploy.type) == (
        "deploy.md",
        "Deploy",
        "Before a deploy",
        "project",
    )
    assert deploy.fields == {"status": "done"}
    assert (style.name, style.content) == ("Style", "Always short.")


def test_openclaw_gives_sections_daily_notes_and_leaves_the_agents_own_files():
    parsed = PARSERS["openclaw"](SOURCES["openclaw"])
    assert [(item.name, item.type, item.fields.get("created")) for item in parsed.items] == [
        ("Home", "reference", None),
        ("Work", "reference", None),
        ("User", "user", None),
        ("Notes of 2026-03-05", "project", "2026-03-05"),
        ("Notes of 2026-03-06-visit", "project", "2026-03-06"),
    ]
    assert [(problem.file, problem.severity) for problem in parsed.problems] == [("SOUL.md", "info")]


def test_reme_gives_its_cards_and_leaves_sources_and_sessions():
    parsed = PARSERS["reme"](SOURCES["reme"])
    assert [(item.key, item.type) for item in parsed.items] == [
        ("reme:daily/2026-03-05/green-tea.md", "project"),
        ("reme:digest/personal/home.md", "user"),
    ]
    assert parsed.items[0].fields == {"session_id": "s1", "created": "2026-03-05"}
    assert [problem.file for problem in parsed.problems] == ["resource"]


def test_basic_memory_notes_stay_as_they_are():
    (item,) = PARSERS["basic-memory"](SOURCES["basic-memory"]).items
    assert (item.key, item.name, item.type) == ("basic-memory:drinks/coffee", "Coffee", "reference")
    assert item.content == "# Coffee\n- [method] Pour over #x\n- requires [[Grinder]]"
    assert item.hook == "[method] Pour over #x"


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize(
    "files",
    [
        {},
        {"a.json": b"{"},
        {"a.json": b"null"},
        {"a.json": b'{"results": [1, null, {"memory": 5}]}'},
        {"conversations.json": b'[{"mapping": {"a": null, "b": {"message": {"recipient": "bio", "content": 3}}}}]'},
        {"memories.json": b'[{"conversations_memory": 7, "project_memories": null}]'},
        {"a.jsonl": b'{"memory": "x"}\n{broken\n'},
        {"a.md": b"", "MEMORY.md": b"\xff\xfe", "memory/x.md": b"a\0b", "daily/x.md": b"---\n---\n"},
    ],
)
def test_broken_input_is_a_problem_and_never_an_exception(name, files):
    parsed = PARSERS[name](files)
    assert all(problem.message and problem.fix for problem in parsed.problems)


def test_a_broken_line_is_named_and_the_rest_is_taken():
    parsed = PARSERS["mem0"]({"a.jsonl": b'{"memory": "x"}\n{broken\n{"memory": "y"}\n'})
    assert [item.content for item in parsed.items] == ["x", "y"]
    assert [(problem.file, problem.line) for problem in parsed.problems] == [("a.jsonl", 2)]


@given(st.text())
def test_no_word_of_a_text_is_lost_between_sections(text):
    text = "".join(char for char in text if char not in "#*`~\r")
    assert "".join("".join(body.split()) for _, body in split_sections(text)) == "".join(text.split())


@given(st.text())
def test_any_text_can_be_read_as_a_list(text):
    assert all(fact.strip() for _, fact in split_list(text))


def test_a_heading_inside_a_code_fence_is_text():
    assert [*split_sections("## A\n```\n## no\n```\n")] == [("A", "```\n## no\n```")]


# ------------------------------------------------------------------ sources on disk


def make_zip(path, files, folder=""):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(f"{folder}{name}", data)
    return str(path)


def test_a_zip_is_read_like_the_folder_it_was_made_of(tmp_path):
    files = SOURCES["openclaw"]
    for folder in ("", "workspace/"):
        assert read_source(make_zip(tmp_path / "w.zip", files, folder)) == (files, ())


def test_a_directory_is_read_without_hidden_files_and_without_links_that_lead_out(tmp_path):
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    (vault / ".obsidian" / "x.md").write_text("hidden")
    (vault / "a.md").write_text("a")
    (vault / "picture.png").write_bytes(b"p")
    (tmp_path / "secret.md").write_text("secret")
    (vault / "link.md").symlink_to(tmp_path / "secret.md")
    files, problems = read_source(str(vault))
    assert dict(files) == {"a.md": b"a"}
    assert [problem.file for problem in problems] == ["link.md"]


def test_what_cannot_be_read_is_one_clear_error(tmp_path):
    (tmp_path / "bad.zip").write_bytes(b"PK\x05\x06" + b"\0" * 10)
    (tmp_path / "empty").mkdir()
    make_zip(tmp_path / "x.zip", {"a.md": b"a" * 1000})
    data = bytearray((tmp_path / "x.zip").read_bytes())
    data[40:60] = b"x" * 20
    (tmp_path / "broken.zip").write_bytes(bytes(data))
    for name in ("nowhere", "empty", "broken.zip"):
        with pytest.raises(InvalidMemory, match=name):
            read_source(str(tmp_path / name))


def test_a_file_that_is_too_large_is_a_problem_and_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("agentic_memory.transfer.sources.MAX_MARKDOWN_BYTES", 10)
    (tmp_path / "a.md").write_text("x" * 11)
    (tmp_path / "b.md").write_text("x")
    files, problems = read_source(str(tmp_path))
    assert list(files) == ["b.md"]
    assert "11 bytes" in problems[0].message
