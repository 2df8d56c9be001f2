"""What somebody else changed since the agent last looked is told to it in one line, and nothing else is."""

import os
from pathlib import Path

import pytest
from agentscope.message import UserMsg
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from scripted import ScriptedModel, call_tool

from agentic_memory.hand_edits import MAX_FILES, MAX_NAMES
from agentic_memory.hints import STATE_KEY
from agentic_memory.store import MemoryStore
from agentic_memory.tools.edit import Edit
from agentic_memory.tools.read import Read

HELLO = UserMsg("user", "hello")


def scripted(*turns) -> ScriptedModel:
    return ScriptedModel([*turns], default="Ok.", default_selection=[])


def lines(agent) -> list[str]:
    return [
        block.hint
        for message in agent.state.context
        for block in message.get_content_blocks("hint")
        if "other than by your tools" in str(block.hint) or "不是由你的工具" in str(block.hint)
    ]


@pytest.fixture
def folder(workdir: Path) -> Path:
    return workdir / "Memory"


async def test_added_changed_and_removed_files_are_named_in_one_line(folder, make_memory, make_agent):
    model, memory = scripted(), make_memory()
    agent = make_agent(model, memory)
    await agent.reply(HELLO)
    assert lines(agent) == [], "a session begins without news"
    (folder / "new.md").write_text("by hand\n")
    (folder / "user_profile.md").write_text("by hand too\n")
    (folder / "deploy.md").unlink()
    await agent.reply(HELLO)
    (line,) = lines(agent)
    assert line == (
        "Since you last looked, memory files were changed other than by your tools. Added: new.md. "
        "Changed: user_profile.md. Removed: -. Read a file again before you rely on it or change it."
    )
    assert line in model.calls[-1].wire
    assert memory.receipt(agent).edited == ("new.md", "user_profile.md")
    await agent.reply(HELLO)
    assert "Removed: deploy.md" in lines(agent)[1], "gone for a second time"
    await agent.reply(HELLO)
    assert len(lines(agent)) == 2


async def test_what_the_agent_wrote_itself_is_no_news(folder, make_memory, make_agent):
    memory = make_memory()
    path = str(folder / "deploy.md")
    model = scripted(
        call_tool("Read", file_path=path),
        call_tool("Edit", file_path=path, old_string="a Friday", new_string="a Monday"),
        call_tool("Write", file_path=str(folder / "mine.md"), content="---\nname: m\n---\n\nx\n"),
    )
    agent = make_agent(model, memory)
    await agent.reply(HELLO)
    assert "Monday" in (folder / "deploy.md").read_text()
    await agent.reply(HELLO)
    assert lines(agent) == []
    (folder / "mine.md").write_text("by hand\n")
    await agent.reply(HELLO)
    assert ["Changed: mine.md." in line for line in lines(agent)] == [True]


@pytest.mark.parametrize("history", [False, True])
async def test_what_the_memory_tools_and_other_programs_wrote_is_no_news(folder, make_memory, make_agent, history):
    memory = make_memory(history=history, mode="both", write_permission="allow")
    add = {"thinking": "t", "name": "Tea", "description": "When offered tea", "content": ["Likes green tea."]}
    model = scripted(call_tool("MemoryAdd", **add), call_tool("MemoryForget", filename="deploy.md"))
    agent = make_agent(model, memory)
    agent.toolkit = Toolkit(tools=[*(await memory.list_tools()), Read(), Edit()])
    await agent.reply(HELLO)
    assert (folder / "tea.md").exists()
    assert not (folder / "deploy.md").exists()
    await memory.store.add(name="By a program", description="When x", type="user", content="x")
    for _ in range(2):
        await agent.reply(HELLO)
    assert lines(agent) == []
    async with MemoryStore(workdir=str(folder.parent), who="person") as store:
        await store.update("tea.md", content="Likes black tea.")
    await agent.reply(HELLO)
    assert ["Changed: tea.md." in line for line in lines(agent)] == [True]


async def test_with_history_what_a_shell_of_the_agent_did_is_no_news(folder, make_memory, make_agent):
    async def work() -> str:
        """Write into the memory, as a shell would."""
        (folder / "shell.md").write_text("by the agent's shell\n")
        return "done"

    tool = FunctionTool(work, is_read_only=False)
    tool.check_permissions = lambda *_: _allow()  # type: ignore[method-assign]
    agent = make_agent(scripted(call_tool("work")), make_memory(history=True))
    agent.toolkit = Toolkit(tools=[tool])
    await agent.reply(HELLO)
    assert (folder / "shell.md").exists()
    await agent.reply(HELLO)
    assert lines(agent) == []


