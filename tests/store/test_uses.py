"""What is counted as used, where the counts are, and that they are never in anybody's way."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest
from agentscope.tool import LocalBackend as AgentScopeLocal

from agentic_memory import uses
from agentic_memory.backends import InMemoryBackend, LocalBackend, adapt
from agentic_memory.backends.docker import DockerBackend
from agentic_memory.errors import BackendUnavailable
from agentic_memory.layers import LayeredStore
from agentic_memory.shelf import shelves
from agentic_memory.store import MemoryStore
from agentic_memory.uses import Uses, forget_uses, memory_key, note_uses, read_uses


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache" / "uses.sqlite3"
    monkeypatch.setattr(uses, "uses_file", lambda: path)
    return path


@pytest.fixture
def store(tmp_path: Path) -> MemoryStore:
    return MemoryStore(workdir=str(tmp_path))


def test_counts_add_up_and_are_apart_for_each_memory(file) -> None:
    note_uses("m", ["a.md", "b.md"])
    note_uses("m", ["a.md"])
    note_uses("other", ["a.md"])
    assert read_uses("m") == {"a.md": 2, "b.md": 1}


def test_the_file_is_for_the_user_alone(file) -> None:
    note_uses("m", ["a.md"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_reading_makes_no_file(file) -> None:
    assert read_uses("m") == {}
    assert not file.exists()


def test_what_was_shown_longest_ago_gives_way(file, monkeypatch) -> None:
    monkeypatch.setattr(uses, "MAX_ROWS", 3)
    moments = iter(range(10))
    monkeypatch.setattr(uses.time, "time", lambda: float(next(moments)))
    for name in ("a.md", "b.md", "c.md", "a.md", "d.md"):
        note_uses("m", [name])
    assert read_uses("m") == {"a.md": 2, "c.md": 1, "d.md": 1}


@pytest.mark.parametrize(
    "damage", [b"no database at all, but long enough to be looked at" * 40, b"SQLite format 3\0" * 99]
)
def test_a_broken_file_is_thrown_away(file, damage) -> None:
    file.parent.mkdir()
    file.write_bytes(damage)
    assert read_uses("m") == {}
    note_uses("m", ["a.md"])
    assert read_uses("m") == {"a.md": 1}


def test_a_locked_file_is_no_signal_and_no_error(file, monkeypatch) -> None:
    monkeypatch.setattr(uses, "LOCK_SECONDS", 0.01)
    note_uses("m", ["a.md"])
    known = Uses("m")
    holder = sqlite3.connect(file)
    holder.execute("BEGIN EXCLUSIVE")
    known.note(["a.md"])
    assert known.counts == {"a.md": 1}
    with pytest.raises(BackendUnavailable, match="may be left here"):
        forget_uses("m", "a.md")
    holder.close()
    assert read_uses("m") == {"a.md": 1}


def test_a_folder_that_cannot_be_made_is_no_signal_and_no_error(file) -> None:
    file.parent.write_text("a file")
    note_uses("m", ["a.md"])
    assert read_uses("m") == {}


def test_a_place_that_means_nothing_to_the_next_process_has_no_key() -> None:
    class Elsewhere(AgentScopeLocal):
        """A backend of somebody else, that has no name for its place."""

    def ask() -> LocalBackend:
        return LocalBackend()

    assert memory_key(LocalBackend().cache_key, "/m") == memory_key(LocalBackend().cache_key, "/m") is not None
    assert memory_key(LocalBackend().cache_key, "/m") != memory_key(LocalBackend().cache_key, "/n")
    assert memory_key(DockerBackend("box", "/w").cache_key, "/m") is not None
    assert memory_key(InMemoryBackend().cache_key, "/m") is None
    assert memory_key(adapt(ask).cache_key, "/m") is None
    assert memory_key(adapt(Elsewhere()).cache_key, "/m") is None


async def test_the_next_process_knows_what_was_used(file, store, tmp_path) -> None:
    await store.note_use(["a.md"])
    await store.note_use(["a.md", "a.md", "b.md"])
    assert await store.uses() == {"a.md": 2, "b.md": 1}
    shelves.clear()  # as a new process begins
    assert await MemoryStore(workdir=str(tmp_path)).uses() == {"a.md": 2, "b.md": 1}


async def test_the_file_is_read_once(file, store) -> None:
    await store.note_use(["a.md"])
    file.unlink()
    await store.load()
    assert await store.uses() == {"a.md": 1}
    assert not file.exists()


async def test_a_memory_in_memory_leaves_nothing_on_disk(file) -> None:
    store = MemoryStore(workdir="/w", backend=InMemoryBackend())
    await store.note_use(["a.md"])
    assert await store.uses() == {"a.md": 1}
    assert not file.exists()


async def test_counting_asks_no_backend(file) -> None:
    backend = InMemoryBackend()
    store = MemoryStore(workdir="/w", backend=backend)
    await store.load()
    trips = backend.round_trips
    await store.note_use(["a.md"])
    await store.uses()
    assert backend.round_trips == trips


async def test_a_layer_counts_its_own_files(file, tmp_path) -> None:
    project = MemoryStore(workdir=str(tmp_path / "p"))
    store = LayeredStore(name="user", beside={"project": project}, workdir=str(tmp_path / "u"))
    for one in (project, store):
        await one.add(name="Tea", description="When it is about tea", type="user", content="Longjing.")
    snapshot = await store.load()
    await store.note_use(["tea.md", "project:tea.md", "project:tea.md"])
    await store.note_use(["project:tea.md"])
    assert await store.uses() == {"tea.md": 1}
    assert await project.uses() == {"tea.md": 2}
    asked = store.request(snapshot, "tea", limit=5, patience=0)
    assert asked.uses == {"tea.md": 1, "project:tea.md": 2}


async def test_of_equals_the_one_used_more_is_found_first_and_then_the_newer(file, store, tmp_path) -> None:
    for number, name in enumerate(("one", "two", "three")):
        path = tmp_path / "Memory" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("---\nname: Tea\ndescription: When it is about tea\ntype: user\n---\n\nLongjing.\n")
        os.utime(path, ns=(number * 10**18 // 4, number * 10**18 // 4))
    newest = [match.filename for match in await store.search("tea")]
    assert newest[0] != "one.md"
    await store.note_use(["one.md"])
    assert (await store.search("tea"))[0].filename == "one.md"


async def test_a_purge_takes_the_row_and_says_so(file, store) -> None:
    await store.add(name="Private", description="When it is private", type="user", content="A word.")
    await store.note_use(["private.md", "b.md"])
    purged = await store.purge("private.md")
    assert "counts of use: how often it was shown" in purged.removed
    assert await store.uses() == {"b.md": 1}
    assert b"private.md" not in file.read_bytes()
