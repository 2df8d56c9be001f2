"""Read shows a file as AgentScope's Read does, and says clearly when it cannot."""

import os

import agentscope.tool
import pypdf  # noqa: F401 - AgentScope imports it in mid-call, and the first time that blocks the event loop
import pytest
from agentscope.message import DataBlock
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_memory.backends import InMemoryBackend, version_of
from agentic_memory.encodings import decode
from agentic_memory.tools import Read
from agentic_memory.tools.read import MEDIA_SUFFIXES
from agentic_memory.tools.reads import known_version


async def test_lines_are_numbered(place):
    place.plant("a.md", b"one\r\ntwo\rthree\n")
    answer = await place.read("a.md")
    assert answer.ok
    assert answer.text == "     1\tone\n     2\ttwo\n     3\tthree"


async def test_a_part_is_read_by_offset_and_limit(place):
    place.plant("a.md", b"one\ntwo\nthree\nfour\n")
    assert (await place.read("a.md", offset=2, limit=2)).text == "     2\ttwo\n     3\tthree"


@settings(max_examples=60, deadline=None)
@given(
    text=st.lists(st.sampled_from(["a", "é", "word ", "\n", "\r\n", "\r", "\x0c", "\u2028", "\x85"]), max_size=30),
    tail=st.binary(max_size=3).filter(lambda data: b"\0" not in data),
    offset=st.integers(1, 8),
    limit=st.integers(1, 8),
    width=st.integers(1, 12),
)
async def test_a_file_is_shown_as_agentscope_shows_it(tmp_path_factory, text, tail, offset, limit, width):
    data = "".join(text).encode() + tail
    if decode(data)[1] not in {"utf-8", "surrogateescape"}:
        return  # UTF-16 and GBK, which AgentScope cannot show
    folder = tmp_path_factory.getbasetemp()
    path = folder / "shown.txt"
    path.write_bytes(data)
    arguments = {"file_path": str(path), "offset": offset, "limit": limit}
    theirs = await agentscope.tool.Read(max_line_characters=width)(**arguments)
    ours = await Read(max_line_characters=width)(**arguments)
    assert ours.content[0].text == theirs.content[0].text
    assert ours.state == theirs.state


async def test_text_in_a_chinese_encoding_can_be_read(place):
    place.plant("a.md", "姓名：张三，住在杭州\n".encode("gb18030"))
    assert (await place.read("a.md")).text == "     1\t姓名：张三，住在杭州"


async def test_bytes_of_no_known_encoding_are_shown_as_such(place):
    place.plant("a.md", b"caf\xe9 noir\n")
    assert (await place.read("a.md")).text == "     1\tcaf\ufffd noir"


async def test_reading_costs_one_round_trip(memory_place):
    memory_place.plant("a.md", b"text\n")
    await memory_place.read("a.md")
    assert memory_place.backend.round_trips == 1


async def test_reading_shows_what_is_there_now_and_not_what_was_read_before(place, touch):
    place.plant("a.md", b"old\n")
    await place.read("a.md")
    before = await place.backend.stat_mtime(place.path("a.md"))
    place.plant("a.md", b"new\n")
    if isinstance(place.backend, InMemoryBackend):
        place.backend.plant(place.path("a.md"), b"new\n", mtime_ns=round(before * 1e9))
    else:
        os.utime(place.path("a.md"), (before, before))
    assert (await place.read("a.md")).text == "     1\tnew"


async def test_the_version_that_was_shown_is_noted(place):
    place.plant("a.md", b"text\n")
    await place.read("a.md", limit=1)
    assert known_version(place.state, place.path("a.md")) == version_of(b"text\n")


async def test_reading_without_an_agent_works(place):
    place.plant("a.md", b"text\n")
    chunk = await Read(backend=place.backend)(file_path=place.path("a.md"))
    assert chunk.content[0].text == "     1\ttext"


async def test_an_empty_file_is_shown_as_nothing(place):
    place.plant("a.md", b"")
    answer = await place.read("a.md")
    assert (answer.ok, answer.text) == (True, "")


async def test_a_missing_file_is_an_error_that_says_so(place):
    answer = await place.read("none.md")
    assert not answer.ok
    assert "does not exist" in answer.text
    assert place.path("none.md") in answer.text
    assert known_version(place.state, place.path("none.md")) is None


async def test_a_relative_path_is_refused(place):
    chunk = await Read(backend=place.backend)(file_path="a.md", _agent_state=place.state)
    assert chunk.content[0].text == "Error: file_path must be an absolute path, got: a.md"


@pytest.mark.parametrize("name", ["a\0.md", "\udce9\ud800.md"])
async def test_a_path_that_no_file_can_have_is_an_error(place, name):
    answer = await place.read(name)
    assert not answer.ok


async def test_a_directory_is_an_error_that_says_so(place):
    place.plant("a.md", b"")
    chunk = await Read(backend=place.backend)(file_path=place.root, _agent_state=place.state)
    assert chunk.content[0].text.startswith("Error: ")
    assert "directory" in chunk.content[0].text
    assert "not exist" not in chunk.content[0].text


async def test_what_cannot_be_told_is_never_called_missing(memory_place):
    memory_place.plant("a.md", b"text\n")
    with memory_place.backend.unreachable():
        answer = await memory_place.read("a.md")
    assert not answer.ok
    assert "not exist" not in answer.text
    assert "do not take it for missing" in answer.text


@pytest.mark.parametrize("kind", ["special", "unreadable"])
async def test_a_fifo_or_forbidden_file_is_an_error_that_names_it(memory_place, kind):
    if kind == "unreadable":
        memory_place.plant("a.md", b"text\n")
    memory_place.backend.obstruct("/m/a.md", kind)
    answer = await memory_place.read("a.md")
    assert not answer.ok
    assert "/m/a.md" in answer.text
    assert "not exist" not in answer.text


async def test_a_fifo_on_disk_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.md")
    chunk = await Read()(file_path=str(tmp_path / "a.md"))
    assert chunk.content[0].text.startswith("Error: ")


async def test_a_file_that_is_too_large_is_an_error_that_says_so(memory_place):
    memory_place.plant("a.md", b"x" * (16 * 1024 * 1024 + 1))
    answer = await memory_place.read("a.md")
    assert not answer.ok
    assert "not exist" not in answer.text


async def test_an_image_is_shown_as_an_image(place):
    place.plant("a.png", b"\x89PNG\r\n\x1a\n")
    chunk = await Read(backend=place.backend)(file_path=place.path("a.png"), _agent_state=place.state)
    assert isinstance(chunk.content[0], DataBlock)


async def test_a_missing_image_or_an_unreachable_one_is_told_apart(memory_place):
    memory_place.plant("a.png", b"\x89PNG\r\n\x1a\n")
    assert "does not exist" in (await memory_place.read("b.png")).text
    with memory_place.backend.unreachable():
        assert "not exist" not in (await memory_place.read("a.png")).text


async def test_a_broken_pdf_is_an_error(place):
    place.plant("a.pdf", b"no pdf")
    assert not (await place.read("a.pdf")).ok


def test_the_names_not_shown_as_text_are_those_of_agentscope():
    from agentscope.tool._builtin import _read

    assert {*_read._IMAGE_EXTENSIONS, ".pdf"} == MEDIA_SUFFIXES
