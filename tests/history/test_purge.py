"""A purge leaves no copy anywhere, says what it did, and does not touch what is another file's."""

import pytest
from history.conftest import FACT, write

from agentic_memory.backends import InMemoryBackend, LocalBackend, version_of
from agentic_memory.bases import base_of
from agentic_memory.errors import InvalidMemory, MemoryNotFound
from agentic_memory.forgetting import _caches, register_cache
from agentic_memory.selection.vectors import VectorCache, as_stored, default_folder
from agentic_memory.selection.windows import split_windows
from agentic_memory.store import MemoryStore

SECRET = "the-secret-word"
PRIVATE = {"description": f"About {SECRET}", "type": "user", "content": f"One {SECRET}.\n"}


async def everything(store: MemoryStore) -> dict[str, bytes]:
    tree = await store.backend.snapshot(await store.root(), hidden=True)
    return {file.path: file.data or b"" for file in tree.files}


async def mentions(store: MemoryStore) -> list[str]:
    return [path for path, data in (await everything(store)).items() if SECRET.encode() in data or "private" in path]


@pytest.fixture
async def filled(store) -> MemoryStore:
    """Versions, trash, conflicts, an old index and a copy by hand: everywhere the secret can be."""
    await store.add(name="Other", **FACT)
    await store.add(name="Private", **PRIVATE)
    await store.update("private.md", content=f"Two {SECRET}.\n", description=f"More about {SECRET}")
    await store.forget("private.md")
    await store.add(name="Private", **PRIVATE)
    await store.add(name="Later", **FACT)
    await write(store, ".conflicts/20260101T000000.000000Z/private.md", f"Aside {SECRET}.\n".encode())
    await write(store, "private.md", f"By hand {SECRET}.\n".encode())
    await store.load()
    await write(store, "private.md", f"Again {SECRET}.\n".encode())
    await store.load()
    return store


async def test_nothing_of_a_purged_memory_is_left_anywhere(filled) -> None:
    versions = [one.version for one in await filled.history("private.md") if one.version]
    others = await filled.history("other.md")
    purged = await filled.purge("private.md")
    assert purged.remaining == ()
    assert await mentions(filled) == []
    assert [version for version in versions if base_of(version)] == []
    with pytest.raises(MemoryNotFound):
        await filled.history("private.md")
    for version in versions:
        with pytest.raises(MemoryNotFound):
            await filled.read_version(version)
    assert await filled.history("other.md") == others
    assert await filled.search(SECRET) == []
    assert await filled.check() == []


async def test_it_says_what_it_removed(filled) -> None:
    removed = "\n".join((await filled.purge("private.md")).removed)
    for place in (
        "private.md",
        "MEMORY.md: its line",
        ".trash/",
        ".conflicts/",
        ".history/objects",
        "lines",
        "process",
    ):
        assert place in removed


async def test_old_versions_of_the_index_come_back_without_the_line(filled) -> None:
    purged_from = len(await filled.history("MEMORY.md"))
    await filled.purge("private.md")
    versions = await filled.history("MEMORY.md")
    assert purged_from - 2 <= len(versions)
    for version in versions:
        if version.version is not None:
            assert SECRET.encode() not in await filled.read_version(version.version)
    await filled.restore("MEMORY.md", versions[-1].version or "")


async def test_another_process_that_saw_it_does_not_bring_it_back(tmp_path) -> None:
    class Elsewhere(LocalBackend):
        @property
        def cache_key(self):
            return ("elsewhere", id(self))

    store, other = (MemoryStore(workdir=str(tmp_path), backend=backend) for backend in (LocalBackend(), Elsewhere()))
    await write(store, "private.md", f"By hand {SECRET}.\n".encode())
    await write(store, "MEMORY.md", f"- [Private](private.md) {SECRET}\n- [Other](other.md)\n".encode())
    for one in (store, other):
        await one.load()
    await store.purge("private.md")
    await write(store, "other.md", b"new\n")
    await other.load()
    await other.record_history()
    await other.add(name="Another", **FACT)
    assert await mentions(store) == []
    assert [one.why for one in await store.history("other.md")] == ["created"]


