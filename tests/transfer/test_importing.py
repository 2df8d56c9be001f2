"""Importing into a memory: once, over nothing, in one change; and exporting it whole."""

import asyncio
import io
import json
import zipfile

import pytest

from agentic_memory import MemoryStore, draft
from agentic_memory.backends import ABSENT, InMemoryBackend
from agentic_memory.errors import InvalidMemory
from agentic_memory.index import add_entries
from agentic_memory.transfer.exporting import export_json, export_zip
from agentic_memory.transfer.formats import PARSERS, detect_format
from agentic_memory.transfer.importing import choose_owner, import_items
from agentic_memory.transfer.items import Item, Parsed


@pytest.fixture
def store():
    return MemoryStore(workdir="/w", backend=InMemoryBackend())


def items(*texts, **more):
    return Parsed(tuple(Item(key=f"mem0:{number}", content=text, **more) for number, text in enumerate(texts)))


async def bytes_in(store):
    tree = await store.backend.snapshot("/w/Memory", suffix=".md")
    return {record.path: record.data for record in tree.files if not record.path.startswith(".")}


async def statuses(store, parsed, *, apply=True):
    return [arrival.status for arrival in (await import_items(store, parsed, apply=apply)).arrivals]


async def test_without_apply_nothing_is_written(store):
    report = await import_items(store, items("Likes tea."), apply=False)
    assert [(one.status, one.filename, one.title) for one in report.arrivals] == [("new", "likes_tea.md", "Likes tea")]
    assert await bytes_in(store) == {}


async def test_what_is_new_is_added_in_one_change_with_its_source_and_its_line(store):
    report = await import_items(store, items("Likes tea.", "Has a dog.", fields={"created": "2026-01-02"}), apply=True)
    assert (await bytes_in(store))["likes_tea.md"] == (
        b'---\nname: Likes tea\ndescription: Likes tea.\ntype: user\ncreated: "2026-01-02"\n'
        b"imported_from: mem0:0\n---\n\nLikes tea.\n"
    )
    assert (await store.load()).index.text.count("\n") == 2
    versions = await store.history("has_a_dog.md")
    assert versions[0].why == "imported"
    assert {versions[0].transaction, (await store.history("likes_tea.md"))[0].transaction} == {report.transaction}


async def test_importing_twice_imports_nothing_twice_also_when_a_person_changed_it_since(store):
    assert await statuses(store, items("Likes tea.", "Has a dog.")) == ["new", "new"]
    await store.update("likes_tea.md", name="Tea", content="Likes black tea.")
    await store.rename("has_a_dog.md", "pets.md")
    before = await bytes_in(store)
    assert await statuses(store, items("Likes tea.", "Has a dog.")) == ["imported before", "imported before"]
    assert await bytes_in(store) == before


async def test_the_same_text_is_not_added_beside_itself_whoever_wrote_it(store):
    await store.add(name="Mine", description="d", type="user", content="Likes tea.")
    report = await import_items(store, items("Likes  tea.\n", "Has a dog.", "Has a dog."), apply=True)
    assert [(one.status, one.filename) for one in report.arrivals] == [
        ("same text", "mine.md"),
        ("new", "has_a_dog.md"),
        ("same text", "has_a_dog.md"),
    ]


async def test_a_name_that_is_taken_gets_a_number_and_nothing_is_overwritten(store):
    await store.add(name="Tea", description="d", type="user", content="Mine.", filename="tea.md")
    report = await import_items(store, items("One.", "Two.", name="Tea", filename="TEA.md"), apply=True)
    assert [one.filename for one in report.new] == ["TEA_2.md", "TEA_3.md"]
    assert (await store.get("tea.md")).content == "Mine.\n"


