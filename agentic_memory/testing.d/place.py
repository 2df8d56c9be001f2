"""Where a conformance test happens, and what it can do there by hand."""

import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Final, NoReturn

import pytest

from agentic_memory.backends import ABSENT, Backend, FileRecord, Put, Tree

CAPABILITIES: Final = MappingProxyType(
    {
        "cancelling": "a cancelled call takes effect wholly or not at all, and soon",
        "denying": "a directory can be closed to the backend's own user",
        "event loops": "one instance serves several event loops one after the other",
        "long names": "names of 255 bytes",
        "modes": "files have permission bits",
        "mtimes": "modification times can be set",
        "owners": "files have an owner and a group, and the backend's user may set them",
        "partial answers": "what the place answers can be cut off half way",
        "raw names": "names that are not UTF-8",
        "special files": "FIFOs",
        "symlinks": "symbolic links",
        "unicode forms": "two names that differ in Unicode normalisation are two files",
        "unreachable": "the place can be cut off from its backend",
    }
)
"""What a place may lack; ``lacks`` of a contract class names them."""

PLANTED_BYTES_MAX: Final = 16 * 1024
"""Largest file planted through a shell script: four script characters a byte, and a command line may hold 128 KiB."""

Shell = Callable[[str], Awaitable[bytes]]


@dataclass(kw_only=True)
class Place:
    """One fresh place for one test, and what can be done there without the backend.

    The methods below work through ``run``; a place without a shell overrides those it can do otherwise.

    Attributes:
        backend: The backend under test.
        root: Absolute path of the memory directory; nothing is there yet.
        outside: Absolute path of a directory that is no part of it; nothing is there yet.
        run: Runs a POSIX ``sh`` script at the place and returns its output; raises when it fails.
        rival: A second backend that reaches the same bytes as another process would; the same one when None.
        unreachable: Cuts the place off from its backend while the context is entered.
        cut_short: Lets the backend get only the first part of each answer while the context is entered.
    """

    backend: Backend
    root: str
    outside: str
    run: Shell | None = None
    rival: Backend | None = None
    unreachable: Callable[[], AbstractAsyncContextManager[None]] | None = None
    cut_short: Callable[[], AbstractAsyncContextManager[None]] | None = None

    def path(self, name: str) -> str:
        """Return the absolute path of ``name`` under the root."""
        return f"{self.root}/{name}"

    async def put(self, files: Mapping[str, bytes]) -> None:
        """Create files through the backend, in one transaction."""
        await self.backend.transact([Put(self.path(name), data, ABSENT) for name, data in files.items()])

    async def shell(self, script: str) -> bytes:
        """Run ``script`` by hand, or skip the test."""
        if self.run is None:
            skip("this place has no way to run a shell by hand")
        return await self.run(script)

    async def plant(self, path: str, data: bytes) -> None:
        """Write ``data`` in place, as an editor that knows no precautions."""
        if self.run is None or len(data) > PLANTED_BYTES_MAX:
            await (self.rival or self.backend).write_file(path, data)
            return
        text = "".join(f"\\{byte:03o}" for byte in data)
        quoted = shlex.quote(path)
        await self.shell(f"mkdir -p \"$(dirname -- {quoted})\" && printf '{text}' > {quoted}")

    async def make_directory(self, path: str) -> None:
        """Make a directory and those above it."""
        await self.shell(f"mkdir -p {shlex.quote(path)}")

    async def link(self, path: str, target: str) -> None:
        """Make a symlink at ``path`` whose text is ``target``."""
        quoted = shlex.quote(path)
        await self.shell(f'mkdir -p "$(dirname -- {quoted})" && ln -s {shlex.quote(target)} {quoted}')

    async def is_link(self, path: str) -> bool:
        """Tell whether a symlink is at ``path``."""
        return await self.shell(f"if [ -L {shlex.quote(path)} ]; then echo yes; fi") == b"yes\n"

    async def make_fifo(self, path: str) -> None:
        """Make a FIFO at ``path``."""
        quoted = shlex.quote(path)
        await self.shell(f'mkdir -p "$(dirname -- {quoted})" && mkfifo {quoted}')

    async def touch(self, path: str, *, seconds: int | None = None) -> None:
        """Set the modification time to now, or to ``seconds`` since 1970."""
        when = "" if seconds is None else f"-d @{seconds} "
        await self.shell(f"touch {when}{shlex.quote(path)}")

    async def change_mode(self, path: str, mode: int) -> None:
        """Set the permission bits."""
        await self.shell(f"chmod {mode:o} {shlex.quote(path)}")

    async def change_owner(self, path: str, uid: int, gid: int) -> None:
        """Set owner and group; skips the test when that is not allowed."""
        if (await self.shell("id -u")).strip() != b"0":
            skip("only root may give files away")
        await self.shell(f"chown {uid}:{gid} {shlex.quote(path)}")

    async def mode_and_owner(self, path: str) -> tuple[int, int, int]:
        """Return permission bits, owner and group."""
        mode, uid, gid = (await self.shell(f"stat -c '%a %u %g' {shlex.quote(path)}")).split()
        return int(mode, 8), int(uid), int(gid)

    async def deny(self, path: str) -> None:
        """Close ``path`` to the backend's own user; skips the test when nothing is closed to it."""
        if (await self.shell("id -u")).strip() == b"0":
            skip("nothing is closed to root")
        await self.change_mode(path, 0)

    async def permit(self, path: str) -> None:
        """Undo ``deny``, so that the place can be cleaned up."""
        await self.change_mode(path, 0o700)

    async def fill(self, count: int) -> None:
        """Write ``count`` small files ``f0.md``, ``f1.md`` ... whose content is their name's number."""
        await self.shell(
            f"mkdir -p {shlex.quote(self.root)} && cd {shlex.quote(self.root)} && i=0 && "
            f'while [ "$i" -lt {count} ]; do printf %s "$i" > "f$i.md"; i=$((i + 1)); done'
        )


class Contract:
    """What the groups of a conformance suite share."""

    lacks: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Capabilities (see ``CAPABILITIES``) that the place does not have, each with the reason."""
    trips_per_call: ClassVar[Mapping[str, int]] = MappingProxyType({"snapshot": 1, "fetch": 1, "transact": 1})
    """Round trips per call. More than one is a declared weakness: say why next to the override."""
    many: ClassVar[int] = 10_000
    """Files in the largest directory that is tried."""

    @pytest.fixture
    async def place(self) -> AsyncIterator[Place]:
        """Give the place under test; every subclass has to override this."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture `place` that yields a Place")
        yield  # noqa: PT022 - overrides clean up after their yield, and the types have to agree

    def needs(self, capability: str) -> None:
        """Skip the test when the place lacks ``capability``."""
        if capability not in CAPABILITIES:
            raise KeyError(capability)
        if capability in self.lacks:
            skip(f"no {capability}: {self.lacks[capability]}")


def contents(tree: Tree) -> dict[str, bytes | None]:
    """Return the bytes of every file in ``tree`` by path."""
    return {record.path: record.data for record in tree.files}


def data_of(record: object) -> bytes | None:
    """Return the bytes of what ``fetch`` gave, which must be a file."""
    assert isinstance(record, FileRecord), record
    return record.data


def skip(reason: str) -> NoReturn:
    """Skip the running test."""
    pytest.skip(reason)
