"""``repair``: shown first, written only when asked, one change that can be undone, and nothing left for a second run."""

import pytest

from agentic_memory.backends import InMemoryBackend, LocalBackend
from agentic_memory.store import MemoryStore

GOOD = "---\nname: Good\ndescription: When all is well\ntype: user\n---\n\ntext of it\n"
BROKEN = "---\nname: Bad\ndescription: Rule: never push\ntype: user\n---\n\nanother text\n"
INDEX = "# Mine\n\n- [Good](good.md) — by hand\n- [Good](good.md)\n- [Gone](gone.md) — once\n\nfree text\n"


@pytest.fixture(params=["memory", "local"])
async def store(request, tmp_path) -> MemoryStore:
    backend = InMemoryBackend() if request.param == "memory" else LocalBackend()
    store = MemoryStore(workdir=str(tmp_path), backend=backend)
    for filename, text in {"good.md": GOOD, "bad.md": BROKEN, "plain.md": "just text\n", "MEMORY.md": INDEX}.items():
        await store.backend.write_file(f"{await store.root()}/{filename}", text.encode())
    return store


async def read(store: MemoryStore, filename: str) -> str:
    return (await store.backend.read_file(f"{await store.root()}/{filename}")).decode()


async def test_nothing_is_written_unless_asked(store) -> None:
    repair = await store.repair()
    assert repair.transaction is None
    assert list(repair.changes) == ["bad.md", "MEMORY.md"]
    assert [(problem.code, problem.file) for problem in repair.mended] == [
        ("duplicate-entry", "MEMORY.md"),
        ("entry-without-file", "MEMORY.md"),
        ("not-in-index", "bad.md"),
        ("frontmatter-not-yaml", "bad.md"),
        ("not-in-index", "plain.md"),
    ]
    assert [(problem.code, problem.file) for problem in repair.left] == [("no-frontmatter", "plain.md")]
    assert '-description: Rule: never push\n+description: "Rule: never push"\n' in repair.diff
    assert "-- [Gone](gone.md) — once\n" in repair.diff
    assert (await read(store, "MEMORY.md"), await read(store, "bad.md")) == (INDEX, BROKEN)


async def test_what_was_shown_is_what_is_written_and_a_second_run_changes_nothing(store) -> None:
    shown = await store.repair()
    done = await store.repair(apply=True)
    assert done.transaction
    assert (done.diff, done.left) == (shown.diff, shown.left)
    for filename, data in shown.changes.items():
        assert await read(store, filename) == data.decode()
    assert await read(store, "MEMORY.md") == (
        "# Mine\n\n- [Good](good.md) — by hand\n- [Bad](bad.md) — Rule: never push\n- [plain](plain.md)\n\nfree text\n"
    )
    assert tuple(await store.check()) == done.left
    again = await store.repair(apply=True)
    assert (again.transaction, again.diff, again.mended, again.left) == (None, "", (), done.left)


async def test_it_can_be_undone(store) -> None:
    await store.repair(apply=True)
    for filename, text in {"bad.md": BROKEN, "MEMORY.md": INDEX}.items():
        versions = await store.history(filename)
        assert (versions[0].who, versions[0].why) == ("store", "repaired")
        await store.restore(filename, versions[0].previous)
        assert await read(store, filename) == text


async def test_a_line_without_a_file_stays_where_nothing_keeps_it(store) -> None:
    without = MemoryStore(workdir=store._workdir, backend=store.backend, history=False)
    repair = await without.repair(apply=True)
    assert "gone.md" in await read(store, "MEMORY.md")
    assert [problem.code for problem in repair.left] == ["entry-without-file", "no-frontmatter"]


async def test_what_somebody_writes_meanwhile_is_mended_too_and_not_lost(store) -> None:
    index = f"{await store.root()}/MEMORY.md"
    transact, calls = store.backend.transact, []

    async def interrupted(changes, **more):
        if not calls:
            calls.append(1)
            await store.backend.write_file(index, (INDEX + "by hand\n").encode())
        await transact(changes, **more)

    store.backend.transact = interrupted
    done = await store.repair(apply=True)
    assert (await read(store, "MEMORY.md")).endswith("- [plain](plain.md)\n\nfree text\nby hand\n")
    assert done.changes["MEMORY.md"].decode() == await read(store, "MEMORY.md")


async def test_an_index_that_cannot_be_opened_keeps_nothing_from_being_mended(tmp_path) -> None:
    (tmp_path / "Memory" / "MEMORY.md").mkdir(parents=True)
    (tmp_path / "Memory" / "bad.md").write_text(BROKEN)
    repair = await MemoryStore(workdir=str(tmp_path)).repair(apply=True)
    assert (list(repair.changes), repair.transaction is None) == (["bad.md"], False)


async def test_an_empty_place_stays_empty(tmp_path) -> None:
    repair = await MemoryStore(workdir=str(tmp_path)).repair(apply=True)
    assert (repair.transaction, repair.diff, repair.left) == (None, "", ())
    assert not list(tmp_path.iterdir())


async def test_a_memory_without_an_index_gets_one(tmp_path) -> None:
    (tmp_path / "Memory").mkdir()
    (tmp_path / "Memory" / "good.md").write_text(GOOD)
    store = MemoryStore(workdir=str(tmp_path))
    await store.repair(apply=True)
    assert await read(store, "MEMORY.md") == "- [Good](good.md) — When all is well\n"
    assert await store.check() == []
