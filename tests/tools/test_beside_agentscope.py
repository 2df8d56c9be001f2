"""The tools are AgentScope's by name, schema and permission, and work beside AgentScope's own."""

import inspect
import json
import os
from pathlib import Path

import agentscope.tool
import pytest
from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.permission import AdditionalWorkingDirectory, PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from scripted import ScriptedModel, call_tool

import agentic_memory.tools
from agentic_memory.backends import ABSENT, InMemoryBackend, version_of
from agentic_memory.backends.local import LocalBackend
from agentic_memory.tools import Edit, Read, Write
from agentic_memory.tools.reads import note_read

PAIRS = [(Read, agentscope.tool.Read), (Write, agentscope.tool.Write), (Edit, agentscope.tool.Edit)]
INHERITED = ["check_permissions", "match_rule", "generate_suggestions", "__call__"]


def text_of(chunk) -> str:
    return "".join(block.text for block in chunk.content)


def test_the_package_offers_the_tools():
    assert {"Edit", "Read", "Write"} <= set(agentic_memory.tools.__all__)
    assert agentic_memory.tools.__all__ == sorted(agentic_memory.tools.__all__)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_a_model_is_offered_the_same_tool(ours, theirs):
    mine, original = ours(backend=InMemoryBackend()), theirs()
    assert isinstance(mine, theirs)
    for name in ("name", "description", "input_schema", "is_read_only", "is_concurrency_safe", "is_state_injected"):
        assert getattr(mine, name) == getattr(original, name)


def without_descriptions(schema: object) -> object:
    if isinstance(schema, dict):
        return {
            key: without_descriptions(value)
            for key, value in schema.items()
            if not isinstance(value, str) or key != "description"
        }
    return [without_descriptions(value) for value in schema] if isinstance(schema, list) else schema


def test_the_schemas_are_the_ones_that_users_rely_on():
    """A change in AgentScope shows here; accept one by editing the file, and say so in the changelog."""
    golden = json.loads((Path(__file__).parent / "schemas.json").read_text(encoding="utf-8"))
    tools = [tool(backend=InMemoryBackend()) for tool in (Read, Write, Edit)]
    assert {tool.name: without_descriptions(tool.input_schema) for tool in tools} == golden


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_constructor_and_call_take_the_same_arguments(ours, theirs):
    for method in ("__init__", "call"):
        mine = inspect.signature(getattr(ours, method)).parameters.values()
        original = inspect.signature(getattr(theirs, method)).parameters.values()
        assert [(p.name, p.default, p.kind) for p in mine] == [(p.name, p.default, p.kind) for p in original]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize("method", INHERITED)
def test_permissions_are_decided_as_by_agentscope(ours, theirs, method):
    assert getattr(ours, method) is getattr(theirs, method)


async def test_a_dangerous_file_still_needs_a_person():
    decision = await Write(backend=InMemoryBackend()).check_permissions(
        {"file_path": "/home/u/.ssh/config"}, PermissionContext(mode=PermissionMode.BYPASS)
    )
    assert decision.bypass_immune


@pytest.mark.parametrize(("ours", "_theirs"), PAIRS)
def test_a_tool_without_a_backend_works_on_the_local_disk(ours, _theirs):
    assert isinstance(ours()._backend, LocalBackend)


async def test_agentscopes_local_backend_is_accepted(tmp_path):
    chunk = await Write(backend=agentscope.tool.LocalBackend())(file_path=str(tmp_path / "a.md"), content="x\n")
    assert "written successfully" in text_of(chunk)
    assert (tmp_path / "a.md").read_bytes() == b"x\n"


# ------------------------------------------------------------------ one agent, tools of both


@pytest.fixture
def path(place) -> str:
    place.plant("a.md", b"one\r\ntwo\r\n")
    return place.path("a.md")


async def test_what_agentscopes_read_showed_our_edit_may_change(place, path):
    await agentscope.tool.Read(backend=place.backend)(file_path=path, _agent_state=place.state)
    assert (await place.edit("a.md", "one\ntwo", "one\n2")).ok
    assert await place.bytes_of("a.md") == b"one\r\n2\r\n"


async def test_what_agentscopes_read_showed_our_write_may_replace(place, path):
    await agentscope.tool.Read(backend=place.backend)(file_path=path, _agent_state=place.state)
    assert (await place.write("a.md", "new\n")).ok


async def test_what_agentscopes_read_showed_and_somebody_changed_counts_as_changed(place, path):
    await agentscope.tool.Read(backend=place.backend)(file_path=path, _agent_state=place.state)
    place.plant("a.md", b"one!\r\ntwo\r\nthree\r\n")
    assert "changed since you read it" in (await place.write("a.md", "new\n")).text
    assert "had changed since you read it" in (await place.edit("a.md", "two", "2")).text
    assert "changed since you read it" in (await place.write("a.md", "new\n")).text
    assert await place.bytes_of("a.md") == b"one!\r\n2\r\nthree\r\n"


async def test_what_our_read_showed_agentscopes_edit_may_change(place, path):
    for _ in range(20):  # times are compared as floats, which must agree in the last bit whatever the time
        place.plant("a.md", b"one\ntwo\n")
        await place.read("a.md")
        tool = agentscope.tool.Edit(backend=place.backend)
        chunk = await tool(file_path=path, old_string="two", new_string="2", _agent_state=place.state)
        assert "Successfully replaced" in text_of(chunk)


async def test_after_our_edit_agentscopes_edit_sees_the_new_text(place, path):
    await place.read("a.md")
    await place.edit("a.md", "one", "1")
    tool = agentscope.tool.Edit(backend=place.backend)
    chunk = await tool(file_path=path, old_string="1\ntwo", new_string="done", _agent_state=place.state)
    assert "Successfully replaced" in text_of(chunk)
    assert await place.bytes_of("a.md") == b"done\n"


