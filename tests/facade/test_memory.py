"""``Memory``: what Mem0's users call and get, and the files it leaves."""

import asyncio
import hashlib
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from teaching import decisions, facts, model

from agentic_memory import AgenticMemoryMiddleware, Identity, Memory, MemoryNotFound, MissingIdentity
from agentic_memory.backends import InMemoryBackend
from agentic_memory.document import parse_document
from agentic_memory.errors import InvalidMemory, UnsafePath
from agentic_memory.facade.owners import Owner, find_place
from agentic_memory.facade.records import metadata_fields, read_metadata
from agentic_memory.rendering import render_document

TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "I live in Hangzhou.", "name": "Alice"},
    {"role": "assistant", "content": "Noted."},
    {"role": "user", "content": [{"type": "image"}]},
]


@pytest.fixture
def backend():
    return InMemoryBackend()


@pytest.fixture
def memory(backend):
    return Memory(workdir="/w", backend=backend)


async def paths(backend):
    return [record.path for record in (await backend.snapshot("/w", suffix=".md")).files if "/." not in record.path]


def texts(answer):
    return [record["memory"] for record in answer["results"]]


async def test_a_text_becomes_a_file_that_people_and_the_middleware_find(memory, backend, tmp_path):
    answer = await memory.add("Likes green tea.", user_id="alice")
    assert answer == {
        "results": [{"id": "users/alice/likes_green_tea.md", "memory": "Likes green tea.", "event": "ADD"}]
    }
    assert await paths(backend) == ["users/alice/Memory/MEMORY.md", "users/alice/Memory/likes_green_tea.md"]
    middleware = AgenticMemoryMiddleware(
        workdir="/w", backend=backend, scope="user", identity=Identity(user_id="alice")
    )
    assert [file.name for file in await middleware.store.get_all()] == ["Likes green tea"]


async def test_each_message_but_the_systems_is_kept_with_who_said_it(memory):
    answer = await memory.add(TALK, user_id="alice", infer=False)
    assert answer["results"] == [
        {
            "id": "users/alice/i_live_in_hangzhou.md",
            "memory": "I live in Hangzhou.",
            "event": "ADD",
            "actor_id": "Alice",
            "role": "user",
        },
        {"id": "users/alice/noted.md", "memory": "Noted.", "event": "ADD", "actor_id": None, "role": "assistant"},
    ]
    record = await memory.get("users/alice/i_live_in_hangzhou.md")
    assert (record["actor_id"], record["role"]) == ("Alice", "user")


async def test_a_record_has_the_shape_that_is_known(memory):
    (added,) = (await memory.add("Has a dog.", user_id="a", agent_id="b", metadata={"n": 5, "tags": ["x"]}))["results"]
    record = await memory.get(added["id"])
    assert {key: value for key, value in record.items() if not key.endswith("_at")} == {
        "id": "users/a/has_a_dog.md",
        "memory": "Has a dog.",
        "hash": hashlib.md5(b"Has a dog.").hexdigest(),
        "metadata": {"n": 5, "tags": ["x"]},
        "user_id": "a",
        "agent_id": "b",
    }
    assert datetime.fromisoformat(record["created_at"]) <= datetime.now(UTC)
    assert datetime.fromisoformat(record["updated_at"]).tzinfo is not None
    assert await memory.get("users/a/nothing.md") is None


async def test_the_same_text_is_kept_once_and_says_so(memory):
    await memory.add("Has a dog.", user_id="a")
    answer = await memory.add([{"role": "user", "content": "Has  a dog. "}], user_id="a")
    assert [record["event"] for record in answer["results"]] == ["NONE"]
    assert texts(await memory.get_all(user_id="a")) == ["Has a dog."]


async def test_with_a_model_facts_are_learnt_and_decided_on(backend):
    answers = [
        facts("Lives in Hangzhou."),
        facts("Lives in Suzhou."),
        decisions({"operation": "UPDATE", "fact": 1, "memory": 1, "replaces": "Lives in Hangzhou."}),
    ]
    memory = Memory(workdir="/w", backend=backend, model=model(*answers))
    (first,) = (await memory.add(TALK, user_id="a", agent_id="x", metadata={"n": 1}))["results"]
    assert (first["memory"], first["event"]) == ("Lives in Hangzhou.", "ADD")
    record = await memory.get(first["id"])
    assert (record["metadata"], record["agent_id"]) == ({"n": 1}, "x")
    assert record["created_at"]
    (second,) = (await memory.add("I moved to Suzhou.", user_id="a"))["results"]
    assert second == {"id": first["id"], "memory": "Lives in Suzhou.", "event": "UPDATE"}
    assert (await memory.add("As it is.", user_id="a", infer=False))["results"][0]["memory"] == "As it is."


