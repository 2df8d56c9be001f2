"""What the store keeps of the past, and brings back."""

import asyncio
import json
import os
import random
from datetime import UTC, datetime, timedelta

import pytest
from history.conftest import FACT, told, write

from agentic_memory.backends import InMemoryBackend, LocalBackend, version_of
from agentic_memory.errors import BackendUnavailable, MemoryNotFound, UnsafePath
from agentic_memory.store import MemoryStore


async def test_every_write_of_the_store_is_in_the_history(store) -> None:
    before = datetime.now(UTC)
    added = await store.add(name="Travel", **FACT)
    updated = await store.update("travel.md", content="Prefers night trains.")
    versions = await store.history("travel.md")
    assert [(one.version, one.previous, one.why) for one in versions] == [
        (updated.version, added.version, "updated"),
        (added.version, None, "added"),
    ]
    assert {one.who for one in versions} == {"store"}
    assert before <= versions[1].when <= versions[0].when <= datetime.now(UTC)
    assert versions[0].size == updated.size
    assert [one.why for one in await store.history("MEMORY.md")] == ["added"]


async def test_a_write_and_its_history_are_one_transaction(store) -> None:
    await store.load()
    trips = store.backend.round_trips
    await store.add(name="Travel", **FACT)
    assert store.backend.round_trips - trips == 2  # one look, one transaction


async def test_a_write_that_fails_leaves_no_history(store) -> None:
    added = await store.add(name="Travel", **FACT)
    with pytest.raises(Exception, match="expected"):
        await store.update("travel.md", content="x", expected="0" * 64)
    assert [one.version for one in await store.history("travel.md")] == [added.version]


async def test_restore_is_byte_for_byte_and_can_be_undone(store) -> None:
    odd = b"\xef\xbb\xbf---\r\nname: Odd\r\ndescription: d\r\n---\r\n\r\ntail without end"
    await write(store, "odd.md", odd)
    await store.load()
    second = await store.update("odd.md", content="other\n")
    restored = await store.restore("odd.md", version_of(odd))
    assert restored.version == version_of(odd)
    assert await store.backend.read_file(await store.path_of("odd.md")) == odd
    await store.restore("odd.md", second.version)
    assert (await store.get("odd.md")).version == second.version
    whys = [one.why for one in await store.history("odd.md")]
    assert whys == [f"restored {second.version[:12]}", f"restored {version_of(odd)[:12]}", "updated", "found"]


async def test_what_was_forgotten_comes_back_with_its_index_line(store) -> None:
    added = await store.add(name="Travel", **FACT)
    index = await store.backend.read_file(await store.path_of("MEMORY.md"))
    await store.forget("travel.md")
    gone = (await store.history("travel.md"))[0]
    assert (gone.version, gone.previous, gone.why, gone.size) == (None, added.version, "forgotten", 0)
    await store.restore("travel.md", added.version)
    assert await store.get("travel.md") == (await store.get_all())[0]
    assert await store.backend.read_file(await store.path_of("MEMORY.md")) == index


async def test_the_index_is_restored_like_any_file(store) -> None:
    await write(store, "MEMORY.md", b"# By hand\r\n\r\nkeep\r\n")
    await store.add(name="Travel", **FACT)
    await store.restore("MEMORY.md", version_of(b"# By hand\r\n\r\nkeep\r\n"))
    assert await store.backend.read_file(await store.path_of("MEMORY.md")) == b"# By hand\r\n\r\nkeep\r\n"
    assert (await store.get("travel.md")).name == "Travel"


async def test_restoring_what_is_there_changes_nothing(store) -> None:
    added = await store.add(name="Travel", **FACT)
    await store.restore("travel.md", added.version)
    assert len(await store.history("travel.md")) == 1


async def test_renaming_is_told_under_both_names(store) -> None:
    await store.add(name="Travel", **FACT)
    await store.rename("travel.md", "trips.md")
    assert await told(store, "trips.md") == [("store", "renamed from travel.md")]
    assert await told(store, "travel.md") == [("store", "renamed from travel.md"), ("store", "added")]


async def test_a_change_by_another_program_is_kept_with_the_next_write(store) -> None:
    first = await store.add(name="Travel", **FACT)
    await write(store, "travel.md", b"by hand\n")
    trips = store.backend.round_trips
    await store.add(name="Other", **FACT)
    assert store.backend.round_trips - trips == 2
    versions = await MemoryStore(workdir=store._workdir, backend=store.backend).history("travel.md")
    assert [(one.version, one.previous, one.who, one.why) for one in versions] == [
        (version_of(b"by hand\n"), first.version, "unknown", "changed"),
        (first.version, None, "store", "added"),
    ]


