"""What a completed reply taught is written, once, without holding up the answer; what did not complete is not."""

import asyncio
from typing import Any

import pytest
from agentscope.agent import ReActConfig
from agentscope.event import (
    ConfirmResult,
    ReplyEndEvent,
    RequireUserConfirmEvent,
    UserConfirmResultEvent,
    UserInterruptEvent,
)
from agentscope.message import AssistantMsg, Msg, UserMsg
from agentscope.middleware import MiddlewareBase
from agentscope.state import AgentState
from scripted import ScriptedModel, call_tool

from agentic_memory.errors import BackendUnavailable
from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.write_back import STATE_KEY
from agentic_memory.writeback.queue import look_at_queue

QUESTION = "My favourite tea is Longjing, what is yours?"


def fact(text: str, kind: str = "user") -> dict[str, Any]:
    return {"memories": [{"type": kind, "title": text, "text": text, "when": text}], "complete": True}


def teacher(*answers: Any, **kwargs: Any) -> ScriptedModel:
    """Return a model that notes one fact a turn, and adds it whatever is near."""
    numbers = iter(range(1000))

    def answer(call):
        if "decisions" in call.schema["properties"]:
            return {"decisions": [{"operation": "ADD", "fact": 1}], "complete": True}
        return fact(f"Fact number {next(numbers)}.")

    return ScriptedModel(selections=answers, default_selection=answer, **kwargs)


@pytest.fixture
def make_writing(make_memory):
    def make(learner: ScriptedModel, *, await_write: bool = True, **kwargs: Any) -> AgenticMemoryMiddleware:
        return make_memory(
            write_back="extract", write_back_model=learner, await_write=await_write, retrieval_async=False, **kwargs
        )

    return make


async def settle(memory: AgenticMemoryMiddleware) -> None:
    await memory._write_back.aclose(timeout=5)


def saved(agent) -> AgentState:
    """Return the state as a host would load it in another process."""
    return AgentState.model_validate_json(agent.state.model_dump_json())


def asked(learner: ScriptedModel) -> list[str]:
    return [call.text for call in learner.structured if "memories" in call.schema["properties"]]


async def test_a_completed_reply_is_learnt_and_stands_on_its_receipt(workdir, make_writing, make_agent) -> None:
    learner = teacher(fact("The favourite tea of the user is Longjing."))
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    await agent.reply(UserMsg("user", QUESTION))
    report = memory.receipt(agent).write_back
    assert (report.status, [one.operation for one in report.learned], report.cost.calls) == ("learned", ["ADD"], 2)
    (learned,) = report.learned
    assert "Longjing" in (workdir / "Memory" / learned.filename).read_text()
    assert f"]({learned.filename})" in (workdir / "Memory" / "MEMORY.md").read_text()
    assert f"user: {QUESTION}" in asked(learner)[0]
    assert "assistant: Oolong." in asked(learner)[0]


async def test_write_back_is_off_unless_asked_for(workdir, make_memory, make_agent) -> None:
    memory = make_memory(retrieval_async=False)
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    await agent.reply(UserMsg("user", QUESTION))
    assert memory.receipt(agent).write_back is None
    assert STATE_KEY not in agent.state.middle_context
    assert not (workdir / "Memory" / ".queue").exists()


async def test_the_answer_does_not_wait_for_what_it_taught(make_writing, make_agent) -> None:
    learner = teacher(fact("A fact."), hold_structured=True)
    memory = make_writing(learner, await_write=False)
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    answer = await agent.reply(UserMsg("user", QUESTION))
    assert answer.get_text_content() == "Oolong."
    assert memory.receipt(agent).write_back.status == "waiting"
    learner.structured_gate.set()
    await settle(memory)
    assert memory.receipt(agent).write_back.status == "learned"


