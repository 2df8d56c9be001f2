"""One instance, many agents and sessions; and memory that fails."""

import asyncio
from pathlib import Path

import pytest
from agentscope.message import UserMsg
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from scripted import ScriptedModel, call_tool

from agentic_memory.backends import InMemoryBackend
from agentic_memory.errors import BackendUnavailable
from agentic_memory.middleware import AgenticMemoryMiddleware

FILE = "---\nname: {name}\ndescription: About {name}\ntype: user\n---\nThe secret word of {name} is {name}-word.\n"


async def test_overlapping_replies_of_many_agents_get_their_own_hints(workdir, make_memory, make_agent) -> None:
    memory = make_memory()
    names = [f"person{number}" for number in range(20)]
    for name in names:
        (workdir / "Memory" / f"{name}.md").write_text(FILE.format(name=name), encoding="utf-8")
    everybody = asyncio.Barrier(len(names))

    async def one(name: str) -> ScriptedModel:
        async def select(call):
            await asyncio.wait_for(everybody.wait(), 20)
            return [f"{name}.md"]

        model = ScriptedModel(["Ok."], selections=[select])
        agent = make_agent(model, memory, name="assistant", state=AgentState(session_id=name))
        await agent.reply(UserMsg("user", "Which word did we agree on for today?"))
        assert [item.filename for item in memory.receipt(agent).loaded] == [f"{name}.md"]
        assert memory.receipt(agent).session_id == name
        return model

    memory._parameters = memory._parameters.model_copy(update={"first_step_wait": 20.0})
    models = await asyncio.gather(*map(one, names))
    for name, model in zip(names, models, strict=True):
        text = model.calls[0].text
        assert [other for other in names if f"is {other}-word" in text] == [name]


async def test_a_reply_that_ends_does_not_cancel_the_pick_of_another(make_memory, make_agent) -> None:
    memory = make_memory(first_step_wait=20)
    slow = ScriptedModel(["Slow."], selections=[["user_profile.md"]], hold_structured=True)
    quick = ScriptedModel(["Quick."], selections=[[]])
    agent = make_agent(slow, memory)
    running = asyncio.create_task(agent.reply(UserMsg("user", "Tell me about chromodynamics lectures")))
    await slow.structured_started.wait()
    await make_agent(quick, memory).reply(UserMsg("user", "Tell me about chromodynamics lectures"))
    slow.structured_gate.set()
    await running
    assert "Lives in Hangzhou" in slow.calls[0].text


async def test_a_pick_does_not_outlive_its_reply(make_memory, make_agent) -> None:
    model = ScriptedModel(["Done."], hold_structured=True)
    before = asyncio.all_tasks()
    await make_agent(model, make_memory(first_step_wait=0.01)).reply(UserMsg("user", "Tell me about chromodynamics"))
    assert asyncio.all_tasks() == before


async def test_a_stream_closed_half_way_leaves_nothing_running(make_memory, make_agent) -> None:
    model = ScriptedModel(["Done."], hold_structured=True, stream=True)
    before = asyncio.all_tasks()
    stream = make_agent(model, make_memory(first_step_wait=0.01)).reply_stream(
        UserMsg("user", "Tell me about lectures")
    )
    async for _ in stream:
        break
    await stream.aclose()
    for _ in range(100):  # AgentScope leaves its inner generators to the event loop's finalizer
        await asyncio.sleep(0.01)
        if asyncio.all_tasks() == before:
            break
    assert asyncio.all_tasks() == before


async def test_a_cancelled_reply_leaves_nothing_running(make_memory, make_agent) -> None:
    model = ScriptedModel(["Done."], hold_structured=True)
    agent = make_agent(model, make_memory(first_step_wait=30))
    before = asyncio.all_tasks()
    reply = asyncio.create_task(agent.reply(UserMsg("user", "Tell me about chromodynamics lectures")))
    await model.structured_started.wait()
    reply.cancel()
    await asyncio.gather(reply, return_exceptions=True)
    assert asyncio.all_tasks() == before


async def test_a_new_instance_every_turn_costs_no_second_read(workdir, make_memory, make_agent) -> None:
    state = AgentState()
    versions: list[int] = []
    for _ in range(3):
        memory = make_memory()
        model = ScriptedModel(["Ok."], default_selection=["user_profile.md"])
        agent = make_agent(model, memory, state=state)
        await agent.reply(UserMsg("user", "Where do I live these days?"))
        versions.append(memory.receipt(agent).backend_calls)
    assert versions == [2, 1, 1]  # the first shows a file, and looks up who wrote it
    assert model.calls[-1].text.count("Lives in Hangzhou") == 1


async def test_backend_calls_do_not_grow_with_the_number_of_files(make_agent) -> None:
    for count in (1, 300):
        backend = InMemoryBackend()
        for number in range(count):
            await backend.write_file(f"/w/Memory/f{number}.md", FILE.format(name=f"n{number}").encode())
        memory = AgenticMemoryMiddleware(workdir="/w", backend=backend)
        seen: list[int] = []

        def before_first_call(call, backend=backend, seen=seen):
            seen.append(backend.round_trips)
            return "Ok."

        model = ScriptedModel([before_first_call], selections=[["f0.md"]])
        agent = make_agent(model, memory)
        started = backend.round_trips
        await agent.reply(UserMsg("user", "Which word did we agree on for n0?"))
        assert seen[0] - started <= 3


@pytest.fixture
def broken() -> InMemoryBackend:
    backend = InMemoryBackend()
    backend.fail_next(10_000)
    return backend


