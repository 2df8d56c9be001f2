"""LocalBackend keeps every promise of the seam on a real file system, fast and without holding up the event loop."""

import os
import stat
import threading
import time
from typing import ClassVar

import pytest

from agentic_memory.backends import (
    ABSENT,
    FileRecord,
    LocalBackend,
    version_of,
)
from agentic_memory.backends.local import backend as local_module
from agentic_memory.backends.local import files as local_files
from agentic_memory.backends.local import passes
from agentic_memory.backends.local import tree as local_tree
from agentic_memory.backends.values import MAX_FILE_BYTES
from agentic_memory.errors import BackendUnavailable
from agentic_memory.testing import BackendContract

pytest_plugins = ["local_place"]

TICK_SECONDS = 0.02
"""Longer than a file system's clock ticks here."""


class TestLocalBackend(BackendContract):
    lacks: ClassVar = {"partial answers": "a system call is answered whole"}

    @pytest.fixture
    async def place(self, local_place):
        return local_place


@pytest.fixture
async def backend():
    return LocalBackend()


@pytest.fixture
def root(tmp_path):
    path = tmp_path / "Memory"
    path.mkdir()
    for name in ("a.md", "b.md", "c.md"):
        (path / name).write_bytes(name.encode())
    return path


@pytest.fixture
def settled(monkeypatch):
    """Trust signatures soon, so that a test need not wait for seconds."""
    monkeypatch.setattr(local_tree, "SETTLED_NS", int(TICK_SECONDS * 1e9))


async def known_versions(backend, root):
    return {record.version for record in (await backend.snapshot(str(root))).files}


async def test_the_same_tree_is_returned_until_something_changes(backend, root):
    known = await known_versions(backend, root)
    first = await backend.snapshot(str(root), known=known)
    assert {record.data for record in first.files} == {None}
    assert await backend.snapshot(str(root), known=known) is first
    assert await LocalBackend().snapshot(str(root), known=known) is first
    (root / "b.md").write_bytes(b"new")
    second = await backend.snapshot(str(root), known=known)
    assert second is not first
    assert second.files[0] is first.files[0]
    assert second.files[1].data == b"new"
    (root / "d.md").symlink_to("nowhere.md")
    third = await backend.snapshot(str(root), known=known | {version_of(b"new")})
    assert [obstacle.kind for obstacle in third.obstacles] == ["dangling"]
    (root / "d.md").unlink()
    assert (await backend.snapshot(str(root), known=known | {version_of(b"new")})).obstacles == ()


async def test_a_caller_who_knows_less_does_not_disturb_one_who_knows_all(backend, root):
    known = await known_versions(backend, root)
    first = await backend.snapshot(str(root), known=known)
    assert all(record.data for record in (await backend.snapshot(str(root))).files)
    assert await backend.snapshot(str(root), known=known) is first


async def test_settled_files_are_not_read_again(monkeypatch, backend, root, settled):
    time.sleep(2 * TICK_SECONDS)
    known = await known_versions(backend, root)
    opened = []
    read_all = local_tree.read_all
    monkeypatch.setattr(local_tree, "read_all", lambda *args: opened.append(args) or read_all(*args))
    await backend.snapshot(str(root), known=known)
    assert opened == []
    assert len((await backend.snapshot(str(root))).files) == len(opened) == 3


async def test_a_settled_directory_is_not_listed_again(monkeypatch, backend, root, settled):
    time.sleep(2 * TICK_SECONDS)
    known = await known_versions(backend, root)
    first = await backend.snapshot(str(root), known=known)
    monkeypatch.setattr(local_tree.Walk, "_entries", None)
    assert await backend.snapshot(str(root), known=known) is first
    assert len([record for record in (await backend.snapshot(str(root))).files if record.data]) == 3


def add(root):
    (root / "d.md").write_bytes(b"new")


def add_below(root):
    (root / "deep" / "d.md").write_bytes(b"new")


def add_folder(root):
    (root / "more").mkdir()
    (root / "more" / "d.md").write_bytes(b"new")


