"""LocalBackend when a step fails, a writer dies, the disk is full, or somebody wants to be clever."""

import asyncio
import errno
import fcntl
import json
import os
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest

from agentic_memory.backends import (
    ABSENT,
    ANY,
    Delete,
    LocalBackend,
    Move,
    Put,
    version_of,
)
from agentic_memory.backends.local import backend as local_module
from agentic_memory.backends.local import files as local_files
from agentic_memory.backends.local import journal as local_journal
from agentic_memory.backends.local import swap
from agentic_memory.backends.local import transaction as local_transaction
from agentic_memory.backends.local.journal import (
    JOURNAL_NAME,
    BrokenJournalError,
    is_own_name,
    new_temporary_name,
    parse_journal,
)
from agentic_memory.backends.local.transaction import Transaction
from agentic_memory.errors import BackendUnavailable, Conflict, UnsafePath

BEFORE = {"a.md": b"a", "b.md": b"b", "sub/c.md": b"c", "sub/d.md": b"d"}
AFTER = {"a.md": b"new a", "sub/new.md": b"new", "sub/c.md": b"new c", ".trash/d.md": b"d"}


UNDOERS = ("_undo_put", "_undo_delete", "_undo_move")


class KilledError(BaseException):
    """Stands for SIGKILL: nothing is cleaned up after it."""


@pytest.fixture
async def backend():
    return LocalBackend()


@pytest.fixture
async def root(tmp_path, backend):
    root = str(tmp_path / "Memory")
    await backend.transact([Put(f"{root}/{name}", data, ABSENT) for name, data in BEFORE.items()], within=root)
    return root


def changes_in(root):
    return [
        Put(f"{root}/a.md", b"new a", version_of(b"a")),
        Delete(f"{root}/b.md", version_of(b"b")),
        Put(f"{root}/sub/new.md", b"new", ABSENT),
        Move(f"{root}/sub/d.md", f"{root}/.trash/d.md", version_of(b"d")),
        Put(f"{root}/sub/c.md", b"new c", ANY),
    ]


def files_in(root):
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
    return found


def without_own(files):
    return {name: data for name, data in files.items() if not is_own_name(os.path.basename(name))}


async def test_every_kind_of_change_is_applied_together_and_leaves_nothing_else(backend, root):
    await backend.transact(changes_in(root), within=root)
    assert files_in(root) == AFTER


@contextmanager
def dying_at(monkeypatch, step):
    """Make the writer die before the given step is applied; one past the last: before it commits."""
    applied = 0
    apply_one = Transaction._apply_one

    def apply(self, *args):
        nonlocal applied
        if applied == step:
            raise KilledError
        applied += 1
        apply_one(self, *args)

    def commit(top):
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "_apply_one", apply)
        patch.setattr(Transaction, "_undo", lambda self, *args, **kwargs: None)
        patch.setattr(Transaction, "_unmake_directories", lambda self: None)
        patch.setattr(local_transaction, "remove_journal", commit)
        yield


@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize("next_call", ["snapshot", "fetch", "transact"])
async def test_who_comes_after_a_dead_writer_undoes_its_work(monkeypatch, backend, root, step, next_call):
    with dying_at(monkeypatch, step), pytest.raises(KilledError):
        await backend.transact(changes_in(root), within=root)
    assert JOURNAL_NAME in files_in(root)
    if next_call == "snapshot":
        tree = await LocalBackend().snapshot(root, hidden=True)
        assert {record.path: record.data for record in tree.files} == BEFORE
    elif next_call == "fetch":
        record = await LocalBackend().fetch(f"{root}/sub/c.md", within=root)
        assert record.data == b"c"
    else:
        await LocalBackend().replace(f"{root}/sub/c.md", b"c", expected=version_of(b"c"), within=root)
    assert files_in(root) == BEFORE