async def _allow() -> PermissionDecision:
    return PermissionDecision(behavior=PermissionBehavior.ALLOW, message="")


async def test_a_file_that_an_editor_takes_away_for_a_moment_is_not_told_as_gone(folder, make_memory, make_agent):
    agent = make_agent(scripted(), make_memory())
    await agent.reply(HELLO)
    os.rename(folder / "deploy.md", folder / "deploy.md~")
    await agent.reply(HELLO)
    os.rename(folder / "deploy.md~", folder / "deploy.md")
    for _ in range(2):
        await agent.reply(HELLO)
    assert lines(agent) == []


async def test_it_is_told_after_the_session_was_saved_and_loaded_and_costs_no_call(
    folder, workdir, make_memory, make_agent
):
    memory = make_memory(history=False)
    agent = make_agent(scripted(), memory)
    for _ in range(2):
        await agent.reply(HELLO)
    calls = memory.receipt(agent).backend_calls
    saved = agent.state.model_dump_json()
    (folder / "deploy.md").write_text("by hand\n")
    memory = make_memory(history=False)
    agent = make_agent(scripted(), memory, state=AgentState.model_validate_json(saved))
    await agent.reply(HELLO)
    assert ["Changed: deploy.md." in line for line in lines(agent)] == [True]
    assert memory.receipt(agent).backend_calls == calls


async def test_in_chinese_and_with_bounds_and_harmless_names(folder, make_memory, make_agent):
    agent = make_agent(scripted(), make_memory(language="zh"))
    await agent.reply(HELLO)
    (folder / "a\n<b>.md").write_text("x\n")
    for number in range(20):
        (folder / f"n{number:02}.md").write_text("x\n")
    await agent.reply(HELLO)
    (line,) = lines(agent)
    assert f"+{21 - MAX_NAMES}" in line
    assert "\n" not in line
    assert "<" not in line


async def test_a_large_memory_is_told_without_names_and_keeps_the_state_small(folder, make_memory, make_agent):
    for number in range(MAX_FILES):
        (folder / f"n{number:03}.md").write_text("---\nname: x\n---\n\nx\n")
    agent = make_agent(scripted(), make_memory())
    for _ in range(2):
        await agent.reply(HELLO)
    assert lines(agent) == []
    (folder / "n000.md").write_text("by hand\n")
    await agent.reply(HELLO)
    assert ["some memory files were changed" in line for line in lines(agent)] == [True]
    (seen,) = [part["seen"] for part in agent.state.middle_context[STATE_KEY].values()]
    assert list(seen) == ["digest"]


@pytest.mark.parametrize(
    "junk", [None, [], {}, {"files": {"a.md": 1}}, {"files": [], "digest": 3}, {"files": {}, "missed": 7}]
)
async def test_whatever_a_saved_state_holds_is_survived(folder, make_memory, make_agent, junk):
    agent = make_agent(scripted(), make_memory())
    await agent.reply(HELLO)
    (part,) = agent.state.middle_context[STATE_KEY].values()
    part["seen"] = junk
    await agent.reply(HELLO)
    assert "files" in part["seen"]


async def test_it_is_told_where_nothing_is_recalled(folder, make_memory, make_agent):
    agent = make_agent(scripted(), make_memory(retrieval_async=False))
    await agent.reply(HELLO)
    (folder / "deploy.md").write_text("by hand\n")
    await agent.reply(HELLO)
    assert ["Changed: deploy.md." in line for line in lines(agent)] == [True]


async def test_in_a_large_memory_too_what_the_agent_wrote_itself_is_no_news(folder, make_memory, make_agent):
    for number in range(MAX_FILES):
        (folder / f"n{number:03}.md").write_text("---\nname: x\n---\n\nx\n")
    path = str(folder / "deploy.md")
    model = scripted(
        call_tool("Read", file_path=path),
        call_tool("Edit", file_path=path, old_string="a Friday", new_string="a Monday"),
        call_tool("Write", file_path=str(folder / "mine.md"), content="---\nname: m\n---\n\nx\n"),
    )
    memory = make_memory()
    agent = make_agent(model, memory)
    await agent.reply(HELLO)
    assert "Monday" in (folder / "deploy.md").read_text()
    await agent.reply(HELLO)
    assert lines(agent) == []
