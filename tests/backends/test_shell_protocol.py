"""What the shell protocol does when a sandbox misbehaves: answers cut off, writers killed, odd userlands."""

import asyncio
import os
import shlex
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shell_place import SHELLS, SubprocessBackend, find_shell

from agentic_memory.backends import ABSENT, ANY, Delete, Move, Put, version_of
from agentic_memory.backends.shell import script_of
from agentic_memory.backends.shell.answer import unwrap
from agentic_memory.errors import BackendUnavailable, UnsafePath

NONCE = "0" * 32


@pytest.fixture(params=SHELLS)
def backend(request):
    """A backend on each shell there is."""
    if not find_shell(request.param)[0]:
        pytest.skip(f"there is no {request.param} on this machine")
    return SubprocessBackend(request.param)


async def test_no_part_of_an_answer_is_an_answer(tmp_path):
    (tmp_path / "a.md").write_bytes(b"text\n")
    backend = SubprocessBackend("dash")
    whole = []
    backend.spoil = lambda raw: whole.append(raw) or raw
    await backend.snapshot(str(tmp_path))
    for cut in range(0, len(whole[0]), 7):
        backend.spoil = lambda raw, cut=cut: raw[:cut]
        with pytest.raises(BackendUnavailable):
            await backend.snapshot(str(tmp_path))
        if cut > len(whole[0]) // 2:
            break
    for noise in (b"", b"Welcome!\n", b"\0" * 100):
        backend.spoil = lambda raw, noise=noise: noise
        with pytest.raises(BackendUnavailable):
            await backend.snapshot(str(tmp_path))
        with pytest.raises(BackendUnavailable):
            await backend.fetch(str(tmp_path / "none.md"))


@given(st.binary(max_size=300))
def test_an_answer_without_both_sentinels_is_refused(noise):
    for raw in (noise, b"\n%s S\n" % NONCE.encode() + noise, noise + b"\n%s E\n" % NONCE.encode()):
        with pytest.raises(BackendUnavailable):
            unwrap(raw, NONCE, what="x")


@given(noise=st.binary(max_size=50), body=st.binary(max_size=50))
def test_noise_around_an_answer_is_no_part_of_it(noise, body):
    raw = noise + b"\n%s S\n" % NONCE.encode() + body + b"\n%s E\n" % NONCE.encode() + noise
    assert unwrap(raw, NONCE, what="x") == body


async def test_a_banner_before_the_answer_does_no_harm(backend, tmp_path):
    (tmp_path / "a.md").write_bytes(b"text")
    backend.spoil = lambda raw: b"Last login: today\n" + raw
    assert [record.data for record in (await backend.snapshot(str(tmp_path))).files] == [b"text"]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(min_size=1, max_size=60).filter(lambda name: not set(name) & {0, 0x2F} and name not in (b".", b"..")))
async def test_every_name_a_file_can_have_comes_back(backend, tmp_path, raw):
    name = os.fsdecode(raw)
    root = f"{tmp_path}/{time.monotonic_ns()}"
    await backend.replace(f"{root}/{name}", raw, expected=ABSENT, within=root)
    tree = await backend.snapshot(root, hidden=True)
    if not name.startswith(".agentic-memory."):
        assert [(record.path, record.data) for record in tree.files] == [(name, raw)]
    assert (await backend.fetch(f"{root}/{name}", within=root)).data == raw
    assert [entry.name for entry in await backend.scandir(root)] == [name]


def killing_at(tmp_path: Path, program: str) -> str:
    """Return a PATH on which ``program`` kills the whole shell that runs it."""
    folder = tmp_path / "killing"
    folder.mkdir()
    (folder / program).write_text("#!/bin/sh\nkill -9 0\n")
    (folder / program).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("shell", ["dash", "bash"])  # BusyBox runs its own mv, whatever the PATH says
async def test_a_writer_killed_between_two_changes_is_undone_by_the_next(shell, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    for name in ("a.md", "gone.md", "from.md"):
        (folder / name).write_bytes(b"old " + name.encode())
    killed = SubprocessBackend(shell)
    killed.path = f"{killing_at(tmp_path, 'mv')}:{killed.path}"
    with pytest.raises(BackendUnavailable):
        await killed.transact(
            [
                Put(f"{folder}/new.md", b"new", ABSENT),
                Delete(f"{folder}/gone.md", ANY),
                Move(f"{folder}/from.md", f"{folder}/to.md", ANY),
                Put(f"{folder}/a.md", b"new", ANY),
            ]
        )
    assert (folder / "new.md").exists()
    assert not (folder / "gone.md").exists()
    await SubprocessBackend(shell).replace(f"{folder}/other.md", b"other", expected=ABSENT)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "a.md": b"old a.md",
        "gone.md": b"old gone.md",
        "from.md": b"old from.md",
        "other.md": b"other",
    }


