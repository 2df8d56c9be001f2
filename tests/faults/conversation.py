"""One reply with memory that makes every kind of call, and the same agent's next reply.

Before the model is asked, memory is read (and MEMORY.md made where there is none). Then the agent writes a new memory
file, edits the index and has one more memory added. A fault strikes right before one of the calls to the backend; when
the reply is over the fault is lifted, and the same agent is asked again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations
from tempfile import TemporaryDirectory
from typing import Any

from agentscope.agent import Agent
from agentscope.message import Msg, ToolResultState, UserMsg
from agentscope.permission import (
    AdditionalWorkingDirectory,
    PermissionBehavior,
    PermissionContext,
    PermissionDecision,
    PermissionMode,
)
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, Toolkit
from scripted import ModelCall, ScriptedModel, call_tool

from agentic_memory import AgenticMemoryMiddleware
from agentic_memory.backends import ABSENT, Backend, InMemoryBackend, LocalBackend, Put
from agentic_memory.receipt import Receipt
from agentic_memory.tools import Edit, Read, Write
from agentic_memory.tools.answers import answer, answers_errors

LOCATION = b"---\nname: Location\ndescription: Where the user lives\ntype: user\n---\n\nLives in Hangzhou.\n"
DEPLOY = b"---\nname: Deploy\ndescription: Before a deploy\ntype: project\n---\n\nNever on a Friday.\n"
LAST_ENTRY = "- [Location](user_location.md) \N{EM DASH} where the user lives"
INDEX = (
    "# What I know\n\nKept by hand for two years; the order matters.\n\n"
    + "".join(f"- [Deploy rule {number}](team/deploy.md) \N{EM DASH} before a deploy\n" for number in range(1, 25))
    + f"{LAST_ENTRY}\n"
).encode()
BEFORE = {"MEMORY.md": INDEX, "user_location.md": LOCATION, "team/deploy.md": DEPLOY}

# Hexadecimal digits shrink to half, no further: large enough to go by upload where small requests do not.
NEW = "---\nname: Log\ndescription: What was measured\ntype: project\n---\n\n" + "".join(
    f"{random.Random(number).randbytes(48).hex()}\n" for number in range(1_200)
)
EDITED_ENTRY = "- [Log](log.md) \N{EM DASH} what was measured"
EFFECTS = {"Write": "log.md", "Edit": "MEMORY.md", "add": "answer_style.md"}
"""The file in which the work of each tool shows."""
LEFTOVER = ".agentic-memory"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a reply without a fault: which opening, the how-manieth of it, and its name."""

    index_is_there: bool
    number: int
    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def stage(self) -> str:
        """``start``, or the tool at work."""
        return self.name.partition(":")[0]

    @property
    def writes(self) -> bool:
        """Whether it is to change anything."""
        return "transact" in self.name


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool told the model."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Played:
    """What came of a reply."""

    text: str
    receipt: Receipt
    answers: Mapping[str, Answer]
    prompt: str = field(repr=False)


class Tap:
    """Stands at the seam: names every call, and lets something strike before one of them."""

    def __init__(self, backend: Backend) -> None:
        self.stage = "start"
        self.names: list[str] = []
        self._strikes: dict[int, Callable[[], Awaitable[None]]] = {}
        for method in ("snapshot", "fetch", "transact"):
            setattr(backend, method, partial(self._pass_on, method, getattr(backend, method)))

    def strike_at(self, number: int, action: Callable[[], Awaitable[None]]) -> None:
        """Run ``action`` right before the call of that number."""
        self._strikes[number] = action

    async def _pass_on(self, method: str, call: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        self.names.append(f"{self.stage}: {method}")
        action = self._strikes.pop(len(self.names) - 1, None)
        if action is not None:
            await action()
        return await call(*args, **kwargs)


class Conversation:
    """An agent with a memory in ``workdir`` of ``backend``, and what it says next."""

    def __init__(self, backend: Backend, workdir: str, *, index_is_there: bool = True) -> None:
        self.tap = Tap(backend)
        self.root = f"{workdir}/Memory"
        self._backend = backend
        # Without history: its own files and calls would have to be told apart from those that are struck.
        parameters = AgenticMemoryMiddleware.Parameters(history=False)
        self._memory = AgenticMemoryMiddleware(workdir=workdir, backend=backend, parameters=parameters)
        first = [self._write, *([self._edit] if index_is_there else []), partial(self._add, "Answer style"), "Done."]
        self._model = ScriptedModel(
            [*first, partial(self._add, "Afterwards"), "Done again."], default_selection=["user_location.md"]
        )
        allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="")
        tools = [tool(backend=backend) for tool in (Read, Write, Edit)]
        self._agent = Agent(
            name="assistant",
            system_prompt="You are a helpful assistant.",
            model=self._model,
            toolkit=Toolkit(tools=[*tools, FunctionTool(self.remember, name="add", permission=allowed)]),
            middlewares=[self._memory],
            state=AgentState(
                permission_context=PermissionContext(
                    mode=PermissionMode.ACCEPT_EDITS,
                    working_directories={workdir: AdditionalWorkingDirectory(path=workdir, source="test")},
                )
            ),
        )

    async def reply(self) -> Played:
        """Ask the agent once and return what came of it."""
        self.tap.stage = "start"
        calls, context = len(self._model.calls), self._agent.state.context
        seen = len(_results(context))
        message = await self._agent.reply(UserMsg("user", "Where do I live, and what was measured?"))
        receipt = self._memory.receipt(self._agent)
        assert receipt is not None
        answers = dict(_results(self._agent.state.context)[seen:])
        return Played(message.get_text_content() or "", receipt, answers, self._model.calls[calls].text)

    @answers_errors
    async def remember(self, title: str) -> Any:
        """Add a memory of that title."""
        file = await self._memory.store.add(
            name=title, description=f"{title} of the user", type="user", content="Short.\n"
        )
        return answer(f"Remembered in {file.filename}.")

    def _write(self, _call: ModelCall) -> Any:
        self.tap.stage = "Write"
        return call_tool("Write", file_path=f"{self.root}/log.md", content=NEW)

    def _edit(self, _call: ModelCall) -> Any:
        self.tap.stage = "Edit"
        lines = f"{LAST_ENTRY}\n{EDITED_ENTRY}"
        return call_tool("Edit", file_path=f"{self.root}/MEMORY.md", old_string=LAST_ENTRY, new_string=lines)

    def _add(self, name: str, _call: ModelCall) -> Any:
        self.tap.stage = "add"
        return call_tool("add", title=name)


