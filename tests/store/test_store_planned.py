"""``apply_planned``: thought out anew on the newest memory, with changes of the backend in the same transaction."""

import pytest

from agentic_memory.backends import ABSENT, Delete, InMemoryBackend, Put
from agentic_memory.errors import Conflict
from agentic_memory.operations import Create
from agentic_memory.store import MemoryStore

MARK = "/w/Memory/.queue/done"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(workdir="/w", backend=InMemoryBackend())


def create(name: str) -> Create:
    return Create(name=name, description="d", type="user", content=f"{name}\n")


async def test_it_is_planned_again_on_what_somebody_else_wrote_meanwhile(store) -> None:
    other = MemoryStore(workdir="/w", backend=store.backend)
    seen: list[list[str]] = []

    def plan(snapshot):
        seen.append(sorted(snapshot.documents))
        return [create("Mine")], []

    transact, overtaken = store.backend.transact, False

    async def overtake(changes, *, within=None):
        nonlocal overtaken
        if not overtaken:
            overtaken = True
            await other.add(name="Theirs", description="d", type="user", content="x")
        await transact(changes, within=within)

    store.backend.transact = overtake
    await store.apply_planned(plan)
    assert seen == [[], ["theirs.md"]]
    assert sorted((await store.load()).documents) == ["mine.md", "theirs.md"]


async def test_what_belongs_to_it_is_written_with_it_or_not_at_all(store) -> None:
    changes = [Put(MARK, b"", ABSENT)]
    done = await store.apply_planned(lambda _: ([create("One")], changes))
    assert [outcome.filename for outcome in done.outcomes] == ["one.md"]
    assert await store.backend.fetch(MARK) is not ABSENT
    with pytest.raises(Conflict):
        await store.apply_planned(lambda _: ([create("Two")], changes))
    assert sorted((await store.load()).documents) == ["one.md"]


async def test_files_of_dot_folders_are_no_part_of_the_history(store) -> None:
    await store.apply_planned(lambda _: ([], [Put(MARK, b"x", ABSENT)]))
    record = await store.backend.fetch(MARK)
    await store.apply([create("One")], also=[Delete(MARK, record.version)])
    log = await store.backend.snapshot("/w/Memory/.history/log")
    text = b"".join(file.data for file in log.files).decode()
    assert "one.md" in text
    assert ".queue" not in text
    assert await store.backend.fetch(MARK) is ABSENT
