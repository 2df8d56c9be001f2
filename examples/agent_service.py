"""AgentScope's agent service with a memory for each user: what one session saved, the next one recalls.

Needs ``pip install "agentic-memory[service]"``, and a Redis server (``--redis HOST:PORT``) or ``pip install "fakeredis[lua]"``,
which plays one. It serves on a free port of this machine, talks to itself over HTTP as two users and ends; ``--serve`` keeps
it running. No key is needed: an offline stand-in takes the model's place. ``AGENTIC_MEMORY_*`` variables set the memory up, as
``docs/service.md`` says.
"""

import argparse
import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import httpx
import uvicorn
from agentscope.app import create_app
from agentscope.app.message_bus import RedisMessageBus
from agentscope.app.storage import RedisStorage
from agentscope.app.workspace_manager import LocalWorkspaceManager
from agentscope.credential import CredentialBase
from agentscope.message import UserMsg

from agentic_memory.offline import OfflineModel
from agentic_memory.service import MemoryMiddlewareFactory


class OfflineServiceModel(OfflineModel):
    """The stand-in, made as the service makes models."""

    type = "offline_chat"

    def __init__(self, credential: CredentialBase, model: str, parameters: Any = None) -> None:
        super().__init__()


class OfflineCredential(CredentialBase):
    """The key that the stand-in does not need; the service asks it for the model."""

    type: Literal["offline_credential"] = "offline_credential"

    @classmethod
    def get_chat_model_class(cls) -> Any:
        return OfflineServiceModel


def start_redis() -> tuple[str, int]:
    """Play a Redis server on a free port, as long as this process lives."""
    from fakeredis import TcpFakeServer

    server = TcpFakeServer(("127.0.0.1", 0))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "127.0.0.1", server.server_address[1]


@asynccontextmanager
async def serve(folder: Path, host: str, port: int) -> AsyncIterator[str]:
    """Run the service and give its address."""
    memory = MemoryMiddlewareFactory()
    app = create_app(
        storage=RedisStorage(host=host, port=port),
        message_bus=RedisMessageBus(host=host, port=port),
        workspace_manager=LocalWorkspaceManager(basedir=str(folder)),
        extra_credentials=[OfflineCredential],
        extra_agent_middlewares=memory,
    )
    memory.attach_to_app(app)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await running


class User:
    """One user of the service, and the agent that is theirs."""

    def __init__(self, http: httpx.AsyncClient, name: str) -> None:
        self._http, self._name = http, name
        self._agent = ""

    async def _call(self, method: str, path: str, **arguments: Any) -> Any:
        response = await self._http.request(method, path, headers={"X-User-ID": self._name}, **arguments)
        response.raise_for_status()
        return response.json()

    async def say(self, text: str) -> None:
        """Say something in a new session and print what is answered."""
        if not self._agent:
            self._agent = (await self._call("POST", "/agent/", json={"name": "Friday"}))["agent_id"]
        key = await self._call("POST", "/credential/", json={"data": {"type": "offline_credential"}})
        model = {
            "type": "offline_credential",
            "credential_id": key["credential_id"],
            "model": "offline",
            "parameters": {},
        }
        made = await self._call("POST", "/sessions/", json={"agent_id": self._agent, "chat_model_config": model})
        where = {"agent_id": self._agent, "session_id": made["session_id"]}
        await self._call(
            "PATCH",
            f"/sessions/{made['session_id']}",
            params={"agent_id": self._agent},
            json={"permission_mode": "accept_edits"},
        )
        await self._call("POST", "/chat/", json={**where, "input": UserMsg(self._name, text).model_dump(mode="json")})
        while True:
            await asyncio.sleep(0.05)
            page = await self._call("GET", f"/sessions/{made['session_id']}/messages", params={"agent_id": self._agent})
            last = page["messages"][-1] if page["messages"] else {}
            if last.get("role") == "assistant" and last.get("finished_reason"):
                break
        answer = "".join(block.get("text", "") for block in last["content"])
        print(f"{self._name}: {text}\nFriday: {answer}\n")


async def main(folder: Path, host: str, port: int, *, stay: bool) -> None:
    async with serve(folder, host, port) as address:
        print(f"serving on {address}\n")
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as http:
            alice, bob = User(http, "alice"), User(http, "bob")
            await alice.say("Remember that I live in Hangzhou and prefer concise Chinese answers.")
            await alice.say("Do you remember my location and answer style preference?")
            await bob.say("Do you remember my location?")
        if stay:
            await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", default="workspaces", help="where the workspaces of the agents are")
    parser.add_argument("--redis", metavar="HOST:PORT", help="a Redis server; one is played when not given")
    parser.add_argument("--serve", action="store_true", help="keep serving")
    given = parser.parse_args()
    redis_host, _, redis_port = (given.redis or "").partition(":")
    place = (redis_host, int(redis_port or 6379)) if given.redis else start_redis()
    with suppress(KeyboardInterrupt):
        asyncio.run(main(Path(given.folder).absolute(), *place, stay=given.serve))
    for file in sorted(Path(given.folder).rglob("*.md")):
        print(file)
