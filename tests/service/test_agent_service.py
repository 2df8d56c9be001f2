"""Memory in AgentScope's agent service: real HTTP, and storage that speaks Redis over TCP."""

import asyncio
import os
import re
import runpy
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

fakeredis = pytest.importorskip("fakeredis", reason="the extra [test] brings a server that speaks Redis")
pytest.importorskip("agentscope.app", reason="the extra [service] brings AgentScope's service")

import httpx
import uvicorn
from agentscope.app import create_app
from agentscope.app.message_bus import RedisMessageBus
from agentscope.app.storage import RedisStorage
from agentscope.app.workspace_manager import LocalWorkspaceManager
from agentscope.credential import CredentialBase
from agentscope.message import UserMsg
from scripted import ModelCall, ScriptedModel, StructuredCall, call_tool

from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.service import MemoryMiddlewareFactory, ServiceSettings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "service.md"


class Model(ScriptedModel):
    """Save what it is told to remember, and otherwise tell every secret word it sees."""

    type = "scripted_chat"
    seen: list[ModelCall] = []  # noqa: RUF012 - of all instances: the service makes one for every turn

    def __init__(self, credential: CredentialBase, model: str, parameters: Any = None) -> None:
        super().__init__(default=_answer, default_selection=_structured)
        self.calls = self.seen


class Credential(CredentialBase):
    """What the service makes the model of."""

    type: Literal["scripted_credential"] = "scripted_credential"

    @classmethod
    def get_chat_model_class(cls) -> Any:
        return Model


def _structured(call: StructuredCall) -> Any:
    properties = call.schema["properties"]
    if "memories" in properties:
        text = " ".join(re.findall("The code is [a-z]+-secret", call.text)[:1])
        facts = [{"type": "user", "title": "Code", "text": text, "when": "asked for the code"}] if text else []
        return {"memories": facts, "complete": True}
    if "decisions" in properties:
        return {"decisions": [{"operation": "ADD", "fact": 1}], "complete": True}
    return re.findall(r"[\w.:-]+\.md", call.text)


def _answer(call: ModelCall) -> Any:
    last = call.messages[-1]
    asked = re.findall(r"Remember: (.*)", call.text)
    if last.get_content_blocks("tool_result") or not asked:
        return f"Known: {sorted(set(re.findall('[a-z]+-secret', call.text)))}"
    return call_tool("MemoryAdd", thinking="", content=[asked[-1]])


class Client:
    """One user of the service."""

    def __init__(self, http: httpx.AsyncClient, user: str) -> None:
        self._http, self._headers = http, {"X-User-ID": user}

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        response = await self._http.post(path, json=body, headers=self._headers)
        assert response.is_success, response.text
        return response.json()

    async def make_agent(self) -> str:
        return (await self.post("/agent/", name="Friday"))["agent_id"]

    async def make_session(self, agent_id: str) -> str:
        made = await self.post("/credential/", data={"type": "scripted_credential"})
        config = {"credential_id": made["credential_id"], "model": "m", "type": "scripted_credential", "parameters": {}}
        return (await self.post("/sessions/", agent_id=agent_id, chat_model_config=config))["session_id"]

    async def say(self, agent_id: str, session_id: str, text: str) -> str:
        """Have a turn and return the agent's last words."""
        message = UserMsg("user", text).model_dump(mode="json")
        await self.post("/chat/", agent_id=agent_id, session_id=session_id, input=message)
        for _ in range(2000):
            await asyncio.sleep(0.01)
            response = await self._http.get(
                f"/sessions/{session_id}/messages", params={"agent_id": agent_id}, headers=self._headers
            )
            messages = response.json()["messages"]
            if messages and messages[-1]["role"] == "assistant" and messages[-1].get("finished_reason"):
                return "".join(block.get("text", "") for block in messages[-1]["content"])
        raise AssertionError(f"no answer: {messages}")


@pytest.fixture(scope="session")
def redis_port() -> Iterator[int]:
    server = fakeredis.TcpFakeServer(("127.0.0.1", 0))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


@pytest.fixture
def serve(tmp_path: Path, redis_port: int) -> Any:
    """Run the service with a factory, and give what makes clients of it."""

    @asynccontextmanager
    async def serve(factory: MemoryMiddlewareFactory) -> AsyncIterator[Any]:
        Model.seen.clear()
        app = create_app(
            storage=RedisStorage(host="127.0.0.1", port=redis_port),
            message_bus=RedisMessageBus(host="127.0.0.1", port=redis_port),
            workspace_manager=LocalWorkspaceManager(basedir=str(tmp_path / "workspaces")),
            extra_credentials=[Credential],
            extra_agent_middlewares=factory,
        )
        factory.attach_to_app(app)
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
        running = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
            assert not running.done()
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http:
            yield lambda user: Client(http, user)
        server.should_exit = True
        await running

    return serve


