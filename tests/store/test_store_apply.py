"""Several operations as one: all or none, one transaction of the history, and nobody's concurrent text is lost."""

import asyncio

import pytest

from agentic_memory.backends import InMemoryBackend, LocalBackend, version_of
from agentic_memory.errors import Conflict, InvalidMemory, MemoryNotFound, UnsafePath
from agentic_memory.operations import Create, Forget, Rename, Rewrite, Update
from agentic_memory.store import MemoryStore

FACT = {"description": "When travel is planned", "type": "user", "content": "Prefers trains.\nHas a dog.\n"}


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path) -> MemoryStore:
    backend = InMemoryBackend() if request.param == "memory" else LocalBackend()
    return MemoryStore(workdir=str(tmp_path), backend=backend)


async def read(store: MemoryStore, filename: str) -> str:
    return (await store.backend.read_file(f"{await store.root()}/{filename}")).decode()


async def write(store: MemoryStore, filename: str, text: str) -> None:
    await store.backend.write_file(f"{await store.root()}/{filename}", text.encode())


async def files(store: MemoryStore) -> dict[str, str]:
    tree = await store.backend.snapshot(await store.root(), suffix=".md", hidden=True)
    return {file.path: (file.data or b"").decode() for file in tree.files}


async def test_operations_are_one_transaction_of_files_index_and_history(store) -> None:
    await store.add(name="Old", **FACT)
    await store.add(name="Gone", **FACT)
    trips = store.backend.round_trips
    done = await store.apply(
        [
            Create(name="Travel", fields={"source": "chat"}, **FACT),
            Update(filename="old.md", content="Prefers ships.", fields={"expires": "2030-01-01"}),
            Rename(filename="old.md", new_filename="ships.md"),
            Forget(filename="gone.md"),
        ],
        why="sorted",
    )
    assert store.backend.round_trips - trips == 2
    assert await read(store, "MEMORY.md") == (
        "- [Old](ships.md) — When travel is planned\n- [Travel](travel.md) — When travel is planned\n"
    )
    assert [outcome.filename for outcome in done.outcomes][:3] == ["travel.md", "old.md", "ships.md"]
    assert done.outcomes[3].file is None
    assert done.outcomes[3].filename.endswith("/gone.md")
    assert (await store.get("travel.md")).fields["source"] == "chat"
    assert (await store.get("ships.md")).fields["expires"] == "2030-01-01"
    for filename in ("travel.md", "old.md", "ships.md", "gone.md", "MEMORY.md"):
        newest = (await store.history(filename))[0]
        assert (newest.transaction, newest.why) == (done.id, "sorted"), filename


async def test_one_that_cannot_be_done_leaves_everything_as_it_was(store) -> None:
    await store.add(name="Travel", **FACT)
    before = await files(store)
    for wrong, error in (
        (Update(filename="nope.md", content="x"), MemoryNotFound),
        (Create(name=" ", **FACT), InvalidMemory),
        (Rename(filename="travel.md", new_filename="../x.md"), UnsafePath),
        (Create(name="Trips", filename="travel.md", **FACT), Conflict),
        (Forget(filename="travel.md", expected="0" * 64), Conflict),
    ):
        with pytest.raises(error):
            await store.apply([Create(name="New", **FACT), wrong])
    assert await files(store) == before


async def test_nothing_to_change_is_no_transaction(store) -> None:
    await store.add(name="Travel", **FACT)
    trips = store.backend.round_trips
    assert (await store.apply([Update(filename="travel.md", type="user")])).id is None
    assert (await store.apply([])).outcomes == ()
    assert store.backend.round_trips - trips == 2


async def test_a_later_operation_sees_what_an_earlier_one_did(store) -> None:
    done = await store.apply(
        [
            Create(name="Travel", **FACT),
            Create(name="Travel", **FACT),
            Update(filename="travel_2.md", content="Second."),
            Forget(filename="travel.md"),
            Create(name="Travel", filename="travel.md", **FACT),
        ]
    )
    assert [outcome.filename for outcome in done.outcomes[:3]] == ["travel.md", "travel_2.md", "travel_2.md"]
    assert {name.rpartition("/")[2] for name in await files(store)} == {"MEMORY.md", "travel.md", "travel_2.md"}
    assert (await store.get("travel_2.md")).content.strip() == "Second."


