"""A history in another backend: it outlives the memory's own place, and is there before a change is acknowledged."""

import asyncio

import pytest
from history.conftest import FACT, told, write

from agentic_memory.backends import InMemoryBackend, LocalBackend, version_of
from agentic_memory.errors import BackendUnavailable, Conflict
from agentic_memory.operations import Create, Update
from agentic_memory.store import MemoryStore


@pytest.fixture
def sandbox() -> InMemoryBackend:
    return InMemoryBackend()


@pytest.fixture
def store(sandbox, tmp_path) -> MemoryStore:
    return MemoryStore(workdir="/w", backend=sandbox, history=(LocalBackend(), str(tmp_path)))


async def test_the_memory_comes_back_when_its_sandbox_is_gone(store, tmp_path) -> None:
    added = await store.add(name="Travel", **FACT)
    await store.update("travel.md", content="x")
    new = MemoryStore(workdir="/w", backend=InMemoryBackend(), history=(LocalBackend(), str(tmp_path)))
    for version in {one.filename: one for one in reversed(await new.changes())}.values():
        assert version.version is not None
        await new.restore(version.filename, version.version)
    assert (await new.get("travel.md")).content.strip() == "x"
    await new.restore("travel.md", added.version)
    assert [file.filename for file in await new.get_all()] == ["travel.md"]


async def test_nothing_of_it_is_in_the_memorys_own_place(store, sandbox) -> None:
    await store.add(name="Travel", **FACT)
    tree = await sandbox.snapshot("/w/Memory", hidden=True)
    assert [file.path for file in tree.files] == ["MEMORY.md", "travel.md"]


async def test_one_directory_serves_many_memories(sandbox, tmp_path) -> None:
    stores = [
        MemoryStore(workdir=f"/users/{user}", backend=sandbox, history=(LocalBackend(), str(tmp_path))) for user in "ab"
    ]
    for store in stores:
        await store.add(name=f"Of {store.named_root[7]}", **FACT)
    for store in stores:
        assert {one.filename for one in await store.changes()} == {f"of_{store.named_root[7]}.md", "MEMORY.md"}


async def test_a_change_that_was_refused_is_not_in_it(store, sandbox) -> None:
    added = await store.add(name="Travel", **FACT)
    before = await store.changes()
    transact = sandbox.transact

    async def lose(changes, *, within=None):
        raise BackendUnavailable("gone")

    sandbox.transact = lose
    with pytest.raises(BackendUnavailable):
        await store.update("travel.md", content="x")
    sandbox.transact = transact
    assert await store.changes() == before
    with pytest.raises(Conflict):
        await store.apply([Create(name="New", **FACT), Update(filename="travel.md", content="y", expected="0" * 64)])
    assert await store.changes() == before
    assert (await store.get("travel.md")).version == added.version


async def test_a_history_that_is_away_keeps_nobody_from_writing(sandbox, caplog) -> None:
    away = InMemoryBackend()
    store = MemoryStore(workdir="/w", backend=sandbox, history=(away, "/h"))
    away.fail_next()
    await store.add(name="Travel", **FACT)
    assert "history failed" in caplog.text
    assert await store.record_history() == 2
    assert await told(store, "travel.md") == [("store", "added")]


async def test_writers_at_once_lose_no_entry(sandbox, tmp_path) -> None:
    stores = [MemoryStore(workdir="/w", backend=sandbox, history=(LocalBackend(), str(tmp_path))) for _ in range(3)]
    await asyncio.gather(
        *(store.add(name=f"{who} {turn}", **FACT) for who, store in enumerate(stores) for turn in range(4))
    )
    names = {file.filename for file in await stores[0].get_all()}
    assert len(names) == 12
    assert {one.filename for one in await stores[0].changes() if one.why == "added"} == names | {"MEMORY.md"}
    index = await stores[0].history("MEMORY.md")
    assert len({one.version for one in index}) == 12


async def test_hand_edits_undo_and_purge_work_there_too(store, sandbox, tmp_path) -> None:
    await store.add(name="Travel", **FACT)
    await write(store, "travel.md", b"by hand, the-secret\n")
    await store.load()
    assert await store.record_history() == 1
    noticed = (await store.history("travel.md"))[0]
    assert (noticed.version, noticed.who) == (version_of(b"by hand, the-secret\n"), "unknown")
    await store.undo(noticed.transaction)
    assert (await store.get("travel.md")).name == "Travel"
    purged = await store.purge("travel.md")
    assert purged.remaining == ()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"the-secret" in path.read_bytes()]
    assert (await store.usage()).versions >= 1
