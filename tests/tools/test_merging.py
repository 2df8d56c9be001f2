"""A tool's write that meets a newer file: what both changed stays, and what they changed alike is shown."""

import asyncio

import agentscope.tool
import pytest
from agentscope.agent import Agent
from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.message import UserMsg
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from scripted import ScriptedModel, call_tool

from agentic_memory.backends import InMemoryBackend, version_of
from agentic_memory.bases import forget_base
from agentic_memory.errors import BackendUnavailable
from agentic_memory.tools import Edit, Read, Write
from agentic_memory.tools.merging import MAX_DIFF_LINES
from agentic_memory.tools.reads import note_read

MEMORY = b"---\nname: User\ndescription: Who the user is\n---\n\nLives in Hangzhou.\nLikes tea.\n"


def with_change(data: bytes, old: str, new: str) -> str:
    return data.decode().replace(old, new)


async def test_a_write_keeps_what_others_changed_elsewhere(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY.replace(b"Hangzhou", b"Suzhou"))
    answer = await place.write("a.md", with_change(MEMORY, "tea", "coffee"))
    assert answer.ok
    assert "merged with the newer text" in answer.text
    assert "+Lives in Suzhou." in answer.text
    assert "-Lives in Suzhou." not in answer.metadata["diff"]
    assert await place.bytes_of("a.md") == MEMORY.replace(b"Hangzhou", b"Suzhou").replace(b"tea", b"coffee")


async def test_lines_appended_by_two_sessions_both_stay(place):
    place.plant("a.md", MEMORY)
    other = place.state.model_copy(deep=True)
    for state in (place.state, other):
        await Read(backend=place.backend)(file_path=place.path("a.md"), _agent_state=state)
    for state, line in ((other, "Has a dog."), (place.state, "Has a cat.")):
        tool = Write(backend=place.backend)
        await tool(file_path=place.path("a.md"), content=f"{MEMORY.decode()}{line}\n", _agent_state=state)
    assert await place.bytes_of("a.md") == MEMORY + b"Has a dog.\nHas a cat.\n"