async def test_what_another_file_has_too_stays_and_is_named(store) -> None:
    await write(store, "a.md", b"same\n")
    await write(store, "b.md", b"same\n")
    await store.load()
    await write(store, "a.md", b"other\n")
    await store.load()
    await store.record_history()
    purged = await store.purge("a.md")
    assert purged.remaining == ()
    assert [line for line in purged.kept if "b.md" in line]
    assert (await everything(store))["b.md"] == b"same\n"
    assert not [data for data in (await everything(store)).values() if data == b"other\n"]


async def test_what_an_editor_left_is_pointed_out(filled) -> None:
    await write(filled, "private.md~", b"old")
    await write(filled, ".private.md.swp", b"old")
    kept = "\n".join((await filled.purge("private.md")).kept)
    assert "private.md~ stays" in kept
    assert ".private.md.swp stays" in kept


async def test_one_version_goes_and_the_others_stay(filled) -> None:
    newest, *older = [one.version for one in await filled.history("private.md") if one.version]
    with pytest.raises(InvalidMemory, match="is now"):
        await filled.purge("private.md", version=newest)
    purged = await filled.purge("private.md", version=older[0])
    assert purged.remaining == ()
    with pytest.raises(MemoryNotFound):
        await filled.read_version(older[0])
    assert await filled.read_version(older[-1])
    assert (await filled.get("private.md")).version == newest


async def test_a_memory_of_that_name_can_be_made_again(filled) -> None:
    await filled.purge("private.md")
    await filled.add(name="Private", **FACT)
    assert len(await filled.history("private.md")) == 1


async def test_what_was_not_written_down_yet_is_gone_too(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path), backend=InMemoryBackend())
    await write(store, "private.md", f"One {SECRET}.\n".encode())
    await store.load()
    await write(store, "private.md", f"Two {SECRET}.\n".encode())
    await store.load()
    await store.purge("private.md")
    assert await store.record_history() == 0
    assert await mentions(store) == []


async def test_a_cache_on_disk_is_told_the_texts(filled) -> None:
    told: list[dict[str, bytes]] = []

    @register_cache
    async def forget(_backend, _root, texts):
        told.append(texts)
        return ["a cache: 1 vector"]

    try:
        versions = {one.version for one in await filled.history("private.md") if one.version}
        assert "a cache: 1 vector" in (await filled.purge("private.md")).removed
    finally:
        _caches.remove(forget)
    assert told[0].keys() >= versions
    assert all(SECRET.encode() in text for text in told[0].values())


async def test_vectors_of_the_text_are_gone_from_every_file(filled, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    windows = split_windows((await filled.load()).documents["private.md"][1])
    elsewhere = VectorCache("a model", tmp_path / "elsewhere")
    for cache in (VectorCache("a model", default_folder()), elsewhere):
        cache.put({text: as_stored([1.0, 2.0]) for text in (*(window.text for window in windows), "another")})
    removed = (await filled.purge("private.md")).removed
    assert f"files of vectors: {2 * len(windows)} vectors" in removed
    assert elsewhere.get([*(window.text for window in windows), "another"]).keys() == {"another"}


async def test_purging_nothing_says_so(store) -> None:
    with pytest.raises(MemoryNotFound):
        await store.purge("nope.md")


async def test_a_purge_that_fails_changes_nothing(tmp_path) -> None:
    backend = InMemoryBackend()
    store = MemoryStore(workdir=str(tmp_path), backend=backend)
    await store.add(name="Private", **PRIVATE)
    before = await everything(store)
    other = MemoryStore(workdir=str(tmp_path), backend=backend)

    class Fails(Exception):
        pass

    async def fail(*_args, **_kwargs):
        raise Fails

    transact, backend.transact = backend.transact, fail  # type: ignore[method-assign]
    with pytest.raises(Fails):
        await other.purge("private.md")
    backend.transact = transact  # type: ignore[method-assign]
    assert await everything(store) == before
    assert (await store.purge("private.md")).remaining == ()


async def test_versions_that_name_the_same_bytes_are_one(store) -> None:
    data = f"One {SECRET}.\n".encode()
    await write(store, "private.md", data)
    await store.restore("private.md", version_of(data))
    purged = await store.purge("private.md")
    assert (purged.remaining, await mentions(store)) == ((), [])
