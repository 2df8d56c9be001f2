"""Whoever changes a memory file, with whatever tool: the reply that sees it writes it down."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from agentscope.message import UserMsg
from agentscope.permission import PermissionBehavior, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import FunctionTool
from history.conftest import FACT, told
from scripted import ScriptedModel, call_tool

from agentic_memory.backends import InMemoryBackend, LocalBackend, version_of
from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.store import MemoryStore
from agentic_memory.tools import Edit, Read, Write

OLD = b"---\nname: Home\ndescription: where\ntype: user\n---\n\nLives in Hangzhou.\n"
NEW = OLD.replace(b"Hangzhou", b"Suzhou")
HELLO = UserMsg("user", "What do you know of the place where I live?")


def make_memory(workdir: Path | str, backend: Any = None, **parameters: Any) -> AgenticMemoryMiddleware:
    return AgenticMemoryMiddleware(
        workdir=str(workdir),
        backend=backend,
        parameters=AgenticMemoryMiddleware.Parameters(**{"history": True, **parameters}),
    )


def scripted(turns: list[Any] | None = None, *, default: Any = None) -> ScriptedModel:
    """A model that recalls nothing and says ``turns``."""
    return ScriptedModel(turns or [], default=default, default_selection=[])


@pytest.fixture(params=["memory", "local"])
async def memory(request, tmp_path) -> AgenticMemoryMiddleware:
    """A memory with one file and an index."""
    memory = make_memory(tmp_path, InMemoryBackend() if request.param == "memory" else LocalBackend())
    await put(memory, "home.md", OLD)
    await put(memory, "MEMORY.md", b"- [Home](home.md)\n")
    return memory


async def put(memory: AgenticMemoryMiddleware, filename: str, data: bytes) -> None:
    await memory.store.backend.write_file(await memory.store.path_of(filename), data)


async def everything(memory: AgenticMemoryMiddleware) -> set[str]:
    tree = await memory.store.backend.snapshot(await memory.store.root(), hidden=True)
    return {file.path for file in tree.files}


async def test_a_hand_edit_between_replies_is_kept_with_what_was_there_before(memory, make_agent) -> None:
    agent = make_agent(scripted(default="Ok."), memory)
    await agent.reply(HELLO)
    await put(memory, "home.md", NEW)
    await agent.reply(HELLO)
    versions = await memory.store.history("home.md")
    assert [(one.version, one.who, one.why, one.reply) for one in versions] == [
        (version_of(NEW), "unknown", "changed", ""),
        (version_of(OLD), "unknown", "found", ""),
    ]
    assert f".history/objects/{version_of(OLD)[:2]}/{version_of(OLD)}" in await everything(memory)
    assert memory.receipt(agent).failed == ()


async def test_a_file_edited_by_a_shell_during_a_reply_is_put_down_to_it(tmp_path, make_agent) -> None:
    memory = make_memory(tmp_path)
    await put(memory, "home.md", OLD)
    command = f"sed -i s/Hangzhou/Suzhou/ {tmp_path}/Memory/home.md"
    agent = make_agent(scripted([call_tool("Bash", command=command), "Done."]), memory, session="s7")
    await agent.reply(HELLO)
    newest, oldest = await memory.store.history("home.md")
    assert (newest.version, newest.previous) == (version_of(NEW), version_of(OLD))
    assert (newest.who, newest.session, newest.reply) == ("agent", "s7", memory.receipt(agent).reply_id)
    assert newest.reply
    await memory.store.restore("home.md", oldest.version)
    assert (tmp_path / "Memory" / "home.md").read_bytes() == OLD


async def test_agentscopes_own_write_is_put_down_to_the_reply(memory, make_agent) -> None:
    path = await memory.store.path_of("new.md")
    agent = make_agent(scripted([call_tool("Write", file_path=path, content="new\n"), "Done."]), memory)
    await agent.reply(HELLO)
    (version,) = await memory.store.history("new.md")
    assert (version.version, version.who, version.why) == (version_of(b"new\n"), "agent", "created")
    assert version.reply == memory.receipt(agent).reply_id


async def test_the_store_called_by_a_tool_is_put_down_to_the_reply(memory, make_agent) -> None:
    async def remember(title: str) -> str:
        """Add a memory of that title."""
        await memory.store.add(name=title, **FACT)
        return "Remembered."

    allowed = PermissionDecision(behavior=PermissionBehavior.ALLOW, message="")
    tool = FunctionTool(remember, name="remember", permission=allowed)
    agent = make_agent(scripted([call_tool("remember", title="Travel"), "Done."]), memory, tool)
    await agent.reply(HELLO)
    (version,) = await memory.store.history("travel.md")
    assert (version.who, version.why, version.reply) == ("agent", "added", memory.receipt(agent).reply_id)
    await memory.store.update("travel.md", content="x")
    assert (await told(memory.store, "travel.md"))[0] == ("store", "updated"), "the reply is over"


async def test_rm_by_an_agent_is_undone_by_restore(tmp_path, make_agent) -> None:
    memory = make_memory(tmp_path)
    await put(memory, "home.md", OLD)
    await put(memory, "MEMORY.md", b"- [Home](home.md)\n")
    agent = make_agent(scripted([call_tool("Bash", command=f"rm {tmp_path}/Memory/*"), "Done."]), memory)
    await agent.reply(HELLO)
    assert await told(memory.store, "home.md") == [("agent", "deleted"), ("unknown", "found")]
    await memory.store.restore("MEMORY.md", version_of(b"- [Home](home.md)\n"))
    await memory.store.restore("home.md", version_of(OLD))
    assert (tmp_path / "Memory" / "MEMORY.md").read_bytes() == b"- [Home](home.md)\n"
    assert (tmp_path / "Memory" / "home.md").read_bytes() == OLD


async def test_even_the_whole_directory_removed_by_an_agent_comes_back(tmp_path, make_agent) -> None:
    memory = make_memory(tmp_path)
    await put(memory, "home.md", OLD)
    agent = make_agent(scripted([call_tool("Bash", command=f"rm -r {tmp_path}/Memory"), "Done."]), memory)
    await agent.reply(HELLO)
    await memory.store.restore("home.md", version_of(OLD))
    assert (tmp_path / "Memory" / "home.md").read_bytes() == OLD


async def test_a_reply_in_which_nothing_changed_costs_one_round_trip_and_writes_nothing(memory, make_agent) -> None:
    agent = make_agent(scripted(["Ok.", call_tool("Bash", command="ls /"), "Ok."]), memory)
    for _ in range(2):  # the second calls a tool that says of itself that it only reads
        before = memory.store.backend.round_trips
        await agent.reply(HELLO)
        assert memory.store.backend.round_trips - before == 1
    assert await everything(memory) == {"home.md", "MEMORY.md"}


async def test_a_fresh_memory_gets_no_history_before_anything_is_in_it(memory, make_agent, tmp_path) -> None:
    empty = make_memory(tmp_path / "empty", memory.store.backend)
    agent = make_agent(scripted(default="Ok."), empty)
    for _ in range(3):
        await agent.reply(HELLO)
    assert await everything(empty) == {"MEMORY.md"}


async def test_what_happened_while_the_model_failed_is_written_down_by_the_next_reply(tmp_path, make_agent) -> None:
    memory = make_memory(tmp_path)
    await put(memory, "home.md", OLD)

    def fail(_call):
        raise RuntimeError("no more tokens")

    command = f"sed -i s/Hangzhou/Suzhou/ {tmp_path}/Memory/home.md"
    agent = make_agent(scripted([call_tool("Bash", command=command), fail], default="Ok."), memory)
    with pytest.raises(RuntimeError):
        await agent.reply(HELLO)
    other = make_agent(scripted(default="Ok."), memory, session="s2")
    await other.reply(HELLO)
    assert [one.version for one in await memory.store.history("home.md")] == [version_of(NEW), version_of(OLD)]


async def test_a_backend_that_cannot_take_the_history_does_not_end_the_reply(tmp_path, make_agent) -> None:
    class ReadOnly(InMemoryBackend):
        locked = False

        async def transact(self, changes, *, within=None):
            if self.locked:
                self.fail_next()
            await super().transact(changes, within=within)

    backend = ReadOnly()
    memory = make_memory(tmp_path, backend, on_error="raise")
    await put(memory, "home.md", OLD)
    await put(memory, "MEMORY.md", b"- [Home](home.md)\n")
    agent = make_agent(scripted(default="Ok."), memory)
    await agent.reply(HELLO)
    await put(memory, "home.md", NEW)
    backend.locked = True
    answer = await agent.reply(HELLO)
    assert answer.get_text_content() == "Ok."
    assert [failure.stage for failure in memory.receipt(agent).failed] == ["history"]
    backend.locked = False
    await agent.reply(HELLO)
    assert memory.receipt(agent).failed == ()
    assert await memory.store.read_version(version_of(OLD)) == OLD
    assert f".history/objects/{version_of(OLD)[:2]}/{version_of(OLD)}" in await everything(memory)


async def test_something_in_the_place_of_the_history_is_a_note_on_the_receipt(tmp_path, make_agent) -> None:
    memory = make_memory(tmp_path)
    await put(memory, "home.md", OLD)
    await put(memory, ".history", b"in the way")
    command = f"sed -i s/Hangzhou/Suzhou/ {tmp_path}/Memory/home.md"
    agent = make_agent(scripted([call_tool("Bash", command=command), "Done."]), memory)
    await agent.reply(HELLO)
    (failure,) = memory.receipt(agent).failed
    assert failure.stage == "history"
    assert f"{tmp_path}/Memory/.history" in failure.error


async def test_a_read_only_directory_is_a_note_on_the_receipt(tmp_path, make_agent) -> None:
    if os.geteuid() == 0:
        pytest.skip("to root no directory is read-only")
    memory = make_memory(tmp_path)
    await put(memory, "home.md", OLD)
    await put(memory, "MEMORY.md", b"- [Home](home.md)\n")
    agent = make_agent(scripted(default="Ok."), memory)
    await agent.reply(HELLO)
    await put(memory, "home.md", NEW)
    (tmp_path / "Memory").chmod(0o555)
    try:
        await agent.reply(HELLO)
    finally:
        (tmp_path / "Memory").chmod(0o755)
    assert [failure.stage for failure in memory.receipt(agent).failed] == ["history"]


async def test_two_agents_at_once_write_down_each_change_once(tmp_path, make_agent) -> None:
    memory = make_memory(tmp_path)
    await put(memory, "home.md", OLD)
    agents = [
        make_agent(
            scripted([call_tool("Bash", command=f"echo {name} > {tmp_path}/Memory/{name}.md"), "Done."]),
            memory,
            session=name,
        )
        for name in ("a", "b")
    ]
    await asyncio.gather(*(agent.reply(HELLO) for agent in agents))
    for name in ("a", "b"):
        assert await told(memory.store, f"{name}.md") == [("agent", "created")]
        assert [one.version for one in await memory.store.history(f"{name}.md")] == [version_of(f"{name}\n".encode())]


async def test_history_can_be_switched_off(tmp_path, make_agent) -> None:
    memory = make_memory(tmp_path, history=False)
    await put(memory, "home.md", OLD)
    command = f"sed -i s/Hangzhou/Suzhou/ {tmp_path}/Memory/home.md"
    agent = make_agent(scripted([call_tool("Bash", command=command)], default="Done."), memory)
    await agent.reply(HELLO)
    await agent.reply(HELLO)
    assert {path.name for path in (tmp_path / "Memory").iterdir()} == {"home.md", "MEMORY.md"}


async def test_a_tools_write_is_kept_even_when_a_person_saves_over_it_at_once(memory) -> None:
    store, state = memory.store, AgentState()
    await store.load()
    path = await store.path_of("home.md")
    await Read(backend=store.backend)(file_path=path, _agent_state=state)
    edit = Edit(backend=store.backend)
    await edit(file_path=path, old_string="Hangzhou", new_string="Suzhou", _agent_state=state)
    await put(memory, "home.md", b"saved by hand")  # nobody looked in between
    write = Write(backend=store.backend)
    await write(file_path=await store.path_of("new.md"), content=OLD.decode(), _agent_state=state)
    fresh = MemoryStore(workdir=store.named_root.rpartition("/")[0], backend=store.backend)
    assert [(one.version, one.why) for one in await fresh.history("home.md")] == [
        (version_of(b"saved by hand"), "changed"),
        (version_of(NEW), "edited"),
        (version_of(OLD), "found"),
    ]
    assert [(one.who, one.why) for one in await fresh.history("new.md")] == [("agent", "written")]


async def test_a_tool_writes_outside_the_memory_and_where_nobody_keeps_a_history_as_ever(tmp_path) -> None:
    backend, state = InMemoryBackend(), AgentState()
    store = MemoryStore(workdir="/w", backend=backend, history=False)
    await store.load()
    write = Write(backend=backend)
    for path in ("/w/Memory/a.md", "/w/Memory/../b.md", "/elsewhere.md"):
        await write(file_path=path, content="text", _agent_state=state)
    assert {file.path for file in (await backend.snapshot("/", hidden=True)).files} == {
        "w/Memory/a.md",
        "w/b.md",
        "elsewhere.md",
    }
