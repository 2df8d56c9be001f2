"""What users of AgentScope's own middleware rely on, with ``first_step_wait=0`` where timing matters."""

import inspect

import pytest
from agentscope.message import HintBlock, TextBlock, ToolCallBlock, ToolResultBlock, UserMsg
from agentscope.middleware import AgenticMemoryMiddleware as Upstream
from scripted import ScriptedModel, call_tool

from agentic_memory.middleware import AgenticMemoryMiddleware

QUESTION = "Where do I live, and how do I like my answers?"


async def test_takes_every_constructor_argument_of_upstream() -> None:
    ours = inspect.signature(AgenticMemoryMiddleware.__init__).parameters
    for name, parameter in inspect.signature(Upstream.__init__).parameters.items():
        assert ours[name].kind == parameter.kind
        assert ours[name].default == parameter.default


async def test_parameters_keep_the_eight_fields_and_their_defaults() -> None:
    for name, field in Upstream.Parameters.model_fields.items():
        assert name in AgenticMemoryMiddleware.Parameters.model_fields
        if "instructions" not in name:
            assert getattr(AgenticMemoryMiddleware.Parameters(), name) == field.default


async def test_parameters_have_a_json_schema() -> None:
    schema = AgenticMemoryMiddleware.Parameters.model_json_schema()
    assert schema["properties"]["memory_max_tokens"]["default"] == 4000
    assert "retrieval_model" not in schema["properties"]


@pytest.mark.parametrize("bad", [{"memory_max_tokens": -1}, {"memory_max_token": 5}, {"on_error": "ignore"}])
async def test_parameters_refuse_what_is_wrong(bad) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        AgenticMemoryMiddleware.Parameters(**bad)


async def test_system_prompt_works_without_an_agent_and_creates_an_empty_index(tmp_path) -> None:
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path))
    prompt = await memory.on_system_prompt(None, "Base.")
    assert prompt.startswith("Base.\n\n")
    assert "## MEMORY.md" in prompt
    assert f"{tmp_path}/Memory" in prompt
    assert (tmp_path / "Memory" / "MEMORY.md").read_bytes() == b""


async def test_an_existing_index_is_never_replaced(workdir, make_memory) -> None:
    before = (workdir / "Memory" / "MEMORY.md").read_bytes()
    prompt = await make_memory().on_system_prompt(None, "Base.")
    assert f"## MEMORY.md\n{before.decode()}".rstrip("\n") in prompt
    assert (workdir / "Memory" / "MEMORY.md").read_bytes() == before


async def test_custom_instructions_get_the_memory_directory(workdir, make_memory) -> None:
    prompt = await make_memory(memory_instructions="Notes are in {memory_dir}; {braces} stay.").on_system_prompt(
        None, ""
    )
    assert f"Notes are in {workdir}/Memory; {{braces}} stay." in prompt


async def test_a_long_index_is_marked_as_truncated(workdir, make_memory) -> None:
    lines = [f"- [Topic {n}](topic_{n}.md) — hook number {n}\n" for n in range(400)]
    (workdir / "Memory" / "MEMORY.md").write_text("".join(lines), encoding="utf-8")
    prompt = await make_memory(memory_max_tokens=500).on_system_prompt(None, "")
    assert "<<<TRUNCATED>>>" in prompt
    assert lines[0].strip() in prompt
    assert lines[-1].strip() in prompt


async def test_the_hint_stands_between_tool_result_and_text_when_nothing_is_waited_for(
    workdir, make_memory, make_agent
) -> None:
    path = str(workdir / "Memory" / "deploy.md")
    model = ScriptedModel([call_tool("Read", file_path=path), "Hangzhou."], selections=[["user_profile.md"]])
    agent = make_agent(model, make_memory(first_step_wait=0))
    await agent.reply(UserMsg("user", QUESTION))
    kinds = [type(block) for block in agent.state.context[-1].content if getattr(block, "source", None) is None]
    assert kinds == [ToolCallBlock, ToolResultBlock, HintBlock, TextBlock]


async def test_the_hint_is_text_without_source_holding_path_and_body(workdir, make_memory, make_agent) -> None:
    model = ScriptedModel(["Hangzhou."], selections=[["user_profile.md"]])
    agent = make_agent(model, make_memory())
    await agent.reply(UserMsg("user", QUESTION))
    (hint,) = [b for b in agent.state.context[-1].get_content_blocks("hint") if b.source is None]
    assert isinstance(hint.hint, str)
    assert str(workdir / "Memory" / "user_profile.md") in hint.hint
    assert "Lives in Hangzhou. Prefers concise Chinese answers." in hint.hint


async def test_the_selector_is_one_structured_call_answered_with_file_names(make_memory, make_agent) -> None:
    model = ScriptedModel(["Hangzhou."], selections=[["user_profile.md"]])
    await make_agent(model, make_memory()).reply(UserMsg("user", QUESTION))
    (call,) = model.structured
    assert call.schema["properties"]["selected_files"]["type"] == "array"
    assert call.schema["properties"]["selected_files"]["items"] == {"type": "string"}
    assert call.schema["required"] == ["selected_files"]
    assert QUESTION in call.text
    assert "user_profile.md" in call.text
    assert "When the answer depends on where the user lives" in call.text


async def test_the_retrieval_model_picks_when_there_is_one(make_memory, make_agent) -> None:
    picker = ScriptedModel(selections=[["user_profile.md"]])
    model = ScriptedModel(["Hangzhou."])
    await make_agent(model, make_memory(retrieval_model=picker)).reply(UserMsg("user", QUESTION))
    assert len(picker.structured) == 1
    assert "Lives in Hangzhou" in model.calls[0].text


async def test_no_selector_call_without_topic_files(tmp_path, make_agent, make_memory) -> None:
    model = ScriptedModel(["Hello."])
    await make_agent(model, make_memory(at=tmp_path / "empty")).reply(UserMsg("user", QUESTION))
    assert model.structured == []


async def test_retrieval_async_false_means_no_call_and_no_hint(make_memory, make_agent) -> None:
    model = ScriptedModel(["Hello."])
    await make_agent(model, make_memory(retrieval_async=False)).reply(UserMsg("user", QUESTION))
    assert model.structured == []
    assert "Lives in Hangzhou" not in model.calls[0].text


async def test_names_that_no_file_has_are_dropped(make_memory, make_agent) -> None:
    model = ScriptedModel(["Hello."], selections=[["nobody.md", "../../etc/passwd", "user_profile.md"]])
    memory = make_memory()
    agent = make_agent(model, memory)
    await agent.reply(UserMsg("user", QUESTION))
    receipt = memory.receipt(agent)
    assert [item.filename for item in receipt.loaded] == ["user_profile.md"]
    assert {item.filename for item in receipt.left_out} == {"nobody.md", "../../etc/passwd"}


async def test_a_failing_selector_does_not_end_the_reply(make_memory, make_agent) -> None:
    model = ScriptedModel(["Still here."], selections=[RuntimeError("no quota")])
    memory = make_memory()
    agent = make_agent(model, memory)
    answer = await agent.reply(UserMsg("user", QUESTION))
    assert answer.get_text_content() == "Still here."
    assert [failure.stage for failure in memory.receipt(agent).failed] == ["select"]
