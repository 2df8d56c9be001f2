"""Who recalls, which tools there are, and what the prompt says of them: static_control, agent_control, both."""

from pathlib import Path

import pytest
from agentscope.agent import Agent
from agentscope.event import ConfirmResult, RequireUserConfirmEvent, UserConfirmResultEvent
from agentscope.message import UserMsg
from agentscope.permission import PermissionMode
from agentscope.tool import Toolkit
from scripted import ScriptedModel, call_tool

from agentic_memory.tokens import estimate_tokens
from agentic_memory.tools import Edit, MemoryAdd, MemorySearch, Read, Write

GOLDEN = Path(__file__).parent / "golden"
TOOLS = ["MemorySearch", "MemoryAdd", "MemoryUpdate", "MemoryForget"]


@pytest.fixture
def make(make_memory):
    async def make(model, *, tools=None, files=True, **parameters):
        memory = make_memory(**parameters)
        offered = await memory.list_tools() if tools is None else tools(memory.store)
        agent = Agent(
            name="assistant",
            system_prompt="You help.",
            model=model,
            toolkit=Toolkit(tools=[*([Read(), Write(), Edit()] if files else []), *offered]),
            middlewares=[memory],
        )
        return agent, memory

    return make


@pytest.mark.parametrize(
    ("parameters", "names"),
    [({}, []), ({"mode": "static_control"}, []), ({"mode": "agent_control"}, TOOLS), ({"mode": "both"}, TOOLS)],
)
async def test_tools_are_offered_where_the_agent_controls_memory(make_memory, parameters, names):
    assert [tool.name for tool in await make_memory(**parameters).list_tools()] == names


@pytest.mark.parametrize(("mode", "recalled"), [("static_control", True), ("agent_control", False), ("both", True)])
async def test_memory_is_shown_by_itself_unless_the_agent_is_in_control(make, mode, recalled):
    model = ScriptedModel(["Not on a Friday."], default_selection=["deploy.md"])
    agent, memory = await make(model, mode=mode)
    await agent.reply(UserMsg("user", "May I deploy the billing service on Friday?"))
    assert any("Never deploy" in hint for hint in model.calls[0].hints) is recalled
    assert "- [Deploy rules](deploy.md)" in model.calls[0].system_prompt, "the index stands in the prompt in any mode"
    assert [file.filename for file in memory.receipt(agent).loaded] == (["deploy.md"] if recalled else [])
    if not recalled:
        assert model.structured == [], "no model is asked what to show"


async def test_a_drop_in_user_sees_no_difference_without_asking_for_the_tools(make):
    prompts = []
    for mode in ("static_control", "both"):
        agent, memory = await make(ScriptedModel(default="ok", default_selection=[]), mode=mode, tools=lambda _: [])
        prompts.append(await memory.on_system_prompt(agent, ""))
    assert prompts[0] == prompts[1]
    assert "Memory tools" not in prompts[0]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_the_note_on_the_tools_is_short_and_as_in_the_golden_file(make, language):
    agent, memory = await make(ScriptedModel(), mode="both", language=language)
    with_note = await memory.on_system_prompt(agent, "")
    without = await memory.on_system_prompt(None, "")
    head, _, tail = without.partition("\n\n<memory-index")
    assert with_note.startswith(head)
    note = with_note.removeprefix(head).removesuffix(f"<memory-index{tail}").strip()
    golden = GOLDEN / f"tool_note.{language}.md"
    assert note == golden.read_text(encoding="utf-8").strip(), f"if meant, write it to {golden}"
    assert estimate_tokens(note) < 160


async def test_the_note_names_only_tools_that_the_agent_has(make):
    agent, memory = await make(ScriptedModel(), mode="both", tools=lambda store: [MemorySearch(store)])
    prompt = await memory.on_system_prompt(agent, "")
    assert "`MemorySearch`" in prompt
    assert "`MemoryAdd`" not in prompt
    agent, memory = await make(ScriptedModel(), mode="static_control", tools=lambda store: [MemorySearch(store)])
    assert "`MemorySearch`" not in await memory.on_system_prompt(agent, "")


async def test_the_prompt_is_the_same_in_every_step_of_a_reply_that_adds_memory(workdir, make):
    steps = [call_tool("MemoryAdd", thinking="t", content=["The user has a cat."]), "Saved."]
    model = ScriptedModel(steps, default_selection=[])
    agent, _ = await make(model, mode="both", write_permission="allow")
    await agent.reply(UserMsg("user", "I have a cat"))
    assert model.calls[0].system_prompt == model.calls[1].system_prompt
    assert "The user has a cat." in (workdir / "Memory" / "the_user_has_a_cat.md").read_text()
    assert "(the_user_has_a_cat.md)" in (workdir / "Memory" / "MEMORY.md").read_text()


@pytest.mark.parametrize("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS])
@pytest.mark.parametrize("answer", [True, False])
async def test_ask_reaches_a_person_in_every_mode_where_one_is_there(workdir, make, mode, answer):
    steps = [call_tool("MemoryAdd", thinking="t", content=["The user has a cat."]), "Well."]
    agent, _ = await make(ScriptedModel(steps, default_selection=[]), mode="both", write_permission="ask")
    agent.state.permission_context.mode = mode
    events = [event async for event in agent.reply_stream(UserMsg("user", "I have a cat"))]
    (question,) = [event for event in events if isinstance(event, RequireUserConfirmEvent)]
    file = workdir / "Memory" / "the_user_has_a_cat.md"
    assert not file.exists()
    results = [ConfirmResult(confirmed=answer, tool_call=call) for call in question.tool_calls]
    await agent.reply(UserConfirmResultEvent(reply_id=question.reply_id, confirm_results=results))
    assert file.exists() is answer


@pytest.mark.parametrize(
    ("permission", "mode", "written"),
    [
        ("ask", PermissionMode.DONT_ASK, False),
        ("deny", PermissionMode.BYPASS, False),
        ("allow", PermissionMode.DEFAULT, True),
        ("inherit", PermissionMode.BYPASS, True),
    ],
)
async def test_a_write_without_a_person_goes_by_the_permission(workdir, make, permission, mode, written):
    steps = [call_tool("MemoryAdd", thinking="t", content=["The user has a cat."]), "Well."]
    model = ScriptedModel(steps, default_selection=[])
    agent, _ = await make(model, mode="both", write_permission=permission)
    agent.state.permission_context.mode = mode
    await agent.reply(UserMsg("user", "I have a cat"))
    assert (workdir / "Memory" / "the_user_has_a_cat.md").exists() is written


async def test_an_agent_without_file_tools_finds_corrects_and_forgets(workdir, make):
    steps = [
        call_tool("MemorySearch", keywords=["billing", "Hangzhou"]),
        call_tool("MemoryUpdate", filename="user_profile.md", replaces="Hangzhou", content="Suzhou"),
        call_tool("MemoryForget", filename="deploy.md"),
        "Done.",
    ]
    model = ScriptedModel(steps)
    agent, _ = await make(model, mode="agent_control", files=False, write_permission="allow")
    await agent.reply(UserMsg("user", "I moved to Suzhou, and billing is gone"))
    memory = workdir / "Memory"
    assert "Lives in Suzhou." in (memory / "user_profile.md").read_text()
    assert not (memory / "deploy.md").exists()
    assert (memory / "MEMORY.md").read_text() == "- [User profile](user_profile.md) — home and answer style\n"
    assert "Never deploy the billing service" in model.calls[1].text


def test_a_tool_may_be_made_without_the_middleware(make_memory):
    assert MemoryAdd(make_memory().store, permission="allow").name == "MemoryAdd"
