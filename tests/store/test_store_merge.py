"""A change made from an older version: merged where nobody changed the same, else a conflict."""

import pytest

from agentic_memory.backends import InMemoryBackend, LocalBackend, version_of
from agentic_memory.bases import forget_base, remember_base
from agentic_memory.errors import Conflict
from agentic_memory.store import MemoryStore

MEMORY = b"---\nname: Travel\ndescription: When travel is planned\ntype: user\n---\n\nPrefers trains.\nHas a dog.\n"
INDEX = "- [Travel](travel.md) — When travel is planned\n"


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path) -> MemoryStore:
    backend = InMemoryBackend() if request.param == "memory" else LocalBackend()
    return MemoryStore(workdir=str(tmp_path), backend=backend)


async def write(store: MemoryStore, filename: str, data: bytes) -> str:
    """Write as a person does, past the store."""
    await store.backend.write_file(f"{await store.root()}/{filename}", data)
    return version_of(data)


async def read(store: MemoryStore, filename: str) -> bytes:
    return await store.backend.read_file(f"{await store.root()}/{filename}")


async def test_update_keeps_what_a_person_changed_elsewhere(store) -> None:
    await write(store, "MEMORY.md", INDEX.encode())
    await write(store, "travel.md", MEMORY)
    (file,) = await store.get_all()
    await write(store, "travel.md", MEMORY.replace(b"a dog", b"a cat"))
    updated = await store.update("travel.md", description="When booking", expected=file.version)
    assert await read(store, "travel.md") == MEMORY.replace(b"a dog", b"a cat").replace(
        b"When travel is planned", b"When booking"
    )
    assert updated.version == version_of(await read(store, "travel.md"))
    assert await read(store, "MEMORY.md") == INDEX.replace("When travel is planned", "When booking").encode()


async def test_update_of_the_content_keeps_lines_added_meanwhile(store) -> None:
    version = remember_base(MEMORY)
    await write(store, "travel.md", MEMORY.replace(b"\n", b"\r\n") + b"By hand.\r\n")
    updated = await store.update("travel.md", content="Prefers ships.\nHas a dog.\n", expected=version)
    assert updated.content == "Prefers ships.\r\nHas a dog.\r\nBy hand.\r\n"


async def test_update_from_a_version_it_wrote_itself_merges(store) -> None:
    await write(store, "travel.md", MEMORY)
    mine = await store.update("travel.md", type="project")
    await write(store, "travel.md", await read(store, "travel.md") + b"By hand.\n")
    await store.load()
    await store.update("travel.md", name="Trips", expected=mine.version)
    written = await read(store, "travel.md")
    assert written == MEMORY.replace(b"user", b"project").replace(b": Travel", b": Trips") + b"By hand.\n"


@pytest.mark.parametrize("change", ["update", "put"])
async def test_the_history_knows_what_a_change_was_made_from(store, change) -> None:
    await write(store, "travel.md", MEMORY)
    (file,) = await store.get_all()
    forget_base(file.version)
    await write(store, "travel.md", MEMORY + b"By hand.\n")
    await store.load()
    if change == "update":
        await store.update("travel.md", name="Trips", expected=file.version)
    else:
        await store.put("travel.md", MEMORY.replace(b": Travel", b": Trips"), expected=file.version)
    assert await read(store, "travel.md") == MEMORY.replace(b": Travel", b": Trips") + b"By hand.\n"


async def test_a_change_of_what_is_there_asks_no_history(store) -> None:
    await write(store, "travel.md", MEMORY)
    (file,) = await store.get_all()
    trips = store.backend.round_trips
    await store.update("travel.md", name="Trips", expected=file.version)
    with_version = store.backend.round_trips - trips
    trips = store.backend.round_trips
    await store.update("travel.md", name="Journeys")
    assert with_version == store.backend.round_trips - trips


async def test_update_of_a_field_that_a_person_changed_is_a_conflict(store) -> None:
    version = remember_base(MEMORY)
    theirs = MEMORY.replace(b": Travel", b": Journeys")
    await write(store, "travel.md", theirs)
    with pytest.raises(Conflict) as caught:
        await store.update("travel.md", name="Trips", expected=version)
    assert (caught.value.path, caught.value.expected, caught.value.current) == ("travel.md", version, theirs)
    assert await read(store, "travel.md") == theirs


async def test_update_from_a_version_nobody_keeps_is_a_conflict(store) -> None:
    version = version_of(MEMORY)
    forget_base(version)
    await write(store, "travel.md", MEMORY + b"By hand.\n")
    with pytest.raises(Conflict):
        await store.update("travel.md", name="Trips", expected=version)


async def test_put_merges_a_whole_file_and_its_index_line_follows(store) -> None:
    await write(store, "MEMORY.md", INDEX.encode())
    version = remember_base(MEMORY)
    await write(store, "travel.md", MEMORY + b"By hand.\n")
    edited = MEMORY.replace(b": Travel", b": Trips").replace(b"trains", b"ships")
    written = await store.put("travel.md", edited, expected=version)
    assert await read(store, "travel.md") == edited + b"By hand.\n"
    assert (written.name, written.version) == ("Trips", version_of(edited + b"By hand.\n"))
    assert await read(store, "MEMORY.md") == INDEX.replace("[Travel]", "[Trips]").encode()


async def test_put_over_the_same_line_is_a_conflict(store) -> None:
    version = remember_base(MEMORY)
    theirs = MEMORY.replace(b"trains", b"planes")
    await write(store, "travel.md", theirs)
    with pytest.raises(Conflict):
        await store.put("travel.md", MEMORY.replace(b"trains", b"ships"), expected=version)
    assert await read(store, "travel.md") == theirs
