"""Conformance: symlinks and things that are not files. One policy everywhere: followed inside, refused outside."""

import pytest

from agentic_memory.backends import ABSENT, ANY, Change, Delete, Move, Obstacle, Put, Tree, version_of
from agentic_memory.errors import BackendUnavailable, Conflict, UnsafePath
from agentic_memory.testing.place import Contract, Place, contents, data_of


class LinkContract(Contract):
    """What is reached through a link, and what is never opened."""

    @pytest.mark.parametrize("absolute", [False, True])
    async def test_a_link_inside_the_root_is_followed(self, place: Place, *, absolute: bool) -> None:
        self.needs("symlinks")
        await place.put({"team/real.md": b"one"})
        await place.link(place.path("alias.md"), place.path("team/real.md") if absolute else "team/real.md")
        tree = await place.backend.snapshot(place.root)
        assert contents(tree) == {"alias.md": b"one", "team/real.md": b"one"}
        assert data_of(await place.backend.fetch(place.path("alias.md"), within=place.root)) == b"one"

    async def test_writing_through_a_link_changes_its_target(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"team/real.md": b"one"})
        await place.link(place.path("alias.md"), "team/real.md")
        with pytest.raises(Conflict) as caught:
            await place.backend.replace(place.path("alias.md"), b"two", expected=ABSENT)
        assert caught.value.current == b"one"
        await place.backend.replace(place.path("alias.md"), b"two", expected=version_of(b"one"), within=place.root)
        assert await place.is_link(place.path("alias.md"))
        tree = await place.backend.snapshot(place.root, hidden=True)
        assert contents(tree) == {"alias.md": b"two", "team/real.md": b"two"}

    async def test_deleting_a_link_keeps_its_target(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"real.md": b"one"})
        for expected in (version_of(b"one"), ANY):
            await place.link(place.path("alias.md"), "real.md")
            await place.backend.remove(place.path("alias.md"), expected=expected, within=place.root)
            assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"real.md": b"one"}

    async def test_moving_a_link_keeps_its_target(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"real.md": b"one"})
        await place.link(place.path("alias.md"), "real.md")
        await place.backend.move(
            place.path("alias.md"), place.path("other.md"), expected=version_of(b"one"), within=place.root
        )
        assert await place.is_link(place.path("other.md"))
        tree = await place.backend.snapshot(place.root, hidden=True)
        assert contents(tree) == {"other.md": b"one", "real.md": b"one"}

    async def test_a_folder_is_seen_once_however_many_links_lead_to_it(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"team/a.md": b"a", "b.md": b"b"})
        await place.link(place.path("also"), "team")
        await place.link(place.path("here"), ".")
        await place.link(place.path("team/up"), "..")
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert contents(tree) == {"team/a.md": b"a", "b.md": b"b"}
        assert data_of(await place.backend.fetch(place.path("also/a.md"), within=place.root)) == b"a"
        await place.backend.replace(place.path("here/also/c.md"), b"c", expected=ABSENT, within=place.root)
        tree = await place.backend.snapshot(place.root, suffix=".md", hidden=True)
        assert contents(tree) == {"team/a.md": b"a", "team/c.md": b"c", "b.md": b"b"}

    async def test_a_link_out_of_the_root_is_an_obstacle(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"a.md": b"a"})
        await place.plant(f"{place.outside}/secret.md", b"secret")
        await place.link(place.path("x.md"), f"{place.outside}/secret.md")
        await place.link(place.path("more"), place.outside)
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert contents(tree) == {"a.md": b"a"}
        assert _obstacles(tree) == {"more": "outside", "x.md": "outside"}
        assert isinstance(tree.find("more/secret.md"), Obstacle)

    async def test_nothing_is_read_or_written_through_a_link_out_of_within(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"a.md": b"a"})
        await place.plant(f"{place.outside}/secret.md", b"secret")
        await place.link(place.path("x.md"), f"{place.outside}/secret.md")
        await place.link(place.path("more"), place.outside)
        for name in ("x.md", "more/secret.md", "more/new.md", "more/deep/new.md"):
            path = place.path(name)
            with pytest.raises(UnsafePath):
                await place.backend.fetch(path, within=place.root)
            changes: list[Change] = [
                Put(path, b"overwritten", ANY),
                Put(path, b"overwritten", ABSENT),
                Put(path, b"overwritten", version_of(b"secret")),
                Move(place.path("a.md"), path, ANY),
            ]
            if name != "x.md":
                changes.append(Delete(path, ANY))
                changes.append(Move(path, place.path("b.md"), ANY))
            for change in changes:
                with pytest.raises((UnsafePath, Conflict)):
                    await place.backend.transact([change], within=place.root)
        await place.backend.remove(place.path("x.md"), expected=ANY, within=place.root)
        tree = await place.backend.snapshot(place.outside, hidden=True)
        assert contents(tree) == {"secret.md": b"secret"}
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"a.md": b"a"}

    async def test_a_conflict_never_shows_bytes_from_outside(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"a.md": b"a"})
        await place.plant(f"{place.outside}/secret.md", b"secret")
        await place.link(place.path("x.md"), f"{place.outside}/secret.md")
        changes: list[Change] = [
            Put(place.path("x.md"), b"x", version_of(b"guess")),
            Delete(place.path("x.md"), version_of(b"guess")),
            Move(place.path("a.md"), place.path("x.md"), ANY),
            Move(place.path("x.md"), place.path("y.md"), version_of(b"guess")),
        ]
        for change in changes:
            with pytest.raises((UnsafePath, Conflict)) as caught:
                await place.backend.transact([change], within=place.root)
            assert getattr(caught.value, "current", None) != b"secret"

    async def test_a_dangling_link_is_an_obstacle_and_is_never_written_through(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"a.md": b"a"})
        await place.link(place.path("x.md"), "nowhere.md")
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert contents(tree) == {"a.md": b"a"}
        assert _obstacles(tree) == {"x.md": "dangling"}
        with pytest.raises((UnsafePath, BackendUnavailable)):
            await place.backend.fetch(place.path("x.md"))
        for expected in (ABSENT, ANY):
            with pytest.raises(UnsafePath):
                await place.backend.replace(place.path("x.md"), b"x", expected=expected, within=place.root)
        assert await place.is_link(place.path("x.md"))
        assert await place.backend.fetch(place.path("nowhere.md")) is ABSENT
        await place.backend.remove(place.path("x.md"), expected=ANY)
        assert not (await place.backend.snapshot(place.root)).obstacles

    async def test_a_link_into_itself_is_an_obstacle(self, place: Place) -> None:
        self.needs("symlinks")
        await place.put({"a.md": b"a"})
        await place.link(place.path("x.md"), "x.md")
        await place.link(place.path("y.md"), "z.md")
        await place.link(place.path("z.md"), "y.md")
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert contents(tree) == {"a.md": b"a"}
        assert _obstacles(tree) == {"x.md": "loop", "y.md": "loop", "z.md": "loop"}
        with pytest.raises((UnsafePath, BackendUnavailable)):
            await place.backend.fetch(place.path("x.md"))
        with pytest.raises((UnsafePath, BackendUnavailable)):
            await place.backend.replace(place.path("x.md"), b"x", expected=ANY)

    async def test_the_root_may_be_a_link_to_a_directory(self, place: Place) -> None:
        self.needs("symlinks")
        await place.backend.replace(f"{place.outside}/a.md", b"a", expected=ABSENT)
        await place.link(place.root, place.outside)
        assert contents(await place.backend.snapshot(place.root)) == {"a.md": b"a"}
        await place.backend.replace(place.path("a.md"), b"aa", expected=version_of(b"a"), within=place.root)
        await place.backend.replace(place.path("b.md"), b"b", expected=ABSENT, within=place.root)
        assert contents(await place.backend.snapshot(place.root, hidden=True)) == {"a.md": b"aa", "b.md": b"b"}

    async def test_a_root_that_leads_nowhere_cannot_be_told_about(self, place: Place) -> None:
        self.needs("symlinks")
        await place.link(place.root, place.outside)
        with pytest.raises(BackendUnavailable):
            await place.backend.snapshot(place.root)
        with pytest.raises((BackendUnavailable, UnsafePath)):
            await place.backend.fetch(place.path("a.md"), within=place.root)
        for expected in (ABSENT, ANY):
            with pytest.raises((BackendUnavailable, UnsafePath)):
                await place.backend.replace(place.path("a.md"), b"a", expected=expected, within=place.root)
        assert not (await place.backend.snapshot(place.outside)).exists

    async def test_a_fifo_is_an_obstacle_and_never_opened(self, place: Place) -> None:
        self.needs("special files")
        await place.put({"a.md": b"a"})
        await place.make_fifo(place.path("x.md"))
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert contents(tree) == {"a.md": b"a"}
        assert _obstacles(tree) == {"x.md": "special"}
        with pytest.raises(UnsafePath):
            await place.backend.fetch(place.path("x.md"))
        changes: list[Change] = [
            Put(place.path("x.md"), b"x", ANY),
            Put(place.path("x.md"), b"x", version_of(b"")),
            Delete(place.path("x.md"), ANY),
            Move(place.path("x.md"), place.path("y.md"), ANY),
        ]
        for change in changes:
            with pytest.raises(UnsafePath):
                await place.backend.transact([change])
        assert _obstacles(await place.backend.snapshot(place.root)) == {"x.md": "special"}

    async def test_a_link_to_a_fifo_is_never_opened(self, place: Place) -> None:
        self.needs("special files")
        self.needs("symlinks")
        await place.put({"a.md": b"a"})
        await place.make_fifo(place.path("pipe"))
        await place.link(place.path("x.md"), "pipe")
        tree = await place.backend.snapshot(place.root, suffix=".md")
        assert (contents(tree), _obstacles(tree)) == ({"a.md": b"a"}, {"x.md": "special"})
        with pytest.raises(UnsafePath):
            await place.backend.replace(place.path("x.md"), b"x", expected=ANY)


def _obstacles(tree: Tree) -> dict[str, str]:
    return {obstacle.path: obstacle.kind for obstacle in tree.obstacles}