@pytest.mark.parametrize("step", range(6))
async def test_a_roll_back_that_is_killed_itself_is_done_again(monkeypatch, backend, root, step):
    with dying_at(monkeypatch, 5), pytest.raises(KilledError):
        await backend.transact(changes_in(root), within=root)
    left = step
    undo = {name: getattr(local_journal, name) for name in UNDOERS}

    def dying(name):
        def run(*args):
            nonlocal left
            if left == 0:
                raise OSError(errno.EIO, "killed")
            left -= 1
            undo[name](*args)

        return run

    with monkeypatch.context() as patch:
        for name in UNDOERS:
            patch.setattr(local_journal, name, dying(name))
        await LocalBackend().snapshot(root)
    tree = await LocalBackend().snapshot(root, hidden=True)
    assert {record.path: record.data for record in tree.files} == BEFORE
    assert files_in(root) == BEFORE


async def test_what_a_person_wrote_after_the_writer_died_is_not_undone(monkeypatch, backend, root):
    with dying_at(monkeypatch, 5), pytest.raises(KilledError):
        await backend.transact(changes_in(root), within=root)
    for name in ("a.md", "b.md", "sub/new.md"):
        with open(f"{root}/{name}", "wb") as file:
            file.write(b"by hand")
    tree = await backend.snapshot(root, hidden=True)
    found = {record.path: record.data for record in tree.files}
    by_hand = {"a.md": b"by hand", "b.md": b"by hand", "sub/new.md": b"by hand"}
    assert found == {**by_hand, "sub/c.md": b"c", "sub/d.md": b"d"}
    assert files_in(root) == found


@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
async def test_a_step_that_fails_undoes_those_before_it(monkeypatch, backend, root, step, number):
    applied = 0
    apply_one = Transaction._apply_one

    def apply(self, *args):
        nonlocal applied
        if applied == step:
            raise OSError(number, os.strerror(number))
        applied += 1
        apply_one(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "_apply_one", apply)
        with pytest.raises(BackendUnavailable, match="full" if number == errno.ENOSPC else ".") as caught:
            await backend.transact(changes_in(root), within=root)
    assert caught.value.filename.startswith(root)
    assert files_in(root) == BEFORE
    assert not os.path.exists(f"{root}/.trash")


async def test_an_edit_between_the_look_and_the_change_is_not_lost(monkeypatch, backend, root):
    prepare = Transaction._prepare

    def edit_meanwhile(self, *args):
        prepare(self, *args)
        with open(f"{root}/sub/c.md", "wb") as file:
            file.write(b"by hand")

    monkeypatch.setattr(Transaction, "_prepare", edit_meanwhile)
    changes = [Put(f"{root}/a.md", b"x", version_of(b"a")), Put(f"{root}/sub/c.md", b"y", version_of(b"c"))]
    with pytest.raises(Conflict) as caught:
        await backend.transact(changes, within=root)
    assert (caught.value.path, caught.value.current) == (f"{root}/sub/c.md", b"by hand")
    assert files_in(root) == {**BEFORE, "sub/c.md": b"by hand"}


@pytest.mark.parametrize("several", [False, True])
async def test_a_file_created_between_the_look_and_the_change_is_not_overwritten(monkeypatch, backend, root, several):
    untouched = Transaction._demand_untouched

    def create_meanwhile(aim, found, top):
        untouched(aim, found, top)
        if aim.spot.name == "new.md" and not os.path.exists(f"{root}/new.md"):
            with open(f"{root}/new.md", "wb") as file:
                file.write(b"by hand")

    monkeypatch.setattr(Transaction, "_demand_untouched", staticmethod(create_meanwhile))
    changes = [Put(f"{root}/a.md", b"x", version_of(b"a"))] if several else []
    with pytest.raises(Conflict) as caught:
        await backend.transact([*changes, Put(f"{root}/new.md", b"mine", ABSENT)], within=root)
    assert caught.value.current == b"by hand"
    assert files_in(root) == {**BEFORE, "new.md": b"by hand"}


async def test_a_file_system_without_hard_links_and_exclusive_renames_will_do(monkeypatch, backend, root):
    def no_links(*args, **kwargs):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(local_files, "_renameat2", lambda: None)
    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(Conflict):
        await backend.move(f"{root}/a.md", f"{root}/b.md", expected=ANY)
    with dying_at(monkeypatch, 5), pytest.raises(KilledError):
        await backend.transact(changes_in(root), within=root)
    await backend.snapshot(root)
    assert files_in(root) == BEFORE
    await backend.transact(changes_in(root), within=root)
    assert files_in(root) == AFTER