async def test_lines_appended_at_the_same_moment_all_stay(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    tool = Write(backend=place.backend)
    lines = [f"Fact {number}." for number in range(4)]
    await asyncio.gather(
        *(
            tool(
                file_path=place.path("a.md"),
                content=f"{MEMORY.decode()}{line}\n",
                _agent_state=place.state.model_copy(deep=True),
            )
            for line in lines
        )
    )
    written = (await place.bytes_of("a.md")).decode()
    assert written.startswith(MEMORY.decode())
    assert sorted(written.splitlines()[7:]) == lines


async def test_what_another_tool_appended_stays_when_the_rest_is_replaced(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    appended = b"a line of output\n" * 460
    place.plant("a.md", MEMORY + appended)
    answer = await place.write("a.md", with_change(MEMORY, "Hangzhou.\nLikes tea", "Beijing.\nLikes milk"))
    assert answer.ok
    assert await place.bytes_of("a.md") == (MEMORY.replace(b"Hangzhou", b"Beijing").replace(b"tea", b"milk") + appended)
    assert len(answer.text.splitlines()) < MAX_DIFF_LINES + 4


async def test_the_same_line_is_refused_with_both_wordings(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    theirs = MEMORY.replace(b"Hangzhou", b"Suzhou")
    place.plant("a.md", theirs)
    answer = await place.write("a.md", with_change(MEMORY, "Hangzhou", "Beijing"))
    assert not answer.ok
    assert "@@ line 6 @@\n-Lives in Suzhou.\n+Lives in Beijing." in answer.text
    assert "Read it again" in answer.text
    assert await place.bytes_of("a.md") == theirs


async def test_one_field_is_refused_and_another_is_merged(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY.replace(b"name: User", b"name: Ann"))
    assert not (await place.write("a.md", with_change(MEMORY, "name: User", "name: Bob"))).ok
    assert (await place.write("a.md", with_change(MEMORY, "Who the user is", "Ann in short"))).ok
    assert await place.bytes_of("a.md") == MEMORY.replace(b"name: User", b"name: Ann").replace(
        b"Who the user is", b"Ann in short"
    )


async def test_an_agent_that_ignores_the_merge_does_not_undo_it(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    mine = with_change(MEMORY, "tea", "coffee")
    assert (await place.write("a.md", mine)).ok
    assert (await place.write("a.md", mine.replace("coffee", "milk"))).ok
    assert await place.bytes_of("a.md") == MEMORY.replace(b"tea", b"milk") + b"Has a dog.\n"


async def test_an_agent_that_reads_again_may_take_out_what_others_wrote(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    await place.write("a.md", with_change(MEMORY, "tea", "coffee"))
    await place.read("a.md")
    answer = await place.write("a.md", MEMORY.decode())
    assert answer.ok
    assert "merged" not in answer.text
    assert await place.bytes_of("a.md") == MEMORY


async def test_an_index_entry_added_by_hand_stays(place):
    index = b"# Notes\n- [A](a.md) \xe2\x80\x94 first\n- [B](b.md)\n"
    place.plant("MEMORY.md", index)
    await place.read("MEMORY.md")
    place.plant("MEMORY.md", b"# Notes\n- [B](b.md)\n- [Hand](hand.md)\n- [A](a.md) \xe2\x80\x94 first\n")
    answer = await place.write("MEMORY.md", index.decode() + "- [C](c.md)\n")
    assert answer.ok
    assert (await place.bytes_of("MEMORY.md")).decode() == (
        "# Notes\n- [B](b.md)\n- [Hand](hand.md)\n- [C](c.md)\n- [A](a.md) — first\n"
    )


@pytest.mark.parametrize(
    ("encode", "change"),
    [
        (lambda text: text.encode("gb18030"), ("住在杭州", "住在北京")),
        (lambda text: text.replace("\n", "\r\n").encode(), ("住在杭州", "住在北京")),
        (lambda text: ("\ufeff" + text).encode(), ("住在杭州", "住在北京")),
    ],
    ids=["gbk", "crlf", "bom"],
)
async def test_a_merged_file_stays_written_as_it_is(place, encode, change):
    text = "姓名：张三\n住在杭州\n喜欢喝茶\n"
    place.plant("a.txt", encode(text))
    await place.read("a.txt")
    place.plant("a.txt", encode(text.replace("喝茶", "喝咖啡")))
    assert (await place.write("a.txt", text.replace(*change))).ok
    assert await place.bytes_of("a.txt") == encode(text.replace("喝茶", "喝咖啡").replace(*change))


async def test_a_stub_is_refused_before_it_can_be_merged(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    answer = await place.write("a.md", with_change(MEMORY, "Likes tea.", "[rest of file unchanged]"))
    assert "stands for text that was left out" in answer.text
    assert await place.bytes_of("a.md") == MEMORY + b"Has a dog.\n"


async def test_writing_back_what_was_read_changes_nothing_of_a_newer_file(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    assert (await place.write("a.md", MEMORY.decode())).ok
    assert await place.bytes_of("a.md") == MEMORY + b"Has a dog.\n"


async def test_an_edit_whose_context_changed_is_made_in_the_text_it_was_meant_for(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY.replace(b"Hangzhou.", b"Suzhou."))
    answer = await place.edit("a.md", "Lives in Hangzhou.\nLikes tea.", "Lives in Hangzhou.\nLikes coffee.")
    assert answer.ok
    assert "had changed since you read it" in answer.text
    assert await place.bytes_of("a.md") == MEMORY.replace(b"Hangzhou", b"Suzhou").replace(b"tea", b"coffee")


async def test_an_edit_of_a_line_that_changed_is_refused_with_both_wordings(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    theirs = MEMORY.replace(b"Likes tea", b"Likes green tea")
    place.plant("a.md", theirs)
    answer = await place.edit("a.md", "Likes tea", "Likes coffee")
    assert "-Likes green tea.\n+Likes coffee." in answer.text
    assert await place.bytes_of("a.md") == theirs


async def test_edits_go_on_after_a_merge(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    for old, new in (("tea", "coffee"), ("coffee", "milk"), ("Hangzhou", "Beijing")):
        assert (await place.edit("a.md", old, new)).ok
    assert (await place.write("a.md", with_change(MEMORY, "tea", "milk"))).ok
    assert await place.bytes_of("a.md") == MEMORY.replace(b"tea", b"milk") + b"Has a dog.\n"


async def test_a_base_survives_in_a_saved_session_as_long_as_the_process_keeps_it(place):
    place.plant("a.md", MEMORY)
    await place.read("a.md")
    place.state = AgentState.model_validate_json(place.state.model_dump_json())
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    assert (await place.write("a.md", with_change(MEMORY, "tea", "coffee"))).ok


async def test_what_agentscopes_read_showed_is_a_base_too(place):
    place.plant("a.md", MEMORY)
    await agentscope.tool.Read(backend=place.backend)(file_path=place.path("a.md"), _agent_state=place.state)
    place.plant("a.md", MEMORY + b"Has a dog.\n")
    assert (await place.write("a.md", with_change(MEMORY, "tea", "coffee"))).ok
    assert await place.bytes_of("a.md") == MEMORY.replace(b"tea", b"coffee") + b"Has a dog.\n"


@pytest.mark.parametrize("tool_class", [Write, Edit])
async def test_a_base_may_come_from_elsewhere(memory_place, tool_class):
    memory_place.plant("a.md", MEMORY.replace(b"Hangzhou", b"Suzhou"))
    old = MEMORY + b"An old line.\n"
    note_read(memory_place.state, "/m/a.md", version_of(old))
    forget_base(version_of(old))
    asked: list[str] = []

    async def history(version: str) -> bytes | None:
        asked.append(version)
        return old

    tool = tool_class(backend=memory_place.backend)
    tool.bases = history
    arguments = (
        {"content": with_change(old, "An old", "A new")}
        if tool_class is Write
        else {"old_string": "An old line.", "new_string": "A new line."}
    )
    chunk = await tool(file_path="/m/a.md", **arguments, _agent_state=memory_place.state)
    assert asked == [version_of(old)]
    # They took the line out that the agent worded anew.
    assert "+A new line." in chunk.content[0].text


@pytest.mark.parametrize("answer", [None, b"other bytes", BackendUnavailable("gone")])
async def test_a_place_for_bases_that_fails_or_lies_means_refused(memory_place, answer):
    memory_place.plant("a.md", MEMORY)
    note_read(memory_place.state, "/m/a.md", "0" * 64)

    async def history(version: str) -> bytes | None:
        if isinstance(answer, Exception):
            raise answer
        return answer

    tool = Write(backend=memory_place.backend)
    tool.bases = history
    chunk = await tool(file_path="/m/a.md", content=f"{MEMORY.decode()}x\n", _agent_state=memory_place.state)
    assert "changed since you read it, so nothing was written" in chunk.content[0].text


@pytest.mark.parametrize(
    ("call", "by_hand", "expected"),
    [
        (
            ("Write", {"content": with_change(MEMORY, "tea", "coffee")}),
            MEMORY.replace(b"Hangzhou", b"Suzhou"),
            MEMORY.replace(b"Hangzhou", b"Suzhou").replace(b"tea", b"coffee"),
        ),
        (
            ("Edit", {"old_string": "Likes tea.", "new_string": "Likes coffee."}),
            MEMORY + b"By hand.\n",
            MEMORY.replace(b"tea", b"coffee") + b"By hand.\n",
        ),
        (
            ("Edit", {"old_string": "Likes tea.", "new_string": "Likes coffee."}),
            MEMORY.replace(b"tea", b"water"),
            MEMORY.replace(b"tea", b"water"),
        ),
    ],
    ids=["write", "edit", "edit of the same line"],
)
async def test_what_a_person_saved_before_the_approval_stays(call, by_hand, expected):
    backend = InMemoryBackend()
    backend.make_directory("/m")
    backend.plant("/m/a.md", MEMORY)
    name, arguments = call
    model = ScriptedModel([call_tool(name, file_path="/m/a.md", **arguments), "Done."])
    tools = Toolkit(tools=[Write(backend=backend), Edit(backend=backend)])
    agent = Agent(name="assistant", system_prompt="You help.", model=model, toolkit=tools)
    await Read(backend=backend)(file_path="/m/a.md", _agent_state=agent.state)
    events = [event async for event in agent.reply_stream(UserMsg("user", "Note it."))]
    (asked,) = [event for event in events if isinstance(event, RequireUserConfirmEvent)]
    backend.plant("/m/a.md", by_hand)
    confirm = [ConfirmResult(confirmed=True, tool_call=one) for one in asked.tool_calls]
    await agent.reply(UserConfirmResultEvent(reply_id=agent.state.reply_id, confirm_results=confirm))
    assert await backend.read_file("/m/a.md") == expected
