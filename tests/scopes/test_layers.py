"""Several memories read together, of which one is written to."""

from pathlib import Path

import pytest

from agentic_memory.backends import InMemoryBackend
from agentic_memory.errors import BackendUnavailable, UnsafePath
from agentic_memory.layers import LayeredSnapshot, LayeredStore
from agentic_memory.section import render_section, share_out
from agentic_memory.store import MemoryStore
from agentic_memory.tokens import estimate_tokens

FILE = "---\nname: {name}\ndescription: {about}\ntype: project\n---\n{text}\n"


def plant(backend: InMemoryBackend, root: str, **files: str) -> None:
    for name, text in files.items():
        content = FILE.format(name=name, about=f"About {name}", text=text)
        backend.plant(f"{root}/{name}.md", content.encode())
    backend.plant(f"{root}/MEMORY.md", "".join(f"- [{name}]({name}.md) — {name}\n" for name in files).encode())


@pytest.fixture
def backend() -> InMemoryBackend:
    backend = InMemoryBackend()
    plant(backend, "/w/users/ann/Memory", deploy="Ann likes to deploy at noon.", tea="Ann drinks tea.")
    plant(backend, "/w/projects/p/Memory", deploy="The team never deploys on a Friday.")
    return backend


@pytest.fixture
def shared(backend) -> MemoryStore:
    return MemoryStore(workdir="/w/projects/p", backend=backend)


@pytest.fixture
def store(backend, shared) -> LayeredStore:
    return LayeredStore(name="user", beside={"project": shared}, workdir="/w/users/ann", backend=backend)


async def test_all_layers_are_seen_together_and_each_file_says_whose_it_is(store) -> None:
    snapshot = await store.load()
    assert list(snapshot.documents) == ["deploy.md", "project:deploy.md", "tea.md"]
    assert snapshot.scope_of("deploy.md") == "user"
    assert snapshot.scope_of("project:deploy.md") == "project"
    assert snapshot.path_of("project:deploy.md") == "/w/projects/p/Memory/deploy.md"
    assert "Friday" in (await store.get("project:deploy.md")).content
    assert [file.filename for file in await store.get_all()] == list(snapshot.documents)


async def test_a_load_is_one_round_trip_for_each_layer(store, backend) -> None:
    await store.load()
    before = backend.round_trips
    await store.load()
    assert backend.round_trips - before == 2


async def test_an_unchanged_memory_is_the_same_snapshot_for_every_store_of_the_place(tmp_path: Path) -> None:
    for folder in ("ann", "p"):
        await MemoryStore(workdir=str(tmp_path / folder)).add(name="a", description="d", type="user", content=folder)

    def make() -> LayeredStore:
        beside = {"project": MemoryStore(workdir=str(tmp_path / "p"))}
        return LayeredStore(name="user", beside=beside, workdir=str(tmp_path / "ann"))

    await make().load()
    first = await make().load()
    assert await make().load() is first
    (tmp_path / "p" / "Memory" / "a.md").write_text("changed")
    assert "changed" in (await make().load()).documents["project:a.md"][1].text


async def test_search_finds_files_of_every_layer(store) -> None:
    matches = await store.search("deploy noon Friday")
    assert {match.filename for match in matches} == {"deploy.md", "project:deploy.md"}
    assert "Friday" in next(match.passage for match in matches if match.filename == "project:deploy.md")


async def test_what_is_added_goes_to_the_one_layer_that_is_written_to(store, backend) -> None:
    file = await store.add(name="New", description="About new", type="user", content="New.")
    assert file.filename == "new.md"
    assert b"New." in await backend.read_file("/w/users/ann/Memory/new.md")
    assert b"new.md" not in await backend.read_file("/w/projects/p/Memory/MEMORY.md")


@pytest.mark.parametrize("verb", ["update", "put", "forget", "rename", "restore", "add"])
async def test_changing_another_layer_is_refused_with_the_reason(store, backend, verb) -> None:
    name, before = "project:deploy.md", await backend.read_file("/w/projects/p/Memory/deploy.md")
    calls = {
        "update": lambda: store.update(name, content="x"),
        "put": lambda: store.put(name, b"x", expected="0" * 64),
        "forget": lambda: store.forget(name),
        "rename": lambda: store.rename(name, "mine.md"),
        "restore": lambda: store.restore(name, "0" * 64),
        "add": lambda: store.add(name="n", description="d", type="user", content="c", filename=name),
    }
    with pytest.raises(UnsafePath, match=r"layer 'project', which is only read here.*write to the layer 'user'"):
        await calls[verb]()
    assert await backend.read_file("/w/projects/p/Memory/deploy.md") == before