async def test_a_system_without_exclusive_rename_uses_hard_links(monkeypatch, backend, root):
    monkeypatch.setattr(local_files, "_renameat2", lambda: None)
    with pytest.raises(Conflict):
        await backend.move(f"{root}/a.md", f"{root}/b.md", expected=ANY)
    await backend.transact(changes_in(root), within=root)
    assert files_in(root) == AFTER


async def test_two_names_of_one_file_can_change_together(backend, root):
    os.link(f"{root}/a.md", f"{root}/twin.md")
    await backend.transact([Put(f"{root}/a.md", b"1", ANY), Put(f"{root}/twin.md", b"2", ANY)], within=root)
    assert files_in(root) == {**BEFORE, "a.md": b"1", "twin.md": b"2"}


async def test_two_paths_that_lead_to_one_file_are_refused(backend, root):
    os.symlink("a.md", f"{root}/alias.md")
    with pytest.raises(UnsafePath, match="one file"):
        await backend.transact([Put(f"{root}/a.md", b"1", ANY), Put(f"{root}/alias.md", b"2", ANY)], within=root)
    assert without_own(files_in(root)) == {**BEFORE, "alias.md": b"a"}


# ---------------------------------------------------------------------- locks


async def test_a_hanging_writer_is_named_after_a_while(monkeypatch, backend, root):
    monkeypatch.setattr(local_module, "LOCK_SECONDS", 0.1)
    with locked(root), pytest.raises(BackendUnavailable, match="locked") as caught:
        await backend.replace(f"{root}/a.md", b"x", expected=ANY)
    assert root in str(caught.value)
    assert files_in(root) == BEFORE
    await backend.replace(f"{root}/a.md", b"x", expected=ANY)


async def test_readers_do_not_wait_for_a_hanging_writer(backend, root):
    with locked(root):
        assert (await backend.fetch(f"{root}/a.md")).data == b"a"
        assert len((await backend.snapshot(root)).files) == len(BEFORE)


async def test_a_cancelled_writer_stops_waiting_and_never_writes(backend, root):
    with locked(root):
        task = asyncio.ensure_future(backend.replace(f"{root}/a.md", b"x", expected=ANY))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)
    assert files_in(root) == BEFORE


async def test_a_cancelled_call_is_over_when_it_says_so(monkeypatch, backend, root):
    started, go_on, finished = threading.Event(), threading.Event(), threading.Event()
    prepare = Transaction._prepare

    def slow(self, *args):
        started.set()
        go_on.wait(10)
        prepare(self, *args)
        finished.set()

    monkeypatch.setattr(Transaction, "_prepare", slow)
    task = asyncio.ensure_future(backend.replace(f"{root}/a.md", b"x", expected=ANY))
    while not started.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert finished.is_set()
    assert files_in(root) == {**BEFORE, "a.md": b"x"}


@contextmanager
def locked(directory):
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


async def test_a_directory_that_is_replaced_while_waiting_is_looked_at_again(backend, root):
    with locked(f"{root}/sub"):
        task = asyncio.ensure_future(
            backend.replace(f"{root}/sub/c.md", b"x", expected=version_of(b"other"), within=root)
        )
        await asyncio.sleep(0.05)
        os.rename(f"{root}/sub", f"{root}/old")
        os.mkdir(f"{root}/sub")
        with open(f"{root}/sub/c.md", "wb") as file:
            file.write(b"other")
    await task
    assert files_in(root) == {"a.md": b"a", "b.md": b"b", "old/c.md": b"c", "old/d.md": b"d", "sub/c.md": b"x"}


# ---------------------------------------------------------------------- litter and planted journals


async def test_what_a_dead_writer_left_half_written_is_cleared_away(root):
    for directory in (root, f"{root}/sub"):
        os.utime(directory)
        with open(f"{directory}/{new_temporary_name()}", "wb") as file:
            file.write(b"half")
    tree = await LocalBackend().snapshot(root, hidden=True)
    assert {record.path: record.data for record in tree.files} == BEFORE
    local_transaction._swept.clear()
    await LocalBackend().transact([Put(f"{root}/a.md", b"a", ANY), Put(f"{root}/sub/c.md", b"c", ANY)], within=root)
    assert files_in(root) == BEFORE