async def test_with_await_write_the_reply_ends_when_it_is_written(make_writing, make_agent) -> None:
    learner = teacher(fact("A fact."), hold_structured=True)
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    reply = asyncio.create_task(agent.reply(UserMsg("user", QUESTION)))
    await learner.structured_started.wait()
    assert not reply.done()
    learner.structured_gate.set()
    await reply
    assert memory.receipt(agent).write_back.status == "learned"


async def test_each_turn_is_learnt_once_and_only_its_own_words(make_writing, make_agent) -> None:
    learner = teacher()
    agent = make_agent(ScriptedModel(default="Ok."), make_writing(learner))
    for word in ("alpha", "beta", "gamma"):
        await agent.reply(UserMsg("user", f"I say {word}."))
    assert [[word for word in ("alpha", "beta", "gamma") if word in text] for text in asked(learner)] == [
        ["alpha"], ["beta"], ["gamma"],
    ]  # fmt: skip


async def test_memory_that_was_shown_is_not_learnt_again(make_memory, make_agent) -> None:
    learner = teacher()
    memory = make_memory(write_back="extract", write_back_model=learner, await_write=True)
    model = ScriptedModel(["There."], selections=[["user_profile.md"]])
    agent = make_agent(model, memory)
    await agent.reply(UserMsg("user", "Where do I live, and how do I like my answers?"))
    assert "Hangzhou" in model.calls[0].wire
    assert "Hangzhou" not in asked(learner)[0]


# ------------------------------------------------------------------ what did not complete


async def nothing_learnt(learner: ScriptedModel, memory: AgenticMemoryMiddleware, agent) -> None:
    await settle(memory)
    assert learner.structured == []
    assert (await look_at_queue(memory.store)).waiting() == []
    assert "turns" not in next(iter(agent.state.middle_context.get(STATE_KEY, {}).values()), {})
    receipt = memory.receipt(agent)
    assert receipt is None or receipt.write_back is None


async def test_a_reply_over_its_iterations_is_not_learnt(make_writing, make_agent, workdir) -> None:
    learner = teacher()
    memory = make_writing(learner)
    read = call_tool("Read", file_path=str(workdir / "Memory" / "deploy.md"))
    agent = make_agent(ScriptedModel([read, "Forced."]), memory, react_config=ReActConfig(max_iters=1))
    answer = await agent.reply(UserMsg("user", QUESTION))
    assert answer.finished_reason == "exceed_max_iters"
    await nothing_learnt(learner, memory, agent)


async def test_a_reply_that_fails_is_not_learnt(make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel([RuntimeError("down")]), memory)
    with pytest.raises(RuntimeError, match="down"):
        await agent.reply(UserMsg("user", QUESTION))
    await nothing_learnt(learner, memory, agent)


async def test_an_interrupted_reply_is_not_learnt(make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(learner)
    started = asyncio.Event()

    async def hang(call):
        started.set()
        await asyncio.sleep(30)
        return "never"

    agent = make_agent(ScriptedModel([hang]), memory)
    reply = asyncio.create_task(agent.reply(UserMsg("user", QUESTION)))
    await started.wait()
    reply.cancel()
    answer = await reply
    assert answer.finished_reason == "interrupted"
    await nothing_learnt(learner, memory, agent)


@pytest.mark.parametrize("after", [1, 5])
async def test_a_stream_that_is_left_half_way_is_not_learnt(make_writing, make_agent, after) -> None:
    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel(["Oolong, of course."], stream=True), memory)
    stream = agent.reply_stream(UserMsg("user", QUESTION))
    for _ in range(after):
        await anext(stream)
    await stream.aclose()
    await nothing_learnt(learner, memory, agent)


