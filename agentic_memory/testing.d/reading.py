"""Conformance: seeing what is there, what is not, and when that cannot be told."""

from collections.abc import Callable
from typing import Any

import pytest

from agentic_memory.backends import ABSENT, ANY, Delete, FileRecord, Obstacle, Put, Tree, version_of
from agentic_memory.contract_place import CAPABILITIES, Contract, Place, contents, data_of
from agentic_memory.errors import BackendUnavailable, UnsafePath

BAD_PATHS = {"empty": "", "relative": "memory/a.md", "dotted": "./a.md", "NUL": "/memory/a\0.md", "only NUL": "\0"}

CONTENTS = {
    "empty": b"",
    "one newline": b"\n",
    "no newline at the end": b"# one\ntwo",
    "CRLF": b"# one\r\ntwo\r\n",
    "lone CR": b"one\rtwo\r",
    "BOM": b"\xef\xbb\xbf# one\n",
    "Latin-1": "na\u00efve caf\u00e9\n".encode("latin-1"),
    "GBK": "\u4e2d\u6587\n".encode("gbk"),
    "every byte": bytes(range(256)) * 3,
    "NULs": b"\0\0a\0",
    "trailing newlines": b"one\n\n\n",
    "a character across byte 8192": b"a" * 8191 + "\u4e2d\u6587".encode() + b"\n",
    "looks like a shell script": b"$(exit 3)`exit 4`\nEOF\n'\"\\ %s %% \\0\n",
    "64 KiB": bytes(range(256)) * 256,
    "over 128 KiB": b"0123456789abcde\n" * 9000,
    "8 MiB": b"\x00\xffmemory\n" * (8 * 1024 * 1024 // 9),
}


class ReadingContract(Contract):
    """``snapshot`` and ``fetch``."""

    async def test_a_missing_root_is_absent_not_an_error(self, place: Place) -> None:
        assert await place.backend.snapshot(place.root) == Tree(place.root, exists=False, files=())
        deeper = place.path("not/there/either")
        assert not (await place.backend.snapshot(deeper)).exists

    async def test_an_empty_root_exists(self, place: Place) -> None:
        version = await place.backend.replace(place.path("a.md"), b"a", expected=ABSENT)
        await place.backend.remove(place.path("a.md"), expected=version)
        tree = await place.backend.snapshot(place.root, hidden=True)
        assert tree == Tree(place.root, exists=True, files=())

    async def test_snapshot_shows_every_file_with_its_bytes_sorted_by_path(self, place: Place) -> None:
        files = {"b.md": b"bee", "a.md": b"", "team/deploy.md": b"ship it\n", "team/a b/c.md": b"deep", "z": b"z"}
        await place.put(files)
        tree = await place.backend.snapshot(place.root)
        assert tree.exists
        assert tree.root == place.root
        assert tree.obstacles == ()
        assert [record.path for record in tree.files] == sorted(files)
        for record in tree.files:
            data = files[record.path]
            assert (record.data, record.size, record.version) == (data, len(data), version_of(data))
        assert tree.find("team/deploy.md") == tree.files[sorted(files).index("team/deploy.md")]
        assert tree.find("team") is ABSENT

    async def test_snapshot_leaves_out_the_bytes_the_caller_knows(self, place: Place) -> None:
        await place.put({"a.md": b"alpha", "b.md": b"beta"})
        for _ in range(2):
            tree = await place.backend.snapshot(place.root, known={version_of(b"alpha"), "0" * 64})
            assert contents(tree) == {"a.md": None, "b.md": b"beta"}
        assert contents(await place.backend.snapshot(place.root)) == {"a.md": b"alpha", "b.md": b"beta"}

    async def test_snapshot_keeps_to_a_suffix_in_any_case(self, place: Place) -> None:
        await place.put({"a.md": b"1", "B.MD": b"2", "c.txt": b"3", "d.md.bak": b"4", "e/f.Md": b"5", "md": b"6"})
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert contents(tree) == {"a.md": b"1", "B.MD": b"2", "e/f.Md": b"5"}
        assert len((await place.backend.snapshot(place.root)).files) == 6

    async def test_snapshot_passes_over_hidden_names_unless_asked(self, place: Place) -> None:
        await place.put({"a.md": b"1", ".b.md": b"2", ".history/c.md": b"3", "d/.e/f.md": b"4"})
        assert contents(await place.backend.snapshot(place.root)) == {"a.md": b"1"}
        everything = await place.backend.snapshot(place.root, hidden=True)
        assert set(contents(everything)) == {"a.md", ".b.md", ".history/c.md", "d/.e/f.md"}

    async def test_a_hidden_root_can_be_seen(self, place: Place) -> None:
        await place.backend.replace(place.path(".history/a.md"), b"a", expected=ABSENT)
        assert contents(await place.backend.snapshot(place.path(".history"))) == {"a.md": b"a"}

    async def test_a_file_over_the_limit_is_an_obstacle_and_the_rest_is_seen(self, place: Place) -> None:
        await place.put({"big.md": b"x" * 101, "fits.md": b"x" * 100})
        for _ in range(2):
            tree = await place.backend.snapshot(place.root, max_bytes=100)
            assert contents(tree) == {"fits.md": b"x" * 100}
            assert [(seen.path, seen.kind) for seen in tree.obstacles] == [("big.md", "too_large")]
        assert set(contents(await place.backend.snapshot(place.root))) == {"big.md", "fits.md"}
        with pytest.raises(BackendUnavailable, match="101"):
            await place.backend.fetch(place.path("big.md"), max_bytes=100)
        assert data_of(await place.backend.fetch(place.path("fits.md"), max_bytes=100)) == b"x" * 100

    async def test_a_directory_named_like_a_memory_is_an_obstacle(self, place: Place) -> None:
        await place.put({"folder.md/inner.md": b"1", "a.md": b"2"})
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert contents(tree) == {"a.md": b"2"}
        assert [(seen.path, seen.kind) for seen in tree.obstacles] == [("folder.md", "directory")]
        assert isinstance(tree.find("folder.md/inner.md"), Obstacle)

    async def test_fetch_tells_present_from_absent(self, place: Place) -> None:
        await place.backend.replace(place.path("a.md"), b"alpha", expected=ABSENT)
        record = await place.backend.fetch(place.path("a.md"), within=place.root)
        assert isinstance(record, FileRecord)
        assert (record.path, record.data, record.size) == (place.path("a.md"), b"alpha", 5)
        assert record.version == version_of(b"alpha")
        assert await place.backend.fetch(place.path("b.md"), within=place.root) is ABSENT
        assert await place.backend.fetch(place.path("no/such/folder/b.md"), within=place.root) is ABSENT

    async def test_fetch_in_a_missing_root_is_absent(self, place: Place) -> None:
        assert await place.backend.fetch(place.path("a.md"), within=place.root) is ABSENT

    async def test_fetch_refuses_a_directory(self, place: Place) -> None:
        await place.backend.replace(place.path("sub/a.md"), b"a", expected=ABSENT)
        with pytest.raises(UnsafePath):
            await place.backend.fetch(place.path("sub"))

    async def test_a_root_that_is_a_file_cannot_be_told_about(self, place: Place) -> None:
        await place.backend.replace(place.path("file"), b"not a folder", expected=ABSENT)
        with pytest.raises(BackendUnavailable):
            await place.backend.snapshot(place.path("file"))
        with pytest.raises(BackendUnavailable):
            await place.backend.snapshot(place.path("file/below"))

    @pytest.mark.parametrize("bad", BAD_PATHS.values(), ids=BAD_PATHS)
    async def test_a_path_that_is_not_absolute_or_holds_a_nul_is_refused(self, place: Place, bad: str) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: place.backend.snapshot(bad),
            lambda: place.backend.fetch(bad),
            lambda: place.backend.transact([Put(bad, b"x", ANY)]),
            lambda: place.backend.transact([Delete(bad, ANY)]),
            lambda: place.backend.move(bad, place.path("b.md"), expected=ANY),
            lambda: place.backend.move(place.path("b.md"), bad, expected=ANY),
        ]
        for call in calls:
            with pytest.raises(UnsafePath):
                await call()

    @pytest.mark.parametrize(
        "name", ["../{outside}/a.md", "x/../../{outside}/a.md", "{root}-more/a.md", "..", ".", "../{root}"]
    )
    async def test_nothing_outside_within_is_read(self, place: Place, name: str) -> None:
        await place.plant(f"{place.outside}/a.md", b"secret")
        await place.plant(f"{place.root}-more/a.md", b"secret")
        await place.backend.replace(place.path("a.md"), b"a", expected=ABSENT)
        root, outside = place.root.rsplit("/", 1)[1], place.outside.rsplit("/", 1)[1]
        prefix = place.root.rsplit("/", 1)[0] if name.startswith("{root}-") else place.root
        with pytest.raises(UnsafePath):
            await place.backend.fetch(f"{prefix}/{name.format(root=root, outside=outside)}", within=place.root)

    async def test_dots_inside_the_root_are_resolved(self, place: Place) -> None:
        await place.backend.replace(place.path("a.md"), b"a", expected=ABSENT)
        record = await place.backend.fetch(place.path("x/.././/a.md"), within=place.root)
        assert isinstance(record, FileRecord)
        assert record.path == place.path("a.md")

    @pytest.mark.parametrize("data", CONTENTS.values(), ids=CONTENTS)
    async def test_bytes_come_back_as_they_were_written(self, place: Place, data: bytes) -> None:
        await place.backend.replace(place.path("a.md"), b"before", expected=ABSENT)
        version = await place.backend.replace(place.path("a.md"), data, expected=version_of(b"before"))
        assert version == version_of(data)
        assert data_of(await place.backend.fetch(place.path("a.md"))) == data
        tree = await place.backend.snapshot(place.root)
        assert [(seen.path, seen.size, seen.version) for seen in tree.files] == [("a.md", len(data), version)]
        assert tree.files[0].data == data
        assert await place.backend.read_file(place.path("a.md")) == data

    @pytest.mark.parametrize("seconds", [0, 1, 999_999_999, 2_147_483_648, 16_725_225_600, 1_000_000_000_000])
    async def test_any_modification_time_is_borne(self, place: Place, seconds: int) -> None:
        self.needs("mtimes")
        await place.put({"a.md": b"a", "b.md": b"b"})
        await place.touch(place.path("a.md"), seconds=seconds)
        for _ in range(2):
            tree = await place.backend.snapshot(place.root)
            assert contents(tree) == {"a.md": b"a", "b.md": b"b"}
            # A file system may cap what it can hold; inside 32 bits each can hold it.
            if seconds < 2**31:
                assert tree.files[0].mtime_ns // 10**9 == seconds
        record = await place.backend.fetch(place.path("a.md"))
        assert data_of(record) == b"a"
        await place.backend.replace(place.path("a.md"), b"aa", expected=version_of(b"a"))

    async def test_one_unreadable_folder_hides_only_itself(self, place: Place) -> None:
        self.needs("denying")
        await place.put({"a.md": b"a", "closed/b.md": b"b", "open/c.md": b"c"})
        await place.deny(place.path("closed"))
        try:
            tree = await place.backend.snapshot(place.root, suffix=".md")
            assert contents(tree) == {"a.md": b"a", "open/c.md": b"c"}
            assert [(seen.path, seen.kind) for seen in tree.obstacles] == [("closed", "unreadable")]
            assert isinstance(tree.find("closed/b.md"), Obstacle)
            with pytest.raises(BackendUnavailable):
                await place.backend.fetch(place.path("closed/b.md"))
            with pytest.raises(BackendUnavailable):
                await place.backend.fetch(place.path("closed/not-there.md"))
            with pytest.raises(BackendUnavailable):
                await place.backend.snapshot(place.path("closed"))
        finally:
            await place.permit(place.path("closed"))
        assert set(contents(await place.backend.snapshot(place.root))) == {"a.md", "closed/b.md", "open/c.md"}

    async def test_one_unreadable_file_hides_only_itself(self, place: Place) -> None:
        self.needs("denying")
        await place.put({"a.md": b"a", "closed.md": b"b"})
        await place.deny(place.path("closed.md"))
        try:
            tree = await place.backend.snapshot(place.root)
            assert contents(tree) == {"a.md": b"a"}
            assert [(seen.path, seen.kind) for seen in tree.obstacles] == [("closed.md", "unreadable")]
            with pytest.raises(BackendUnavailable):
                await place.backend.fetch(place.path("closed.md"))
        finally:
            await place.permit(place.path("closed.md"))

    async def test_a_place_out_of_reach_is_never_an_empty_one(self, place: Place) -> None:
        self.needs("unreachable")
        if place.unreachable is None:
            pytest.skip("this place gives no way to cut it off")
        await place.backend.replace(place.path("a.md"), b"a", expected=ABSENT)
        backend = place.backend
        calls: list[Callable[[], Any]] = [
            lambda: backend.snapshot(place.root),
            lambda: backend.fetch(place.path("a.md")),
            lambda: backend.fetch(place.path("b.md")),
            lambda: backend.transact([Put(place.path("b.md"), b"b", ABSENT)]),
            lambda: backend.transact([Put(place.path("a.md"), b"b", ANY)]),
            lambda: backend.transact([Delete(place.path("a.md"), ANY)]),
            lambda: backend.file_exists(place.path("a.md")),
        ]
        async with place.unreachable():
            for call in calls:
                with pytest.raises(BackendUnavailable):
                    await call()
        assert contents(await backend.snapshot(place.root)) == {"a.md": b"a"}

    async def test_half_an_answer_is_no_answer(self, place: Place) -> None:
        self.needs("partial answers")
        if place.cut_short is None:
            pytest.skip("this place gives no way to cut its answers short")
        await place.put({f"{number}.md": b"%d" % number * 100 for number in range(20)})
        async with place.cut_short():
            with pytest.raises(BackendUnavailable):
                await place.backend.snapshot(place.root)
            with pytest.raises(BackendUnavailable):
                await place.backend.fetch(place.path("1.md"))
            with pytest.raises(BackendUnavailable):
                await place.backend.fetch(place.path("no.md"))
        assert len((await place.backend.snapshot(place.root)).files) == 20

    async def test_ten_thousand_files_cost_one_round_trip(self, place: Place) -> None:
        await place.fill(self.many)
        before = place.backend.round_trips
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert place.backend.round_trips - before == self.trips_per_call["snapshot"]
        assert contents(tree) == {f"f{number}.md": str(number).encode() for number in range(self.many)}
        known = {record.version for record in tree.files}
        again = await place.backend.snapshot(place.root, suffix=".md", known=known)
        assert [record.version for record in again.files] == [record.version for record in tree.files]
        assert {record.data for record in again.files} == {None}

    async def test_every_call_is_the_declared_number_of_round_trips(self, place: Place) -> None:
        backend, trips = place.backend, self.trips_per_call
        start = backend.round_trips
        await backend.transact([Put(place.path(f"{name}.md"), b"x", ABSENT) for name in "abc"], within=place.root)
        assert backend.round_trips - start == trips["transact"]
        start = backend.round_trips
        await backend.snapshot(place.root)
        assert backend.round_trips - start == trips["snapshot"]
        start = backend.round_trips
        await backend.fetch(place.path("a.md"), within=place.root)
        await backend.fetch(place.path("no.md"), within=place.root)
        assert backend.round_trips - start == 2 * trips["fetch"]

    async def test_the_cache_key_is_hashable_and_stays(self, place: Place) -> None:
        key = place.backend.cache_key
        await place.backend.replace(place.path("a.md"), b"a", expected=ABSENT)
        assert {key: 1}[place.backend.cache_key] == 1

    def test_what_is_declared_as_lacking_is_a_known_capability(self) -> None:
        assert set(self.lacks) <= set(CAPABILITIES)
        assert all(self.lacks.values())