async def test_a_killed_writer_is_undone_once_also_where_its_lock_is_found_later(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    (other / "b.md").write_bytes(b"old")
    killed = SubprocessBackend("dash")
    killed.path = f"{killing_at(tmp_path, 'mv')}:{killed.path}"
    with pytest.raises(BackendUnavailable):
        await killed.transact([Put(f"{one}/new.md", b"new", ABSENT), Put(f"{other}/b.md", b"new", ANY)])
    backend = SubprocessBackend("dash")
    await backend.replace(f"{one}/new.md", b"new", expected=ABSENT)
    await backend.replace(f"{other}/b.md", b"newer", expected=version_of(b"old"))
    assert (one / "new.md").read_bytes() == b"new"


async def test_what_a_killed_writer_had_not_come_to_stays_although_it_meant_to_write_the_same(tmp_path):
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_bytes(b"old")
    (tmp_path / "same.md").write_bytes(b"same")
    killed = SubprocessBackend("dash")
    killed.path = f"{killing_at(tmp_path, 'mv')}:{killed.path}"
    with pytest.raises(BackendUnavailable):
        await killed.transact([Put(f"{tmp_path}/a.md", b"new", ANY), Put(f"{tmp_path}/same.md", b"same", ANY)])
    await SubprocessBackend("dash").replace(f"{tmp_path}/b.md", b"next", expected=ANY)
    assert (tmp_path / "same.md").read_bytes() == b"same"
    assert (tmp_path / "a.md").read_bytes() == b"old"


async def test_what_a_person_wrote_after_a_killed_writer_stays(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "a.md").write_bytes(b"old")
    (folder / "b.md").write_bytes(b"old")
    killed = SubprocessBackend("dash")
    killed.path = f"{killing_at(tmp_path, 'mv')}:{killed.path}"
    with pytest.raises(BackendUnavailable):
        await killed.transact([Put(f"{folder}/new.md", b"new", ABSENT), Put(f"{folder}/a.md", b"new", ANY)])
    (folder / "new.md").write_bytes(b"by hand")
    await SubprocessBackend("dash").replace(f"{folder}/b.md", b"next", expected=ANY)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "a.md": b"old",
        "b.md": b"next",
        "new.md": b"by hand",
    }


async def test_only_one_of_many_clears_a_dead_lock_and_no_edit_is_lost(tmp_path):
    (tmp_path / ".agentic-memory.lock").symlink_to("agentic-memory x no-such-boot pid:[1] 1")
    os.utime(tmp_path / ".agentic-memory.lock", (0, 0), follow_symlinks=False)
    await asyncio.gather(
        *(SubprocessBackend("dash").replace(f"{tmp_path}/{i}.md", b"x", expected=ABSENT) for i in range(8))
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{i}.md" for i in range(8)]


async def test_a_file_that_never_holds_still_hides_no_other(tmp_path):
    for number in range(20):
        (tmp_path / f"f{number}.md").write_bytes(b"%d" % number * 3000)
    backend = SubprocessBackend("dash")
    # Between listing and reading, every file but the last is written anew.
    script = f"for n in 3 11; do date +%N >> {shlex.quote(str(tmp_path))}/f$n.md; done; "
    original = backend._run
    backend._run = lambda text, request: original(
        text.replace("names=$(unknown)", script + "names=$(unknown)"), request
    )
    tree = await backend.snapshot(str(tmp_path))
    seen = {record.path for record in tree.files} | {obstacle.path for obstacle in tree.obstacles}
    assert seen == {f"f{number}.md" for number in range(20)}
    for record in tree.files:
        if record.path not in ("f3.md", "f11.md"):
            assert record.data == (tmp_path / record.path).read_bytes()


async def test_nothing_changed_gives_the_same_tree_and_any_edit_is_seen(backend, tmp_path):
    (tmp_path / "a.md").write_bytes(b"one")
    (tmp_path / "b.md").write_bytes(b"two")
    await asyncio.sleep(2.1)
    known = {record.version for record in (await backend.snapshot(str(tmp_path))).files}
    first = await backend.snapshot(str(tmp_path), known=known)
    assert await backend.snapshot(str(tmp_path), known=known) is await backend.snapshot(str(tmp_path), known=known)
    before = (tmp_path / "a.md").stat()
    (tmp_path / "a.md").write_bytes(b"ONE")
    os.utime(tmp_path / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
    tree = await backend.snapshot(str(tmp_path), known=known)
    assert [record.data for record in tree.files] == [b"ONE", None]
    assert tree.files[0].mtime_ns == first.files[0].mtime_ns
    # A renamed directory keeps its files' times, yet they are new where they are.
    (tmp_path / "d").mkdir()
    (tmp_path / "b.md").rename(tmp_path / "d" / "b.md")
    (tmp_path / "d").rename(tmp_path / "e")
    tree = await backend.snapshot(str(tmp_path), known=set())
    assert {record.path: record.data for record in tree.files} == {"a.md": b"ONE", "e/b.md": b"two"}


async def test_a_path_longer_than_any_system_takes_is_refused(backend):
    with pytest.raises(UnsafePath, match=r"4,095"):
        await backend.fetch("/" + "x/" * 3000)


async def test_a_place_without_the_commands_says_which_is_missing(tmp_path):
    backend = SubprocessBackend("dash")
    backend.path = str(tmp_path)
    with pytest.raises(BackendUnavailable, match="no 'find' command"):
        await backend.snapshot(str(tmp_path))


def test_scripts_are_constant_and_small_enough_for_an_argument():
    for verb in ("snapshot", "fetch", "transact", "list"):
        assert len(script_of(verb)) < 40_000
        assert script_of(verb) is script_of(verb)