async def test_a_stream_left_between_the_end_event_and_the_message_is_not_learnt(make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    stream = agent.reply_stream(UserMsg("user", QUESTION))
    async for event in stream:
        if isinstance(event, ReplyEndEvent):
            break
    await stream.aclose()
    await nothing_learnt(learner, memory, agent)


async def test_a_reply_that_another_middleware_sends_round_again_is_learnt_at_its_real_end(
    make_writing, make_agent
) -> None:
    class Again(MiddlewareBase):
        """Swallows the first end of a reply, as AgentScope allows."""

        swallowed = False

        async def on_reply(self, agent, input_kwargs, next_handler):
            async for item in next_handler(**input_kwargs):
                if isinstance(item, ReplyEndEvent) and not self.swallowed:
                    self.swallowed = True
                    continue
                yield item

    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel(["First.", "Second."]), memory)
    agent._reply_middlewares.insert(0, Again())
    await agent.reply(UserMsg("user", QUESTION))
    (text,) = asked(learner)
    assert "Second." in text


async def test_an_answer_to_nobody_teaches_nothing(make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel(["Hello."]), memory)
    await agent.reply(None)
    await nothing_learnt(learner, memory, agent)


async def test_what_was_observed_before_is_what_was_said(make_writing, make_agent) -> None:
    learner = teacher()
    agent = make_agent(ScriptedModel(["Ok."]), make_writing(learner))
    await agent.observe(UserMsg("ada", "I moved to Lyon."))
    await agent.reply(None)
    assert "ada: I moved to Lyon." in asked(learner)[0]


# ------------------------------------------------------------------ a confirmation in between


async def park(agent, workdir) -> list[Any]:
    """Ask something that needs a confirmation, and return what is to be confirmed."""
    events = [event async for event in agent.reply_stream(UserMsg("user", QUESTION))]
    (require,) = [event for event in events if isinstance(event, RequireUserConfirmEvent)]
    return require.tool_calls


def confirm(agent, calls) -> UserConfirmResultEvent:
    return UserConfirmResultEvent(
        reply_id=agent.state.reply_id,
        confirm_results=[ConfirmResult(confirmed=True, tool_call=call) for call in calls],
    )


def writes(workdir) -> ScriptedModel:
    path = str(workdir / "notes.txt")
    return ScriptedModel([call_tool("Write", file_path=path, content="tea"), "Written."])


