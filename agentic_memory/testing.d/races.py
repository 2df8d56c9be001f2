"""Conformance: many at once, cancelled half way, and from one event loop to the next."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from agentic_memory.backends import ABSENT, ANY, Backend, FileRecord, Put, version_of
from agentic_memory.contract_place import Contract, Place, contents, data_of
from agentic_memory.errors import Conflict

LARGE_BYTES = 256 * 1024
CANCEL_AFTER_SECONDS = (0, 0, 0.0003, 0.001, 0.002, 0.004, 0.008, 0.016)


class RaceContract(Contract):
    """Nobody sees half a file, and nobody's change is lost."""

    async def test_a_reader_sees_a_file_old_or_new(self, place: Place) -> None:
        path = place.path("a.md")
        await place.backend.replace(path, b"0" * LARGE_BYTES, expected=ABSENT)
        rival = place.rival or place.backend
        done = asyncio.Event()

        async def write() -> None:
            for number in range(24):
                await place.backend.replace(path, b"%d" % (number % 10) * LARGE_BYTES, expected=ANY)
            done.set()

        async def read() -> int:
            reads = 0
            while not done.is_set():
                data = data_of(await rival.fetch(path))
                tree = await rival.snapshot(place.root)
                for seen in (data, tree.files[0].data):
                    assert seen is not None
                    assert seen == seen[:1] * LARGE_BYTES
                reads += 1
            return reads

        _, reads = await asyncio.gather(write(), read())
        assert reads > 0

    async def test_of_writers_with_the_same_version_one_wins(self, place: Place) -> None:
        path = place.path("a.md")
        version = await place.backend.replace(path, b"start", expected=ABSENT)
        for turn in range(4):
            texts = [b"turn %d writer %d" % (turn, number) for number in range(6)]
            winner = await _race(place, path, texts, version)
            version = version_of(winner)

    async def test_of_creators_one_wins(self, place: Place) -> None:
        for turn in range(4):
            await _race(place, place.path(f"{turn}/a.md"), [b"creator %d" % number for number in range(6)], None)

    async def test_no_increment_is_lost(self, place: Place) -> None:
        path = place.path("count.md")
        await place.backend.replace(path, b"0", expected=ABSENT)

        async def count(backend: Backend) -> None:
            for _ in range(8):
                while True:
                    record = await backend.fetch(path)
                    assert isinstance(record, FileRecord)
                    with suppress(Conflict):
                        await backend.replace(path, b"%d" % (int(record.data or b"") + 1), expected=record.version)
                        break

        await asyncio.gather(*(count(backend) for backend in _both(place) for _ in range(2)))
        assert data_of(await place.backend.fetch(path)) == b"32"

    async def test_thirty_two_calls_at_once(self, place: Place) -> None:
        await place.put({"a.md": b"a"})

        async def call(number: int) -> None:
            name, data = f"{number}.md", b"%d" % number * 1000
            await place.backend.replace(place.path(name), data, expected=ABSENT)
            assert data_of(await place.backend.fetch(place.path(name))) == data
            assert contents(await place.backend.snapshot(place.root))[name] == data

        await asyncio.gather(*(call(number) for number in range(32)))
        assert len((await place.backend.snapshot(place.root, hidden=True)).files) == 33

    async def test_transactions_on_the_same_files_do_not_deadlock(self, place: Place) -> None:
        await place.put({"x/a.md": b"0", "y/b.md": b"0"})

        async def write(number: int) -> None:
            names = ["x/a.md", "y/b.md"][:: 1 if number % 2 else -1]
            await place.backend.transact([Put(place.path(name), b"%d" % number, ANY) for name in names])

        await asyncio.gather(*(write(number) for number in range(12)))
        tree = await place.backend.snapshot(place.root, hidden=True)
        assert len({record.data for record in tree.files}) == 1
        assert len(tree.files) == 2

    def test_one_instance_serves_event_loops_one_after_the_other(self, place: Place) -> None:
        self.needs("event loops")

        async def use(number: int) -> None:
            await place.backend.replace(place.path(f"{number}.md"), b"x", expected=ABSENT)
            await asyncio.gather(*(place.backend.snapshot(place.root) for _ in range(4)))
            assert len((await place.backend.snapshot(place.root)).files) == number + 1

        with ThreadPoolExecutor(max_workers=1) as pool:
            for number in range(3):
                pool.submit(asyncio.run, use(number)).result()

    @pytest.mark.parametrize("seconds", CANCEL_AFTER_SECONDS)
    async def test_a_cancelled_write_leaves_no_lock_and_no_half_file(self, place: Place, seconds: float) -> None:
        self.needs("cancelling")
        old, new = {"a.md": b"old", "b.md": b"old"}, {"a.md": b"n" * LARGE_BYTES, "b.md": b"n" * LARGE_BYTES}
        await place.put(old)
        task = asyncio.ensure_future(
            place.backend.transact(
                [Put(place.path(name), data, version_of(old[name])) for name, data in new.items()], within=place.root
            )
        )
        await asyncio.sleep(seconds)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        found = await self._settled(place, old, new)
        await place.backend.transact([Put(place.path(name), b"next", version_of(data)) for name, data in found.items()])
        tree = await place.backend.snapshot(place.root, hidden=True)
        assert contents(tree) == {"a.md": b"next", "b.md": b"next"}

    @pytest.mark.parametrize("seconds", CANCEL_AFTER_SECONDS)
    async def test_a_cancelled_read_does_no_harm(self, place: Place, seconds: float) -> None:
        self.needs("cancelling")
        files = {f"{number}.md": b"%d" % number * 20_000 for number in range(12)}
        await place.put(files)
        task = asyncio.ensure_future(place.backend.snapshot(place.root))
        await asyncio.sleep(seconds)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == files

    async def _settled(self, place: Place, old: dict[str, bytes], new: dict[str, bytes]) -> dict[str, bytes]:
        """Return what is there once it is all old or all new; a remote place may still be at work for a moment."""
        for _ in range(50):
            found = contents(await place.backend.snapshot(place.root, hidden=True))
            if found in (old, new):
                return old if found == old else new
            assert all(found.get(name) in (old[name], new[name]) for name in old), "half a file"
            await asyncio.sleep(0.1)
        raise AssertionError(f"neither old nor new, or litter: {sorted(found)}")


def _both(place: Place) -> tuple[Backend, Backend]:
    return place.backend, place.rival or place.backend


async def _race(place: Place, path: str, texts: list[bytes], version: str | None) -> bytes:
    """Let one writer per text loose on ``path`` and return the winner's text."""
    backends = _both(place)

    async def write(number: int) -> bytes | Conflict:
        try:
            await backends[number % 2].replace(path, texts[number], expected=version or ABSENT)
        except Conflict as conflict:
            return conflict
        return texts[number]

    results = await asyncio.gather(*(write(number) for number in range(len(texts))))
    winners = [result for result in results if isinstance(result, bytes)]
    assert len(winners) == 1
    assert data_of(await place.backend.fetch(path)) == winners[0]
    assert {result.current for result in results if isinstance(result, Conflict)} == {winners[0]}
    return winners[0]
