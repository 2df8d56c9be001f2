"""InMemoryBackend keeps every promise, and gives tests what they need."""

from typing import ClassVar

import pytest
from memory_place import in_memory_place

from agentic_memory.backends import ABSENT, ANY, InMemoryBackend, Tree, version_of
from agentic_memory.errors import BackendUnavailable, UnsafePath
from agentic_memory.testing import BackendContract


class TestInMemoryBackend(BackendContract):
    lacks: ClassVar = {"owners": "one process, one user", "partial answers": "a call is answered whole"}

    @pytest.fixture
    def place(self):
        return in_memory_place()


async def test_content_given_at_construction_is_there():
    backend = InMemoryBackend({"/m/a.md": b"a", "/m/sub/b.md": b"b"})
    assert [record.path for record in (await backend.snapshot("/m")).files] == ["a.md", "sub/b.md"]


async def test_two_instances_share_nothing():
    first, second = InMemoryBackend(), InMemoryBackend()
    await first.replace("/m/a.md", b"a", expected=ABSENT)
    assert first.cache_key != second.cache_key
    assert await second.snapshot("/m") == Tree("/m", exists=False, files=())


async def test_calls_fail_as_often_as_they_were_told_to_and_do_nothing():
    backend = InMemoryBackend({"/m/a.md": b"a"})
    backend.fail_next(2)
    with pytest.raises(BackendUnavailable):
        await backend.replace("/m/a.md", b"b", expected=ANY)
    with pytest.raises(BackendUnavailable):
        await backend.snapshot("/m")
    assert [record.data for record in (await backend.snapshot("/m")).files] == [b"a"]


async def test_there_is_no_shell():
    result = await InMemoryBackend().exec_shell(["ls"])
    assert (result.exit_code, result.stdout) == (127, b"")
    assert b"no shell" in result.stderr


async def test_a_relative_link_is_not_moved_where_it_would_break():
    backend = InMemoryBackend({"/m/a.md": b"a"})
    backend.link("/m/l.md", "a.md")
    with pytest.raises(UnsafePath, match="break"):
        await backend.move("/m/l.md", "/m/.trash/l.md", expected=version_of(b"a"))
    assert backend.is_link("/m/l.md")


async def test_what_was_put_in_the_way_can_be_taken_away():
    backend = InMemoryBackend({"/m/a.md": b"a"})
    backend.obstruct("/m/a.md", "unreadable")
    assert [seen.kind for seen in (await backend.snapshot("/m")).obstacles] == ["unreadable"]
    backend.permit("/m/a.md")
    backend.obstruct("/m/p.md", "special")
    backend.clear("/m/p.md")
    tree = await backend.snapshot("/m")
    assert (len(tree.files), tree.obstacles) == (1, ())