async def test_after_agentscopes_edit_ours_goes_on(place, path):
    await place.read("a.md")
    tool = agentscope.tool.Edit(backend=place.backend)
    await tool(file_path=path, old_string="one", new_string="1", _agent_state=place.state)
    answer = await place.edit("a.md", "two", "2")
    assert answer.ok
    assert "changed" not in answer.text
    assert await place.bytes_of("a.md") == b"1\n2\n"


async def test_agentscopes_edit_cannot_undo_a_change_that_ours_let_stand(place, path):
    await place.read("a.md")
    place.plant("a.md", b"one\r\ntwo\r\nthree\r\n")
    await place.edit("a.md", "two", "2")
    tool = agentscope.tool.Edit(backend=place.backend)
    chunk = await tool(file_path=path, old_string="one", new_string="1", _agent_state=place.state)
    assert "must first read it" in text_of(chunk)
    assert await place.bytes_of("a.md") == b"one\r\n2\r\nthree\r\n"


async def test_on_the_local_disk_agentscopes_edit_follows_our_write(tmp_path):
    state = AgentState()
    path = str(tmp_path / "a.md")
    await Write()(file_path=path, content="one\n", _agent_state=state)
    chunk = await agentscope.tool.Edit()(file_path=path, old_string="one", new_string="1", _agent_state=state)
    assert "Successfully replaced" in text_of(chunk)


async def test_a_look_that_fails_after_the_write_leaves_nothing_stale(memory_place, monkeypatch):
    memory_place.plant("a.md", b"one\n")
    await memory_place.read("a.md")
    transact = memory_place.backend.transact

    async def then_unreachable(changes, *, within=None):
        await transact(changes, within=within)
        memory_place.backend.fail_next()

    monkeypatch.setattr(memory_place.backend, "transact", then_unreachable)
    assert (await memory_place.edit("a.md", "one", "1")).ok
    assert memory_place.state.tool_context.read_file_cache == []
    assert await memory_place.bytes_of("a.md") == b"1\n"


# ------------------------------------------------------------------ through a whole agent


def make_agent(tmp_path: Path, tools: list, replies: list) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel([*replies, "Done."])
    directories = {str(tmp_path): AdditionalWorkingDirectory(path=str(tmp_path), source="test")}
    state = AgentState(
        permission_context=PermissionContext(mode=PermissionMode.BYPASS, working_directories=directories)
    )
    agent = Agent(name="assistant", system_prompt="Be brief.", model=model, toolkit=Toolkit(tools=tools), state=state)
    return agent, model


async def test_two_edits_of_one_file_in_one_turn_both_survive(tmp_path):
    file = tmp_path / "a.md"
    file.write_bytes(b"one\r\ntwo\r\n")
    edits = [
        call_tool("Edit", file_path=str(file), old_string="one", new_string="1"),
        call_tool("Edit", file_path=str(file), old_string="two", new_string="2"),
    ]
    agent, model = make_agent(tmp_path, [Read(), Edit()], [call_tool("Read", file_path=str(file)), edits])
    await agent.reply(UserMsg("user", "Go."))
    assert file.read_bytes() == b"1\r\n2\r\n"
    assert model.calls[-1].text.count("Successfully replaced 1 occurrence") == 2


async def test_a_file_saved_between_read_and_edit_keeps_both_changes(tmp_path):
    file = tmp_path / "a.md"
    file.write_bytes(b"one\ntwo\n")

    def save_by_hand_then_edit(_call):
        stat = file.stat()
        file.write_bytes(b"one\ntwo\nthree\n")
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # within the same tick of the clock
        return call_tool("Edit", file_path=str(file), old_string="two", new_string="2")

    replies = [call_tool("Read", file_path=str(file)), save_by_hand_then_edit]
    agent, model = make_agent(tmp_path, [Read(), Edit()], replies)
    await agent.reply(UserMsg("user", "Go."))
    assert file.read_bytes() == b"one\n2\nthree\n"
    assert "had changed since you read it" in model.calls[-1].text


@pytest.mark.parametrize(
    ("read", "edit"), [(agentscope.tool.Read, Edit), (Read, agentscope.tool.Edit)], ids=["their-read", "our-read"]
)
async def test_an_agent_may_have_read_and_edit_from_different_packages(tmp_path, read, edit):
    file = tmp_path / "a.md"
    file.write_bytes(b"one\ntwo\n")
    change = call_tool("Edit", file_path=str(file), old_string="two", new_string="2")
    agent, model = make_agent(tmp_path, [read(), edit()], [call_tool("Read", file_path=str(file)), change])
    await agent.reply(UserMsg("user", "Go."))
    assert file.read_bytes() == b"one\n2\n"
    assert "Successfully replaced" in model.calls[-1].text


async def test_remembering_in_a_new_file_and_the_index_costs_three_round_trips():
    index = b"- [User](user.md)\n"
    backend = InMemoryBackend({"/m/MEMORY.md": index})
    state = AgentState()
    note_read(state, "/m/MEMORY.md", version_of(index))
    await Write(backend=backend)(file_path="/m/tea.md", content="Likes tea.\n", _agent_state=state)
    await Edit(backend=backend)(
        file_path="/m/MEMORY.md", old_string="(user.md)", new_string="(user.md)\n- [Tea](tea.md)", _agent_state=state
    )
    assert backend.round_trips == 3
    assert await backend.fetch("/m/tea.md") is not ABSENT
    assert (await backend.read_file("/m/MEMORY.md")) == b"- [User](user.md)\n- [Tea](tea.md)\n"