async def test_record_history_keeps_what_was_noticed_and_costs_nothing_without(store) -> None:
    await write(store, "a.md", b"one\n")
    await store.load()
    await write(store, "a.md", b"two\n")
    await store.load()
    assert await store.record_history() == 1
    trips = store.backend.round_trips
    assert await store.record_history() == 0
    assert store.backend.round_trips == trips
    assert await store.read_version(version_of(b"one\n")) == b"one\n"
    assert await told(store, "a.md") == [("unknown", "changed"), ("unknown", "found")]


async def test_looking_alone_writes_nothing(store) -> None:
    await write(store, "a.md", b"one\n")
    await store.load()
    await store.history("a.md")
    await store.check()
    tree = await store.backend.snapshot(await store.root(), hidden=True)
    assert [file.path for file in tree.files] == ["a.md"]


async def test_a_file_nobody_recorded_has_its_present_as_history(store) -> None:
    await write(store, "a.md", b"one\n")
    (version,) = await store.history("a.md")
    assert (version.version, version.who, version.why) == (version_of(b"one\n"), "unknown", "found")
    assert await store.read_version(version_of(b"one\n")) == b"one\n"


async def test_history_of_nothing_says_so(store) -> None:
    with pytest.raises(MemoryNotFound, match=r"nope\.md"):
        await store.history("nope.md")
    with pytest.raises(MemoryNotFound, match="not in the history"):
        await store.restore("nope.md", "0" * 64)


@pytest.mark.parametrize("version", ["", "abc", "../../../etc/passwd", "A" * 64])
async def test_what_is_no_version_is_refused(store, version) -> None:
    with pytest.raises(MemoryNotFound, match="no version"):
        await store.restore("a.md", version)


@pytest.mark.parametrize("filename", ["../a.md", "/etc/passwd", ".history/a.md", "a.txt"])
async def test_only_memory_files_have_a_history(store, filename) -> None:
    with pytest.raises(UnsafePath):
        await store.history(filename)
    with pytest.raises(UnsafePath):
        await store.restore(filename, "0" * 64)


async def test_diff_shows_what_changed(store) -> None:
    first = await store.add(name="Travel", **FACT)
    second = await store.update("travel.md", content="Prefers planes.")
    diff = await store.diff("travel.md", first.version, second.version)
    assert "-Prefers trains." in diff
    assert "+Prefers planes." in diff
    assert await store.diff("travel.md", first.version) == diff.replace(second.version[:12], "now")
    assert await store.diff("travel.md", second.version) == ""


async def test_any_of_a_thousand_versions_comes_back(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path), backend=InMemoryBackend())
    await store.add(name="Log", filename="log.md", **FACT)
    versions = [(await store.update("log.md", content=f"line {number}\n")).version for number in range(1_000)]
    told_versions = [one.version for one in await store.history("log.md")]
    assert told_versions[:-1] == versions[::-1]
    for number in random.Random(5).sample(range(1_000), 20):
        assert (await store.restore("log.md", versions[number])).content.strip() == f"line {number}"


async def test_two_writers_lose_no_entry(tmp_path) -> None:
    backend = LocalBackend()
    stores = [MemoryStore(workdir=str(tmp_path), backend=backend, who=who) for who in ("store", "tool")]

    async def many(store: MemoryStore, name: str) -> list[str]:
        first = await store.add(name=name, filename=f"{name}.md", **FACT)
        return [first.version, *[(await store.update(f"{name}.md", content=f"{turn}\n")).version for turn in range(5)]]

    written = await asyncio.gather(many(stores[0], "a"), many(stores[1], "b"))
    for name, versions, who in zip("ab", written, ("store", "tool"), strict=True):
        told_versions = await stores[0].history(f"{name}.md")
        assert [one.version for one in told_versions] == versions[::-1]
        assert {one.who for one in told_versions} == {who}


async def test_a_change_noticed_by_two_is_told_once_with_the_name_of_who_made_it(tmp_path) -> None:
    """Two processes: each has a shelf of its own, here by a backend with another key."""

    class Elsewhere(LocalBackend):
        @property
        def cache_key(self):
            return ("elsewhere", id(self))

    here, there = (MemoryStore(workdir=str(tmp_path), backend=backend) for backend in (LocalBackend(), Elsewhere()))
    await here.load()
    await there.load()
    added = await here.add(name="Travel", **FACT)
    await there.load()
    assert await there.record_history() == 2  # the file and the index
    (version,) = await there.history("travel.md")
    assert (version.version, version.who, version.why) == (added.version, "store", "added")


async def test_a_look_while_the_store_writes_takes_its_write_for_nobody_elses(tmp_path) -> None:
    class LookedAt(InMemoryBackend):
        async def transact(self, changes, *, within=None):
            await super().transact(changes, within=within)
            await other.load()  # the bytes are there, and the writer does not know yet

    backend = LookedAt()
    store, other = (MemoryStore(workdir=str(tmp_path), backend=backend) for _ in range(2))
    await store.add(name="Travel", **FACT)
    assert await other.record_history() == 0
    await other.load()
    assert await other.record_history() == 0


