"""The texts that writers started from: found by version, and bounded."""

import pytest

from agentic_memory import bases
from agentic_memory.backends import version_of
from agentic_memory.bases import base_of, find_base, forget_base, remember_base


@pytest.fixture(autouse=True)
def small(monkeypatch) -> None:
    """Give each test a cache of its own that holds ten bytes."""
    monkeypatch.setattr(bases, "_bases", type(bases._bases)())
    monkeypatch.setattr(bases, "_held_bytes", 0)
    monkeypatch.setattr(bases, "MAX_BASES_BYTES", 10)


async def elsewhere(version: str) -> bytes | None:
    return {version_of(b"kept"): b"kept", version_of(b"true"): b"false"}.get(version)


def test_bytes_are_found_by_the_version_they_have() -> None:
    assert remember_base(b"one") == version_of(b"one")
    assert base_of(version_of(b"one")) == b"one"
    assert base_of(version_of(b"two")) is None


def test_what_was_used_longest_ago_gives_way() -> None:
    first, second = remember_base(b"1111"), remember_base(b"2222")
    assert base_of(first) == b"1111"
    third = remember_base(b"3333")
    assert [base_of(version) for version in (first, second, third)] == [b"1111", None, b"3333"]


def test_the_same_bytes_take_room_once() -> None:
    versions = [remember_base(b"1111"), remember_base(b"1111"), remember_base(b"2222")]
    assert [base_of(version) for version in versions] == [b"1111", b"1111", b"2222"]


def test_a_file_larger_than_all_the_room_drops_nothing() -> None:
    small = remember_base(b"1111")
    assert base_of(remember_base(b"x" * 11)) is None
    assert base_of(small) == b"1111"


def test_what_is_forgotten_leaves_no_copy_and_gives_its_room_back() -> None:
    version = remember_base(b"secret")
    forget_base(version)
    forget_base(version)
    assert base_of(version) is None
    kept = [remember_base(b"12345"), remember_base(b"67890")]
    assert [base_of(version) for version in kept] == [b"12345", b"67890"]


async def test_another_place_is_asked_for_what_is_not_here() -> None:
    here = remember_base(b"here")
    assert await find_base(here, elsewhere=elsewhere) == b"here"
    assert await find_base(version_of(b"kept"), elsewhere=elsewhere) == b"kept"
    assert await find_base(version_of(b"kept")) is None


async def test_bytes_that_are_not_those_of_the_version_are_not_used() -> None:
    assert await find_base(version_of(b"true"), elsewhere=elsewhere) is None