async def test_own_files_are_changed_as_ever(store, backend) -> None:
    await store.update("deploy.md", content="Ann deploys at night.")
    await store.forget("tea.md")
    assert b"at night" in await backend.read_file("/w/users/ann/Memory/deploy.md")
    assert "tea.md" not in (await store.load()).documents


async def test_a_layer_that_cannot_be_read_is_not_taken_for_empty(tmp_path: Path, backend) -> None:
    broken = InMemoryBackend()
    broken.fail_next(100)
    store = LayeredStore(
        name="user",
        beside={"project": MemoryStore(workdir="/w/p", backend=broken)},
        workdir="/w/users/ann",
        backend=backend,
    )
    snapshot = await store.load()
    assert list(snapshot.documents) == ["deploy.md", "tea.md"]
    text = render_section(snapshot, instructions="I", max_tokens=1000).text
    assert "cannot be read right now: the in-memory backend was told to fail" in text
    assert await store.search("deploy")


async def test_a_memory_that_cannot_be_read_itself_is_an_error(shared) -> None:
    broken = InMemoryBackend()
    broken.fail_next(100)
    store = LayeredStore(name="user", beside={"project": shared}, workdir="/w/users/ann", backend=broken)
    with pytest.raises(BackendUnavailable):
        await store.load()


async def test_a_successor_is_looked_for_in_the_files_own_layer(store, backend) -> None:
    old = "---\nname: Old\ndescription: d\nsuperseded_by: deploy.md\n---\nold\n"
    backend.plant("/w/projects/p/Memory/old.md", old.encode())
    snapshot = await store.load()
    assert snapshot.successor_of("project:old.md") == "project:deploy.md"


async def test_a_file_of_our_own_named_like_another_layers_keeps_its_name(store, backend) -> None:
    backend.plant("/w/users/ann/Memory/project:deploy.md", FILE.format(name="x", about="y", text="mine").encode())
    snapshot = await store.load()
    assert snapshot.scope_of("project:deploy.md") == "user"
    assert snapshot.documents["project:deploy.md"][1].body.strip() == "mine"


async def test_problems_name_the_layer(store, backend) -> None:
    backend.plant("/w/projects/p/Memory/bad.md", b"---\nname: [\n---\nx\n")
    snapshot = await store.load()
    assert "project:bad.md" in {problem.file for problem in snapshot.problems}


# ------------------------------------------------------------------ the section


async def test_the_section_shows_each_index_with_its_scope(store) -> None:
    section = render_section(await store.load(), instructions="In {memory_dir}.", max_tokens=1000)
    assert section.text.startswith("In /w/users/ann/Memory.")
    assert 'file="/w/users/ann/Memory/MEMORY.md" scope="user"' in section.text
    assert 'file="/w/projects/p/Memory/MEMORY.md" scope="project"' in section.text
    assert section.text.index('scope="user"') < section.text.index("not change them") < section.text.index('"project"')
    assert [shown.filename for shown in section.indexes] == ["MEMORY.md", "project:MEMORY.md"]


async def test_the_layers_share_the_index_budget(store, backend) -> None:
    long = "".join(f"- [Entry {n}](entry{n}.md) — about the number {n}\n" for n in range(2000))
    backend.plant("/w/projects/p/Memory/MEMORY.md", long.encode())
    snapshot = await store.load()
    assert isinstance(snapshot, LayeredSnapshot)
    section = render_section(snapshot, instructions="", max_tokens=1000)
    own, project = section.indexes
    assert own.complete
    assert project.cut_lines
    assert estimate_tokens(section.text) < 1300
    assert estimate_tokens(project.text) > 700


@pytest.mark.parametrize(
    ("total", "needed", "shares"),
    [(100, [10, 500], [50, 90]), (100, [500, 500], [50, 50]), (99, [0, 0, 0], [33, 49, 99]), (0, [5, 5], [0, 0])],
)
def test_a_budget_is_shared_by_need(total, needed, shares) -> None:
    given = share_out(total, needed)
    assert given == shares
    assert sum(map(min, given, needed)) <= total
