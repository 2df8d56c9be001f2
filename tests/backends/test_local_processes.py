"""LocalBackend among several processes, some of which die."""

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentic_memory.backends import ABSENT, LocalBackend, Put
from agentic_memory.backends.local.journal import JOURNAL_NAME, is_own_name

WORKERS = Path(__file__).parent / "workers" / "forks.py"
KILLS = 200


class Forks:
    """The process that forks workers."""

    def __init__(self, process):
        self.process = process

    async def ask(self, what, *args):
        self.process.stdin.write(json.dumps({"do": what, "args": args}).encode() + b"\n")
        return json.loads(await self.process.stdout.readline())

    async def run(self, what, *args):
        status, result = await self.ask("wait", await self.ask(what, *args))
        assert status == 0
        return result


@asynccontextmanager
async def forking():
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", str(WORKERS), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield Forks(process)
    finally:
        process.stdin.close()
        await process.wait()


@pytest.fixture
async def forks():
    async with forking() as started:
        yield started


@pytest.fixture
def open_directory():
    """A directory that any user can reach; pytest's own are closed to others."""
    path = tempfile.mkdtemp()
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path)


def litter_in(root):
    return [name for _, _, names in os.walk(root) for name in names if is_own_name(name)]


async def test_no_increment_of_eight_processes_is_lost_and_no_read_is_torn(forks, tmp_path):
    path = str(tmp_path / "count.md")
    backend = LocalBackend()
    await backend.replace(path, b"0\n", expected=ABSENT)
    pids = [await forks.ask("count_up", path, 50) for _ in range(8)]
    waiting = asyncio.ensure_future(_wait_for_all(forks, pids))
    numbers = []
    while not waiting.done():
        tree = await backend.snapshot(str(tmp_path))
        assert [record.path for record in tree.files] == ["count.md"]
        assert tree.files[0].data.endswith(b"\n")
        numbers.append(int(tree.files[0].data))
    assert await waiting == [0] * 8
    assert (await backend.fetch(path)).data == b"400\n"
    assert numbers == sorted(numbers)
    assert litter_in(tmp_path) == []


async def _wait_for_all(forks, pids):
    return [(await forks.ask("wait", pid))[0] for pid in pids]


@pytest.mark.slow
async def test_whatever_kills_a_writer_its_files_are_old_or_new_together(forks, tmp_path):
    root, backend = str(tmp_path), LocalBackend()
    start = b"start 0 a\n" * 400
    files = {"index.md": start, "a/file.md": start, "a/note.md": b"note", "b/.trash/x": b""}
    await backend.transact([Put(f"{root}/{name}", data, ABSENT) for name, data in files.items()])
    dice, unfinished, texts = random.Random(1), 0, set()
    for number in range(KILLS):
        pid = await forks.ask("write_for_ever", root, f"writer-{number}")
        await asyncio.sleep(dice.uniform(0, 0.04))
        os.kill(pid, signal.SIGKILL)
        assert (await forks.ask("wait", pid))[0] == -signal.SIGKILL
        unfinished += os.path.exists(f"{root}/{JOURNAL_NAME}")
        tree = await backend.snapshot(root, hidden=True)
        found = {record.path: record.data for record in tree.files}
        text = found.pop("index.md")
        assert text == text[: text.index(b"\n") + 1] * 400, "half a file"
        assert found.pop("a/file.md") == text
        note = "a/note.md" if text.split()[2] == b"a" else "b/.trash/note.md"
        assert found == {note: b"note", "b/.trash/x": b""}
        texts.add(text)
    assert unfinished, "no kill hit a transaction that was being applied: the test shows nothing"
    assert len(texts) > 10
    # Whoever writes next clears away what the dead had not yet put in place.
    directories = ("", "a/", "b/.trash/")
    changes = [Put(f"{root}/{directory}last.md", b"last", ABSENT) for directory in directories]
    await LocalBackend().transact(changes, within=root)
    assert litter_in(root) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_what_is_closed_to_the_user_is_neither_absent_nor_changed(forks, open_directory):
    root = open_directory
    for name, mode in {"closed/in.md": 0o644, "secret.md": 0o600, "fixed/a.md": 0o644, "mine/a.md": 0o444}.items():
        path = Path(root, name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"old")
        path.chmod(mode)
        os.chown(path, 65534 if name.startswith("mine") else 0, 0)
    os.chmod(f"{root}/closed", 0o700)
    os.chown(f"{root}/mine", 65534, 65534)
    os.chmod(f"{root}/mine", 0o755)
    calls = [
        ["snapshot", ""],
        ["snapshot", "closed"],
        ["fetch", "closed/in.md"],
        ["fetch", "closed/never.md"],
        ["file_exists", "closed/never.md"],
        ["is_dir", "closed/never"],
        ["stat_mtime", "closed/in.md"],
        ["list_dir", "closed"],
        ["scandir", "closed"],
        ["put", "closed/in.md"],
        ["put", "closed/deeper/in.md"],
        ["put", "fixed/a.md"],
        ["put", "mine/b.md", "fixed/b.md"],
        ["put", "mine/a.md"],  # its owner may, but made it read-only
        ["delete_path", "fixed/a.md"],
        ["create", "mine/c.md"],
    ]
    seen, *refused, created = await forks.run("as_nobody", root, calls)
    assert seen == [["fixed/a.md", "mine/a.md"], {"closed": "unreadable", "secret.md": "unreadable"}]
    assert [answer.partition(":")[0] for answer in refused] == ["BackendUnavailable"] * len(refused), refused
    assert created in ("0o644", "0o640", "0o600")
    assert [answer for answer in refused if "permission denied" not in answer and "is read-only" not in answer] == []
    assert Path(root, "mine/a.md").read_bytes() == Path(root, "fixed/a.md").read_bytes() == b"old"
    assert sorted(os.listdir(f"{root}/mine")) == ["a.md", "c.md"]
    assert os.stat(f"{root}/mine/c.md").st_uid == 65534
    assert litter_in(root) == []
