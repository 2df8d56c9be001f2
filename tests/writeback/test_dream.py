"""What a dream tidies up, what it leaves alone, and that it is all or nothing."""

from datetime import UTC, datetime, timedelta

import pytest
from scripted import ScriptedModel
from teaching import decisions

from agentic_memory.store import MemoryStore
from agentic_memory.writeback.dreaming import dream

LONG = "The user likes green tea from Longjing, oolong from Anxi, and black tea from Qimen, in this order, every day."
NEAR = LONG.replace("every day", "every morning")


@pytest.fixture
def agent(backend) -> MemoryStore:
    """A program that writes: what it writes is its own."""
    return MemoryStore(workdir="/w", backend=backend)


@pytest.fixture
def person(backend) -> MemoryStore:
    return MemoryStore(workdir="/w", backend=backend, who="person")


async def add(store, name, content, **fields) -> None:
    await store.add(
        name=name, description=fields.pop("description", f"When it is about {name}"), type="user", content=content
    )
    if fields:
        from agentic_memory.operations import Update

        await store.apply([Update(filename=f"{name.lower()}.md", fields=fields)])


async def bodies(store) -> dict[str, str]:
    return {file.filename: file.content for file in await store.get_all()}


async def kinds(store, **options) -> list[tuple[str, tuple[str, ...]]]:
    return [(change.kind, change.filenames) for change in (await dream(store, **options)).changes]


async def test_a_dream_changes_nothing_unless_told_to(agent) -> None:
    await add(agent, "Old", "Fair in town.", expires="2020-01-01")
    before = await agent.backend.snapshot("/w", hidden=True)
    report = await dream(agent)
    assert [change.kind for change in report.changes] == ["archive"]
    assert not report.applied
    assert (await agent.backend.snapshot("/w", hidden=True)).files == before.files


async def test_what_expired_goes_to_the_archive_and_out_of_the_index(agent) -> None:
    await add(agent, "Old", "Fair in town.", expires="2020-01-01")
    await add(agent, "New", "Fair next year.", expires="2999-01-01")
    report = await dream(agent, apply=True)
    assert report.applied
    assert list(await bodies(agent)) == ["new.md"]
    assert b"Fair in town." in await agent.backend.read_file("/w/Memory/.archive/old.md")
    assert (await agent.load()).index.find("old.md") is None
    assert (await agent.history("old.md"))[0].who == "consolidation"


@pytest.mark.parametrize("mark", ["pinned", "locked"])
async def test_what_is_pinned_or_locked_stays(agent, mark) -> None:
    await add(agent, "Old", "Fair in town.", expires="2020-01-01", **{mark: "true"})
    assert await kinds(agent) == []


async def test_of_copies_the_one_a_person_wrote_stays(agent, person) -> None:
    await add(agent, "Copy", LONG)
    await add(person, "Tea", LONG)
    report = await dream(agent, apply=True)
    assert [(change.kind, change.filenames) for change in report.changes] == [("forget-copy", ("tea.md", "copy.md"))]
    assert list(await bodies(agent)) == ["tea.md"]


async def test_copies_that_people_wrote_are_left_to_people(agent, person) -> None:
    await add(person, "Copy", LONG)
    await add(person, "Tea", LONG)
    report = await dream(agent, apply=True)
    assert report.changes == ()
    assert "a person has to decide" in report.left[0]


async def test_near_copies_need_a_model(agent) -> None:
    await add(agent, "One", LONG)
    await add(agent, "Two", NEAR)
    report = await dream(agent)
    assert report.changes == ()
    assert "say nearly the same" in report.left[0]


async def test_a_model_merges_near_copies(agent) -> None:
    await add(agent, "One", LONG)
    await add(agent, "Two", NEAR)
    merged = f"{LONG} Also every morning."
    model = ScriptedModel(selections=[decisions({"operation": "MERGE", "memory": 1, "others": [2], "text": merged})])
    report = await dream(agent, model=model, apply=True)
    assert [change.kind for change in report.changes] == ["merge"]
    assert await bodies(agent) == {"one.md": f"{merged}\n"}
    assert report.cost.calls == 1


