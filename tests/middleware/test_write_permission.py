"""Who may write to the memory with file tools, in AgentScope's real permission flow, however the path is spelled."""

import os
from pathlib import Path

import agentscope.tool
import pytest
from agentscope.agent import Agent
from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.message import UserMsg
from agentscope.permission import PermissionBehavior, PermissionMode, PermissionRule
from agentscope.tool import Toolkit
from scripted import ScriptedModel, call_tool

from agentic_memory.tools import Edit, Read, Write

NEW = "---\nname: Cat\ndescription: When pets come up\ntype: user\n---\nThe user has a cat.\n"
OURS = (Read, Write, Edit)
UPSTREAM = (agentscope.tool.Read, agentscope.tool.Write, agentscope.tool.Edit)


@pytest.fixture(params=[OURS, UPSTREAM], ids=["ours", "agentscope"])
def tools(request):
    return request.param


@pytest.fixture
def make(make_memory, tools):
    def make(*steps, mode=PermissionMode.DEFAULT, **parameters) -> Agent:
        model = ScriptedModel([*steps, "Well."], default_selection=[])
        toolkit = Toolkit(tools=[tool() for tool in tools])
        agent = Agent("assistant", "You help.", model, toolkit=toolkit, middlewares=[make_memory(**parameters)])
        agent.state.permission_context.mode = mode
        return agent

    return make


async def run(agent: Agent, message: object = None) -> list[RequireUserConfirmEvent]:
    """Let the agent reply, and return the questions it asked."""
    events = [event async for event in agent.reply_stream(message or UserMsg("user", "I have a cat"))]
    return [event for event in events if isinstance(event, RequireUserConfirmEvent)]


async def answer(agent: Agent, question: RequireUserConfirmEvent, *, confirmed: bool) -> list[RequireUserConfirmEvent]:
    results = [ConfirmResult(confirmed=confirmed, tool_call=call) for call in question.tool_calls]
    return await run(agent, UserConfirmResultEvent(reply_id=question.reply_id, confirm_results=results))


def write(path: Path | str, content: str = NEW):
    return call_tool("Write", file_path=str(path), content=content)


SPELLINGS = {
    "plain": "{root}/Memory/cat.md",
    "dots": "{root}/x/../Memory/./cat.md",
    "slashes": "{root}//Memory//cat.md",
    "link to the directory": "{root}/alias/cat.md",
    "link above it": "{root}/up/Memory/cat.md",
    "folder": "{root}/Memory/pets/cat.md",
}


@pytest.fixture
def spelled(workdir):
    (workdir / "x").mkdir()
    (workdir / "alias").symlink_to(workdir / "Memory")
    (workdir / "up").symlink_to(workdir)
    return {name: form.format(root=workdir) for name, form in SPELLINGS.items()}


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_ask_cannot_be_skipped_by_bypass_mode(make, spelled, spelling):
    path = Path(spelled[spelling])
    agent = make(write(path), mode=PermissionMode.BYPASS, write_permission="ask")
    (question,) = await run(agent)
    assert not path.exists()
    assert await answer(agent, question, confirmed=True) == []
    assert path.read_text() == NEW


async def test_ask_is_obeyed_when_the_answer_is_no(make, workdir):
    agent = make(write(workdir / "Memory" / "cat.md"), mode=PermissionMode.BYPASS, write_permission="ask")
    (question,) = await run(agent)
    await answer(agent, question, confirmed=False)
    assert not (workdir / "Memory" / "cat.md").exists()


async def test_no_allow_rule_answers_the_question(make, workdir):
    agent = make(write(workdir / "Memory" / "cat.md"), write_permission="ask")
    rule = PermissionRule(tool_name="Write", rule_content=None, behavior=PermissionBehavior.ALLOW, source="test")
    agent.state.permission_context.allow_rules["Write"] = [rule]
    assert len(await run(agent)) == 1


async def test_ask_where_nobody_is_there_is_no(make, workdir):
    agent = make(write(workdir / "Memory" / "cat.md"), mode=PermissionMode.DONT_ASK, write_permission="ask")
    assert await run(agent) == []
    assert not (workdir / "Memory" / "cat.md").exists()


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_allow_lets_memory_be_written_however_it_is_spelled(make, spelled, spelling):
    agent = make(write(spelled[spelling]), write_permission="allow")
    assert await run(agent) == []
    assert Path(spelled[spelling]).read_text() == NEW


async def test_allow_needs_nobody_to_be_there(make, workdir):
    agent = make(write(workdir / "Memory" / "cat.md"), mode=PermissionMode.DONT_ASK, write_permission="allow")
    assert await run(agent) == []
    assert (workdir / "Memory" / "cat.md").exists()


@pytest.mark.parametrize(
    "outside",
    [
        "{root}/cat.md",
        "{root}/Memory/../cat.md",
        "{root}/Memory2/cat.md",
        "{root}/MEMORY/cat.md",
        "{root}/Memory/out/cat.md",
        "{root}/Memory/cat.py",
        "{root}/Memory/link.md",
    ],
)
async def test_allow_covers_nothing_but_memory_files(make, workdir, outside):
    (workdir / "Memory2").mkdir()
    (workdir / "Memory" / "out").symlink_to(workdir / "Memory2")
    (workdir / "Memory" / "link.md").symlink_to(workdir / "cat.md")
    agent = make(write(outside.format(root=workdir)), write_permission="allow")
    assert len(await run(agent)) == 1


async def test_a_disk_that_ignores_case_is_asked_by_identity(make, workdir):
    # Two names of one directory, as such a disk has them; a link is the nearest that every disk has.
    (workdir / "MEMORY").symlink_to("Memory")
    agent = make(write(workdir / "MEMORY" / "cat.md"), write_permission="allow")
    assert await run(agent) == []
    assert (workdir / "Memory" / "cat.md").exists()


