"""MemoryStore: files and index change together, and two stores on one directory lose nothing."""

import asyncio
import sys
from pathlib import Path

import pytest

from agentic_memory.backends import InMemoryBackend, LocalBackend
from agentic_memory.errors import BackendUnavailable, Conflict, InvalidMemory, MemoryNotFound, UnsafePath
from agentic_memory.store import MemoryStore

FACT = {"description": "When travel is planned", "type": "user", "content": "Prefers trains."}


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path) -> MemoryStore:
    backend = InMemoryBackend() if request.param == "memory" else LocalBackend()
    return MemoryStore(workdir=str(tmp_path), backend=backend)


async def read(store: MemoryStore, filename: str) -> str:
    return (await store.backend.read_file(f"{await store.root()}/{filename}")).decode()


async def write(store: MemoryStore, filename: str, text: str) -> None:
    await store.backend.write_file(f"{await store.root()}/{filename}", text.encode())


async def test_an_empty_place_is_an_empty_memory(store) -> None:
    snapshot = await store.load()
    assert (snapshot.files, snapshot.index.entries, snapshot.problems) == ((), (), ())
    assert await store.search("anything") == []
    assert await store.check() == []


async def test_add_writes_file_and_index_entry(store) -> None:
    added = await store.add(name="Travel", **FACT)
    assert added.filename == "travel.md"
    assert await store.get("travel.md") == (await store.get_all())[0]
    assert (added.name, added.description, added.type, added.content.strip()) == ("Travel", *FACT.values())
    assert await read(store, "MEMORY.md") == "- [Travel](travel.md) — When travel is planned\n"
    assert await store.check() == []


async def test_add_keeps_what_the_index_says_already(store) -> None:
    index = "# My notes\r\n\r\n* [Old](old.md): by hand\r\n\r\nfree text\r\n"
    await write(store, "MEMORY.md", index)
    await store.add(name="Travel", **FACT)
    assert await read(store, "MEMORY.md") == (
        "# My notes\r\n\r\n* [Old](old.md): by hand\r\n- [Travel](travel.md) — When travel is planned\r\n\r\nfree text\r\n"
    )


async def test_add_finds_a_free_name_and_never_overwrites(store) -> None:
    await write(store, "travel.md", "mine")
    assert (await store.add(name="Travel", **FACT)).filename == "travel_2.md"
    assert (await store.add(name="TRAVEL", **FACT)).filename == "travel_3.md"
    assert await read(store, "travel.md") == "mine"
    with pytest.raises(Conflict) as caught:
        await store.add(name="Travel", filename="travel.md", **FACT)
    assert caught.value.current == b"mine"


@pytest.mark.parametrize("name", ["", "  \n"])
async def test_a_memory_needs_a_name(store, name) -> None:
    with pytest.raises(InvalidMemory, match="name"):
        await store.add(name=name, **FACT)


async def test_names_in_any_script_become_files(store) -> None:
    names = [
        "用户偏好",
        "Café préféré",
        "../../etc/passwd",
        "-rf",
        "MEMORY",
        "a" * 400,
        "emoji 🍵",
        ".hidden",
        "con/aux",
    ]
    files = [await store.add(name=name, **FACT) for name in names]
    assert len({file.filename for file in files}) == len(names)
    assert [file.name for file in files] == names
    assert {file.filename for file in await store.get_all()} == {file.filename for file in files}
    assert {entry.filename for entry in (await store.load()).index.entries} == {file.filename for file in files}
    # A file name of 255 bytes is longer than an index line should be; nothing else may be wrong.
    assert {problem.code for problem in await store.check()} <= {"entry-too-long"}


async def test_update_changes_only_what_is_given(store) -> None:
    text = "---\nname: Travel\ncustom: kept # with comment\ndescription: old\ntype: user\n---\n\nBody stays.\n"
    await write(store, "travel.md", text)
    await write(store, "MEMORY.md", "- [Travel](travel.md) — old\n- [B](b.md) - x\n")
    updated = await store.update("travel.md", description="When travel: is planned")
    assert updated.description == "When travel: is planned"
    kept = [line for line in text.splitlines() if not line.startswith("description")]
    assert [
        line for line in (await read(store, "travel.md")).splitlines() if not line.startswith("description")
    ] == kept
    assert await read(store, "MEMORY.md") == "- [Travel](travel.md) — When travel: is planned\n- [B](b.md) - x\n"


