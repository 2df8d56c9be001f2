"""Where LocalBackend is tested: this machine's file system. Take the fixture with ``pytest_plugins = ["local_place"]``."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from agentic_memory.backends import LocalBackend
from agentic_memory.testing import Place


async def run_sh(script):
    """Run a POSIX shell script on this machine and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        "sh", "-eu", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate(script.encode("utf-8", "surrogateescape"))
    assert process.returncode == 0, errors.decode(errors="replace")
    return output


@pytest.fixture
async def local_place(tmp_path):
    """A place on this machine's file system, with a second backend as another process would have it."""
    root = tmp_path / "Memory"

    @asynccontextmanager
    async def unreachable():
        # What a volume looks like that went away: the link to it leads nowhere.
        root.rename(tmp_path / "elsewhere")
        root.symlink_to(tmp_path / "volume" / "Memory")
        try:
            yield
        finally:
            root.unlink()
            (tmp_path / "elsewhere").rename(root)

    return Place(
        backend=LocalBackend(),
        root=str(root),
        outside=str(tmp_path / "other"),
        run=run_sh,
        rival=LocalBackend(),
        unreachable=unreachable,
    )
