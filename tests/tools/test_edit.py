"""Edit changes what it names in the bytes that are there, and nothing else."""

import asyncio
import json

import pytest
from agentscope.state import AgentState

from agentic_memory.backends import version_of
from agentic_memory.tools import Edit
from agentic_memory.tools.cache import drop_cache
from agentic_memory.tools.edit import MAX_ATTEMPTS
from agentic_memory.tools.reads import known_version, note_read

MEMORY = b"---\nname: User\ndescription: Who the user is\n---\nLives in Hangzhou.\nLikes tea.\n"


async def test_text_that_was_read_is_replaced(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    answer = await place.edit("a.md", "tea", "coffee")
    assert answer.text == f"Successfully replaced 1 occurrence in {place.path('a.md')}"
    assert await place.bytes_of("a.md") == MEMORY.replace(b"tea", b"coffee")


async def test_the_answer_carries_a_diff_for_people(place):
    place.plant("a.md", b"one\ntwo\n")
    await place.read("a.md")
    answer = await place.edit("a.md", "two", "three")
    path = place.path("a.md")
    assert answer.metadata == {
        "diff": f"--- a/{path}\n+++ b/{path}\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n",
        "file_path": path,
        "occurrences": 1,
    }


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\n", "a\nb", "A\nB", b"A\r\nB\r\n"),
        (b"a\rb\r", "a\nb", "A\nB", b"A\rB\r"),
        (b"a\nb\r\nc\r\nd\r\n", "b\nc", "B\nC", b"a\nB\r\nC\r\nd\r\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "b", "c", b"\xef\xbb\xbfa\r\nc\r\n"),
        (b"caf\xe9\nb\n", "b", "c", b"caf\xe9\nc\n"),
        (b"a" * 8190 + "가나다\n".encode(), "나", "라", b"a" * 8190 + "가라다\n".encode()),
        ("姓名：张三，住在杭州\n".encode("gb18030"), "杭州", "北京", "姓名：张三，住在北京\n".encode("gb18030")),
        ("\ufeffa\r\nb".encode("utf-16-le"), "b", "é", "\ufeffa\r\né".encode("utf-16-le")),
        (b"a\n\n\nb", "\n\n", "\n", b"a\n\nb"),
    ],
    ids=["crlf", "cr", "mixed", "bom", "latin-1", "8190", "gbk", "utf-16", "blank-lines"],
)
async def test_every_other_byte_stays(place, before, old, new, after):
    place.plant("a.txt", before)
    await place.read("a.txt")
    assert (await place.edit("a.txt", old, new)).ok
    assert await place.bytes_of("a.txt") == after


async def test_all_matches_are_replaced_when_asked(place):
    place.plant("a.md", b"x\r\ny x\r\n")
    await place.read("a.md")
    answer = await place.edit("a.md", "x", "z", replace_all=True)
    assert answer.text.startswith("Successfully replaced all 2 occurrences")
    assert answer.metadata["occurrences"] == 2
    assert await place.bytes_of("a.md") == b"z\r\ny z\r\n"


