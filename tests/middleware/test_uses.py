"""A reply counts the files that its hint showed, once each, and never more than that."""

from agentscope.message import UserMsg
from scripted import ScriptedModel

from agentic_memory.tools import MemorySearch


async def test_what_a_hint_showed_is_counted_when_the_reply_is_over(make_memory, make_agent) -> None:
    memory = make_memory()
    agent = make_agent(ScriptedModel(["No."], selections=[["deploy.md"]]), memory)
    await agent.reply(UserMsg("user", "May I deploy billing on Friday?"))
    assert [file.filename for file in memory.receipt(agent).loaded] == ["deploy.md"]
    assert await memory.store.uses() == {"deploy.md": 1}


async def test_a_reply_that_shows_nothing_counts_nothing(make_memory, make_agent) -> None:
    memory = make_memory()
    await make_agent(ScriptedModel(["Hello."], selections=[[]]), memory).reply(UserMsg("user", "Hi!"))
    assert await memory.store.uses() == {}


async def test_a_count_that_fails_is_not_seen_by_the_reply(make_memory, make_agent, monkeypatch) -> None:
    async def fail(self, filenames):
        raise RuntimeError("no")

    memory = make_memory(on_error="raise")
    monkeypatch.setattr(type(memory.store), "note_use", fail)
    agent = make_agent(ScriptedModel(["No."], selections=[["deploy.md"]]), memory)
    await agent.reply(UserMsg("user", "May I deploy billing on Friday?"))
    assert memory.receipt(agent).failed == ()


async def test_a_search_counts_what_it_showed(make_memory) -> None:
    store = make_memory().store
    await MemorySearch(store)(query="billing deploy")
    assert await store.uses() == {"deploy.md": 1}
    await MemorySearch(store)(query="quantum entanglement")
    assert await store.uses() == {"deploy.md": 1}