async def test_two_files_change_places(store) -> None:
    for name in ("a", "b"):
        await store.add(name=name, description="d", type="user", content=name)
    await store.apply(
        [
            Rename(filename="a.md", new_filename="c.md"),
            Rename(filename="b.md", new_filename="a.md"),
            Rename(filename="c.md", new_filename="b.md"),
        ]
    )
    assert [(file.filename, file.name) for file in await store.get_all()] == [("a.md", "b"), ("b.md", "a")]


async def test_what_a_person_wrote_meanwhile_is_merged_or_the_whole_is_refused(store) -> None:
    base = await store.add(name="Travel", **FACT)
    await write(store, "travel.md", (await read(store, "travel.md")).replace("a dog", "two dogs"))
    other = Create(name="Other", **FACT)
    clash = Update(filename="travel.md", content="Prefers trains.\nHas a cat.\n", expected=base.version)
    with pytest.raises(Conflict, match=r"travel\.md"):
        await store.apply([other, clash])
    assert "other.md" not in await files(store)
    fine = Update(filename="travel.md", content="Prefers ships.\nHas a dog.\n", expected=base.version)
    await store.apply([other, fine])
    assert (await store.get("travel.md")).content == "Prefers ships.\nHas two dogs.\n"


async def test_the_index_is_merged_entry_by_entry(store) -> None:
    await store.add(name="Travel", **FACT)
    base = await read(store, "MEMORY.md")
    await write(store, "MEMORY.md", base + "- [By hand](hand.md) — mine\n")
    new = base.replace("When travel is planned", "Trips").encode()
    await store.apply([Rewrite(filename="MEMORY.md", data=new, expected=version_of(base.encode()))])
    assert await read(store, "MEMORY.md") == "- [Travel](travel.md) — Trips\n- [By hand](hand.md) — mine\n"


async def test_concurrent_transactions_lose_no_operation(tmp_path) -> None:
    stores = [MemoryStore(workdir=str(tmp_path), backend=LocalBackend()) for _ in range(3)]

    async def work(store: MemoryStore, who: int) -> None:
        for turn in range(4):
            await store.apply([Create(name=f"{who} {turn} {part}", **FACT) for part in "ab"])

    await asyncio.gather(*(work(store, who) for who, store in enumerate(stores)))
    snapshot = await stores[0].load()
    assert len(snapshot.files) == len(snapshot.index.entries) == 24


async def test_acting_as_names_who_and_why_for_this_task_only(store) -> None:
    async def act(name: str) -> None:
        with store.acting_as(who="consolidation", why=f"because of {name}", session="s", reply=name):
            await asyncio.sleep(0)
            await store.add(name=name, **FACT)

    await asyncio.gather(act("a"), act("b"), store.add(name="c", **FACT))
    told = {name: (await store.history(f"{name}.md"))[0] for name in "abc"}
    for name in "ab":
        assert (told[name].who, told[name].why) == ("consolidation", f"because of {name}")
        assert (told[name].session, told[name].reply) == ("s", name)
    assert (told["c"].who, told["c"].why, told["c"].reply) == ("store", "added", "")


async def test_acting_as_holds_for_its_store_and_nests(store, tmp_path) -> None:
    other = MemoryStore(workdir=str(tmp_path / "other"), backend=InMemoryBackend(), who="tool")
    with store.acting_as(who="person"), other.acting_as(why="copied"):
        await store.add(name="a", **FACT)
        await other.add(name="a", **FACT)
    first, second = [(await one.history("a.md"))[0] for one in (store, other)]
    assert (first.who, first.why) == ("person", "added")
    assert (second.who, second.why) == ("tool", "copied")