async def test_two_edits_one_after_the_other_need_no_second_read(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    assert (await place.edit("a.md", "tea", "coffee")).ok
    answer = await place.edit("a.md", "Hangzhou", "Beijing")
    assert answer.ok
    assert "changed" not in answer.text
    assert await place.bytes_of("a.md") == MEMORY.replace(b"tea", b"coffee").replace(b"Hangzhou", b"Beijing")


async def test_two_edits_at_the_same_moment_both_survive(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    answers = await asyncio.gather(place.edit("a.md", "tea", "coffee"), place.edit("a.md", "Hangzhou", "Beijing"))
    assert all(answer.ok for answer in answers)
    assert await place.bytes_of("a.md") == MEMORY.replace(b"tea", b"coffee").replace(b"Hangzhou", b"Beijing")


async def test_edits_of_many_agents_at_once_all_survive(place):
    place.plant("a.md", "".join(f"line {number:02d}\n" for number in range(8)).encode())
    tool = Edit(backend=place.backend)

    async def edit(number: int) -> bool:
        path = place.path("a.md")
        done = False
        while not done:
            chunk = await tool(file_path=path, old_string=f"line {number:02d}", new_string=f"done {number:02d}")
            done = "Successfully" in chunk.content[0].text
        return done

    assert all(await asyncio.gather(*map(edit, range(8))))
    assert await place.bytes_of("a.md") == "".join(f"done {number:02d}\n" for number in range(8)).encode()


async def test_a_touch_is_no_change(place, touch):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    touch("a.md")
    answer = await place.edit("a.md", "tea", "coffee")
    assert answer.ok
    assert "changed" not in answer.text


async def test_both_changes_are_kept_when_somebody_changed_the_file_since(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    answer = await place.edit("a.md", "tea", "coffee")
    assert answer.ok
    assert "had changed since you read it" in answer.text
    assert await place.bytes_of("a.md") == MEMORY.replace(b"tea", b"coffee") + b"Has a dog.\n"


async def test_a_file_that_changed_stays_unread_for_write_after_an_edit(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY.replace(b"Likes tea.", b"Likes tea.\nHas a dog."))
    await place.edit("a.md", "tea", "coffee")
    assert (await place.write("a.md", MEMORY.decode())).ok
    assert await place.bytes_of("a.md") == MEMORY.replace(b"Likes tea.", b"Likes tea.\nHas a dog.")
    assert (await place.edit("a.md", "tea", "milk")).ok


async def test_a_file_whose_old_text_nobody_keeps_stays_unread_for_write_after_an_edit(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    note_read(place.state, place.path("a.md"), "0" * 64)
    drop_cache(place.state, place.path("a.md"))
    assert (await place.edit("a.md", "tea", "coffee")).ok
    answer = await place.write("a.md", MEMORY.decode())
    assert not answer.ok
    assert "changed since you read it" in answer.text
    assert b"dog" in await place.bytes_of("a.md")
    assert (await place.edit("a.md", "coffee", "milk")).ok


async def test_an_edit_whose_text_somebody_changed_is_refused(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    theirs = MEMORY.replace(b"Likes tea.", b"Likes green tea.")
    place.plant("a.md", theirs)
    answer = await place.edit("a.md", "Likes tea.", "Likes coffee.")
    assert not answer.ok
    assert "changed since you read it" in answer.text
    assert "Read it again" in answer.text
    assert await place.bytes_of("a.md") == theirs


async def test_an_edit_that_somebody_made_ambiguous_is_refused(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY + b"Likes tea.\n")
    answer = await place.edit("a.md", "Likes tea.", "Likes coffee.")
    assert "appears 2 times" in answer.text
    assert "on lines 6, 7" in answer.text


async def test_a_file_that_keeps_changing_is_given_up_with_an_error(memory_place, monkeypatch):
    memory_place.plant("a.md", MEMORY)
    await memory_place.read("a.md")
    transact = memory_place.backend.transact
    tries = 0

    async def overtaken(changes, *, within=None):
        nonlocal tries
        tries += 1
        memory_place.plant("a.md", MEMORY + f"{tries}\n".encode())
        await transact(changes, within=within)

    monkeypatch.setattr(memory_place.backend, "transact", overtaken)
    answer = await memory_place.edit("a.md", "tea", "coffee")
    assert not answer.ok
    assert "again and again" in answer.text
    assert tries == MAX_ATTEMPTS
    assert await memory_place.bytes_of("a.md") == MEMORY + f"{tries}\n".encode()


async def test_a_file_never_read_is_refused(place):
    place.plant("a.md", MEMORY)
    answer = await place.edit("a.md", "tea", "coffee")
    assert answer.text.startswith("Error: To edit a file, you must first read it using the Read tool.")
    assert await place.bytes_of("a.md") == MEMORY


async def test_what_was_injected_counts_as_read(place):
    place.plant("MEMORY.md", b"- [A](a.md)\n")
    note_read(place.state, place.path("MEMORY.md"), version_of(b"- [A](a.md)\n"))
    assert (await place.edit("MEMORY.md", "[A]", "[B]")).ok


async def test_reading_survives_a_saved_session(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.state = AgentState.model_validate(json.loads(place.state.model_dump_json()))
    assert (await place.edit("a.md", "tea", "coffee")).ok


async def test_without_an_agent_nothing_needs_to_be_read(place):
    place.plant("a.md", MEMORY)
    tool = Edit(backend=place.backend)
    chunk = await tool(file_path=place.path("a.md"), old_string="tea", new_string="coffee")
    assert "Successfully replaced" in chunk.content[0].text


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("", "x", "old_string must not be empty"),
        ("tea", "tea", "identical"),
        ("Lives in Hangzhou.\r\nLikes", "Lives in Hangzhou.\nLikes", "old_string not found"),
        ("wine", "water", "old_string not found"),
        ("Likes  tea.", "x", "white space"),
        ("Likes tee.", "x", "nearest line is 6: Likes tea."),
        ("     6\tLikes tea.", "x", "line numbers"),
        ("e", "x", "Set replace_all=true"),
        ("tea", "\ud83d", "half of a character"),
    ],
)
async def test_an_edit_that_cannot_be_made_says_why(place, old, new, says):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    answer = await place.edit("a.md", old, new)
    assert not answer.ok
    assert says in answer.text
    assert await place.bytes_of("a.md") == MEMORY


async def test_many_matches_name_the_first_lines_only(place):
    place.plant("a.md", b"x\n" * 30)
    await place.read("a.md")
    assert "on lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...)" in (await place.edit("a.md", "x", "y")).text


async def test_a_missing_file_is_an_error_that_says_so(place):
    assert "File not found" in (await place.edit("none.md", "a", "b")).text


async def test_a_file_removed_since_it_was_read_is_not_made_again(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    await place.backend.delete_path(place.path("a.md"))
    assert "File not found" in (await place.edit("a.md", "tea", "coffee")).text
    assert await place.bytes_of("a.md") is None


async def test_a_relative_path_is_refused(place):
    chunk = await Edit(backend=place.backend)(file_path="a.md", old_string="a", new_string="b")
    assert "absolute path" in chunk.content[0].text


async def test_an_unreachable_file_is_never_called_missing(memory_place):
    memory_place.plant("a.md", MEMORY)
    await memory_place.read("a.md")
    with memory_place.backend.unreachable():
        answer = await memory_place.edit("a.md", "tea", "coffee")
    assert not answer.ok
    assert "not found" not in answer.text
    assert await memory_place.bytes_of("a.md") == MEMORY


async def test_a_binary_file_is_not_edited(place):
    place.plant("a.bin", b"\0GITCRYPT\0tea")
    note_read(place.state, place.path("a.bin"), version_of(b"\0GITCRYPT\0tea"))
    assert "cannot be edited" in (await place.edit("a.bin", "tea", "coffee")).text


async def test_an_edit_must_not_leave_a_stub(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    answer = await place.edit("a.md", "Lives in Hangzhou.\nLikes tea.", "Likes coffee.\n[rest of file unchanged]")
    assert not answer.ok
    assert "[rest of file unchanged]" in answer.text
    assert await place.bytes_of("a.md") == MEMORY


async def test_an_edit_must_not_blank_the_frontmatter(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    answer = await place.edit("a.md", "---\nname: User\ndescription: Who the user is\n---\n", "")
    assert not answer.ok
    assert "name and description" in answer.text
    assert await place.bytes_of("a.md") == MEMORY


async def test_an_edit_may_change_the_frontmatter(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    assert (await place.edit("a.md", "Who the user is", "Where the user lives")).ok


async def test_an_edit_costs_two_round_trips(memory_place):
    memory_place.plant("a.md", MEMORY)
    note_read(memory_place.state, "/m/a.md", version_of(MEMORY))
    await memory_place.edit("a.md", "tea", "coffee")
    assert memory_place.backend.round_trips == 2


async def test_the_new_version_is_noted(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    await place.edit("a.md", "tea", "coffee")
    assert known_version(place.state, place.path("a.md")) == version_of(MEMORY.replace(b"tea", b"coffee"))