async def test_an_unavailable_backend_does_not_end_the_reply_and_is_on_the_receipt(broken, make_agent, caplog) -> None:
    memory = AgenticMemoryMiddleware(workdir="/w", backend=broken)
    model = ScriptedModel(["Without memory, then."])
    agent = make_agent(model, memory)
    answer = await agent.reply(UserMsg("user", "Where do I live these days?"))
    assert answer.get_text_content() == "Without memory, then."
    assert "# Long-term memory" in model.calls[0].system_prompt, "the instructions always stand there"
    assert "cannot be read right now: the in-memory backend was told to fail" in model.calls[0].system_prompt
    assert "is empty" not in model.calls[0].system_prompt
    (failure,) = memory.receipt(agent).failed
    assert (failure.stage, failure.error) == ("load", "the in-memory backend was told to fail this call")
    assert "told to fail this call" in caplog.text


async def test_on_error_raise_raises(broken, make_agent) -> None:
    parameters = AgenticMemoryMiddleware.Parameters(on_error="raise")
    memory = AgenticMemoryMiddleware(workdir="/w", backend=broken, parameters=parameters)
    agent = make_agent(ScriptedModel(["Never."]), memory)
    with pytest.raises(BackendUnavailable, match="told to fail"):
        await agent.reply(UserMsg("user", "Where do I live these days?"))
    assert memory.receipt(agent).failed[0].stage == "load"


async def test_the_next_reply_works_once_the_backend_is_back(make_agent) -> None:
    backend = InMemoryBackend()
    await backend.write_file("/w/Memory/p.md", FILE.format(name="p").encode())
    await backend.write_file("/w/Memory/MEMORY.md", b"- [p](p.md) - word\n")
    backend.fail_next()
    memory = AgenticMemoryMiddleware(workdir="/w", backend=backend)
    model = ScriptedModel(default="Ok.", default_selection=["p.md"])
    agent = make_agent(model, memory)
    await agent.reply(UserMsg("user", "Which word did we agree on?"))
    await agent.reply(UserMsg("user", "Which word did we agree on?"))
    assert "p-word" not in model.calls[0].text
    assert "p-word" in model.calls[1].text
    assert await backend.read_file("/w/Memory/MEMORY.md") == b"- [p](p.md) - word\n"


async def test_a_backend_that_hangs_holds_the_reply_only_so_long(make_agent) -> None:
    class Hanging(InMemoryBackend):
        async def snapshot(self, root, **kwargs):
            await asyncio.Event().wait()

    parameters = AgenticMemoryMiddleware.Parameters(load_timeout=0.05)
    memory = AgenticMemoryMiddleware(workdir="/w", backend=Hanging(), parameters=parameters)
    agent = make_agent(ScriptedModel(["Ok."]), memory)
    await agent.reply(UserMsg("user", "Where do I live these days?"))
    assert "did not answer within 0.05 s" in memory.receipt(agent).failed[0].error


async def test_two_memories_on_one_agent_keep_apart(tmp_path: Path, make_agent) -> None:
    from agentscope.agent import Agent

    memories = []
    for name in ("alpha", "beta"):
        (tmp_path / name / "Memory").mkdir(parents=True)
        (tmp_path / name / "Memory" / f"{name}.md").write_text(FILE.format(name=name), encoding="utf-8")
        memories.append(AgenticMemoryMiddleware(workdir=str(tmp_path / name)))
    model = ScriptedModel(
        ["Ok."], default_selection=lambda call: [name for name in ("alpha.md", "beta.md") if name in call.text]
    )
    agent = Agent(name="a", system_prompt="", model=model, toolkit=Toolkit(), middlewares=memories)
    await agent.reply(UserMsg("user", "Which words did we agree on?"))
    assert [[item.filename for item in memory.receipt(agent).loaded] for memory in memories] == [
        ["alpha.md"],
        ["beta.md"],
    ]
    assert "alpha-word" in model.calls[0].text
    assert "beta-word" in model.calls[0].text


async def test_receipt_reaches_an_open_telemetry_span(make_memory, make_agent) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    memory = make_memory()
    agent = make_agent(ScriptedModel(["Ok."], selections=[["user_profile.md"]]), memory)
    with trace.use_span(provider.get_tracer("test").start_span("reply"), end_on_exit=True):
        await agent.reply(UserMsg("user", "Where do I live these days?"))
    (span,) = exporter.get_finished_spans()
    assert span.attributes["agentic_memory.loaded"] == ("user_profile.md",)
    assert span.attributes["agentic_memory.selector.calls"] == 1


async def test_tools_write_a_memory_that_the_next_agent_recalls(tmp_path, make_agent, make_memory) -> None:
    memory_dir = tmp_path / "new" / "Memory"
    text = FILE.format(name="zeta")
    first = ScriptedModel(
        [
            call_tool("Write", file_path=str(memory_dir / "zeta.md"), content=text),
            call_tool("Write", file_path=str(memory_dir / "MEMORY.md"), content="- [zeta](zeta.md) — a word\n"),
            "Saved.",
        ]
    )
    agent = make_agent(first, make_memory(at=tmp_path / "new"))
    agent.state.permission_context.working_directories[str(tmp_path)] = next(
        iter(agent.state.permission_context.working_directories.values())
    )
    await agent.reply(UserMsg("user", "Remember the word of zeta."))
    second = ScriptedModel(["zeta-word"], selections=[["zeta.md"]])
    await make_agent(second, make_memory(at=tmp_path / "new")).reply(UserMsg("user", "What is the word of zeta?"))
    assert "[zeta](zeta.md)" in second.calls[0].system_prompt
    assert "zeta-word" in second.calls[0].text
