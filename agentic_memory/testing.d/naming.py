"""Conformance: any name a file can have."""

import pytest

from agentic_memory.backends import ABSENT, version_of
from agentic_memory.contract_place import Contract, Place, contents, data_of

NAMES = {
    "spaces": "my notes  2.md",
    "leading and trailing spaces": " a.md ",
    "newline": "two\nlines.md",
    "trailing newline": "a.md\n",
    "tab": "tab\there.md",
    "carriage return": "cr\r.md",
    "single quote": "it's.md",
    "double quotes": 'say "hi".md',
    "leading dash": "-rf.md",
    "double dash": "--help",
    "percent": "100%s%n%.md",
    "substitution": "$(touch pwned).md",
    "backquotes": "`id`.md",
    "variable": "$HOME ${IFS}.md",
    "backslash": "a\\b\\n\\0.md",
    "glob": "[a]*?.md",
    "redirection": "a > b < c | d & e ; f.md",
    "braces and tilde": "~{a,b}.md",
    "hash and bang": "#!x.md",
    "equals": "A=B.md",
    "control characters": "bell\x07esc\x1b[0m.md",
    "Chinese": "\u56e2\u961f/\u90e8\u7f72\u8bf4\u660e.md",
    "emoji": "\U0001f9e0 memory.md",
    "right to left": "\u05d6\u05db\u05e8\u05d5\u05df.md",
    "deep": "/".join(["folder with space"] * 12) + "/a.md",
}


class NamingContract(Contract):
    """File names are bytes; none of them is a command."""

    @pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
    async def test_a_name_is_only_a_name(self, place: Place, name: str) -> None:
        await self._use(place, name)

    @pytest.mark.parametrize("name", ["a" * 255, "a" * 252 + ".md", "\u4e2d" * 84 + ".md"])
    async def test_the_longest_names_can_be_used(self, place: Place, name: str) -> None:
        self.needs("long names")
        await self._use(place, name)

    async def test_a_name_that_is_not_utf8_can_be_used(self, place: Place) -> None:
        self.needs("raw names")
        await self._use(place, b"caf\xe9 \xff.md".decode("utf-8", "surrogateescape"))

    async def test_names_that_differ_in_unicode_form_are_two_files(self, place: Place) -> None:
        self.needs("unicode forms")
        files = {"caf\u00e9.md": b"composed", "cafe\u0301.md": b"decomposed"}
        await place.put(files)
        assert contents(await place.backend.snapshot(place.root)) == files

    async def test_all_these_names_live_side_by_side(self, place: Place) -> None:
        files = {name: f"content of {label}".encode() for label, name in NAMES.items()}
        await place.put(files)
        tree = await place.backend.snapshot(place.root, hidden=True)
        assert contents(tree) == files
        assert [record.path for record in tree.files] == sorted(files)

    @pytest.mark.parametrize("folder", ["with space", "-rf", "$(id)", "it's", "\u8bb0\u5fc6", "new\nline", "100%"])
    async def test_the_root_may_have_any_name(self, place: Place, folder: str) -> None:
        root = place.path(folder)
        await place.backend.replace(f"{root}/a.md", b"a", expected=ABSENT, within=root)
        assert contents(await place.backend.snapshot(root)) == {"a.md": b"a"}

    async def _use(self, place: Place, name: str) -> None:
        backend, path = place.backend, place.path(name)
        assert await backend.fetch(path, within=place.root) is ABSENT
        first = await backend.replace(path, b"one", expected=ABSENT, within=place.root)
        second = await backend.replace(path, b"two", expected=first, within=place.root)
        assert data_of(await backend.fetch(path, within=place.root)) == b"two"
        assert contents(await backend.snapshot(place.root, hidden=True)) == {name: b"two"}
        await backend.move(path, place.path(f"sub/{name}"), expected=second, within=place.root)
        assert contents(await backend.snapshot(place.root, hidden=True)) == {f"sub/{name}": b"two"}
        await backend.remove(place.path(f"sub/{name}"), expected=version_of(b"two"), within=place.root)
        assert contents(await backend.snapshot(place.root, hidden=True)) == {}
