"""Write replaces only bytes the agent knows, and creates only where nothing is."""

import asyncio

import pytest

from agentic_memory.backends import version_of
from agentic_memory.tools import Write
from agentic_memory.tools.reads import known_version, note_read

MEMORY = b"---\nname: User\ndescription: Who the user is\n---\nLives in Hangzhou.\n"
OTHER = MEMORY + b"Has a dog.\n"


async def test_a_new_file_is_written_with_its_folders(place):
    answer = await place.write("team/a.md", "one\ntwo\n")
    path = place.path("team/a.md")
    assert answer.text == f"The file {path} has been written successfully (2 lines)."
    assert answer.metadata == {
        "diff": f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,2 @@\n+one\n+two\n",
        "file_path": path,
        "occurrences": 1,
    }
    assert await place.bytes_of("team/a.md") == b"one\ntwo\n"


async def test_a_file_that_was_read_is_replaced(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    assert (await place.write("a.md", OTHER.decode())).ok
    assert await place.bytes_of("a.md") == OTHER


async def test_a_file_that_was_written_may_be_written_again(place):
    await place.write("a.md", "one\n")
    assert (await place.write("a.md", "two\n")).ok
    assert (await place.edit("a.md", "two", "three")).ok
    assert await place.bytes_of("a.md") == b"three\n"


async def test_a_file_never_read_is_refused(place):
    place.plant("a.md", MEMORY)
    answer = await place.write("a.md", OTHER.decode())
    assert not answer.ok
    assert "exists but has not been read yet" in answer.text
    assert await place.bytes_of("a.md") == MEMORY
    assert known_version(place.state, place.path("a.md")) is None


async def test_a_file_that_changed_since_it_was_read_is_refused(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    theirs = OTHER.replace(b"Hangzhou", b"Suzhou")
    place.plant("a.md", theirs)
    answer = await place.write("a.md", MEMORY.decode().replace("Hangzhou", "Beijing"))
    assert not answer.ok
    assert "changed since you read it" in answer.text
    assert await place.bytes_of("a.md") == theirs


async def test_a_file_whose_old_text_nobody_keeps_is_refused_when_it_changed(place):
    place.plant("a.md", OTHER)
    note_read(place.state, place.path("a.md"), "0" * 64)
    answer = await place.write("a.md", MEMORY.decode() + "Likes tea.\n")
    assert not answer.ok
    assert "changed since you read it" in answer.text
    assert await place.bytes_of("a.md") == OTHER


async def test_a_touch_is_no_change(place, touch):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    touch("a.md")
    assert (await place.write("a.md", OTHER.decode())).ok


async def test_what_was_injected_counts_as_read(place):
    place.plant("MEMORY.md", b"- [A](a.md)\n")
    note_read(place.state, place.path("MEMORY.md"), version_of(b"- [A](a.md)\n"))
    assert (await place.write("MEMORY.md", "- [A](a.md)\n- [B](b.md)\n")).ok


@pytest.mark.parametrize("empty", [b"", b"\n", b" \r\n\t\n", b"\xef\xbb\xbf\n"])
async def test_an_empty_file_need_not_be_read(place, empty):
    place.plant("MEMORY.md", empty)
    assert (await place.write("MEMORY.md", "- [A](a.md)\n")).ok
    assert (await place.bytes_of("MEMORY.md")).endswith(
        b"- [A](a.md)" + (b"\r\n" if b"\r" in empty and b"\t\n" not in empty else b"\n")
    )


async def test_writing_what_is_there_already_succeeds_and_counts_as_read(place):
    place.plant("a.md", MEMORY)
    before = await place.backend.stat_mtime(place.path("a.md"))
    answer = await place.write("a.md", MEMORY.decode())
    assert answer.ok
    assert answer.metadata["diff"] == ""
    assert await place.backend.stat_mtime(place.path("a.md")) == before
    assert (await place.write("a.md", OTHER.decode())).ok


async def test_a_file_removed_since_it_was_read_is_made_anew_and_said_so(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    await place.backend.delete_path(place.path("a.md"))
    answer = await place.write("a.md", OTHER.decode())
    assert answer.ok
    assert "had been removed" in answer.text
    assert await place.bytes_of("a.md") == OTHER


async def test_of_two_agents_creating_one_file_the_second_is_told_to_read(place):
    tool = Write(backend=place.backend)
    arguments = {"file_path": place.path("a.md")}
    chunks = await asyncio.gather(
        *(
            tool(**arguments, content=f"{number}\n", _agent_state=place.state.model_copy(deep=True))
            for number in range(2)
        )
    )
    texts = sorted(chunk.content[0].text for chunk in chunks)
    assert "has not been read yet" in texts[0]
    assert "written successfully" in texts[1]


async def test_a_file_that_changes_at_the_moment_of_writing_is_left_alone(memory_place, monkeypatch):
    memory_place.plant("a.md", MEMORY)
    await memory_place.read("a.md")
    transact = memory_place.backend.transact

    async def overtaken(changes, *, within=None):
        memory_place.plant("a.md", MEMORY.replace(b"Hangzhou", b"Suzhou"))
        await transact(changes, within=within)

    monkeypatch.setattr(memory_place.backend, "transact", overtaken)
    answer = await memory_place.write("a.md", MEMORY.decode().replace("Hangzhou", "Beijing"))
    assert not answer.ok
    assert "changed since you read it" in answer.text
    assert await memory_place.bytes_of("a.md") == MEMORY.replace(b"Hangzhou", b"Suzhou")


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\r\nb\n", "a\nc\n", b"a\nc\n"),
        (b"a\r\n", "a\r\nc\n", b"a\r\nc\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
    ],
)
async def test_line_endings_and_byte_order_mark_of_a_file_are_kept(place, before, content, after):
    place.plant("a.txt", before)
    await place.read("a.txt")
    assert (await place.write("a.txt", content)).ok
    assert await place.bytes_of("a.txt") == after


async def test_a_stub_is_refused_also_in_a_new_file(place):
    answer = await place.write("a.md", "# A\n... existing content ...\n")
    assert not answer.ok
    assert "... existing content ..." in answer.text
    assert await place.bytes_of("a.md") is None


async def test_a_stub_line_that_the_file_already_has_may_stay(place):
    place.plant("a.md", b"Never write:\n[rest of file unchanged]\n")
    await place.read("a.md")
    assert (await place.write("a.md", "Never ever write:\n[rest of file unchanged]\n")).ok


async def test_writing_back_a_line_that_read_cut_short_is_refused(place):
    place.plant("a.md", b"word " * 1000 + b"\n")
    shown = (await place.read("a.md")).text.split("\t", 1)[1]
    answer = await place.write("a.md", f"{shown}\nmore\n")
    assert not answer.ok
    assert "cut it short" in answer.text


@pytest.mark.parametrize("content", ["", "Lives in Beijing.\n", "---\nname:\ndescription:\n---\nLives in Beijing.\n"])
async def test_a_write_must_not_blank_the_frontmatter(place, content):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    answer = await place.write("a.md", content)
    assert not answer.ok
    assert "frontmatter" in answer.text
    assert await place.bytes_of("a.md") == MEMORY


async def test_frontmatter_matters_in_memory_files_only(place):
    place.plant("a.txt", MEMORY)
    await place.read("a.txt")
    assert (await place.write("a.txt", "plain\n")).ok


async def test_unknown_bytes_are_not_replaced_by_the_sign_they_are_shown_as(place):
    place.plant("a.txt", b"caf\xe9\n")
    shown = (await place.read("a.txt")).text.split("\t", 1)[1]
    assert not (await place.write("a.txt", f"{shown}\nmore\n")).ok
    assert (await place.write("a.txt", "café\n")).ok


async def test_half_a_character_is_refused(place):
    answer = await place.write("a.md", "x\ud83d")
    assert not answer.ok
    assert "half of a character" in answer.text


async def test_a_relative_path_is_refused(place):
    chunk = await Write(backend=place.backend)(file_path="a.md", content="x")
    assert "absolute path" in chunk.content[0].text


async def test_a_directory_is_refused(place):
    chunk = await Write(backend=place.backend)(file_path=place.root, content="x", _agent_state=place.state)
    assert chunk.content[0].text.startswith("Error: ")


async def test_without_an_agent_a_file_is_replaced_as_agentscope_does(place):
    place.plant("a.md", MEMORY)
    chunk = await Write(backend=place.backend)(file_path=place.path("a.md"), content=OTHER.decode())
    assert "written successfully" in chunk.content[0].text


async def test_an_unreachable_place_is_an_error_and_nothing_is_noted(memory_place):
    with memory_place.backend.unreachable():
        answer = await memory_place.write("a.md", "x\n")
    assert not answer.ok
    assert "not exist" not in answer.text
    assert known_version(memory_place.state, "/m/a.md") is None


@pytest.mark.parametrize("size", [0, 65_536, 1024 * 1024])
async def test_any_size_is_written_whole(place, size):
    content = "word\n" * (size // 5)
    assert (await place.write("a.md", content)).ok
    assert await place.bytes_of("a.md") == content.encode()


async def test_a_new_file_costs_one_round_trip_and_an_old_one_two(memory_place):
    await memory_place.write("a.md", "one\n")
    assert memory_place.backend.round_trips == 1
    await memory_place.write("a.md", "two\n")
    assert memory_place.backend.round_trips == 3
