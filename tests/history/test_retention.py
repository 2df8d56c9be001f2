"""What goes when the history is bounded, what never does, and what is told of its size."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from history.conftest import FACT, write
from hypothesis import given
from hypothesis import strategies as st

from agentic_memory.backends import InMemoryBackend, LocalBackend
from agentic_memory.errors import InvalidMemory, MemoryNotFound
from agentic_memory.history import archive, past
from agentic_memory.history.archive import puts_of
from agentic_memory.history.entries import Author, Change, Entry, State, Version
from agentic_memory.history.past import Past
from agentic_memory.history.retention import GRACE, Retention, expired_versions
from agentic_memory.store import MemoryStore

NOW = datetime.now(UTC)


async def plant(store: MemoryStore, filename: str, days: list[float], *, size: int = 1_000) -> list[str]:
    """Let a file have had one version so many days ago each, the last being what it is now."""
    states = [
        State.of(f"{filename} {number}\n".encode().ljust(size, b"."), when=NOW - timedelta(days=ago))
        for number, ago in enumerate(days)
    ]
    before = [None, *states[:-1]]
    changes = [
        Change(filename, old, new, new.when, Author("agent"), "changed")
        for old, new in zip(before, states, strict=True)
    ]
    place = await store._archive()
    for change in changes:
        await place.backend.transact(puts_of([change], place, past=Past()), within=place.within)
    await write(store, filename, states[-1].data)
    return [state.version for state in states]


async def kept(store: MemoryStore, versions: list[str]) -> list[bool]:
    found = []
    for version in versions:
        try:
            found.append(bool(await store.read_version(version)))
        except MemoryNotFound:
            found.append(False)
    return found


async def test_age_counts_from_when_a_version_was_replaced(store) -> None:
    versions = await plant(store, "a.md", [900, 40, 20, 10])
    assert await store.tidy_history(Retention(max_age_days=30)) == 1
    # The second was written 40 days ago, and replaced 20 days ago.
    assert await kept(store, versions) == [False, True, True, True]
    assert [one.version for one in await store.history("a.md")] == versions[:0:-1]
    assert await store.tidy_history(Retention(max_age_days=30)) == 0


async def test_what_was_deleted_yesterday_stays_however_old_it_is(store) -> None:
    (version,) = await plant(store, "a.md", [900])
    await store.backend.remove(await store.path_of("a.md"), expected=version)
    assert await store.tidy_history(Retention(max_age_days=30, max_bytes=0)) == 0
    await store.restore("a.md")


async def test_over_the_bytes_what_was_replaced_first_goes(store) -> None:
    versions = await plant(store, "a.md", [90, 80, 70, 60, 50])
    others = await plant(store, "b.md", [85, 75])
    await store.tidy_history(Retention(max_bytes=4_500))
    assert await kept(store, versions) == [False, False, True, True, True]
    assert await kept(store, others) == [False, True]


async def test_what_a_file_was_last_stays_a_week_over_any_bound(store) -> None:
    versions = await plant(store, "a.md", [90, 80, 3])
    await store.tidy_history(Retention(max_bytes=0))
    assert await kept(store, versions) == [False, True, True]
    await store.restore("a.md", versions[1])


async def test_a_store_with_bounds_keeps_to_them_by_itself(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path), backend=InMemoryBackend(), retention=Retention(max_age_days=30))
    versions = await plant(store, "a.md", [900, 400, 10])
    await store.add(name="Travel", **FACT)
    assert await kept(store, versions) == [False, True, True]


async def test_without_bounds_nothing_goes_and_no_call_is_made_for_it(store) -> None:
    versions = await plant(store, "a.md", [9_000, 8_000, 7_000])
    trips = store.backend.round_trips
    await store.add(name="Travel", **FACT)
    assert store.backend.round_trips - trips == 2
    assert await kept(store, versions) == [True] * 3


async def test_bytes_that_no_line_names_go_after_a_day(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    added = await store.add(name="Travel", **FACT)
    for path in (tmp_path / "Memory" / ".history" / "log").iterdir():
        path.unlink()
    await store.update("travel.md", content="x")
    lost = tmp_path / "Memory" / ".history" / "objects" / "00" / ("0" * 64)
    lost.parent.mkdir()
    lost.write_bytes(b"left by a crash")
    assert await store.tidy_history() == 0
    old = (NOW - timedelta(days=2)).timestamp()
    os.utime(lost, (old, old))
    assert await store.tidy_history() == 1
    assert not lost.exists()
    assert await store.read_version(added.version)


@pytest.mark.parametrize("bounds", [{"max_age_days": 0}, {"max_age_days": -1}, {"max_bytes": -1}])
def test_bounds_that_make_no_sense_are_refused(bounds) -> None:
    with pytest.raises(InvalidMemory):
        Retention(**bounds)


hours = st.integers(0, 24 * 60)
names = st.sampled_from("ab")


@given(
    st.lists(st.tuples(names, hours, st.integers(0, 5) | st.none()), max_size=30),
    st.integers(1, 40),
    st.integers(0, 3_000),
)
def test_nothing_of_the_present_and_nothing_fresh_ever_goes(events, days, limit) -> None:
    entries: list[Entry] = []
    now: dict[str, str | None] = {}
    for name, ago, content in sorted(events, key=lambda event: -event[1]):
        version = None if content is None else f"{content}" * 64
        when = NOW - timedelta(hours=ago)
        told = Version(version, f"{name}.md", when, "store", "changed", "", "", 500, now.get(name))
        entries.append(Entry(told, None, None))
        now[name] = version
    present = {f"{name}.md": version for name, version in now.items() if version is not None}
    gone = expired_versions(entries, present=present, retention=Retention(days, limit), now=NOW)
    assert gone.isdisjoint(present.values())
    for name, version in now.items():
        if version is None:
            own = [entry.version for entry in entries if entry.version.filename == f"{name}.md"]
            if own[-1].when > NOW - min(GRACE, timedelta(days=days)) and own[-1].previous is not None:
                assert own[-1].previous not in gone, "removed a moment ago"


async def test_disk_use_is_told(store) -> None:
    versions = await plant(store, "a.md", [9, 8, 7])
    await store.forget("a.md")
    usage = await store.usage()
    assert (usage.versions, usage.version_bytes) == (len(versions), 3_000)
    assert (usage.trash_files, usage.trash_bytes) == (1, 1_000)
    assert usage.changes == usage.log_files == 4
    assert usage.bytes > 3_000


async def test_many_small_log_files_become_one_and_tell_the_same(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(archive, "MAX_LOOSE_LOGS", 20)
    store = MemoryStore(workdir=str(tmp_path), backend=LocalBackend())
    await plant(store, "a.md", [float(number) for number in range(30, 0, -1)])
    before = await store.history("a.md")
    log = tmp_path / "Memory" / ".history" / "log"
    assert [path.name[:5] for path in log.iterdir()] == ["pack-"]
    assert await store.history("a.md") == before
    assert len(before) == 30


async def test_a_process_that_writes_much_keeps_its_log_in_few_files(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(archive, "MAX_LOOSE_LOGS", 20)
    monkeypatch.setattr(past, "TIDY_EVERY", 30)
    store = MemoryStore(workdir=str(tmp_path), backend=InMemoryBackend())
    await store.add(name="Log", filename="log.md", **FACT)
    for number in range(60):
        await store.update("log.md", content=f"{number}\n")
    assert (await store.usage()).log_files < 40
    assert len(await store.history("log.md")) == 61