async def test_update_leaves_an_index_line_that_a_person_worded_differently(store) -> None:
    await store.add(name="Travel", **FACT)
    await write(store, "MEMORY.md", "- [My trips](travel.md) — in my own words\n")
    await store.update("travel.md", name="Journeys", description="New")
    assert await read(store, "MEMORY.md") == "- [My trips](travel.md) — in my own words\n"


async def test_update_from_an_old_version_is_refused_with_what_is_there(store) -> None:
    added = await store.add(name="Travel", **FACT)
    newer = await store.update("travel.md", content="Prefers ships.\n")
    with pytest.raises(Conflict) as caught:
        await store.update("travel.md", content="Prefers cars.\n", expected=added.version)
    assert b"ships" in caught.value.current
    assert (await store.get("travel.md")).version == newer.version
    await store.update("travel.md", content="Prefers cars.\n", expected=newer.version)


async def test_update_follows_an_index_line_whose_hook_was_shortened(store) -> None:
    await store.add(name="Travel", description="When " + "very " * 60 + "long", type="user", content="x")
    await store.update("travel.md", description="Short")
    assert await read(store, "MEMORY.md") == "- [Travel](travel.md) — Short\n"


async def test_put_replaces_the_whole_file_from_the_version_that_was_edited(store) -> None:
    added = await store.add(name="Travel", **FACT)
    data = b"---\nname: Trips\ndescription: d2\ntype: user\n---\nBy ship.\n"
    await store.put("travel.md", data, expected=added.version)
    assert (await store.backend.read_file(f"{await store.root()}/travel.md")) == data
    assert await read(store, "MEMORY.md") == "- [Trips](travel.md) — d2\n"
    with pytest.raises(Conflict):
        await store.put("travel.md", b"other", expected=added.version)