async def test_a_merge_that_loses_words_is_not_made(agent) -> None:
    await add(agent, "One", LONG)
    await add(agent, "Two", NEAR)
    model = ScriptedModel(
        selections=[decisions({"operation": "MERGE", "memory": 1, "others": [2], "text": "Likes tea."})]
    )
    assert (await dream(agent, model=model, apply=True)).changes == ()
    assert len(await bodies(agent)) == 2


async def test_relative_dates_are_written_out_by_the_day_the_memory_was_written(agent) -> None:
    await add(agent, "Launch", "The launch is tomorrow.")
    day = (await agent.history("launch.md"))[0].when.astimezone().date() + timedelta(days=1)
    report = await dream(agent, apply=True, now=datetime.now(UTC) + timedelta(days=40))
    assert [change.kind for change in report.changes] == ["date"]
    assert await bodies(agent) == {"launch.md": f"The launch is {day}.\n"}


async def test_dates_that_a_person_wrote_stay(agent, person) -> None:
    await add(person, "Launch", "The launch is tomorrow.")
    assert await kinds(agent) == []


async def test_a_long_memory_becomes_one_for_each_section_and_loses_no_line(agent) -> None:
    sections = "".join(f"## Part {number}\n\n" + f"line {number} of the notes\n" * 150 + "\n" for number in range(4))
    await add(agent, "Notes", f"Introduction.\n\n{sections}")
    report = await dream(agent, apply=True)
    assert [change.kind for change in report.changes] == ["split"]
    after = await bodies(agent)
    assert len(after) == 5
    assert after["notes.md"].startswith("Introduction.\n\n- [[Notes: Part 0]]\n")
    whole = "\n".join(after.values())
    assert all(whole.count(f"line {number} of the notes\n") == 150 for number in range(4))
    assert len((await agent.load()).index.entries) == 5
    assert await kinds(agent) == []


async def test_a_model_turns_topics_into_situations(agent) -> None:
    await add(agent, "Tea", "Likes Longjing.", description="Tea")
    answer = {"descriptions": [{"memory": 1, "description": "When offering the user a drink"}], "complete": True}
    report = await dream(agent, model=ScriptedModel(selections=[answer]), apply=True)
    assert [change.kind for change in report.changes] == ["describe"]
    (file,) = await agent.get_all()
    assert file.description == "When offering the user a drink"
    assert (await agent.load()).index.find("tea.md").hook == "When offering the user a drink"


@pytest.mark.parametrize(
    "item", [{"memory": 7, "description": "When offering"}, {"memory": 1, "description": "Tea"}, {}]
)
async def test_a_description_that_is_none_is_not_taken(agent, item) -> None:
    await add(agent, "Tea", "Likes Longjing.", description="Tea")
    model = ScriptedModel(selections=[{"descriptions": [item], "complete": True}])
    assert (await dream(agent, model=model, apply=True)).changes == ()


async def test_an_edit_made_while_the_model_thinks_survives(agent, person) -> None:
    await add(agent, "Old", "Fair in town.", expires="2020-01-01")
    await add(agent, "Tea", "Likes Longjing.", description="Tea")

    async def meanwhile(call):
        await person.update("old.md", content="Fair in town, every year.\n")
        return {"descriptions": [{"memory": 1, "description": "When offering the user a drink"}], "complete": True}

    report = await dream(agent, model=ScriptedModel(selections=[meanwhile]), apply=True)
    assert [change.kind for change in report.changes] == ["describe"]
    assert [change.kind for change in report.overtaken] == ["archive"]
    assert (await bodies(agent))["old.md"] == "Fair in town, every year.\n"


async def test_a_model_that_fails_leaves_everything_as_it_was(agent) -> None:
    await add(agent, "Old", "Fair in town.", expires="2020-01-01")
    await add(agent, "Tea", "Likes Longjing.", description="Tea")
    before = await bodies(agent)
    with pytest.raises(RuntimeError, match="down"):
        await dream(agent, model=ScriptedModel([RuntimeError("down")], selections=[RuntimeError("down")]), apply=True)
    assert await bodies(agent) == before