def put_step(**fields):
    step = {
        "kind": "put",
        "directory": "",
        "name": "x.md",
        "version": version_of(b"x"),
        "temporary": new_temporary_name(),
    }
    return {**step, "spare": new_temporary_name(), **fields}


UNSOUND = {
    "not JSON": b"\xff\0",
    "another shape": b"[]",
    "deep": b"[" * 100_000,
    "another format": json.dumps({"format": 9, "steps": []}).encode(),
    **{
        name: json.dumps({"format": 1, "steps": [step]}).encode()
        for name, step in {
            "upwards": put_step(directory=".."),
            "upwards from below": put_step(directory="sub/../.."),
            "absolute": put_step(directory="/etc"),
            "a path as name": put_step(name="../x.md"),
            "any file as spare": put_step(spare="passwd"),
            "any file as temporary": put_step(temporary="../x.md"),
            "no name": put_step(name=""),
            "a number": put_step(name=7),
            "unknown field": put_step(more="x"),
            "unknown kind": put_step(kind="link"),
            "a move upwards": put_step(kind="move", target="x.md", target_directory="../.."),
            "a delete without spare": put_step(kind="delete", spare=""),
        }.items()
    },
}


@pytest.mark.parametrize("data", UNSOUND.values(), ids=UNSOUND)
async def test_a_journal_no_transaction_wrote_is_put_aside_and_never_obeyed(backend, root, data):
    with pytest.raises(BrokenJournalError):
        parse_journal(data)
    with open(f"{os.path.dirname(root)}/x.md", "wb") as file:
        file.write(b"x")
    with open(f"{root}/{JOURNAL_NAME}", "wb") as file:
        file.write(data)
    tree = await backend.snapshot(root)
    broken = [record for record in tree.files if record.path.endswith(".broken")]
    assert [record.data for record in broken] == [data]
    assert {record.path: record.data for record in tree.files if record not in broken} == BEFORE
    assert os.path.exists(f"{os.path.dirname(root)}/x.md")
    await backend.replace(f"{root}/a.md", b"x", expected=version_of(b"a"), within=root)


