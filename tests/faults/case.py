"""One case: a fault strikes at one call of a reply, and what became of the reply and of every byte is looked at."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from agentic_memory.backends import Backend
from faults.conversation import (
    BEFORE,
    EDITED_ENTRY,
    EFFECTS,
    LEFTOVER,
    Answer,
    Call,
    Conversation,
    Played,
    clean_run,
    plant,
    possible_indexes,
)

ADDED_ENTRY = "(answer_style.md)"
SETTLE_SECONDS = 30
# Played while nothing runs yet: what they leave is what every case is compared with.
AFTER = {there: clean_run(index_is_there=there).after for there in (True, False)}
INDEXES = {there: possible_indexes(index_is_there=there) for there in (True, False)}


class Place(ABC):
    """Where the memory of one case lies: used through ``backend``, and looked at behind its back."""

    backend: Backend
    workdir: str

    @abstractmethod
    async def read_back(self) -> Mapping[str, bytes]:
        """Return every file below the memory directory, not asking the backend."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        name: As it stands in the table.
        strike: Makes it happen to a place, given the call that is about to be made.
        lift: Makes it good again.
        strikes: Whether it can happen to that call at all.
        lasting: Whether the memory itself is gone for good.
        racy: What the tool says depends on how fast the sandbox was; the bytes do not.
    """

    name: str
    strike: Callable[[Any, Call], Awaitable[None]]
    lift: Callable[[Any], Awaitable[None]]
    strikes: Callable[[Call], bool] = lambda _call: True
    lasting: bool = False
    racy: bool = False

    def __str__(self) -> str:
        return self.name


async def play_case(place: Place, fault: Fault, call: Call) -> str:
    """Play the reply with the fault, check what must hold whatever happens, and return the cell of the table."""
    await plant(place.backend, place.workdir, index_is_there=call.index_is_there)
    conversation = Conversation(place.backend, place.workdir, index_is_there=call.index_is_there)
    struck: list[bool] = []

    async def strike() -> None:
        await fault.strike(place, call)
        struck.append(True)

    conversation.tap.strike_at(call.number, strike)
    try:
        played = await conversation.reply()
    finally:
        await fault.lift(place)
    assert struck, "the fault did not strike"
    assert call.name.startswith(conversation.tap.names[call.number]), "the fault struck at another call than it says"
    assert played.text == "Done.", "the reply did not go on to its end"
    if fault.lasting:
        return _cell_of_reply(played, call) if call.stage == "start" else _told(played.answers[call.stage], "gone")
    files = await _read_settled(place, call, racy=fault.racy)
    _check_bytes(files, index_is_there=call.index_is_there)
    _check_answers(files, played.answers)
    again = await conversation.reply()
    _check_next_reply(again, await place.read_back(), index_is_there=call.index_is_there)
    if call.stage == "start":
        return _cell_of_reply(played, call)
    new = _is_new(files, call.stage)
    cell = _told(played.answers[call.stage], "new" if new else "old")
    return f"{cell.partition(', ')[2]} *" if fault.racy and call.writes else cell


async def _read_settled(place: Place, call: Call, *, racy: bool) -> dict[str, bytes]:
    """Return the files; where a command goes on behind the back of a reply that was cut, once it has ended."""
    files = dict(await place.read_back())
    if racy and call.writes and call.stage in EFFECTS:
        async with asyncio.timeout(SETTLE_SECONDS):
            while not _is_new(files, call.stage) or _leftovers(files):
                await asyncio.sleep(0.1)
                files = dict(await place.read_back())
    return files


def _is_new(files: Mapping[str, bytes], tool: str) -> bool:
    if tool == "Edit":
        return EDITED_ENTRY.encode() in files["MEMORY.md"]
    return EFFECTS[tool] in files


def _check_bytes(files: Mapping[str, bytes], *, index_is_there: bool) -> None:
    """Every file is what it was, or what it was to become; the index has all its lines, and whole new ones."""
    after = AFTER[index_is_there]
    for name, data in BEFORE.items():
        if name != "MEMORY.md":
            assert files.get(name) == data, f"{name} is not what it was"
    for name, data in files.items():
        if name != "MEMORY.md" and LEFTOVER not in name:
            assert data == after[name], f"{name} is neither old nor new"
    assert files.get("MEMORY.md") in INDEXES[index_is_there], "MEMORY.md is neither old nor new"
    listed = ADDED_ENTRY.encode() in files.get("MEMORY.md", b"")
    assert listed is ("answer_style.md" in files), "a memory and its line in the index came apart"


def _check_answers(files: Mapping[str, bytes], answers: Mapping[str, Answer]) -> None:
    """A tool that says it is done has done it, and an error says what failed."""
    for tool, answer in answers.items():
        if answer.ok:
            assert _is_new(files, tool), f"{tool} says that it is done, and it is not: {answer.text}"
        else:
            assert answer.text.startswith("Error: "), answer.text
            assert len(answer.text) > len("Error: ") + 20, f"no model can act on {answer.text!r}"
            assert not (_is_new(files, tool) and "nothing was changed" in answer.text.lower()), answer.text


def _check_next_reply(played: Played, files: Mapping[str, bytes], *, index_is_there: bool) -> None:
    assert played.text == "Done again."
    assert not played.receipt.failed, played.receipt.failed
    assert "Lives in Hangzhou." in played.prompt, "the next reply does not remember"
    assert not index_is_there or "the order matters" in played.prompt, "the next reply has no index"
    assert played.answers["add"].ok, played.answers["add"].text
    assert files["afterwards.md"] == AFTER[index_is_there]["afterwards.md"]
    assert b"(afterwards.md)" in files["MEMORY.md"]
    assert not _leftovers(files), f"left behind: {_leftovers(files)}"


def _leftovers(files: Iterable[str]) -> list[str]:
    return [name for name in files if LEFTOVER in name]


def _cell_of_reply(played: Played, call: Call) -> str:
    if not played.receipt.failed:
        return "no effect"
    failure = played.receipt.failed[0]
    assert failure.stage == ("create MEMORY.md" if call.writes else "load")
    assert len(failure.error) > 20, f"the receipt does not say why: {failure}"
    if not call.writes:
        assert "cannot be read right now" in played.prompt
        assert "is empty" not in played.prompt, "memory that cannot be seen is not empty"
    return "went on"


def _told(answer: Answer, bytes_are: str) -> str:
    return f"{'done' if answer.ok else 'told'}, {bytes_are}"


def sample(
    faults: Iterable[Fault], calls: Iterable[Call], *, everything: bool, one_each: bool = False
) -> list[ParameterSet]:
    """Return the cases to play, as parameters ``fault`` and ``call``.

    Each fault at the first read, the largest write and one more call, in turn; with ``one_each`` at one call, in turn. With
    ``everything`` at all calls it can strike, the rest ``slow``.
    """
    chosen = []
    for number, fault in enumerate(faults):
        possible = [call for call in calls if fault.strikes(call)]
        ends = [] if one_each else [call for call in possible if call.name in {"start: snapshot", "add: transact"}]
        between = [call for call in possible if call not in ends]
        some = [*ends, *between[number % max(len(between), 1) :][:1]]
        for call in possible:
            if call in some:
                chosen.append(pytest.param(fault, call))
            elif everything:
                chosen.append(pytest.param(fault, call, marks=pytest.mark.slow))
    return chosen