async def test_a_dream_is_bounded_and_says_what_it_left(agent) -> None:
    for number in range(5):
        await add(agent, f"Old{number}", f"Fair number {number}.", expires="2020-01-01")
    report = await dream(agent, apply=True, most=2)
    assert len(report.changes) == 2
    assert len(report.left) == 3
    assert len(await bodies(agent)) == 3


async def test_a_dream_is_one_undo(agent) -> None:
    await add(agent, "Old", "Fair in town.", expires="2020-01-01")
    await add(agent, "Launch", "The launch is tomorrow.")
    before = await bodies(agent)
    report = await dream(agent, apply=True)
    assert len(report.changes) == 2
    await agent.undo(report.transaction)
    assert await bodies(agent) == before


async def test_a_dream_of_an_empty_memory_is_empty(agent) -> None:
    assert (await dream(agent, apply=True)).changes == ()


@pytest.fixture
async def listed(agent) -> MemoryStore:
    for name in ("One", "Two", "Three"):
        await add(agent, name, f"{name} is a number.")
    return agent


async def index_of(store) -> list[str]:
    return [entry.filename for entry in (await store.load()).index.entries]


async def test_the_index_comes_into_the_order_of_use_and_back(listed) -> None:
    await listed.note_use(["three.md"])
    await listed.note_use(["three.md", "two.md"])
    told = await dream(listed)
    assert [(change.kind, change.filenames) for change in told.changes] == [("order", ("MEMORY.md",))]
    assert await index_of(listed) == ["one.md", "two.md", "three.md"]
    report = await dream(listed, apply=True)
    assert await index_of(listed) == ["three.md", "two.md", "one.md"]
    assert await kinds(listed) == []
    await listed.undo(report.transaction)
    assert await index_of(listed) == ["one.md", "two.md", "three.md"]


async def test_an_index_that_nobody_used_keeps_its_order(listed) -> None:
    await listed.note_use(["gone.md"])
    report = await dream(listed)
    assert (report.changes, report.left) == ((), ())


async def test_the_order_of_an_index_that_a_person_wrote_in_is_theirs(listed, person) -> None:
    text = (await listed.load()).index_document.text
    await listed.backend.write_file("/w/Memory/MEMORY.md", f"# Mine\n\n{text}".encode())
    await listed.note_use(["three.md"])
    report = await dream(listed, apply=True)
    assert report.changes == ()
    assert report.left == ("MEMORY.md is not in the order of use; a person wrote in it",)
    assert await index_of(listed) == ["one.md", "two.md", "three.md"]


async def test_the_order_counts_among_the_changes_and_goes_with_the_others(listed) -> None:
    await add(listed, "Old", "Fair in town.", expires="2020-01-01")
    await listed.note_use(["three.md"])
    one = await dream(listed, most=1)
    assert [change.kind for change in one.changes] == ["archive"]
    assert one.left == ("order MEMORY.md: over the number of changes of one dream",)
    report = await dream(listed, apply=True)
    assert [change.kind for change in report.changes] == ["archive", "order"]
    assert await index_of(listed) == ["three.md", "one.md", "two.md"]


async def test_an_order_thought_out_on_another_index_is_left_out(listed, person) -> None:
    await add(listed, "Tea", "Likes Longjing.", description="Tea")
    await listed.note_use(["three.md"])

    async def meanwhile(call):
        await person.add(name="Four", description="When it is about four", type="user", content="Four.")
        return {"descriptions": [{"memory": 1, "description": "When offering the user a drink"}], "complete": True}

    report = await dream(listed, model=ScriptedModel(selections=[meanwhile]), apply=True)
    assert await index_of(listed) == ["one.md", "two.md", "three.md", "tea.md", "four.md"]
    assert [change.kind for change in report.changes] == ["describe"]