async def test_a_journal_reaches_through_no_symlink(backend, root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_bytes(b"x")
    os.symlink(outside, f"{root}/link")
    steps = [put_step(directory="link", spare="")]
    with open(f"{root}/{JOURNAL_NAME}", "w") as file:
        json.dump({"format": 1, "steps": steps}, file)
    await backend.snapshot(root)
    assert (outside / "x.md").read_bytes() == b"x"
    assert not os.path.exists(f"{root}/{JOURNAL_NAME}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_journal_of_somebody_else_is_not_obeyed(backend, root):
    steps = [put_step(name="a.md", version=version_of(b"a"), spare="")]
    with open(f"{root}/{JOURNAL_NAME}", "w") as file:
        json.dump({"format": 1, "steps": steps}, file)
    os.chown(f"{root}/{JOURNAL_NAME}", 1234, 1234)
    tree = await backend.snapshot(root)
    assert {record.path: record.data for record in tree.files if not record.path.endswith(".broken")} == BEFORE


async def test_a_directory_swapped_for_a_symlink_is_not_entered(monkeypatch, backend, root, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.md").write_bytes(b"secret")
    locate = local_module.locate

    def swap_after(path, within, *, follow):
        spot = locate(path, within, follow=follow)
        if not os.path.islink(f"{root}/sub"):
            os.rename(f"{root}/sub", f"{root}/moved")
            os.symlink(outside, f"{root}/sub")
        return spot

    monkeypatch.setattr(local_module, "locate", swap_after)
    with pytest.raises(UnsafePath):
        await backend.fetch(f"{root}/sub/c.md", within=root)


# ---------------------------------------------------------------------- disks


@contextmanager
def mounted(path, options):
    """A file system of its own."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"{options},mode=755", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a disk")
    try:
        yield str(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk", "size=256k,nr_inodes=64") as path:
        yield path


async def test_a_full_disk_loses_nothing_and_leaves_nothing(backend, small_disk):
    root = f"{small_disk}/Memory"
    before = {"index.md": b"- a\n" * 5_000, "a.md": b"a" * 20_000}
    await backend.transact([Put(f"{root}/{name}", data, ABSENT) for name, data in before.items()], within=root)
    large = os.urandom(300_000)
    attempts = [
        [Put(f"{root}/a.md", large, ANY)],
        [Put(f"{root}/new.md", large, ABSENT)],
        [Put(f"{root}/index.md", b"short", ANY), Put(f"{root}/sub/b.md", large, ABSENT)],
        [Put(f"{root}/{number}.md", b"x", ABSENT) for number in range(80)],
    ]
    for changes in attempts:
        with pytest.raises(BackendUnavailable, match="disk is full"):
            await backend.transact(changes, within=root)
        assert files_in(small_disk) == {f"Memory/{name}": data for name, data in before.items()}
        assert os.listdir(small_disk) == ["Memory"]
    await backend.replace(f"{root}/a.md", b"fits", expected=version_of(before["a.md"]), within=root)


async def test_a_disk_with_no_room_for_the_journal_changes_nothing(backend, small_disk):
    root = f"{small_disk}/Memory"
    await backend.transact([Put(f"{root}/a.md", b"a", ABSENT), Put(f"{root}/b.md", b"b", ABSENT)], within=root)
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    block = os.statvfs(small_disk).f_frsize
    with open(f"{small_disk}/ballast", "wb") as file:
        file.write(b"x" * (free - 2 * block))
    with pytest.raises(BackendUnavailable, match="disk is full"):
        await backend.transact([Put(f"{root}/a.md", b"aa", ANY), Put(f"{root}/b.md", b"bb", ANY)], within=root)
    assert files_in(root) == {"a.md": b"a", "b.md": b"b"}


async def test_a_read_only_disk_is_read_and_says_that_it_cannot_be_written(backend, small_disk):
    root = f"{small_disk}/Memory"
    await backend.replace(f"{root}/a.md", b"a", expected=ABSENT)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert [record.data for record in (await backend.snapshot(root)).files] == [b"a"]
    for change in (Put(f"{root}/a.md", b"x", ANY), Put(f"{root}/n/b.md", b"x", ABSENT), Delete(f"{root}/a.md", ANY)):
        with pytest.raises(BackendUnavailable, match="read-only"):
            await backend.transact([change], within=root)


async def test_listing_never_skips_or_doubles_a_file_that_is_being_replaced(backend, tmp_path):
    with mounted(tmp_path / "disk", "size=64m") as root:
        names = sorted(f"{number}.md" for number in range(3000))
        for name in names:
            with open(f"{root}/{name}", "wb") as file:
                file.write(b"x")
        done = threading.Event()

        async def write():
            for number in range(400):
                await backend.replace(f"{root}/{number * 7 % 3000}.md", b"%d" % number, expected=ANY)
            done.set()

        async def read():
            while not done.is_set():
                assert [record.path for record in (await backend.snapshot(root, known=known)).files] == names

        known = {record.version for record in (await backend.snapshot(root)).files}
        await asyncio.gather(write(), read())


async def test_a_directory_taken_away_by_a_writer_who_gave_up_is_made_again(tmp_path, monkeypatch):
    """It had made the directory, we found it there, and it removed it when its own change was refused."""
    make = Transaction._make_directory_for
    taken = []

    def make_and_lose(self, spot):
        make(self, spot)
        if not taken:
            taken.append(spot)
            os.rmdir(tmp_path / "new" / "sub")

    monkeypatch.setattr(Transaction, "_make_directory_for", make_and_lose)
    await LocalBackend().transact([Put(str(tmp_path / "new/sub/a.md"), b"a", ABSENT)], within=str(tmp_path))
    assert taken
    assert (tmp_path / "new/sub/a.md").read_bytes() == b"a"


async def test_a_parent_taken_away_while_directories_are_made_is_made_again(tmp_path, monkeypatch):
    make, lost = local_transaction.make_directory, []

    def lose_once(path, made):
        if not lost:
            lost.append(path)
            raise FileNotFoundError(2, os.strerror(2), path)
        make(path, made)

    monkeypatch.setattr(local_transaction, "make_directory", lose_once)
    await LocalBackend().transact([Put(str(tmp_path / "new/sub/a.md"), b"a", ABSENT)], within=str(tmp_path))
    assert lost
    assert (tmp_path / "new/sub/a.md").read_bytes() == b"a"


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("how", ["renamed into place", "written in place"])
@pytest.mark.parametrize("kind", ["put", "delete", "move"])
async def test_a_save_between_the_last_look_and_the_change_stands(monkeypatch, backend, root, how, kind, several):
    untouched = Transaction._demand_untouched

    def save_meanwhile(aim, found, top):
        untouched(aim, found, top)
        if aim.spot.name != "c.md" or Path(root, "sub/c.md").read_bytes() == b"by hand":
            return
        if how == "renamed into place":
            Path(root, "sub/.c.md.new").write_bytes(b"by hand")
            os.replace(f"{root}/sub/.c.md.new", f"{root}/sub/c.md")
        else:
            Path(root, "sub/c.md").write_bytes(b"by hand")

    monkeypatch.setattr(Transaction, "_demand_untouched", staticmethod(save_meanwhile))
    path, seen = f"{root}/sub/c.md", version_of(b"c")
    change = {"put": Put(path, b"x", seen), "delete": Delete(path, seen), "move": Move(path, f"{root}/d.md", seen)}[
        kind
    ]
    changes = [Put(f"{root}/a.md", b"1", ANY)] if several else []
    with pytest.raises(Conflict) as caught:
        await backend.transact([*changes, change], within=root)
    assert caught.value.current == b"by hand"
    assert files_in(root) == {**BEFORE, "sub/c.md": b"by hand"}


@pytest.mark.parametrize("kind", ["put", "delete"])
async def test_what_an_open_editor_writes_a_moment_later_stands(monkeypatch, backend, root, kind):
    untouched = Transaction._demand_untouched
    opened = []

    def open_meanwhile(aim, found, top):
        untouched(aim, found, top)
        if not opened:
            opened.append(open(f"{root}/a.md", "r+b", buffering=0))  # noqa: SIM115 - the timer closes it
            Timer(0.02, lambda: (opened[0].write(b"by hand"), opened[0].close())).start()

    monkeypatch.setattr(Transaction, "_demand_untouched", staticmethod(open_meanwhile))
    path, seen = f"{root}/a.md", version_of(b"a")
    change = Put(path, b"x", seen) if kind == "put" else Delete(path, seen)
    with pytest.raises(Conflict) as caught:
        await backend.transact([change], within=root)
    assert caught.value.current == b"by hand"
    assert files_in(root) == {**BEFORE, "a.md": b"by hand"}


async def test_a_program_that_never_closes_the_file_holds_nobody_up_for_long(monkeypatch, backend, root, caplog):
    monkeypatch.setattr(swap, "WRITER_SECONDS", 0.02)
    with open(f"{root}/a.md", "r+b"):
        await backend.replace(f"{root}/a.md", b"x", expected=version_of(b"a"))
    assert files_in(root) == {**BEFORE, "a.md": b"x"}
    assert "open for writing" in caplog.text


async def test_a_reader_that_has_the_file_open_is_not_waited_for(monkeypatch, backend, root, caplog):
    monkeypatch.setattr(swap, "WRITER_SECONDS", 30.0)
    with open(f"{root}/a.md", "rb"):
        await backend.replace(f"{root}/a.md", b"x", expected=version_of(b"a"))
    assert files_in(root) == {**BEFORE, "a.md": b"x"}
    assert not caplog.text


async def test_a_file_system_that_cannot_exchange_still_replaces(monkeypatch, backend, root):
    monkeypatch.setattr(swap, "rename_flagged", lambda *_: False)
    await backend.transact(changes_in(root), within=root)
    assert files_in(root) == AFTER
