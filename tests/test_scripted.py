"""The tests' own tools: the scripted model and the watch on the event loop."""

import asyncio
import time

import agentscope.formatter
import anyio.to_thread
import pytest
from agentscope.agent import Agent
from agentscope.formatter import FormatterBase
from agentscope.message import UserMsg
from agentscope.tool import Read, Toolkit
from loopwatch import watch
from pydantic import BaseModel
from scripted import ScriptedModel, ScriptExhaustedError, call_tool


class Choice(BaseModel):
    selected_files: list[str]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_runs_on_the_script(tmp_path, stream):
    (tmp_path / "a.md").write_text("the harbour opens at six\n")
    read = call_tool("Read", file_path=str(tmp_path / "a.md"))
    model = ScriptedModel([read, "At six in the morning."], stream=stream)
    agent = Agent(name="assistant", system_prompt="Be brief.", model=model, toolkit=Toolkit(tools=[Read()]))
    reply = await agent.reply(UserMsg("user", "When?"))
    assert reply.get_text_content() == "At six in the morning."
    first, second = model.calls
    assert first.system_prompt.startswith("Be brief.")
    assert first.tool_names == ["Read"]
    assert "the harbour opens at six" not in first.wire
    assert "the harbour opens at six" in second.wire


async def test_a_call_beyond_the_script_fails_the_test():
    model = ScriptedModel()
    with pytest.raises(ScriptExhaustedError):
        await model([UserMsg("user", "hi")])
    with pytest.raises(ScriptExhaustedError):
        await model.generate_structured_output([UserMsg("user", "hi")], Choice)


async def test_an_answer_may_be_an_exception_or_depend_on_the_call():
    model = ScriptedModel([ConnectionError("gone"), lambda call: call.text.upper()])
    with pytest.raises(ConnectionError, match="gone"):
        await model([UserMsg("user", "hi")])
    response = await model([UserMsg("user", "hi")])
    assert response.content[0].text == "HI"


async def test_a_structured_answer_waits_for_its_gate():
    model = ScriptedModel(selections=[["a.md"]], hold_structured=True)
    asked = asyncio.create_task(model.generate_structured_output([UserMsg("user", "hi")], Choice))
    await model.structured_started.wait()
    assert not asked.done()
    model.structured_gate.set()
    assert (await asked).content == {"selected_files": ["a.md"]}
    assert model.structured[0].schema["properties"]["selected_files"]["type"] == "array"


_FORMATTERS = [
    each
    for name in sorted(agentscope.formatter.__all__)
    if isinstance(each := getattr(agentscope.formatter, name), type) and each is not FormatterBase
]


@pytest.mark.parametrize("formatter", _FORMATTERS, ids=lambda each: each.__name__)
async def test_every_formatter_renders_what_reaches_the_model(formatter):
    model = ScriptedModel(["ok"], formatter=formatter())
    await model([UserMsg("user", "the harbour")])
    assert "the harbour" in model.calls[0].wire


async def test_a_blocked_loop_is_noticed_with_the_place_where_it_stood():
    with watch(limit=0.05) as blocks:
        await asyncio.sleep(0)
        time.sleep(0.2)  # the defect under test
        await asyncio.sleep(0)
    (block,) = [block for block in blocks if "the defect under test" in block.stack]  # a busy machine may add others
    assert block.seconds > 0.05


async def test_work_in_a_thread_does_not_count_as_blocking():
    with watch(limit=0.15) as blocks:
        await anyio.to_thread.run_sync(time.sleep, 0.3)
    assert not [block for block in blocks if "sleep" in block.stack]