def remove(root):
    (root / "b.md").unlink()


def rename(root):
    (root / "b.md").rename(root / "z.md")


def save_by_rename(root):
    (root / ".b.md.swp").write_bytes(b"new")
    (root / ".b.md.swp").replace(root / "b.md")


def edit(root):
    (root / "b.md").write_bytes(b"new!")


def edit_below(root):
    (root / "deep" / "c.md").write_bytes(b"new!")


def link(root):
    (root / "b.md").unlink()
    (root / "b.md").symlink_to("a.md")


def make_directory(root):
    (root / "b.md").unlink()
    (root / "b.md").mkdir()


def refuse(root):
    (root / "deep").rename(root / "deep.md")


CHANGES = [
    add, add_below, add_folder, remove, rename, save_by_rename, edit, edit_below, link, make_directory, refuse
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_a_change_in_a_settled_directory_is_seen_at_once(backend, root, settled, change):
    (root / "deep").mkdir()
    (root / "deep" / "c.md").write_bytes(b"deep")
    time.sleep(2 * TICK_SECONDS)
    known = await known_versions(backend, root)
    await backend.snapshot(str(root), known=known)
    change(root)
    warm = await backend.snapshot(str(root), known=known)
    again = await backend.snapshot(str(root), known=known)
    passes.forget_passes()
    cold = await backend.snapshot(str(root), known=known)
    assert (warm, again) == (cold, cold)


async def test_a_link_in_a_settled_directory_is_followed_at_every_look(backend, root, settled):
    (root / "deep").mkdir()
    (root / "deep" / "c.md").symlink_to("../a.md")
    time.sleep(2 * TICK_SECONDS)
    known = await known_versions(backend, root)
    await backend.snapshot(str(root), known=known)
    (root / "a.md").write_bytes(b"new")
    files = {record.path: record.data for record in (await backend.snapshot(str(root), known=known)).files}
    assert files == {"a.md": b"new", "b.md": None, "c.md": None, "deep/c.md": b"new"}


async def test_an_edit_of_the_same_size_right_after_a_look_is_seen(backend, root):
    for number in range(30):
        known = await known_versions(backend, root)
        before = os.stat(root / "a.md")
        with open(root / "a.md", "r+b") as file:
            file.write(b"%04d" % number)
        os.utime(root / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
        tree = await backend.snapshot(str(root), known=known)
        assert tree.files[0].data == b"%04d" % number


async def test_an_edit_of_the_same_size_is_seen_where_clocks_tick_slowly(monkeypatch, backend, root):
    def as_fat(status):
        return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns // (2 * 10**9), 0)

    monkeypatch.setattr(local_tree, "signature_of", as_fat)
    for number in range(10):
        known = await known_versions(backend, root)
        with open(root / "a.md", "r+b") as file:
            file.write(b"%04d" % number)
        assert (await backend.snapshot(str(root), known=known)).files[0].data == b"%04d" % number


async def test_an_edit_that_restores_size_and_mtime_is_seen_on_a_settled_file(backend, root, settled):
    time.sleep(2 * TICK_SECONDS)
    known = await known_versions(backend, root)
    assert (await backend.snapshot(str(root), known=known)).files[0].data is None
    before = os.stat(root / "a.md")
    with open(root / "a.md", "r+b") as file:
        file.write(b"EDIT")
    os.utime(root / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(root / "a.md").st_mtime_ns == before.st_mtime_ns
    assert (await backend.snapshot(str(root), known=known)).files[0].data == b"EDIT"


async def test_a_file_from_the_future_is_never_trusted(backend, root, settled):
    os.utime(root / "a.md", (4e9, 4e9))
    time.sleep(2 * TICK_SECONDS)
    known = await known_versions(backend, root)
    request = (str(root), "", False, MAX_FILE_BYTES)
    seen = passes._passes[request].folders[""].seen
    assert {name: seen[name][1] for name in seen} == {"a.md": False, "b.md": True, "c.md": True}
    assert len(known) == 3


async def test_what_is_remembered_is_bounded(monkeypatch, backend, tmp_path):
    monkeypatch.setattr(passes, "MAX_CACHED_FILES", 10)
    passes.forget_passes()
    for number in range(6):
        await backend.replace(f"{tmp_path}/{number}/a.md", b"a", expected=ABSENT)
        await backend.replace(f"{tmp_path}/{number}/b.md", b"b", expected=ABSENT)
        await backend.replace(f"{tmp_path}/{number}/c.md", b"c", expected=ABSENT)
        await backend.snapshot(f"{tmp_path}/{number}")
    assert [request[0][-1] for request in passes._passes] == ["3", "4", "5"]


async def test_a_file_that_moves_while_it_is_listed_is_still_seen(monkeypatch, backend, root):
    entries = local_tree.Walk._entries
    moved = []

    def move_after_listing(self, directory, descriptor):
        found = entries(self, directory, descriptor)
        if not moved:
            moved.append(os.rename(root / "a.md", root / "z.md"))
        return found

    monkeypatch.setattr(local_tree.Walk, "_entries", move_after_listing)
    tree = await backend.snapshot(str(root))
    assert [record.path for record in tree.files] == ["b.md", "c.md", "z.md"]


async def test_a_file_cut_while_it_is_read_is_read_again(monkeypatch, backend, root):
    read_all = local_files.read_all
    reads = []

    def cut_first(descriptor, size):
        data = read_all(descriptor, size)
        if not reads:
            reads.append((root / "a.md").write_bytes(b"longer than before"))
        return data

    monkeypatch.setattr(local_files, "read_all", cut_first)
    assert (await backend.fetch(str(root / "a.md"))).data == b"longer than before"
    monkeypatch.setattr(local_tree, "read_all", cut_first)
    (root / "a.md").write_bytes(b"x")
    reads.clear()
    assert (await backend.snapshot(str(root))).files[0].data == b"longer than before"


async def test_a_file_that_is_written_all_the_time_is_no_file_read(monkeypatch, backend, root):
    read_all = local_files.read_all

    def grow(descriptor, size):
        data = read_all(descriptor, size)
        with open(root / "a.md", "ab") as file:
            file.write(b"more")
        return data

    monkeypatch.setattr(local_files, "read_all", grow)
    monkeypatch.setattr(local_tree, "read_all", grow)
    with pytest.raises(BackendUnavailable, match="all the time"):
        await backend.fetch(str(root / "a.md"))
    assert [seen.path for seen in (await backend.snapshot(str(root))).obstacles] == ["a.md"]


async def test_no_blocking_call_is_made_on_the_event_loop(monkeypatch, backend, root):
    threads = set()

    def noting(function):
        def run(*args, **kwargs):
            threads.add(threading.current_thread())
            return function(*args, **kwargs)

        return run

    for target, name in ((local_module, "_fetch"), (local_module, "_entry_at"), (local_module.Walk, "run")):
        monkeypatch.setattr(target, name, noting(getattr(target, name)))
    monkeypatch.setattr(local_module.Transaction, "run", noting(local_module.Transaction.run))
    await backend.snapshot(str(root))
    await backend.fetch(str(root / "a.md"))
    await backend.replace(str(root / "d.md"), b"d", expected=ABSENT)
    await backend.file_exists(str(root / "d.md"))
    assert threads
    assert threading.main_thread() not in threads


async def test_relative_paths_and_home_work_in_the_calls_of_agentscopes_tools(monkeypatch, backend, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    await backend.write_file("记忆/笔记.md", "中文".encode())
    await backend.write_file("~/notes/-rf.md", b"x")
    assert (tmp_path / "记忆" / "笔记.md").read_text("utf-8") == "中文"
    assert await backend.read_file("~/notes/-rf.md") == b"x"
    assert await backend.resolve("~/notes") == str(tmp_path / "home" / "notes")
    assert await backend.resolve("Memory") == str(tmp_path / "Memory")


async def test_any_file_can_be_read_whole_and_streams_are_written_at_once(backend, tmp_path):
    async def stream():
        for number in range(17):
            assert not await backend.file_exists(str(tmp_path / "big"))
            yield bytes([number]) * 1024 * 1024

    await backend.write_stream(str(tmp_path / "big"), stream())
    assert len(await backend.read_file(str(tmp_path / "big"))) == 17 * 1024 * 1024
    with pytest.raises(BackendUnavailable, match="limit"):
        await backend.fetch(str(tmp_path / "big"))


async def test_commands_run_as_with_agentscopes_own_backend(backend, tmp_path):
    result = await backend.exec_shell(["sh", "-c", "pwd; exit 3"], cwd=str(tmp_path))
    assert (result.exit_code, result.stdout) == (3, f"{os.path.realpath(tmp_path)}\n".encode())
    assert (await backend.exec_shell(["no-such-program"])).exit_code == 127


async def test_whole_trees_are_listed_and_deleted_but_nothing_behind_links(backend, tmp_path, root):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.md").write_bytes(b"x")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "sub").mkdir()
    (root / "sub" / "d.md").write_bytes(b"d")
    names = await backend.list_dir(str(root), recursive=True)
    assert sorted(os.path.relpath(name, root) for name in names) == ["a.md", "b.md", "c.md", "sub/d.md"]
    entry = await backend.stat(str(root / "a.md"))
    assert (entry.name, entry.is_dir, entry.size_bytes) == ("a.md", False, 4)
    assert await backend.scandir(str(tmp_path / "no")) == []
    with pytest.raises(FileNotFoundError):
        await backend.list_dir(str(tmp_path / "no"))
    await backend.delete_path(str(root))
    await backend.delete_path(str(root))
    assert not root.exists()
    assert (tmp_path / "outside" / "x.md").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
async def test_a_device_is_never_opened(backend, root):
    os.mknod(root / "zero.md", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    tree = await backend.snapshot(str(root))
    assert [(seen.path, seen.kind) for seen in tree.obstacles] == [("zero.md", "special")]
    assert len(tree.files) == 3


async def test_a_missing_root_below_an_existing_one_is_absent_but_below_a_dead_link_is_not(backend, tmp_path):
    assert not (await backend.snapshot(str(tmp_path / "no" / "Memory"))).exists
    (tmp_path / "volume").symlink_to(tmp_path / "not-mounted")
    with pytest.raises(BackendUnavailable, match="symlink to nothing"):
        await backend.snapshot(str(tmp_path / "volume" / "Memory"))
    with pytest.raises(BackendUnavailable, match="symlink to nothing"):
        await backend.replace(str(tmp_path / "volume" / "Memory" / "a.md"), b"a", expected=ABSENT)
    assert not (tmp_path / "not-mounted").exists()


async def test_deep_folders_are_walked(backend, tmp_path):
    deep = "/".join(["d"] * 300)
    await backend.replace(f"{tmp_path}/{deep}/a.md", b"a", expected=ABSENT, within=str(tmp_path))
    tree = await backend.snapshot(str(tmp_path))
    assert tree.files == (FileRecord(f"{deep}/a.md", 1, tree.files[0].mtime_ns, version_of(b"a"), b"a"),)


async def test_it_says_where_it_cannot_work(monkeypatch):
    monkeypatch.setattr(local_module.sys, "platform", "win32")
    with pytest.raises(NotImplementedError, match="WSL"):
        LocalBackend()


async def test_a_root_that_is_made_between_two_looks_is_seen(tmp_path, monkeypatch):
    """The first writer of a new memory makes its directory while a second one is just opening it."""
    root = tmp_path / "new"
    real_open = os.open

    def open_too_early(path, *args, **kwargs):
        if path == str(root) and not root.exists():
            root.mkdir()
            raise FileNotFoundError(2, "not yet", path)
        return real_open(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_too_early)
    tree = await LocalBackend().snapshot(str(root))
    assert tree.exists
    assert tree.files == ()
