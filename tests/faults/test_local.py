"""A reply with its memory on the local disk, while the disk fails it."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from agentic_memory.backends import LocalBackend
from faults import table
from faults.case import Fault, Place, play_case, sample
from faults.conversation import calls_to_strike
from faults.files import read_files

PLACE = "Local disk"
CHILD = Path(__file__).with_name("as_nobody.py")


class LocalPlace(Place):
    """A directory on a disk of its own."""

    def __init__(self, disk: Path) -> None:
        self.disk = disk
        self.backend = LocalBackend()
        self.workdir = tempfile.mkdtemp(dir=disk)

    async def read_back(self):
        return await run_sync(read_files, Path(self.workdir) / "Memory")


async def fill(place, _call):
    def write():
        with (place.disk / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            while file.write(b"x" * 4096):
                pass

    await run_sync(write)


async def free(place):
    (place.disk / "ballast").unlink()


def remount(options):
    async def mount(place, _call=None):
        await run_sync(lambda: subprocess.run(["mount", "-o", f"remount,{options}", place.disk], check=True))

    return mount


async def close(place, _call):
    (Path(place.workdir) / "Memory").chmod(0)


async def reopen(place):
    (Path(place.workdir) / "Memory").chmod(0o755)


FAULTS = [Fault("disk full", fill, free), Fault("disk read-only", remount("ro"), remount("rw"))]
CASES = sample(FAULTS, calls_to_strike(local=True), everything=table.EVERYTHING)

DENIED = Fault("directory closed to the user", close, reopen)
DENIED_CASES = sample([DENIED], calls_to_strike(local=True), everything=table.EVERYTHING)


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A small disk of its own."""
    path = tmp_path_factory.mktemp("disk")
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", "-l", path], check=True)


@pytest.mark.parametrize(("fault", "call"), CASES, ids=str)
async def test_a_failing_disk_loses_nothing(disk, fault, call):
    place = LocalPlace(disk)
    table.note_case(PLACE, fault, call, await play_case(place, fault, call))
    subprocess.run(["rm", "-rf", place.workdir], check=True)


@pytest.fixture(scope="module")
def cells_of_nobody():
    """What a process without privileges finds: to root no directory is closed."""
    folder = tempfile.mkdtemp()  # pytest's own are closed to others
    Path(folder).chmod(0o777)
    calls = [case.values[1] for case in DENIED_CASES]
    numbers = [str(calls_to_strike(local=True).index(call)) for call in calls]
    done = subprocess.run(
        [sys.executable, "-P", CHILD, folder, *numbers],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    subprocess.run(["rm", "-rf", folder], check=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("fault", "call"), DENIED_CASES, ids=str)
def test_a_closed_directory_loses_nothing(cells_of_nobody, fault, call):
    table.note_case(PLACE, fault, call, cells_of_nobody[call.name])
