"""Undo of a reply or a transaction, the whole memory at a time, and the way back out of the trash."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from history.conftest import FACT, told, write
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_memory.backends import InMemoryBackend, LocalBackend, version_of
from agentic_memory.errors import AgenticMemoryError, Conflict, InvalidMemory, MemoryNotFound
from agentic_memory.operations import Create, Forget, Rename, Update
from agentic_memory.store import MemoryStore


async def files(store: MemoryStore) -> dict[str, bytes]:
    tree = await store.backend.snapshot(await store.root(), suffix=".md")
    return {file.path: file.data or b"" for file in tree.files}


async def read(store: MemoryStore, filename: str) -> bytes:
    return await store.backend.read_file(await store.path_of(filename))


@pytest.fixture
async def filled(store) -> MemoryStore:
    for name in ("Travel", "Food", "Work"):
        await store.add(
            name=name, description=f"About {name}", type="user", content="One.\nTwo.\nThree.\nFour.\nFive.\n"
        )
    return store


MANY = [
    Create(name="New", **FACT),
    Update(filename="travel.md", content="One.\nTwo.\nChanged.\nFour.\nFive.\n", description="Other"),
    Forget(filename="food.md"),
    Rename(filename="work.md", new_filename="job.md"),
]


async def test_a_transaction_is_undone_as_a_whole_and_the_undo_too(filled) -> None:
    before = await files(filled)
    done = await filled.apply(MANY)
    after = await files(filled)
    assert done.id is not None
    undone = await filled.undo(done.id)
    assert await files(filled) == before
    assert {*undone.filenames} == {"new.md", "travel.md", "food.md", "work.md", "job.md", "MEMORY.md"}
    assert undone.id is not None
    await filled.undo(undone.id)
    assert await files(filled) == after


async def test_what_comes_back_from_the_trash_is_in_it_no_more(filled) -> None:
    done = await filled.apply([Forget(filename="food.md")])
    assert [one.filename for one in await filled.trash()] == ["food.md"]
    await filled.undo(done.id or "")
    assert await filled.trash() == []
    assert (await told(filled, "food.md"))[0] == ("store", f"undid {done.id}")


async def test_what_a_person_changed_since_in_other_lines_stays(filled) -> None:
    done = await filled.apply(MANY)
    travel = await read(filled, "travel.md")
    await write(filled, "travel.md", travel.replace(b"Five.", b"Five, by hand."))
    await write(filled, "MEMORY.md", b"# By hand\n\n" + await read(filled, "MEMORY.md"))
    await filled.undo(done.id or "")
    content = (await filled.get("travel.md")).content
    assert content == "One.\nTwo.\nThree.\nFour.\nFive, by hand.\n"
    index = (await read(filled, "MEMORY.md")).decode()
    assert index.startswith("# By hand\n\n")
    assert all(name in index for name in ("travel.md", "food.md", "work.md"))
    assert "new.md" not in index


@pytest.mark.parametrize("clash", ["edited", "removed", "created"])
async def test_a_clash_names_the_file_and_nothing_is_changed(filled, clash) -> None:
    done = await filled.apply(MANY)
    if clash == "edited":
        name, data = "travel.md", (await read(filled, "travel.md")).replace(b"Changed.", b"By hand.")
        await write(filled, name, data)
    elif clash == "removed":
        name = "travel.md"
        await filled.backend.remove(await filled.path_of(name), expected=version_of(await read(filled, "travel.md")))
    else:
        name = "food.md"
        await write(filled, name, b"Another by that name.\n")
    before = await files(filled)
    with pytest.raises(Conflict, match="somebody changed it since") as caught:
        await filled.undo(done.id or "")
    assert caught.value.path == name
    assert await files(filled) == before


async def test_all_of_one_reply_is_undone_and_nothing_between(filled) -> None:
    before = await files(filled)
    with filled.acting_as(who="agent", session="s", reply="r1"):
        await filled.update("travel.md", content="One, by r1.\nTwo.\nThree.\nFour.\nFive.\n")
    with filled.acting_as(who="agent", session="s", reply="r2"):
        await filled.update("travel.md", content="One, by r1.\nTwo.\nThree.\nFour.\nFive, by r2.\n")
    with filled.acting_as(who="agent", session="s", reply="r1"):
        await filled.update("travel.md", content="One, by r1.\nTwo.\nThree, by r1.\nFour.\nFive, by r2.\n")
        await filled.add(name="New", **FACT)
    await filled.undo("r1")
    assert await read(filled, "travel.md") == before["travel.md"].replace(b"Five.", b"Five, by r2.")
    assert "new.md" not in await files(filled)


async def test_23_forgotten_at_once_come_back_at_once(store) -> None:
    await store.apply([Create(name=f"Fact {number}", **FACT) for number in range(23)])
    before = await files(store)
    done = await store.apply([Forget(filename=filename) for filename in before if filename != "MEMORY.md"])
    assert await files(store) == {"MEMORY.md": b""}
    await store.undo(done.id or "")
    assert await files(store) == before


async def test_what_a_program_did_behind_our_back_is_a_transaction_too(filled) -> None:
    await filled.load()
    before = await files(filled)
    await write(filled, "travel.md", b"blanked\n")
    await write(filled, "food.md", b"")
    await filled.load()
    (noticed,) = {one.transaction for one in await filled.changes() if one.who == "unknown"}
    await filled.undo(noticed)
    assert await files(filled) == before


async def test_undo_twice_changes_nothing_the_second_time(filled) -> None:
    done = await filled.apply(MANY)
    await filled.undo(done.id or "")
    again = await filled.undo(done.id or "")
    assert (again.id, again.filenames) == (None, ())


async def test_undo_of_nothing_says_so(filled) -> None:
    with pytest.raises(MemoryNotFound, match="no reply and no transaction 'nope'"):
        await filled.undo("nope")


async def test_undo_while_others_write_loses_nothing_of_theirs(tmp_path) -> None:
    store, other = (MemoryStore(workdir=str(tmp_path), backend=LocalBackend()) for _ in range(2))
    done = await store.apply([Create(name=f"Fact {number}", **FACT) for number in range(5)])
    await asyncio.gather(store.undo(done.id or ""), *(other.add(name=f"Other {number}", **FACT) for number in range(5)))
    snapshot = await store.load()
    assert sorted(snapshot.documents) == [f"other_{number}.md" for number in range(5)]
    assert len(snapshot.index.entries) == 5


async def test_the_whole_memory_at_a_time(filled) -> None:
    before, then = await files(filled), datetime.now(UTC)
    await filled.apply(MANY)
    await filled.add(name="Later", **FACT)
    await filled.forget("job.md")
    after = await files(filled)
    undone = await filled.restore_all(then)
    assert await files(filled) == before
    assert (await filled.restore_all(then)).id is None
    await filled.undo(undone.id or "")
    assert await files(filled) == after


async def test_before_everything_there_was_nothing(filled) -> None:
    await filled.restore_all(datetime.now(UTC) - timedelta(days=1))
    assert await files(filled) == {"MEMORY.md": b""}


async def test_what_nobody_has_seen_to_change_stays(store) -> None:
    await write(store, "quiet.md", b"quiet\n")
    await write(store, "loud.md", b"loud\n")
    await store.load()
    await write(store, "loud.md", b"louder\n")
    await store.load()
    back = await store.restore_all(datetime.now(UTC) - timedelta(days=1))
    assert back.unknown == ("loud.md",)
    assert await files(store) == {"quiet.md": b"quiet\n", "loud.md": b"louder\n"}


async def test_a_time_needs_a_zone(store) -> None:
    with pytest.raises(InvalidMemory, match="time zone"):
        await store.restore_all(datetime(2026, 1, 1))  # noqa: DTZ001


async def test_what_was_forgotten_comes_back_without_any_history(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path), backend=InMemoryBackend(), history=False)
    await store.add(name="Travel", **FACT)
    before = await files(store)
    await store.forget("travel.md")
    assert (await store.restore("travel.md")).name == "Travel"
    assert (await files(store), await store.trash()) == (before, [])


async def test_what_was_deleted_comes_back_without_naming_a_version(filled) -> None:
    data = await read(filled, "travel.md")
    await filled.load()
    await filled.backend.remove(await filled.path_of("travel.md"), expected=version_of(data))
    assert (await filled.restore("travel.md")).version == version_of(data)
    with pytest.raises(Conflict, match="name the version"):
        await filled.restore("travel.md")
    with pytest.raises(MemoryNotFound):
        await filled.restore("nope.md")


FILES = st.sampled_from(["a.md", "b.md", "c.md"])
TEXTS = st.lists(st.sampled_from(["one", "two", "three"]), max_size=4).map("\n".join)
OPERATIONS = st.one_of(
    st.builds(
        Create, name=TEXTS.map(lambda text: f"x{text[:3]}"), description=TEXTS, type=st.just("user"), content=TEXTS
    ),
    st.builds(Create, name=st.just("n"), description=TEXTS, type=st.just("user"), content=TEXTS, filename=FILES),
    st.builds(Update, filename=FILES, content=TEXTS, description=TEXTS),
    st.builds(Forget, filename=FILES),
    st.builds(Rename, filename=FILES, new_filename=FILES),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(OPERATIONS, min_size=1, max_size=4), max_size=5))
async def test_undoing_one_after_the_other_leads_back_to_the_start(transactions) -> None:
    store = MemoryStore(workdir="/w", backend=InMemoryBackend(), who="person")
    states = [await files(store)]
    done = []
    for operations in transactions:
        try:
            transaction = await store.apply(operations)
        except AgenticMemoryError:
            assert await files(store) == states[-1], "refused, so nothing was changed"
            continue
        if transaction.id is not None:
            done.append(transaction.id)
            states.append(await files(store))
    for name in reversed(done):
        assert await files(store) == states.pop()
        await store.undo(name)
    assert {name: data for name, data in (await files(store)).items() if data} == states[0]
