"""Who decides what a reply is shown: the default, a selector of the user's own, an embedding model."""

from pathlib import Path

import pytest
from agentscope.agent import ModelConfig
from agentscope.event import ModelCallEndEvent
from agentscope.message import UserMsg
from agentscope.middleware import MiddlewareBase, ReplyBudgetControlMiddleware
from agentscope.model import ChatUsage
from concepts import ConceptModel
from scripted import ScriptedModel

from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.selection import Hit, LexicalSelector, Request, Selection
from agentic_memory.store import MemoryStore

QUESTION = "Where does the user live?"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def memory(workdir: Path, **arguments) -> AgenticMemoryMiddleware:
    parameters = AgenticMemoryMiddleware.Parameters(**arguments.pop("parameters", {}))
    return AgenticMemoryMiddleware(workdir=str(workdir), parameters=parameters, **arguments)


class Fixed:
    """A selector of a user's own."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.requests: list[Request] = []

    async def select(self, request: Request) -> Selection:
        self.requests.append(request)
        return Selection(tuple(Hit(name, 1.0, 1.0, 1, "") for name in self.names), by="mine")


class Broken:
    async def select(self, request: Request) -> Selection:
        raise RuntimeError(f"no selection for {request.query}")


async def test_a_selector_of_your_own_decides_and_no_model_is_asked(workdir: Path, make_agent) -> None:
    selector = Fixed("deploy.md")
    middleware = memory(workdir, selector=selector)
    agent = make_agent(ScriptedModel(["Ok."]), middleware)
    await agent.reply(UserMsg("user", "Something that has no word in common"))
    [loaded] = middleware.receipt(agent).loaded
    assert (loaded.filename, loaded.picked_by) == ("deploy.md", "mine")
    assert middleware.receipt(agent).selector_calls == 0
    [request] = selector.requests
    assert set(request.documents) == {"deploy.md", "user_profile.md"}
    assert request.model is agent.model


async def test_words_alone_may_decide(workdir: Path, make_agent) -> None:
    middleware = memory(workdir, selector=LexicalSelector())
    agent = make_agent(ScriptedModel(["Ok."]), middleware)
    await agent.reply(UserMsg("user", "May I deploy the billing service?"))
    assert [item.filename for item in middleware.receipt(agent).loaded] == ["deploy.md"]


async def test_when_a_selector_of_your_own_fails_the_files_that_match_stand_in(workdir: Path, make_agent) -> None:
    middleware = memory(workdir, selector=Broken())
    agent = make_agent(ScriptedModel(["Ok."]), middleware)
    await agent.reply(UserMsg("user", "May I deploy the billing service?"))
    receipt = middleware.receipt(agent)
    assert [(item.filename, item.picked_by) for item in receipt.loaded] == [("deploy.md", "lexical")]
    assert [item.stage for item in receipt.failed] == ["select"]
    assert "no selection for May I deploy" in receipt.failed[0].error


async def test_a_file_found_by_its_meaning_stands_in_for_a_model_that_is_late(
    workdir: Path, make_agent, cache: Path
) -> None:
    (workdir / "Memory" / "garage.md").write_text("The automobile is behind the bakery.", encoding="utf-8")
    model = ScriptedModel(["Ok."], hold_structured=True)
    middleware = memory(workdir, embedding_model=ConceptModel())
    agent = make_agent(model, middleware)
    await agent.reply(UserMsg("user", "Where is my car?"))
    receipt = middleware.receipt(agent)
    assert [(item.filename, item.picked_by) for item in receipt.loaded] == [("garage.md", "hybrid")]
    assert (receipt.unembedded, receipt.failed) == (0, ())
    assert "automobile" in model.calls[0].text
    assert not [path for path in workdir.rglob("*") if path.suffix not in {".md", ""}]
    assert list(cache.rglob("*.sqlite3"))


async def test_an_embedding_model_that_is_down_is_on_the_receipt_and_no_reason_to_fail(
    workdir: Path, make_agent
) -> None:
    middleware = memory(workdir, embedding_model=ConceptModel(refuse=lambda _: True), parameters={"on_error": "raise"})
    agent = make_agent(ScriptedModel(["Ok."], selections=[["deploy.md"]]), middleware)
    await agent.reply(UserMsg("user", "May I deploy the billing service?"))
    receipt = middleware.receipt(agent)
    assert [item.filename for item in receipt.loaded] == ["deploy.md"]
    assert [item.stage for item in receipt.failed] == ["embed"]
    assert receipt.unembedded == 2
    assert type(receipt).from_dict(receipt.as_dict()) == receipt


class Watching(MiddlewareBase):
    """Sees every model call of an agent."""

    def __init__(self, marker: str = "") -> None:
        self.seen: list[str] = []
        self.marker = marker

    async def on_model_call(self, agent, input_kwargs, next_handler):
        self.seen.append(input_kwargs["messages"][-1].get_text_content() or "")
        messages = input_kwargs["messages"]
        if self.marker:
            messages = [*messages, UserMsg("user", self.marker)]
        return await next_handler(**{**input_kwargs, "messages": messages})


async def test_the_pick_passes_through_the_agents_model_call_middlewares(workdir: Path, make_agent) -> None:
    model = ScriptedModel(["Ok."], selections=[["user_profile.md"]])
    middleware, watching = memory(workdir), Watching("Mind the budget.")
    agent = make_agent(model, middleware, more=[watching])
    await agent.reply(UserMsg("user", QUESTION))
    assert any("Available memories" in text for text in watching.seen)
    assert "Mind the budget." in model.structured[0].text
    assert [item.filename for item in middleware.receipt(agent).loaded] == ["user_profile.md"]


class Counting(ScriptedModel):
    """Tells what a structured call took, as providers do."""

    async def generate_structured_output(self, *arguments, **more):
        response = await super().generate_structured_output(*arguments, **more)
        response.usage = ChatUsage(input_tokens=120, output_tokens=7, time=0.0)
        return response


async def test_what_the_pick_costs_counts_in_the_budget_of_the_reply(workdir: Path, make_agent) -> None:
    budget = ReplyBudgetControlMiddleware(token_budget=100)
    model = Counting(["Ok."], selections=[["user_profile.md"]])
    middleware = memory(workdir)
    agent = make_agent(model, middleware, more=[budget])
    events = [event async for event in agent.reply_stream(UserMsg("user", QUESTION))]
    first, own = [event for event in events if isinstance(event, ModelCallEndEvent)]
    assert (first.input_tokens, first.output_tokens) == (120, 7)
    [spent] = agent.state.middle_context[await budget.get_middleware_key()].values()
    assert spent == 127 + own.input_tokens + own.output_tokens
    receipt = middleware.receipt(agent)
    assert (receipt.selector_calls, receipt.selector_input_tokens, receipt.selector_output_tokens) == (1, 120, 7)


async def test_the_agents_fallback_model_picks_when_its_own_fails(workdir: Path, make_agent) -> None:
    model = ScriptedModel(["Ok."], selections=[ConnectionError("down")])
    fallback = ScriptedModel(selections=[["user_profile.md"]])
    middleware = memory(workdir)
    agent = make_agent(model, middleware, model_config=ModelConfig(fallback_model=fallback))
    await agent.reply(UserMsg("user", QUESTION))
    receipt = middleware.receipt(agent)
    assert [(item.filename, item.picked_by) for item in receipt.loaded] == [("user_profile.md", "model")]
    assert receipt.failed == ()


async def test_a_store_finds_by_meaning_and_makes_vectors_ahead_with_progress(workdir: Path) -> None:
    (workdir / "Memory" / "garage.md").write_text("The automobile is behind the bakery.", encoding="utf-8")
    progress: list[tuple[int, int]] = []
    async with MemoryStore(workdir=str(workdir), embedding_model=ConceptModel()) as store:
        await store.embed(lambda done, of: progress.append((done, of)))
        assert progress[-1] == (3, 3)
        assert [match.filename for match in await store.search("Where is my car?")] == ["garage.md"]
    async with MemoryStore(workdir=str(workdir)) as plain:
        await plain.embed()
        assert await plain.search("Where is my car?") == []


async def test_what_the_store_adds_is_found_by_its_meaning_at_once(workdir: Path) -> None:
    async with MemoryStore(workdir=str(workdir), embedding_model=ConceptModel()) as store:
        assert await store.search("Who is our doctor?") == []
        added = await store.add(
            name="Health", description="", type="user", content="The physician sits in Mill Street."
        )
        assert [match.filename for match in await store.search("Who is our doctor?")] == [added.filename]
