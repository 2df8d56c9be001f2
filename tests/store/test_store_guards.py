"""The store keeps to the same guards as the tools; a person is not guarded."""

import pytest

from agentic_memory.backends import InMemoryBackend
from agentic_memory.errors import InvalidMemory, WriteRefused
from agentic_memory.guards import MAX_FILE_BYTES, WritePolicy
from agentic_memory.store import MemoryStore

LONG = "".join(f"{number}: it went well.\n" for number in range(99))
FACT = {"name": "Log", "description": "What happened", "type": "project"}


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore(workdir="/w", backend=InMemoryBackend())
    await store.add(content=LONG, **FACT)
    return store


async def test_an_update_that_drops_most_of_the_text_is_refused_until_it_is_meant(store):
    before = await store.get("log.md")
    with pytest.raises(WriteRefused, match="of the text") as caught:
        await store.update("log.md", content="Gone.\n")
    assert caught.value.objections[0].code == "text-lost"
    assert await store.get("log.md") == before
    assert (await store.update("log.md", content="Gone.\n", allow_loss=True)).content == "Gone.\n"


async def test_a_refused_text_is_in_no_history(store):
    versions = await store.history("log.md")
    with pytest.raises(InvalidMemory):
        await store.put("log.md", b"nothing\n", expected=versions[0].version)
    assert await store.history("log.md") == versions


async def test_a_person_may_write_anything(store):
    person = MemoryStore(workdir="/w", backend=store.backend, who="person")
    await person.put("log.md", b"mine\n", expected=(await person.get("log.md")).version)
    assert await store.backend.read_file("/w/Memory/log.md") == b"mine\n"


async def test_an_old_version_comes_back_although_it_is_shorter(store):
    short = (await store.update("log.md", content="Short.\n", allow_loss=True)).version
    await store.update("log.md", content=LONG)
    assert (await store.restore("log.md", short)).content == "Short.\n"


async def test_what_is_added_is_guarded_too(store):
    with pytest.raises(WriteRefused, match="bytes"):
        await store.add(name="Big", description="d", type="user", content="x" * MAX_FILE_BYTES)
    with pytest.raises(WriteRefused, match="rest of file"):
        await store.add(name="Stub", description="d", type="user", content="[rest of file unchanged]\n")
    assert [file.filename for file in await store.get_all()] == ["log.md"]


async def test_a_secret_is_refused_and_kept_nowhere():
    token = "ghp_" + "aB3dE6gH9" * 4
    store = MemoryStore(workdir="/w", backend=InMemoryBackend())
    with pytest.raises(WriteRefused, match="github token") as caught:
        await store.add(name="Key", description="CI", type="reference", content=f"Use {token}.\n")
    assert token not in str(caught.value)
    assert await store.get_all() == []


async def test_a_redacted_secret_stands_neither_in_the_file_nor_in_the_index_nor_in_the_history():
    token = "ghp_" + "aB3dE6gH9" * 4
    store = MemoryStore(workdir="/w", backend=InMemoryBackend(), policy=WritePolicy(secrets="redact"))
    added = await store.add(name="Key", description=f"CI with {token}", type="reference", content=f"Use {token}.\n")
    assert added.content == "Use [redacted github-token].\n"
    await store.update("key.md", description=f"CI: {token}")
    tree = await store.backend.snapshot("/w/Memory", known=())
    assert [record.path for record in tree.files if token.encode() in (record.data or b"")] == []
    assert "redacted" in (await store.load()).index.text