async def test_a_model_that_fails_loses_nothing_and_says_so(backend):
    memory = Memory(workdir="/w", backend=backend, model=model(RuntimeError("no"), RuntimeError("no")))
    answer = await memory.add("I live in Hangzhou.", user_id="a")
    assert (answer["results"], answer["status"]) == ([], "waiting")
    assert answer["error"]
    assert (await memory.get_all(user_id="a")) == {"results": []}


async def test_two_adds_of_one_text_at_once_leave_one(memory):
    answers = await asyncio.gather(*(memory.add("Has a dog.", user_id="a") for _ in range(4)))
    assert sorted(answer["results"][0]["event"] for answer in answers) == ["ADD", "NONE", "NONE", "NONE"]
    assert len((await memory.get_all(user_id="a"))["results"]) == 1


async def test_nobody_sees_what_belongs_to_somebody_else(memory):
    for user in ("alice", "Alice", "alice/../bob", "bob", "_", "é"):
        await memory.add(f"Secret of {user}", user_id=user)
    for user in ("alice", "Alice", "alice/../bob", "bob", "_", "é"):
        assert texts(await memory.get_all(user_id=user)) == [f"Secret of {user}"]
        found = await memory.search("secret", user_id=user)
        assert [(record["memory"], record["user_id"]) for record in found["results"]] == [(f"Secret of {user}", user)]


async def test_further_ids_and_metadata_narrow_what_is_found(memory):
    await memory.add("Tea at work.", user_id="a", agent_id="x", metadata={"topic": "work"})
    await memory.add("Tea at home.", user_id="a", run_id="r")
    assert texts(await memory.get_all(filters={"user_id": "a", "agent_id": "x"})) == ["Tea at work."]
    assert texts(await memory.search("tea", filters={"user_id": "a", "topic": "work"})) == ["Tea at work."]
    assert texts(await memory.search("tea", user_id="a", run_id="r")) == ["Tea at home."]
    assert len(texts(await memory.search("tea", user_id="a"))) == 2


async def test_an_agent_and_a_run_have_memories_of_their_own(memory, backend):
    await memory.add("Be brief.", agent_id="helper")
    await memory.add("Step 3 is next.", run_id="r1")
    assert texts(await memory.get_all(agent_id="helper")) == ["Be brief."]
    assert texts(await memory.get_all(run_id="r1")) == ["Step 3 is next."]
    assert texts(await memory.get_all(user_id="helper")) == []
    assert [path for path in await paths(backend) if "MEMORY" not in path] == [
        "agents/helper/_/Memory/be_brief.md",
        "sessions/r1/Memory/step_3_is_next.md",
    ]


async def test_a_search_gives_falling_scores_and_heeds_limit_and_threshold(memory):
    for text in ("Green tea in the morning.", "Black tea at noon.", "A dog."):
        await memory.add(text, user_id="a")
    results = (await memory.search("green tea", user_id="a"))["results"]
    scores = [record["score"] for record in results]
    assert results[0]["memory"] == "Green tea in the morning."
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    assert len(texts(await memory.search("tea", user_id="a", limit=1))) == 1
    assert texts(await memory.search("green tea", user_id="a", threshold=scores[0])) == texts({"results": results[:1]})
    assert await memory.search("zeppelin", user_id="a") == await memory.search(" ", user_id="a") == {"results": []}


async def test_an_update_keeps_the_id_and_what_a_person_worded(memory, backend):
    (added,) = (await memory.add("Likes tea.", user_id="a", metadata={"n": 1}))["results"]
    assert await memory.update(added["id"], "Likes coffee.") == {"message": "Memory updated successfully!"}
    store = memory.store_of(user_id="a")
    file = await store.get("likes_tea.md")
    assert (file.name, file.description, file.content) == ("Likes coffee", "Likes coffee.", "Likes coffee.\n")
    await store.update("likes_tea.md", name="Drinks")
    await memory.update(added["id"], data="Likes water.", metadata={"n": 2})
    record = await memory.get(added["id"])
    assert (record["memory"], record["metadata"]) == ("Likes water.", {"n": 2})
    assert (await store.get("likes_tea.md")).name == "Drinks"


