"""What a search finds is what is there now, whoever changed it, and however old it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from agentscope.agent import Agent
from agentscope.message import UserMsg
from scripted import ScriptedModel

from agentic_memory.backends import InMemoryBackend, LocalBackend
from agentic_memory.backends.values import ABSENT, Put
from agentic_memory.document import render_document
from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.store import MemoryStore

HEADER = {"description": "When it comes up", "type": "project"}


async def found(store: MemoryStore, query: str) -> list[str]:
    return [match.filename for match in await store.search(query)]


@pytest.fixture(params=["memory", "local"])
async def store(request, tmp_path) -> MemoryStore:
    backend = InMemoryBackend() if request.param == "memory" else LocalBackend()
    store = MemoryStore(workdir=str(tmp_path), backend=backend)
    await store.add(name="Tea", content="Likes sencha.", **HEADER)
    await store.add(name="Boat", content="Moored at pier nineteen.", **HEADER)
    assert await found(store, "sencha") == ["tea.md"]
    return store


async def test_an_edit_is_found_at_once(store) -> None:
    await store.update("tea.md", content="Likes matcha.")
    assert (await found(store, "matcha"), await found(store, "sencha")) == (["tea.md"], [])


async def test_an_edit_behind_the_back_of_the_store_is_found_at_once(store) -> None:
    await store.backend.write_file(await store.path_of("tea.md"), b"Likes matcha.")
    assert (await found(store, "matcha"), await found(store, "sencha")) == (["tea.md"], [])


async def test_an_edit_by_another_store_in_this_process_is_found_at_once(store, tmp_path) -> None:
    other = MemoryStore(workdir=str(tmp_path), backend=store.backend)
    await other.update("tea.md", content="Likes matcha.")
    assert (await found(store, "matcha"), await found(other, "matcha")) == (["tea.md"], ["tea.md"])
    await store.update("tea.md", content="Likes genmaicha.")
    assert (await found(other, "genmaicha"), await found(other, "matcha")) == (["tea.md"], [])


async def test_a_forgotten_file_is_found_by_nobody(store, tmp_path) -> None:
    other = MemoryStore(workdir=str(tmp_path), backend=store.backend)
    assert await found(other, "sencha") == ["tea.md"]
    await store.forget("tea.md")
    assert (await found(store, "sencha"), await found(other, "sencha")) == ([], [])


async def test_a_renamed_file_is_found_under_its_new_name_only(store) -> None:
    await store.rename("tea.md", "drinks/green.md")
    assert await found(store, "sencha") == ["drinks/green.md"]


async def test_a_memory_that_was_taken_away_is_found_empty_and_found_again_when_it_is_back(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    await store.add(name="Tea", content="Likes sencha.", **HEADER)
    assert await found(store, "sencha") == ["tea.md"]
    (tmp_path / "Memory").rename(tmp_path / "aside")
    assert await found(store, "sencha") == []
    (tmp_path / "aside").rename(tmp_path / "Memory")
    assert await found(store, "sencha") == ["tea.md"]


@pytest.mark.may_block("starts a process and waits for it, so that the search comes right after the change")
@pytest.mark.parametrize(
    ("change", "finds"),
    [
        ("p.write_bytes(p.read_bytes().replace(b'sencha', b'matcha'))", {"matcha": ["tea.md"], "sencha": []}),
        ("p.unlink()", {"sencha": []}),
        ("p.rename(p.with_name('green.md'))", {"sencha": ["green.md"]}),
        ("p.with_name('new.md').write_text('Rides a Brompton.')", {"Brompton": ["new.md"], "sencha": ["tea.md"]}),
    ],
    ids=["edit", "delete", "rename", "add"],
)
async def test_a_change_by_another_process_is_found_at_once(tmp_path: Path, change: str, finds) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    await store.add(name="Tea", content="Likes sencha.", **HEADER)
    assert await found(store, "sencha") == ["tea.md"]
    code = f"import pathlib, sys; p = pathlib.Path(sys.argv[1]); {change}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code, str(tmp_path / "Memory" / "tea.md")], check=True)
    assert {query: await found(store, query) for query in finds} == finds


async def test_a_file_older_than_ten_thousand_newer_ones_is_found_and_recalled() -> None:
    backend = InMemoryBackend()
    await backend.write_file("/srv/app/Memory/old.md", b"The boat is moored at pier nineteen.")
    notes = [render_document(name="Note", content=f"entry {number}", **HEADER) for number in range(10_000)]
    await backend.transact(
        [Put(f"/srv/app/Memory/new{number}.md", data, ABSENT) for number, data in enumerate(notes)],
        within="/srv/app/Memory",
    )
    question = "Where is the boat moored?"
    assert await found(MemoryStore(workdir="/srv/app", backend=backend), question) == ["old.md"]
    model = ScriptedModel(["At pier nineteen."], selections=[["old.md"]])
    memory = AgenticMemoryMiddleware(workdir="/srv/app", backend=backend)
    agent = Agent(name="assistant", system_prompt="Be brief.", model=model, middlewares=[memory])
    await agent.reply(UserMsg("user", question))
    assert [file.filename for file in memory.receipt(agent).loaded] == ["old.md"]
    assert "pier nineteen" in model.calls[0].wire