async def test_check_names_copies_and_what_could_not_be_read(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    await store.add(name="Travel", **FACT)
    memory = tmp_path / "Memory"
    (memory / "memory.md").write_text("x", encoding="utf-8")
    (memory / "sub").mkdir()
    (memory / "sub" / "MEMORY.md").write_text("x", encoding="utf-8")
    (memory / "travel.sync-conflict-20260101-000000-ABCDEFG.md").write_text("x", encoding="utf-8")
    (memory / "MEMORY.md").write_text("- [Travel](travel.md) — d\n- [Gone](link.md) — d\n", encoding="utf-8")
    (memory / "link.md").symlink_to("nowhere.md")
    codes = {problem.code for problem in await store.check()}
    assert {"two-indexes", "nested-index", "sync-conflict", "path-dangling"} <= codes
    assert "entry-without-file" not in codes, "what cannot be read is not missing"


async def test_forget_moves_to_the_trash_and_drops_the_entry(store) -> None:
    await store.add(name="Travel", **FACT)
    await store.add(name="Food", description="d", type="user", content="Tea.")
    trashed = await store.forget("travel.md")
    assert "Prefers trains." in await read(store, trashed)
    assert [file.filename for file in await store.get_all()] == ["food.md"]
    assert "travel.md" not in await read(store, "MEMORY.md")
    assert await store.search("trains") == []
    with pytest.raises(MemoryNotFound, match=r"travel\.md"):
        await store.forget("travel.md")


async def test_rename_takes_the_entry_along(store) -> None:
    await store.add(name="Travel", **FACT)
    await store.add(name="Food", description="d", type="user", content="Tea.")
    renamed = await store.rename("travel.md", "trips/by_train.md")
    assert renamed.content.strip() == "Prefers trains."
    assert "[Travel](trips/by_train.md) — When travel is planned" in await read(store, "MEMORY.md")
    with pytest.raises(Conflict):
        await store.rename("food.md", "trips/by_train.md")
    with pytest.raises(MemoryNotFound):
        await store.rename("travel.md", "x.md")


async def test_search_finds_in_english_and_chinese_and_after_a_hand_edit(store) -> None:
    await store.add(name="Tea", description="饮品", type="user", content="用户喜欢绿茶，不喝咖啡。")
    await store.add(name="Travel", **FACT)
    assert [match.filename for match in await store.search("绿茶")] == ["tea.md"]
    (match,) = await store.search("trains")
    assert (match.filename, match.name, match.type) == ("travel.md", "Travel", "user")
    assert "Prefers trains." in match.passage
    text = await read(store, "travel.md")
    await write(store, "travel.md", text.replace("trains", "zeppelins"))
    assert [match.filename for match in await store.search("zeppelins")] == ["travel.md"]
    assert await store.search("trains") == []
    assert await store.search("   ") == []
    assert await store.search("trains", limit=0) == []


@pytest.mark.parametrize(
    "filename",
    ["../x.md", "/etc/x.md", "a/../../x.md", "x\0.md", "", "MEMORY.md", "memory.md", ".x.md", "x.txt", "~/x.md"],
)
async def test_names_that_leave_the_directory_or_are_no_memory_are_refused(store, filename) -> None:
    for call in (store.get(filename), store.update(filename, content="x"), store.forget(filename),
                 store.add(name="n", filename=filename, **FACT), store.rename("a.md", filename)):  # fmt: skip
        with pytest.raises(UnsafePath):
            await call


async def test_a_failed_backend_is_never_an_empty_memory(tmp_path) -> None:
    backend = InMemoryBackend()
    store = MemoryStore(workdir="/w", backend=backend)
    await store.add(name="Travel", **FACT)
    with backend.unreachable():
        for call in (store.load(), store.get_all(), store.get("travel.md"), store.search("x"), store.check(),
                     store.add(name="N", **FACT), store.forget("travel.md"), store.ensure_index()):  # fmt: skip
            with pytest.raises(BackendUnavailable):
                await call
    assert (await store.get("travel.md")).name == "Travel"
    assert "travel.md" in await read(store, "MEMORY.md")


async def test_index_and_file_change_together_or_not_at_all(store) -> None:
    root = await store.root()
    await store.backend.write_file(f"{root}/MEMORY.md/inside.txt", b"MEMORY.md is a directory")
    with pytest.raises((BackendUnavailable, UnsafePath), match=r"MEMORY\.md"):
        await store.add(name="Travel", **FACT)
    assert (await store.load()).files == ()


async def test_remembering_costs_two_round_trips(store) -> None:
    await store.load()
    before = store.backend.round_trips
    await store.add(name="Travel", **FACT)
    assert store.backend.round_trips - before <= 3


async def test_an_unchanged_memory_is_the_same_snapshot(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    await store.add(name="Travel", **FACT)
    await store.load()
    again = MemoryStore(workdir=str(tmp_path))
    documents = (await store.load()).documents
    assert (await again.load()).documents["travel.md"][1] is documents["travel.md"][1]


async def test_two_stores_on_one_directory_never_lose_entries(tmp_path) -> None:
    stores = [MemoryStore(workdir=str(tmp_path)) for _ in range(4)]

    async def many(store: MemoryStore, number: int) -> None:
        for turn in range(5):
            await store.add(name=f"Note {number} {turn}", **FACT)

    await asyncio.gather(*(many(store, number) for number, store in enumerate(stores)))
    names = {f"Note {number} {turn}" for number in range(4) for turn in range(5)}
    assert {file.name for file in await stores[0].get_all()} == names
    assert {entry.title for entry in (await stores[0].load()).index.entries} == names


WORKER = """
import asyncio, sys
from agentic_memory.store import MemoryStore
async def main(workdir, number, count):
    store = MemoryStore(workdir=workdir)
    for turn in range(count):
        if turn % 2:
            await store.update(f"w{number}_{turn - 1}.md", content=f"edited {number} {turn}\\n")
        else:
            await store.add(name=f"W{number} {turn}", description="d", type="user", content=f"fact {number} {turn}")
asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_8_processes_adding_and_editing_lose_nothing_and_tear_nothing(tmp_path) -> None:
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", WORKER, str(tmp_path), str(number), "50")
        for number in range(8)
    ]
    watching = MemoryStore(workdir=str(tmp_path))
    done = asyncio.gather(*(process.wait() for process in processes))
    seen = 0
    while not done.done():
        snapshot = await watching.load()
        for file in snapshot.files:
            assert file.name.startswith("W"), f"torn: {file}"
            assert file.content.endswith("\n"), f"torn: {file}"
        assert len(snapshot.documents) >= seen
        seen = len(snapshot.documents)
        await asyncio.sleep(0.01)
    assert await done == [0] * 8
    files = {file.filename: file for file in await watching.get_all()}
    assert set(files) == {f"w{number}_{turn}.md" for number in range(8) for turn in range(0, 50, 2)}
    for number in range(8):
        for turn in range(0, 50, 2):
            assert files[f"w{number}_{turn}.md"].content.strip() == f"edited {number} {turn + 1}"
    assert {entry.filename for entry in (await watching.load()).index.entries} == set(files)


@pytest.mark.parametrize("where", ["plain", "with space", "中文 目录", "-rf"])
async def test_places_of_any_name(tmp_path, where) -> None:
    store = MemoryStore(workdir=str(tmp_path / where), memory_dir="Mem ory")
    await store.add(name="Travel", **FACT)
    assert (tmp_path / where / "Mem ory" / "travel.md").exists()


async def test_relative_and_home_workdirs(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    await MemoryStore(workdir="rel").add(name="A", **FACT)
    await MemoryStore(workdir="~/x").add(name="B", **FACT)
    assert (tmp_path / "rel" / "Memory" / "a.md").exists()
    assert (tmp_path / "home" / "x" / "Memory" / "b.md").exists()


async def test_odd_things_in_the_directory_are_listed_and_the_rest_works(tmp_path) -> None:
    import os

    store = MemoryStore(workdir=str(tmp_path))
    await store.add(name="Travel", **FACT)
    memory = tmp_path / "Memory"
    os.mkfifo(memory / "fifo.md")
    (memory / "dir.md").mkdir()
    (tmp_path / "secret.md").write_text("secret", encoding="utf-8")
    (memory / "out.md").symlink_to(tmp_path / "secret.md")
    (memory / "gone.md").symlink_to("nowhere.md")
    (memory / "in.md").symlink_to("travel.md")
    (memory / "-rf.md").write_text("---\nname: Dash\ndescription: d\ntype: user\n---\nx\n", encoding="utf-8")
    (memory / "bad.md").write_bytes(b"\xff\xfe\x00broken")
    snapshot = await store.load()
    assert {"travel.md", "in.md", "-rf.md"} <= set(snapshot.documents)
    assert not {"out.md", "fifo.md", "gone.md", "dir.md"} & set(snapshot.documents)
    codes = {(problem.file, problem.code) for problem in await store.check()}
    assert {("fifo.md", "path-special"), ("out.md", "path-outside"), ("gone.md", "path-dangling"),
            ("dir.md", "path-directory")} <= codes  # fmt: skip
    with pytest.raises(UnsafePath):
        await store.get("out.md")
    with pytest.raises((UnsafePath, BackendUnavailable)):
        await store.update("out.md", content="x")
    assert (tmp_path / "secret.md").read_text(encoding="utf-8") == "secret"


async def test_a_name_that_is_not_utf8_is_a_problem_and_no_memory(tmp_path) -> None:
    store = MemoryStore(workdir=str(tmp_path))
    await store.add(name="Travel", **FACT)
    (tmp_path / "Memory" / "bad\udcff.md").write_text("x", encoding="utf-8")
    assert [file.filename for file in await store.get_all()] == ["travel.md"]
    found = {problem.code: problem.file for problem in await store.check()}
    assert found["path-not-utf8"] == "bad\\xff.md"
    assert (tmp_path / "Memory" / "bad\udcff.md").exists()


async def test_a_memory_directory_that_is_a_symlink(tmp_path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "Memory").symlink_to("real")
    store = MemoryStore(workdir=str(tmp_path))
    await store.add(name="Travel", **FACT)
    assert (tmp_path / "real" / "travel.md").exists()
    assert [file.filename for file in await store.get_all()] == ["travel.md"]