async def test_deleted_by_hand_comes_back(store) -> None:
    await store.add(name="Travel", **FACT)
    data = await store.backend.read_file(await store.path_of("travel.md"))
    await store.backend.remove(await store.path_of("travel.md"), expected=version_of(data))
    await store.load()
    await store.record_history()
    assert (await told(store, "travel.md"))[0] == ("unknown", "deleted")
    await store.restore("travel.md", version_of(data))
    assert await store.backend.read_file(await store.path_of("travel.md")) == data


async def test_a_file_that_cannot_be_opened_for_a_while_was_not_deleted(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    await write(store, "a.md", b"one\n")
    await store.load()
    path = tmp_path / "Memory" / "a.md"
    path.unlink()
    os.mkfifo(path)
    await store.load()
    assert await store.record_history() == 0
    path.unlink()
    path.write_bytes(b"two\n")
    await store.load()
    await store.record_history()
    assert [one.version for one in await store.history("a.md")] == [version_of(b"two\n"), version_of(b"one\n")]


async def test_a_directory_that_was_taken_away_is_not_brought_back(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    await store.add(name="Travel", **FACT)
    await store.load()
    (tmp_path / "Memory").rename(tmp_path / "elsewhere")
    await store.load()
    assert await store.record_history() == 0
    assert not (tmp_path / "Memory").exists()


async def test_an_unavailable_backend_loses_nothing_that_was_noticed(tmp_path) -> None:
    backend = InMemoryBackend()
    store = MemoryStore(workdir=str(tmp_path), backend=backend)
    await write(store, "a.md", b"one\n")
    await store.load()
    await write(store, "a.md", b"two\n")
    await store.load()
    backend.fail_next()
    with pytest.raises(BackendUnavailable):
        await store.record_history()
    assert await store.record_history() == 1
    assert await store.read_version(version_of(b"one\n")) == b"one\n"


@pytest.mark.parametrize("kind", ["file", "link"])
async def test_a_history_that_cannot_be_written_keeps_nobody_from_writing(tmp_path, caplog, kind) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    (tmp_path / "Memory").mkdir()
    if kind == "file":
        (tmp_path / "Memory" / ".history").write_bytes(b"in the way")
    else:
        (tmp_path / "Memory" / ".history").symlink_to("/tmp", target_is_directory=True)
    added = await store.add(name="Travel", **FACT)
    assert (await store.get("travel.md")).version == added.version
    assert "history failed" in caplog.text
    (tmp_path / "Memory" / ".history").unlink()
    assert await store.record_history() == 2
    assert await told(store, "travel.md") == [("store", "added")]


async def test_a_lock_that_somebody_holds_is_no_reason_to_go_on_without_history(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path), backend=LocalBackend())
    await store.add(name="Travel", **FACT)
    log = tmp_path / "Memory" / ".history" / "log"

    async def busy(_changes, *, within=None):
        raise BackendUnavailable(f"{log}/x.jsonl: {within} is locked by another writer; try again later")

    store.backend.transact = busy
    with pytest.raises(BackendUnavailable, match="locked"):
        await store.update("travel.md", content="x")


async def test_without_history_nothing_is_kept(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path), history=False)
    await store.add(name="Travel", **FACT)
    await store.update("travel.md", content="x")
    assert not (tmp_path / "Memory" / ".history").exists()
    assert await store.record_history() == 0


async def test_a_wrong_line_of_the_log_is_a_problem_and_nothing_more(store) -> None:
    added = await store.add(name="Travel", **FACT)
    lines = [b"not json", b"[]", json.dumps({"file": "travel.md", "after": "../x"}).encode(), b"", b"\xff\xfe"]
    await write(store, ".history/log/20200101T000000.000000Z-00000000.jsonl", b"\n".join(lines))
    assert [one.version for one in await store.history("travel.md")] == [added.version]
    problems = [problem for problem in await store.check() if problem.code == "history-line"]
    assert [problem.line for problem in problems] == [1, 2, 3, 5]


async def test_damaged_bytes_are_never_restored(store) -> None:
    added = await store.add(name="Travel", **FACT)
    await store.update("travel.md", content="x")
    await write(store, f".history/objects/{added.version[:2]}/{added.version}", b"damaged")
    with pytest.raises(BackendUnavailable, match="damaged"):
        await store.restore("travel.md", added.version)


async def test_a_clock_that_went_back_loses_no_version(store) -> None:
    added = await store.add(name="Travel", **FACT)
    entry = {
        "file": "travel.md",
        "before": "1" * 64,
        "after": "2" * 64,
        "size": 1,
        "when": (datetime.now(UTC) - timedelta(days=400)).isoformat(),
        "who": "somebody",
    }
    await write(store, ".history/log/x.jsonl", json.dumps(entry).encode())
    versions = await store.history("travel.md")
    assert [(one.version, one.who) for one in versions] == [(added.version, "store"), ("2" * 64, "unknown")]
