"""Where InMemoryBackend is tested."""

from contextlib import asynccontextmanager

from agentic_memory.backends import InMemoryBackend
from agentic_memory.testing import Place


class InMemoryPlace(Place):
    """A place that has no shell: what is done by hand is done to the backend's own table."""

    backend: InMemoryBackend

    async def plant(self, path, data):
        self.backend.plant(path, data)

    async def make_directory(self, path):
        self.backend.make_directory(path)

    async def link(self, path, target):
        self.backend.link(path, target)

    async def is_link(self, path):
        return self.backend.is_link(path)

    async def make_fifo(self, path):
        self.backend.obstruct(path, "special")

    async def touch(self, path, *, seconds=None):
        data = await self.backend.read_file(path)
        self.backend.plant(path, data, mtime_ns=None if seconds is None else seconds * 10**9)

    async def change_mode(self, path, mode):
        self.backend.plant(path, await self.backend.read_file(path), mode=mode)

    async def mode_and_owner(self, path):
        return self.backend.mode_of(path), 0, 0

    async def deny(self, path):
        self.backend.obstruct(path, "unreadable")

    async def permit(self, path):
        self.backend.permit(path)

    async def fill(self, count):
        for number in range(count):
            self.backend.plant(self.path(f"f{number}.md"), str(number).encode())


def in_memory_place():
    """Return a place in a backend of its own."""
    backend = InMemoryBackend()

    @asynccontextmanager
    async def unreachable():
        with backend.unreachable():
            yield

    return InMemoryPlace(backend=backend, root="/srv/app/Memory", outside="/srv/app/other", unreachable=unreachable)