def _results(context: list[Msg]) -> list[tuple[str, Answer]]:
    return [
        (block.name, Answer(block.state == ToolResultState.SUCCESS, _text(block.output)))
        for message in context
        for block in message.get_content_blocks("tool_result")
    ]


def _text(output: Any) -> str:
    return output if isinstance(output, str) else "\n".join(getattr(block, "text", "") for block in output)


async def plant(backend: Backend, workdir: str, *, index_is_there: bool = True) -> None:
    """Put the memory there that the reply finds."""
    files = {name: data for name, data in BEFORE.items() if index_is_there or name != "MEMORY.md"}
    await backend.transact([Put(f"{workdir}/Memory/{name}", data, ABSENT) for name, data in files.items()])


# ------------------------------------------------------------------ what a reply without a fault does


@dataclass(frozen=True, slots=True)
class Clean:
    """A reply without a fault: the calls it makes, and the memory it leaves, also after the next reply."""

    calls: tuple[Call, ...]
    after: Mapping[str, bytes]


async def _play_clean(backend: Backend, workdir: str, *, index_is_there: bool) -> Clean:
    await plant(backend, workdir, index_is_there=index_is_there)
    conversation = Conversation(backend, workdir, index_is_there=index_is_there)
    played = await conversation.reply()
    names = tuple(conversation.tap.names)
    assert not played.receipt.failed
    assert all(answer.ok for answer in played.answers.values()), played.answers
    await conversation.reply()
    tree = await backend.snapshot(f"{workdir}/Memory", hidden=True)
    calls = tuple(
        Call(index_is_there, number, f"{name} again" if name in names[:number] else name)
        for number, name in enumerate(names)
    )
    return Clean(calls, {record.path: record.data or b"" for record in tree.files})


@cache
def clean_run(*, local: bool = False, index_is_there: bool = True) -> Clean:
    """Play the reply without a fault, in memory or on the local disk."""
    with TemporaryDirectory() as folder:
        backend = LocalBackend() if local else InMemoryBackend()
        return asyncio.run(_play_clean(backend, folder, index_is_there=index_is_there))


@cache
def calls_to_strike(*, local: bool = False) -> tuple[Call, ...]:
    """Return every call of the reply, and of the same reply where there is no index yet the one that makes it."""
    calls = clean_run(local=local).calls
    makes_index = [call for call in clean_run(local=local, index_is_there=False).calls if call.stage == "start"][1:]
    return (calls[0], *makes_index, *calls[1:])


def possible_indexes(*, index_is_there: bool) -> set[bytes | None]:
    """Return every MEMORY.md that a reply may leave: with each of its entries or without."""
    after = clean_run(index_is_there=index_is_there).after["MEMORY.md"]
    before = INDEX if index_is_there else b""
    assert after.startswith(before)
    entries = after.removeprefix(before).splitlines(keepends=True)
    found: set[bytes | None] = {
        before + b"".join(some) for count in range(len(entries) + 1) for some in combinations(entries, count)
    }
    return found if index_is_there else found | {None}