async def test_a_name_that_differs_in_case_is_asked_about_as_well(make, workdir):
    (workdir / "memory").mkdir()
    agent = make(write(workdir / "memory" / "cat.md"), mode=PermissionMode.BYPASS, write_permission="ask")
    assert len(await run(agent)) == 1


async def test_allow_does_not_overrule_a_persons_deny_rule(make, workdir):
    agent = make(write(workdir / "Memory" / "cat.md"), write_permission="allow")
    rule = PermissionRule(tool_name="Write", rule_content="*/Memory/*", behavior=PermissionBehavior.DENY, source="test")
    agent.state.permission_context.deny_rules["Write"] = [rule]
    assert await run(agent) == []
    assert not (workdir / "Memory" / "cat.md").exists()


async def test_allow_writes_nothing_in_explore_mode(make, workdir):
    agent = make(write(workdir / "Memory" / "cat.md"), mode=PermissionMode.EXPLORE, write_permission="allow")
    await run(agent)
    assert not (workdir / "Memory" / "cat.md").exists()


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_deny_refuses_and_says_what_to_do(make, spelled, spelling):
    agent = make(write(spelled[spelling]), mode=PermissionMode.BYPASS, write_permission="deny")
    assert await run(agent) == []
    assert not Path(spelled[spelling]).exists()
    assert "switched off" in agent.model.calls[1].wire


async def test_reading_is_never_asked_about(make, workdir):
    read = call_tool("Read", file_path=str(workdir / "Memory" / "deploy.md"))
    agent = make(read, write_permission="deny")
    assert await run(agent) == []
    assert "Never deploy" in agent.model.calls[1].wire


async def test_a_relative_path_and_a_home_directory_are_understood(make, workdir, monkeypatch):
    monkeypatch.setenv("HOME", str(workdir))
    monkeypatch.chdir(workdir)
    for path in ("Memory/cat.md", "~/Memory/cat.md"):
        agent = make(write(path), mode=PermissionMode.BYPASS, write_permission="ask")
        assert len(await run(agent)) == 1


@pytest.mark.parametrize("permission", ["inherit", "ask", "allow", "deny"])
async def test_history_and_trash_are_written_by_no_tool(make, workdir, permission):
    for name in (".history/log.md", ".trash/x/cat.md"):
        agent = make(write(workdir / "Memory" / name), mode=PermissionMode.BYPASS, write_permission=permission)
        assert await run(agent) == []
        assert not (workdir / "Memory" / name).exists()
        assert "kept by the memory itself" in agent.model.calls[1].wire


async def test_inherit_leaves_everything_to_agentscope(make, workdir):
    for mode, questions in ((PermissionMode.DEFAULT, 1), (PermissionMode.BYPASS, 0)):
        assert len(await run(make(write(workdir / "Memory" / "cat.md"), mode=mode))) == questions


async def test_guards_hold_for_agentscopes_own_tools_too(make, workdir):
    path = workdir / "Memory" / "log.md"
    text = "---\nname: Log\ndescription: What was\n---\n" + "".join(f"{n}: it went well.\n" for n in range(99))
    path.write_text(text)
    agent = make(call_tool("Read", file_path=str(path)), write(path, text[:80]), mode=PermissionMode.BYPASS)
    await run(agent)
    assert path.read_text() == text
    assert "of the text" in agent.model.calls[2].wire


@pytest.mark.parametrize("confirmed", [True, False])
async def test_a_person_may_let_a_large_deletion_pass(make, workdir, confirmed):
    path = workdir / "Memory" / "log.md"
    text = "---\nname: Log\ndescription: What was\n---\n" + "".join(f"{n}: it went well.\n" for n in range(99))
    path.write_text(text)
    steps = (call_tool("Read", file_path=str(path)), write(path, text[:80]))
    agent = make(*steps, mode=PermissionMode.BYPASS, losses="ask")
    (question,) = await run(agent)
    assert path.read_text() == text
    await answer(agent, question, confirmed=confirmed)
    assert (path.read_text() == text[:80]) is confirmed


async def test_a_large_deletion_is_refused_where_nobody_can_be_asked(make, workdir):
    path = workdir / "Memory" / "MEMORY.md"
    text = "".join(f"- [{n}]({n}.md)\n" for n in range(28))
    path.write_text(text)
    steps = (call_tool("Read", file_path=str(path)), write(path, text[:60]))
    agent = make(*steps, mode=PermissionMode.DONT_ASK, losses="ask", write_permission="allow")
    assert await run(agent) == []
    assert path.read_text() == text


async def test_an_edit_of_agentscopes_that_takes_out_what_it_names_passes(make, workdir):
    path = workdir / "Memory" / "log.md"
    head = "---\nname: Log\ndescription: What was\n---\n"
    body = "".join(f"{n}: it went well.\n" for n in range(99))
    path.write_text(head + body)
    edit = call_tool("Edit", file_path=str(path), old_string=body[20:], new_string="")
    agent = make(call_tool("Read", file_path=str(path)), edit, mode=PermissionMode.BYPASS)
    await run(agent)
    assert path.read_text() == head + body[:20]


def test_the_shell_follows_links_as_the_local_disk_does(workdir, tmp_path):
    import subprocess

    from agentic_memory.permissions import _FOLLOW

    (workdir / "alias").symlink_to(workdir / "Memory")
    (workdir / "dangling").symlink_to(workdir / "nothing.md")
    paths = [
        str(workdir / name) for name in ("Memory/a b.md", "alias/new/deep/x.md", "dangling", "Memory/deploy.md", "-x")
    ]
    done = subprocess.run(["sh", "-c", _FOLLOW, "sh", *paths], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [os.path.realpath(path) for path in paths]