async def test_the_history_tells_old_and_new_and_outlives_the_memory(memory):
    (added,) = (await memory.add("Likes tea.", user_id="a"))["results"]
    await memory.update(added["id"], "Likes coffee.")
    assert await memory.delete(added["id"]) == {"message": "Memory deleted successfully!"}
    assert await memory.get(added["id"]) is None
    changes = await memory.history(added["id"])
    assert [
        (change["event"], change["old_memory"], change["new_memory"], change["is_deleted"]) for change in changes
    ] == [
        ("ADD", None, "Likes tea.", False),
        ("UPDATE", "Likes tea.", "Likes coffee.", False),
        ("DELETE", "Likes coffee.", None, True),
    ]
    assert len({change["id"] for change in changes}) == 3
    assert json.dumps(changes)


async def test_delete_all_and_reset_leave_the_trash(memory, backend):
    await memory.add("One.", user_id="a")
    await memory.add("Two.", user_id="a", agent_id="x")
    await memory.add("Three.", user_id="b")
    await memory.add("Four.", agent_id="x")
    assert await memory.delete_all(user_id="a", agent_id="x") == {"message": "Memories deleted successfully!"}
    assert texts(await memory.get_all(user_id="a")) == ["One."]
    await memory.reset()
    for ids in ({"user_id": "a"}, {"user_id": "b"}, {"agent_id": "x"}):
        assert await memory.get_all(**ids) == {"results": []}
    for place in ("users/a/one.md", "users/a/two.md", "users/b/three.md", "agents/x/four.md"):
        assert [change["event"] for change in await memory.history(place)] == ["ADD", "DELETE"]
    await memory.reset()


@pytest.mark.parametrize("call", ["get_all", "delete_all"])
async def test_without_an_id_nothing_is_done(memory, call):
    with pytest.raises(MissingIdentity, match="give user_id, agent_id or run_id"):
        await getattr(memory, call)()
    with pytest.raises(MissingIdentity, match="user_id is ''"):
        await getattr(memory, call)(user_id="")
    with pytest.raises(MissingIdentity):
        await memory.add("x", user_id=5)


@pytest.mark.parametrize("messages", ["", "  ", [], {"role": "system", "content": "x"}, [{"role": "user"}]])
async def test_nothing_to_add_says_what_to_give(memory, messages):
    with pytest.raises(InvalidMemory, match="there is nothing to add"):
        await memory.add(messages, user_id="a")


@pytest.mark.parametrize("key", ["type", "name", "agent_id", "a: b", "", "metadata"])
async def test_metadata_that_would_mean_something_else_is_refused(memory, key):
    with pytest.raises(InvalidMemory, match="metadata cannot be called"):
        await memory.add("x", user_id="a", metadata={key: 1})


@pytest.mark.parametrize(
    "memory_id",
    [
        "",
        "x",
        "users/a",
        "users//a.md",
        "users/../a.md",
        "users/A/a.md",
        "etc/a/b.md",
        "users/%61/a.md",
        "users/=zz/a.md",
    ],
)
async def test_an_id_that_no_memory_has_is_not_found(memory, memory_id):
    assert await memory.get(memory_id) is None
    for call in (memory.delete, memory.history):
        with pytest.raises(MemoryNotFound):
            await call(memory_id)
    with pytest.raises(MemoryNotFound):
        await memory.update(memory_id, "x")


async def test_an_id_does_not_lead_out_of_its_directory(memory):
    await memory.add("Secret.", user_id="b")
    for filename in ("../../b/Memory/secret.md", "/etc/passwd.md", "MEMORY.md", ".history/x.md"):
        with pytest.raises(UnsafePath):
            await memory.delete(f"users/a/{filename}")


@given(st.text(min_size=1).filter(lambda text: text.strip()))
def test_any_id_is_found_again_by_the_ids_of_its_memories(user):
    owner = Owner.of({"user_id": user})
    assert find_place(owner.id_of("a.md")) == (owner, "a.md")
    assert "=-" in owner.name or owner.ids == {"user_id": user}, "of a long id only a hash is kept"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
)


@given(JSON)
def test_metadata_comes_back_as_it_was_given(value):
    fields = metadata_fields({"m": value})
    try:
        data = render_document(name="n", description="d", type="t", content="c", extra=fields)
    except ValueError:
        return  # half of a character cannot be stored
    assert read_metadata(parse_document(data).fields) == {"m": value}
