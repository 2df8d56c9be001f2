"""Conformance: changing files under preconditions, wholly or not at all."""

from collections.abc import Sequence

import pytest

from agentic_memory.backends import ABSENT, ANY, Change, Delete, FileRecord, Move, Put, version_of
from agentic_memory.contract_place import Contract, Place, contents, data_of
from agentic_memory.errors import BackendUnavailable, Conflict, UnsafePath

OTHER = version_of(b"something else")


class WritingContract(Contract):
    """``transact``, ``replace``, ``remove``, ``move``, and the file calls of AgentScope's tools."""

    async def test_create_replace_and_remove(self, place: Place) -> None:
        backend, path = place.backend, place.path("team/new/a.md")
        first = await backend.replace(path, b"one", expected=ABSENT, within=place.root)
        second = await backend.replace(path, b"two", expected=first, within=place.root)
        assert (first, second) == (version_of(b"one"), version_of(b"two"))
        assert data_of(await backend.fetch(path)) == b"two"
        await backend.remove(path, expected=second, within=place.root)
        assert await backend.fetch(path) is ABSENT
        await backend.replace(path, b"three", expected=ANY)
        await backend.replace(path, b"four", expected=ANY)
        assert data_of(await backend.fetch(path)) == b"four"

    async def test_a_stale_version_is_a_conflict_that_shows_what_is_there(self, place: Place) -> None:
        path = place.path("a.md")
        await place.put({"a.md": b"now"})
        changes: list[Change] = [Put(path, b"new", OTHER), Delete(path, OTHER), Move(path, place.path("b.md"), OTHER)]
        for change in changes:
            with pytest.raises(Conflict) as caught:
                await place.backend.transact([change], within=place.root)
            assert (caught.value.path, caught.value.current, caught.value.expected) == (path, b"now", OTHER)
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"a.md": b"now"}

    async def test_creating_over_a_file_is_a_conflict_even_over_an_empty_one(self, place: Place) -> None:
        await place.put({"a.md": b"", "b.md": b"bee"})
        for name, current in {"a.md": b"", "b.md": b"bee"}.items():
            with pytest.raises(Conflict) as caught:
                await place.backend.replace(place.path(name), b"new", expected=ABSENT)
            assert (caught.value.path, caught.value.current) == (place.path(name), current)
        assert contents(await place.backend.snapshot(place.root)) == {"a.md": b"", "b.md": b"bee"}

    async def test_changing_what_is_gone_is_a_conflict_with_nothing_there(self, place: Place) -> None:
        path = place.path("gone/a.md")
        await place.put({"b.md": b"b"})
        changes: list[Change] = [
            Put(path, b"new", OTHER),
            Delete(path, OTHER),
            Move(path, place.path("c.md"), OTHER),
            Move(path, place.path("c.md"), ANY),
        ]
        for change in changes:
            with pytest.raises(Conflict) as caught:
                await place.backend.transact([change], within=place.root)
            assert (caught.value.path, caught.value.current) == (path, None)
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"b.md": b"b"}

    async def test_removing_without_a_precondition_is_content_with_nothing(self, place: Place) -> None:
        await place.put({"a.md": b"a"})
        for _ in range(2):
            await place.backend.remove(place.path("a.md"), expected=ANY)
        assert await place.backend.fetch(place.path("a.md")) is ABSENT

    async def test_move_keeps_bytes_and_makes_folders(self, place: Place) -> None:
        await place.put({"a.md": b"alpha\r\n"})
        await place.backend.move(
            place.path("a.md"), place.path(".trash/2024/a.md"), expected=version_of(b"alpha\r\n"), within=place.root
        )
        tree = await place.backend.snapshot(place.root, hidden=True)
        assert contents(tree) == {".trash/2024/a.md": b"alpha\r\n"}

    async def test_move_never_goes_over_a_file(self, place: Place) -> None:
        await place.put({"a.md": b"a", "b.md": b"b"})
        with pytest.raises(Conflict) as caught:
            await place.backend.move(place.path("a.md"), place.path("b.md"), expected=version_of(b"a"))
        assert (caught.value.path, caught.value.current) == (place.path("b.md"), b"b")
        assert contents(await place.backend.snapshot(place.root)) == {"a.md": b"a", "b.md": b"b"}

    async def test_a_transaction_applies_every_change(self, place: Place) -> None:
        await place.put({"index.md": b"- a\n- b\n", "a.md": b"a", "b.md": b"b"})
        await place.backend.transact(
            [
                Put(place.path("index.md"), b"- c\n", version_of(b"- a\n- b\n")),
                Put(place.path("new/c.md"), b"c", ABSENT),
                Move(place.path("a.md"), place.path(".trash/a.md"), version_of(b"a")),
                Delete(place.path("b.md"), version_of(b"b")),
            ],
            within=place.root,
        )
        tree = await place.backend.snapshot(place.root, hidden=True)
        assert contents(tree) == {"index.md": b"- c\n", "new/c.md": b"c", ".trash/a.md": b"a"}

    @pytest.mark.parametrize("at", [0, 1, 2, 3])
    async def test_one_conflict_undoes_the_whole_transaction(self, place: Place, at: int) -> None:
        before = {"index.md": b"- a\n", "a.md": b"a", "b.md": b"b"}
        await place.put(before)
        changes: list[Change] = [
            Put(place.path("index.md"), b"- c\n", version_of(b"- a\n")),
            Move(place.path("a.md"), place.path("moved.md"), version_of(b"a")),
            Put(place.path("c.md"), b"c", ABSENT),
        ]
        changes.insert(at, Put(place.path("b.md"), b"bb", OTHER))
        with pytest.raises(Conflict) as caught:
            await place.backend.transact(changes, within=place.root)
        assert (caught.value.path, caught.value.current) == (place.path("b.md"), b"b")
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == before

    async def test_an_unsafe_path_undoes_the_whole_transaction(self, place: Place) -> None:
        await place.put({"a.md": b"a"})
        out = f"{place.outside}/x.md"
        transactions: list[Sequence[Change]] = [
            [Put(place.path("a.md"), b"new", version_of(b"a")), Put(out, b"x", ABSENT)],
            [Delete(place.path("a.md"), ANY), Delete(out, ANY)],
            [Put(place.path("b.md"), b"b", ABSENT), Move(place.path("a.md"), out, ANY)],
            [Put(place.path("b.md"), b"b", ABSENT), Move(out, place.path("c.md"), ANY)],
            [Put(place.path("../x.md"), b"x", ABSENT)],
            [Put(place.root, b"x", ANY)],
        ]
        for changes in transactions:
            with pytest.raises(UnsafePath):
                await place.backend.transact(changes, within=place.root)
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"a.md": b"a"}
        assert not (await place.backend.snapshot(place.outside)).exists

    async def test_a_path_may_occur_once(self, place: Place) -> None:
        path = place.path("a.md")
        transactions: list[Sequence[Change]] = [
            [Put(path, b"1", ABSENT), Put(path, b"2", ANY)],
            [Put(path, b"1", ABSENT), Delete(f"{place.root}/./a.md", ANY)],
            [Put(path, b"1", ABSENT), Move(place.path("b.md"), path, ANY)],
            [Move(path, path, ANY)],
        ]
        for changes in transactions:
            with pytest.raises(ValueError, match="twice"):
                await place.backend.transact(changes)
        assert await place.backend.fetch(path) is ABSENT

    async def test_no_change_is_no_harm(self, place: Place) -> None:
        await place.backend.transact([], within=place.root)
        await place.put({"a.md": b"a"})
        await place.backend.transact([])
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"a.md": b"a"}

    async def test_a_directory_is_never_written_over(self, place: Place) -> None:
        await place.put({"sub/a.md": b"a", "b.md": b"b"})
        sub = place.path("sub")
        changes: list[Change] = [
            Put(sub, b"x", ANY),
            Put(sub, b"x", ABSENT),
            Delete(sub, ANY),
            Move(sub, place.path("c"), ANY),
            Move(place.path("b.md"), sub, ANY),
        ]
        for change in changes:
            with pytest.raises((UnsafePath, Conflict)):
                await place.backend.transact([change])
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"sub/a.md": b"a", "b.md": b"b"}

    async def test_nothing_is_written_below_a_file(self, place: Place) -> None:
        await place.put({"a.md": b"a"})
        with pytest.raises((UnsafePath, BackendUnavailable)):
            await place.backend.replace(place.path("a.md/b.md"), b"x", expected=ABSENT)
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"a.md": b"a"}

    async def test_writing_the_same_bytes_again_is_fine(self, place: Place) -> None:
        await place.put({"a.md": b"a"})
        assert await place.backend.replace(place.path("a.md"), b"a", expected=version_of(b"a")) == version_of(b"a")

    async def test_large_files_go_through_one_transaction(self, place: Place) -> None:
        files = {f"{number}.md": bytes([number]) * 300_000 for number in range(8)}
        await place.put(files)
        assert contents(await place.backend.snapshot(place.root)) == files

    async def test_an_edit_of_the_same_size_within_a_second_is_seen(self, place: Place) -> None:
        path, version = place.path("a.md"), version_of(b"round 00")
        await place.backend.replace(path, b"round 00", expected=ABSENT)
        known = {version}
        for number in range(1, 16):
            assert contents(await place.backend.snapshot(place.root, known=known)) == {"a.md": None}
            text = b"round %02d" % number
            await place.plant(path, text)
            assert contents(await place.backend.snapshot(place.root, known=known)) == {"a.md": text}
            with pytest.raises(Conflict) as caught:
                await place.backend.replace(path, b"stale", expected=version)
            assert caught.value.current == text
            version = version_of(text)
            known = {version}

    async def test_a_touch_is_no_change(self, place: Place) -> None:
        self.needs("mtimes")
        path = place.path("a.md")
        await place.put({"a.md": b"a"})
        tree = await place.backend.snapshot(place.root)
        await place.touch(path, seconds=1_000_000_000)
        again = await place.backend.snapshot(place.root, known={tree.files[0].version})
        assert (again.files[0].version, again.files[0].data) == (tree.files[0].version, None)
        assert again.files[0].mtime_ns == 1_000_000_000 * 10**9
        await place.touch(path)
        await place.backend.replace(path, b"b", expected=tree.files[0].version)
        assert data_of(await place.backend.fetch(path)) == b"b"

    @pytest.mark.parametrize("mode", [0o640, 0o600, 0o664, 0o755])
    async def test_the_mode_of_a_file_is_kept(self, place: Place, mode: int) -> None:
        self.needs("modes")
        path = place.path("a.md")
        await place.put({"a.md": b"a"})
        await place.change_mode(path, mode)
        await place.backend.replace(path, b"bb", expected=version_of(b"a"))
        assert (await place.mode_and_owner(path))[0] == mode
        await place.backend.move(path, place.path("b.md"), expected=version_of(b"bb"))
        assert (await place.mode_and_owner(place.path("b.md")))[0] == mode

    async def test_a_new_file_can_be_read_by_its_owner_and_run_by_nobody(self, place: Place) -> None:
        self.needs("modes")
        await place.put({"a.md": b"a"})
        mode = (await place.mode_and_owner(place.path("a.md")))[0]
        assert mode & 0o600 == 0o600
        assert mode & 0o111 == 0
        assert mode & 0o002 == 0

    async def test_owner_and_group_of_a_file_are_kept(self, place: Place) -> None:
        self.needs("owners")
        path = place.path("a.md")
        await place.put({"a.md": b"a"})
        await place.change_owner(path, 1234, 2345)
        await place.change_mode(path, 0o640)
        await place.backend.replace(path, b"bb", expected=version_of(b"a"))
        assert await place.mode_and_owner(path) == (0o640, 1234, 2345)

    async def test_a_new_file_belongs_to_whom_its_directory_belongs(self, place: Place) -> None:
        self.needs("owners")
        await place.put({"a.md": b"a"})
        await place.change_owner(place.root, 1234, 2345)
        await place.put({"b.md": b"b", "sub/c.md": b"c"})
        for name in ("b.md", "sub", "sub/c.md"):
            assert (await place.mode_and_owner(place.path(name)))[1:] == (1234, 2345)

    async def test_agentscope_calls_answer_on_the_same_files(self, place: Place) -> None:
        backend, path = place.backend, place.path("sub/a.md")
        assert not await backend.file_exists(path)
        with pytest.raises(FileNotFoundError):
            await backend.read_file(path)
        await backend.write_file(path, b"one")
        await backend.write_file(path, b"two\r\n")
        assert await backend.read_file(path) == b"two\r\n"
        assert b"".join([chunk async for chunk in backend.read_stream(path)]) == b"two\r\n"
        assert await backend.file_exists(path)
        assert await backend.is_dir(place.path("sub"))
        assert not await backend.is_dir(path)
        assert await backend.list_dir(place.root) == ["sub"]
        assert await backend.list_dir(place.root, recursive=True) == [path]
        assert [(entry.name, entry.is_dir) for entry in await backend.scandir(place.root)] == [("sub", True)]
        assert isinstance(await backend.stat_mtime(path), float)
        assert await backend.stat_mtime(place.path("no.md")) is None
        await backend.delete_path(path)
        assert not await backend.file_exists(path)
        await backend.delete_path(path)
        assert await backend.fetch(path) is ABSENT

    async def test_relative_paths_and_home_are_resolved(self, place: Place) -> None:
        here = await place.backend.getcwd()
        assert await place.backend.resolve("Memory/../a.md") == place.backend.join_path(here, "a.md")
        home = await place.backend.resolve("~/Memory")
        assert home.startswith("/")
        assert home.endswith("/Memory")
        assert "~" not in home

    async def test_a_record_knows_when_it_was_written(self, place: Place) -> None:
        await place.put({"a.md": b"a"})
        record = await place.backend.fetch(place.path("a.md"))
        assert isinstance(record, FileRecord)
        assert record.mtime_ns > 1_500_000_000 * 10**9