async def test_what_cannot_be_stored_is_refused_by_name_and_the_rest_goes_in(store):
    huge = "word " * 220_000
    report = await import_items(store, items("Likes tea.", "nul \0", "  ", huge, "half \ud800"), apply=True)
    assert [one.status for one in report.arrivals] == ["new", "refused", "refused", "refused", "refused"]
    assert all(one.reason for one in report.arrivals[1:])
    assert list(await bytes_in(store)) == ["MEMORY.md", "likes_tea.md"]


@pytest.mark.parametrize("filename", ["../x.md", "/etc/x.md", "MEMORY.md", ".history/x.md", "x.txt", "a\0b.md"])
async def test_a_file_name_in_a_source_leads_nowhere_else(store, filename):
    assert await statuses(store, items("Likes tea.", filename=filename)) == ["refused"]
    assert await bytes_in(store) == {}


async def test_the_index_is_read_once_for_any_number_of_new_memories(store, monkeypatch):
    reads = []
    monkeypatch.setattr(
        draft, "add_entries", lambda text, entries: reads.append(len(entries)) or add_entries(text, entries)
    )
    await import_items(store, items(*(f"Fact number {number}." for number in range(30))), apply=True)
    assert reads == [30]
    assert len((await store.load()).index.entries) == 30


async def test_two_imports_at_once_leave_one_of_each(store):
    other = MemoryStore(workdir="/w", backend=store.backend)
    parsed = items(*(f"Fact number {number}." for number in range(20)))
    await asyncio.gather(*(import_items(each, parsed, apply=True) for each in (store, other)))
    assert len(await store.get_all()) == 20


async def test_odd_keys_and_fields_do_not_break_the_file(store):
    fields = {"a: b": "x", "type": "y", "metadata": "z", "imported_from": "evil", "ok": "1\n2", "empty": ""}
    parsed = Parsed((Item(key="k\n" * 200, content="x", fields=fields),))
    assert await statuses(store, parsed) == ["new"]
    assert await statuses(store, parsed) == ["imported before"]
    (file,) = await store.get_all()
    assert file.fields["ok"] == "1 2"
    assert set(file.fields) == {"name", "description", "type", "ok", "imported_from"}


def test_memories_of_several_users_are_not_mixed():
    mixed = [Item(key=owner, content=owner, owner=owner) for owner in ("alice", "bob", "alice")]
    with pytest.raises(InvalidMemory, match=r"2 users \(alice, bob\): choose one with --source-user"):
        choose_owner(mixed, None)
    assert len(choose_owner(mixed, "alice")) == 2
    with pytest.raises(InvalidMemory, match="no memories of 'carol'"):
        choose_owner(mixed, "carol")
    assert choose_owner(mixed[:1], None) == (mixed[0],)


# ------------------------------------------------------------------ export


async def test_json_and_zip_come_back_as_they_went(store):
    await store.add(name="Tea: green", description="When it is hot", type="user", content="Likes 茶.\n\n- a\n")
    await store.backend.replace("/w/Memory/raw.md", b"\xff\xfe\r\nbytes", expected=ABSENT)
    snapshot = await store.load()
    assert export_zip(snapshot) == export_zip(snapshot)
    with zipfile.ZipFile(io.BytesIO(export_zip(snapshot))) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == await bytes_in(store)
    for form, files in {
        "agentic-memory": {"m.json": export_json(snapshot).encode()},
        "claude-code": {name: data for name, data in (await bytes_in(store)).items() if name != "raw.md"},
    }.items():
        other = MemoryStore(workdir="/other", backend=InMemoryBackend())
        assert detect_format(files) == form
        await import_items(other, PARSERS[form](files), apply=True)
        file = await other.get("tea_green.md")
        assert (file.name, file.description, file.content) == ("Tea: green", "When it is hot", "Likes 茶.\n\n- a\n")


async def test_an_empty_memory_is_exported_as_an_empty_one(store):
    assert json.loads(export_json(await store.load()))["memories"] == []
    assert zipfile.ZipFile(io.BytesIO(export_zip(await store.load()))).namelist() == []
