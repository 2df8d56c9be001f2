"""The queue outlives its process, stays bounded and gives each turn once."""

from datetime import UTC, datetime, timedelta

import pytest

from agentic_memory.errors import Conflict
from agentic_memory.writeback import queue as queue_module
from agentic_memory.writeback.queue import LEFT_ALONE, MAX_ATTEMPTS, list_failed, look_at_queue, marks_of
from agentic_memory.writeback.turn import Turn

NOW = datetime.now(UTC)


def turn(key: str, minutes: int = 0) -> Turn:
    return Turn(key, f"user: {key}", NOW + timedelta(minutes=minutes))


async def put(store, *turns: Turn) -> None:
    for one in turns:
        await (await look_at_queue(store)).add(one)


async def keys(store) -> list[str]:
    return [waiting.turn.key for waiting in (await look_at_queue(store)).waiting()]


async def test_a_turn_waits_until_it_is_done_and_does_not_come_again(store, make_store) -> None:
    await put(store, turn("b", 1), turn("a"))
    assert await keys(make_store()) == ["a", "b"]
    queue = await look_at_queue(store)
    await store.backend.transact(marks_of(queue.find("a"), root=await store.root()))
    queue = await look_at_queue(store)
    assert [await queue.is_done(key) for key in "abc"] == [True, False, False]
    assert await queue.add(turn("a")) is None
    assert await keys(store) == ["b"]


async def test_a_turn_put_in_twice_waits_once(store) -> None:
    await put(store, turn("a"), turn("a"))
    assert await keys(store) == ["a"]


async def test_two_that_put_in_the_same_turn_at_once_hold_the_same(store) -> None:
    one, two = await look_at_queue(store), await look_at_queue(store)
    first, second = await one.add(turn("a")), await two.add(turn("a"))
    assert first is not None
    assert second is not None
    assert first.version == second.version


async def test_a_turn_is_marked_once_however_many_try(store) -> None:
    await put(store, turn("a"))
    one, two = (await look_at_queue(store)).find("a"), (await look_at_queue(store)).find("a")
    root = await store.root()
    await store.backend.transact(marks_of(one, root=root))
    with pytest.raises(Conflict):
        await store.backend.transact(marks_of(two, root=root))


async def test_a_failed_turn_waits_longer_each_time_and_is_then_set_aside(store) -> None:
    await put(store, turn("a"))
    waits = []
    for attempt in range(1, MAX_ATTEMPTS + 1):
        queue = await look_at_queue(store)
        failed = await queue.put_off(queue.find("a"), f"reason {attempt}", now=NOW)
        waits.append(failed.retry_at - NOW)
    assert waits == sorted(waits)
    assert len(set(waits)) == MAX_ATTEMPTS
    queue = await look_at_queue(store)
    assert queue.waiting() == []
    assert [(one.key, one.error) for one in await list_failed(store)] == [("a", f"reason {MAX_ATTEMPTS}")]
    assert await queue.add(turn("a")) is None


async def test_what_another_process_has_just_put_in_is_left_to_it_for_a_while(store) -> None:
    await put(store, turn("a"))
    queue = await look_at_queue(store)
    assert queue.due(datetime.now(UTC)) == []
    assert [found.turn.key for found in queue.due(datetime.now(UTC) + LEFT_ALONE * 2)] == ["a"]


async def test_the_queue_is_bounded_and_what_falls_out_is_kept_with_the_failed(store, monkeypatch) -> None:
    monkeypatch.setattr(queue_module, "MAX_WAITING", 3)
    await put(store, *(turn(f"k{number}", number) for number in range(5)))
    queue = await look_at_queue(store)
    assert [waiting.turn.key for waiting in queue.waiting()] == ["k2", "k3", "k4"]
    assert [failed.key for failed in await list_failed(store)] == ["k0", "k1"]


async def test_marks_are_bounded(store, monkeypatch) -> None:
    monkeypatch.setattr(queue_module, "MAX_DONE", 8)
    monkeypatch.setattr(queue_module, "TIDIED_KEYS", "k")
    for number in range(20):
        await put(store, turn(f"k{number}"))
        found = (await look_at_queue(store)).find(f"k{number}")
        await store.backend.transact(marks_of(found, root=await store.root()))
    tree = await store.backend.snapshot("/w/Memory/.queue/done")
    assert len(tree.files) == 9  # counted before the last mark was set
    assert await (await look_at_queue(store)).is_done("k19")


async def test_a_file_that_is_no_turn_is_passed_over_and_stays(store) -> None:
    await put(store, turn("a"))
    path = "/w/Memory/.queue/turns/broken.json"
    await store.backend.write_file(path, b"{")
    assert await keys(store) == ["a"]
    assert await store.backend.read_file(path) == b"{"


async def test_the_queue_is_no_memory_and_no_problem(store) -> None:
    await put(store, turn("a"))
    assert await store.get_all() == []
    assert [problem for problem in await store.check() if "queue" in problem.file] == []
