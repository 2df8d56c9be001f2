"""What editors do to a file while they save it: played step by step on a real disk, with a look after every step.

Their own files are neither memories nor problems, and a file that is away for a moment is no loss.
"""

import asyncio
import os
from pathlib import Path

import pytest

from agentic_memory.store import MemoryStore

OLD = b"---\nname: A\ndescription: When asked\ntype: user\n---\n\nold text\n"
NEW = OLD.replace(b"old", b"new")
INDEX = b"- [A](a.md) \xe2\x80\x94 When asked\n"


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "Memory"
    folder.mkdir()
    (folder / "a.md").write_bytes(OLD)
    (folder / "MEMORY.md").write_bytes(INDEX)
    return folder


def vim(folder: Path):
    """``:w`` with backupcopy=no, and ``:q``: the swap file, a probe, the backup, a new file in its place."""
    (folder / ".a.md.swp").write_bytes(b"b0VIM 9.0\0\0")
    yield
    (folder / "4913").touch()
    yield
    (folder / "4913").unlink()
    os.rename(folder / "a.md", folder / "a.md~")
    yield
    (folder / "a.md").touch()
    yield
    (folder / "a.md").write_bytes(NEW)
    yield
    (folder / "a.md~").unlink()
    (folder / ".a.md.swp").unlink()
    yield


def vim_that_copies(folder: Path):
    """``:w`` with backupcopy=yes: the file itself is emptied and written anew."""
    (folder / "a.md~").write_bytes(OLD)
    yield
    with open(folder / "a.md", "r+b") as file:
        file.truncate()
        yield
        file.write(NEW)
    yield


def emacs(folder: Path):
    """A lock that is a dangling link, an auto-save file, a backup."""
    os.symlink("somebody@host.1234:1700000000", folder / ".#a.md")
    yield
    (folder / "#a.md#").write_bytes(NEW)
    yield
    os.rename(folder / "a.md", folder / "a.md~")
    yield
    (folder / "a.md").write_bytes(NEW)
    yield
    (folder / "#a.md#").unlink()
    (folder / ".#a.md").unlink()
    yield


def save_by_rename(folder: Path):
    """Most others: a temporary file is renamed over the old one."""
    for name in (".a.md.kate-swp", "a.md.tmp", ".goutputstream-X1Y2Z3", "a.md.1234.tmp", ".~lock.a.md#", "~$a.md"):
        (folder / name).write_bytes(NEW)
        yield
    os.replace(folder / "a.md.tmp", folder / "a.md")
    yield


def sync_tools(folder: Path):
    """The other version beside ours, and a partial download."""
    (folder / "a.sync-conflict-20260304-120000-ABCDEFG.md").write_bytes(OLD)
    yield
    (folder / "a (Bob's conflicted copy 2026-03-04).md").write_bytes(OLD)
    yield
    (folder / ".syncthing.a.md.tmp").write_bytes(NEW[:20])
    yield
    os.replace(folder / ".syncthing.a.md.tmp", folder / "a.md")
    (folder / "a.md").write_bytes(NEW)
    yield


EDITORS = [vim, vim_that_copies, emacs, save_by_rename, sync_tools]


@pytest.mark.parametrize("edit", EDITORS)
async def test_no_step_of_a_save_shows_another_memory_or_damages_one(folder, edit):
    store = MemoryStore(workdir=str(folder.parent))
    await store.load()
    for _ in edit(folder):
        snapshot = await store.load()
        assert set(snapshot.documents) <= {"a.md"}
        assert not snapshot.place_problems
        codes = {problem.code for problem in await store.check()}
        whole = (folder / "a.md").exists() and (folder / "a.md").stat().st_size
        assert codes <= ({"sync-conflict"} if whole else {"entry-without-file", "no-frontmatter", "sync-conflict"})
        await store.record_history()
    assert (folder / "a.md").read_bytes() == NEW
    assert (folder / "MEMORY.md").read_bytes() == INDEX
    versions = await store.history("a.md")
    assert [await store.read_version(one.version) for one in versions if one.version and one.size] == [NEW, OLD]


@pytest.mark.parametrize("edit", [vim, emacs])
async def test_a_repair_in_the_middle_of_a_save_drops_no_line_of_the_index(folder, edit):
    store = MemoryStore(workdir=str(folder.parent))
    steps = edit(folder)
    while (folder / "a.md").exists():
        next(steps)

    async def go_on():
        await asyncio.sleep(0.05)
        for _ in steps:
            pass

    assert [problem.code for problem in (await store.repair()).mended] == ["entry-without-file"]
    going_on = asyncio.create_task(go_on())
    await store.repair(apply=True)
    await going_on
    assert (folder / "MEMORY.md").read_bytes() == INDEX


async def test_a_file_that_comes_back_just_as_it_was_is_no_change(folder):
    store = MemoryStore(workdir=str(folder.parent))
    await store.load()
    os.rename(folder / "a.md", folder / "a.md~")
    await store.load()
    os.rename(folder / "a.md~", folder / "a.md")
    await store.load()
    await store.record_history()
    assert (await store.history("a.md"))[0].version == (await store.get("a.md")).version