async def test_a_confirmed_reply_is_learnt_once_with_its_question(workdir, make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(writes(workdir), memory, allow=False)
    calls = await park(agent, workdir)
    assert learner.structured == []
    await agent.reply(confirm(agent, calls))
    (text,) = asked(learner)
    assert f"user: {QUESTION}" in text
    assert "assistant: Written." in text


async def test_a_confirmation_in_another_process_still_has_its_question(workdir, make_writing, make_agent) -> None:
    model, learner = writes(workdir), teacher()
    agent = make_agent(model, make_writing(learner), allow=False)
    calls = await park(agent, workdir)
    state = saved(agent)
    state.context = [message for message in state.context if message.role == "assistant"]  # compressed away meanwhile
    again = make_agent(model, make_writing(learner), allow=False, state=state)
    await again.reply(confirm(again, calls))
    (text,) = asked(learner)
    assert f"user: {QUESTION}" in text
    assert "asked" not in again.state.middle_context[STATE_KEY].popitem()[1]


async def test_a_confirmation_that_never_comes_is_not_learnt(workdir, make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(writes(workdir), memory, allow=False)
    await park(agent, workdir)
    await agent.reply(UserInterruptEvent(reply_id=agent.state.reply_id))
    await nothing_learnt(learner, memory, agent)


# ------------------------------------------------------------------ restarts


async def test_a_turn_lost_between_answer_and_queue_is_found_in_the_state(workdir, make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(ScriptedModel(hold_structured=True), await_write=False)
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    stream = agent.reply_stream(UserMsg("user", QUESTION), yield_final_msg=True)
    # The host saves as soon as it has the answer, and then the process dies.
    (state,) = [saved(agent) async for item in stream if isinstance(item, Msg)]
    for task in list(memory._write_back._tasks):
        task.cancel()
    await settle(memory)
    assert not (workdir / "Memory" / ".queue").exists()  # it died before the queue had it
    restarted = make_writing(learner)
    again = make_agent(ScriptedModel(["Yes."]), restarted, state=state)
    await again.reply(UserMsg("user", "Are you there?"))
    await settle(restarted)
    assert sorted("Longjing" in text for text in asked(learner)) == [False, True]


async def test_a_state_saved_before_the_turn_was_learnt_does_not_bring_it_back(make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel(default="Ok."), memory)
    async for item in agent.reply_stream(UserMsg("user", QUESTION), yield_final_msg=True):
        if isinstance(item, Msg):
            early = saved(agent)
    assert early.middle_context[STATE_KEY]
    again = make_agent(ScriptedModel(default="Ok."), make_writing(learner), state=early)
    await again.reply(UserMsg("user", "And now?"))
    await settle(memory)
    assert sum("Longjing" in text for text in asked(learner)) == 1


async def test_closing_leaves_what_is_not_finished_in_the_queue(make_writing, make_agent) -> None:
    memory = make_writing(ScriptedModel(hold_structured=True), await_write=False)
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    await agent.reply(UserMsg("user", QUESTION))
    await memory.aclose(timeout=0.05)
    (waiting,) = (await look_at_queue(memory.store)).waiting()
    assert QUESTION in waiting.turn.text


async def test_closing_lets_what_is_being_learnt_be_finished(make_writing, make_agent) -> None:
    learner = teacher()
    memory = make_writing(learner, await_write=False)
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    await agent.reply(UserMsg("user", QUESTION))
    await memory.aclose()
    assert memory.receipt(agent).write_back.status == "learned"


async def test_a_place_that_cannot_be_reached_keeps_the_turn_in_the_state(
    make_writing, make_agent, monkeypatch
) -> None:
    learner = teacher()
    memory = make_writing(learner)
    agent = make_agent(ScriptedModel(default="Ok."), memory)
    transact = type(memory.store.backend).transact

    async def fail(self, changes, *, within=None):
        raise BackendUnavailable("the disk is full")

    monkeypatch.setattr(type(memory.store.backend), "transact", fail)
    await agent.reply(UserMsg("user", QUESTION))
    report = memory.receipt(agent).write_back
    assert (report.status, "full" in report.error) == ("waiting", True)
    monkeypatch.setattr(type(memory.store.backend), "transact", transact)
    state = saved(agent)
    again = make_agent(ScriptedModel(default="Ok."), memory, state=state)
    await again.reply(UserMsg("user", "Again?"))
    await settle(memory)
    assert sum("Longjing" in text for text in asked(learner)) == 1
    assert "turns" not in next(iter(state.middle_context[STATE_KEY].values()))


async def test_a_failed_turn_is_visible_on_the_receipt_and_waits(make_writing, make_agent) -> None:
    memory = make_writing(ScriptedModel(default="prose", default_selection={}))
    agent = make_agent(ScriptedModel(["Oolong."]), memory)
    answer = await agent.reply(UserMsg("user", QUESTION))
    assert answer.get_text_content() == "Oolong."
    report = memory.receipt(agent).write_back
    assert (report.status, report.cost.calls, "prose" in report.error) == ("waiting", 2, True)
    assert len((await look_at_queue(memory.store)).waiting()) == 1


async def test_another_agents_words_count_as_said(make_writing, make_agent) -> None:
    learner = teacher()
    agent = make_agent(ScriptedModel(["Ok."]), make_writing(learner))
    await agent.reply(AssistantMsg("planner", "The deadline is 2026-05-01."))
    assert "planner: The deadline is 2026-05-01." in asked(learner)[0]


async def test_the_receipt_survives_its_json(make_writing, make_agent) -> None:
    from agentic_memory.receipt import Receipt

    memory = make_writing(teacher())
    agent = make_agent(ScriptedModel(["Ok."]), memory)
    await agent.reply(UserMsg("user", QUESTION))
    receipt = memory.receipt(agent)
    assert Receipt.from_dict(receipt.as_dict()) == receipt
    assert receipt.attributes()["agentic_memory.write_back"] == "learned"