def settings(**values: str) -> ServiceSettings:
    return ServiceSettings.from_environment({f"AGENTIC_MEMORY_{name}": value for name, value in values.items()})


async def test_what_one_session_saves_the_next_recalls_and_no_other_user_sees(tmp_path, serve) -> None:
    factory = MemoryMiddlewareFactory(settings(WORKDIR=str(tmp_path / "memories"), WRITE_PERMISSION="allow"))
    async with serve(factory) as client:
        ann = client("Ann")
        agent = await ann.make_agent()
        await ann.say(agent, await ann.make_session(agent), "Remember: The code is ann-secret.")
        assert "ann-secret" in await ann.say(agent, await ann.make_session(agent), "What is the code?")
        for name in ("ann", "../Ann"):
            other = client(name)
            agent = await other.make_agent()
            assert await other.say(agent, await other.make_session(agent), "What is the code of Ann?") == "Known: []"
    files = (tmp_path / "memories/users/=41nn/Memory").glob("*.md")
    assert "ann-secret" in "".join(file.read_text(encoding="utf-8") for file in files)


async def test_without_a_directory_memory_is_in_the_workspace_of_the_agent(tmp_path, serve) -> None:
    async with serve(MemoryMiddlewareFactory(settings(WRITE_PERMISSION="allow"))) as client:
        ann = client("ann")
        agent = await ann.make_agent()
        await ann.say(agent, await ann.make_session(agent), "Remember: The code is ann-secret.")
        assert "ann-secret" in await ann.say(agent, await ann.make_session(agent), "What is the code?")
    (index,) = tmp_path.rglob("MEMORY.md")
    assert index.match("workspaces/*/users/ann/Memory/MEMORY.md")


async def test_what_a_turn_taught_is_written_before_the_app_is_gone(tmp_path, serve) -> None:
    factory = MemoryMiddlewareFactory(settings(WORKDIR=str(tmp_path / "memories"), WRITE_BACK="extract"))
    async with serve(factory) as client:
        for name in ("ann", "bob"):
            agent = await client(name).make_agent()
            await client(name).say(agent, await client(name).make_session(agent), f"The code is {name}-secret.")
    for name, other in (("ann", "bob"), ("bob", "ann")):
        files = (tmp_path / f"memories/users/{name}/Memory").glob("*.md")
        written = "".join(file.read_text(encoding="utf-8") for file in files)
        assert f"{name}-secret" in written
        assert f"{other}-secret" not in written


async def test_switched_off_there_is_no_memory(tmp_path, serve) -> None:
    factory = MemoryMiddlewareFactory(settings(ENABLED="false", WORKDIR=str(tmp_path / "memories")))
    assert await factory("ann", "a", "s") == []
    async with serve(factory) as client:
        ann = client("ann")
        agent = await ann.make_agent()
        assert await ann.say(agent, await ann.make_session(agent), "What is the code?") == "Known: []"
    assert "Long-term memory" not in Model.seen[0].system_prompt
    assert not (tmp_path / "memories").exists()


async def test_the_end_of_the_app_closes_every_memory_before_the_workspaces(tmp_path, serve, monkeypatch) -> None:
    order: list[str] = []
    close, close_all = AgenticMemoryMiddleware.aclose, LocalWorkspaceManager.close_all

    async def noted(self: AgenticMemoryMiddleware, **arguments: Any) -> None:
        order.append("memory")
        await close(self, **arguments)
        raise OSError("a memory that cannot be closed keeps no other open")

    async def noted_all(self: LocalWorkspaceManager) -> None:
        order.append("workspaces")
        await close_all(self)

    monkeypatch.setattr(AgenticMemoryMiddleware, "aclose", noted)
    monkeypatch.setattr(LocalWorkspaceManager, "close_all", noted_all)
    factory = MemoryMiddlewareFactory(settings(WORKDIR=str(tmp_path)))
    async with serve(factory) as client:
        for name in ("ann", "bob"):
            agent = await client(name).make_agent()
            await client(name).say(agent, await client(name).make_session(agent), "Hello, what is new?")
    assert order == ["memory", "memory", "workspaces"]


@pytest.mark.skipif(not PAGE.exists(), reason="outside a checkout there is no page")
async def test_the_page_shows_code_that_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["app"].state.extra_agent_middlewares is names["memory"]


async def test_the_example_recalls_for_one_user_and_not_for_another(tmp_path, redis_port, monkeypatch, capsys) -> None:
    for name in [name for name in os.environ if name.startswith("AGENTIC_MEMORY_")]:
        monkeypatch.delenv(name)
    example = runpy.run_path(str(ROOT / "examples" / "agent_service.py"))
    await example["main"](tmp_path, "127.0.0.1", redis_port, stay=False)
    _, alice, bob = capsys.readouterr().out.split("remember", 2)
    assert "From memory:" in alice
    assert "Hangzhou" in alice
    assert "Hangzhou" not in bob
    assert len([*tmp_path.rglob("users/alice/Memory/*.md")]) > 1
