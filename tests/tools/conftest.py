"""A directory of memory files on each backend that runs anywhere, and the three tools on it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from agentscope.message import ToolResultState
from agentscope.state import AgentState
from agentscope.tool import ToolChunk

from agentic_memory.backends import ABSENT, Backend, InMemoryBackend
from agentic_memory.backends.local import LocalBackend
from agentic_memory.tools import Edit, Read, Write


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool answered."""

    text: str
    ok: bool
    metadata: dict[str, object]


def answer_of(chunk: ToolChunk) -> Answer:
    text = "".join(block.text for block in chunk.content)
    assert chunk.state in {ToolResultState.RUNNING, ToolResultState.ERROR}
    # A model, and a person's interface, tell an error by its first word as well as by its state.
    assert text.startswith("Error") is (chunk.state == ToolResultState.ERROR)
    return Answer(text, chunk.state == ToolResultState.RUNNING, chunk.metadata)


@dataclass
class Place:
    """A directory, the tools on it, and one agent that uses them."""

    backend: Backend
    root: str
    put: Callable[[str, bytes], None]
    state: AgentState = field(default_factory=AgentState)

    def plant(self, name: str, data: bytes) -> None:
        """Write a file by hand, as a person's editor does."""
        self.put(self.path(name), data)

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    async def bytes_of(self, name: str) -> bytes | None:
        record = await self.backend.fetch(self.path(name))
        return None if record is ABSENT else record.data

    async def read(self, name: str, **more: object) -> Answer:
        tool = Read(backend=self.backend)
        return answer_of(await tool(file_path=self.path(name), _agent_state=self.state, **more))

    async def write(self, name: str, content: str) -> Answer:
        tool = Write(backend=self.backend)
        return answer_of(await tool(file_path=self.path(name), content=content, _agent_state=self.state))

    async def edit(self, name: str, old: str, new: str, **more: object) -> Answer:
        tool = Edit(backend=self.backend)
        arguments = {"file_path": self.path(name), "old_string": old, "new_string": new, **more}
        return answer_of(await tool(**arguments, _agent_state=self.state))


@pytest.fixture
def memory_place() -> Place:
    backend = InMemoryBackend()
    backend.make_directory("/m")
    return Place(backend, "/m", backend.plant)


@pytest.fixture(params=["memory", "local"])
def place(request, tmp_path, memory_place) -> Place:
    if request.param == "memory":
        return memory_place

    def plant(path: str, data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)

    return Place(LocalBackend(), str(tmp_path), plant)


@pytest.fixture
def touch(place) -> Callable[[str], None]:
    """Set a file's time to a day ago and leave its bytes alone."""

    def set_time(name: str) -> None:
        path = place.path(name)
        if isinstance(place.backend, InMemoryBackend):
            record = place.backend._nodes[path]
            place.backend.plant(path, record.data, mtime_ns=record.mtime_ns - 86_400 * 10**9)
        else:
            os.utime(path, (1_000_000_000, 1_000_000_000))

    return set_time
