"""One instance for many people: whose memory a reply reads and writes, and whose it never does."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agentscope.agent import Agent
from agentscope.message import UserMsg
from scripted import ScriptedModel, call_tool

from agentic_memory import AgenticMemoryMiddleware, Identity, Layer, MissingIdentity, UnsafePath
from agentic_memory.backends import InMemoryBackend
from agentic_memory.errors import BackendUnavailable
from agentic_memory.selection.by_words import LexicalSelector
from agentic_memory.tools import Read

Parameters = AgenticMemoryMiddleware.Parameters
FILE = "---\nname: Word of {name}\ndescription: The word of {name}\ntype: user\n---\nThe word is {name}-word.\n"


def results_of(agent: Agent) -> list[str]:
    """Return what the tools answered so far."""
    blocks: list[Any] = [
        block for message in agent.state.context for block in message.get_content_blocks("tool_result")
    ]
    return [
        block.output if isinstance(block.output, str) else "".join(part.text for part in block.output)
        for block in blocks
    ]


def remember(directory: Path, name: str, text: str = FILE) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "word.md").write_text(text.format(name=name), encoding="utf-8")
    (directory / "MEMORY.md").write_text(f"- [Word](word.md) — the word of {name}\n", encoding="utf-8")


def by_name(agent) -> Identity:
    """Tell whose an agent is, as a host that names its agents after its users would."""
    return Identity(user_id=agent.name)


# ------------------------------------------------------------------ who


@pytest.mark.parametrize(
    ("scope", "identity", "path"),
    [
        ("user", Identity(user_id="Ann"), "users/=41nn"),
        ("agent", Identity(user_id="ann", agent_id="bot"), "agents/bot/ann"),
        ("project", Identity(project_id="p.1"), "projects/p.1"),
        ("session", None, "sessions/s-7"),
        ("session", Identity(session_id="other"), "sessions/other"),
        ("tenants/{project_id}/{user_id}", Identity(user_id="..", project_id="t"), "tenants/t/=2e=2e"),
    ],
)
async def test_each_scope_has_a_directory_of_its_own(tmp_path, make_agent, scope, identity, path) -> None:
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope=scope, identity=identity)
    agent = make_agent(ScriptedModel(["Ok."]), memory, session="s-7")
    await agent.reply(UserMsg("user", "Hello, what is my word?"))
    assert memory.receipt(agent).memory_dir == str(tmp_path / path / "Memory")
    assert [file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.md")] == [f"{path}/Memory/MEMORY.md"]


async def test_without_a_scope_nothing_changes(tmp_path, make_agent) -> None:
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path))
    agent = make_agent(ScriptedModel(["Ok."]), memory)
    await agent.reply(UserMsg("user", "Hello, what is my word?"))
    assert memory.receipt(agent).memory_dir == str(tmp_path / "Memory")
    assert memory.store_of(agent) is memory.store_of(agent.state) is memory.store


@pytest.mark.parametrize(
    ("scope", "identity", "needs"),
    [
        ("user", None, "user_id"),
        ("user", Identity(user_id=""), "user_id"),
        ("agent", Identity(user_id="ann"), "agent_id"),
        ("agent", Identity(), "user_id and agent_id|agent_id and user_id"),
        ("project", Identity(user_id="ann"), "project_id"),
    ],
)
def test_nobodys_memory_is_an_error_at_once(tmp_path, scope, identity, needs) -> None:
    with pytest.raises(MissingIdentity, match=needs):
        AgenticMemoryMiddleware(workdir=str(tmp_path), scope=scope, identity=identity)
    assert list(tmp_path.iterdir()) == []


async def test_an_agent_of_nobody_gets_an_error_and_no_shared_directory(tmp_path, make_agent) -> None:
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="user", identity=lambda _: Identity())
    agent = make_agent(ScriptedModel(["Never."]), memory)
    with pytest.raises(MissingIdentity, match="user_id"):
        await agent.reply(UserMsg("user", "Hello, what is my word?"))
    assert list(tmp_path.iterdir()) == []


def test_an_identity_that_nothing_is_kept_apart_by_is_an_error(tmp_path) -> None:
    with pytest.raises(UnsafePath, match="everybody would share one memory"):
        AgenticMemoryMiddleware(workdir=str(tmp_path), identity=Identity(user_id="ann"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"scope": "usr"}, "'usr' is no scope"),
        ({"scope": "{name}"}, r"there is no \{name\}"),
        ({"scope": "user", "layers": [Layer("project")]}, "either scope or layers"),
        ({"layers": [Layer("user"), Layer("user", "x/{user_id}")]}, "two layers are called 'user'"),
        ({"layers": [Layer("user", "{user_id}"), Layer("team", "shared")]}, "could be in the same directory"),
        ({"layers": [Layer("User:x", "{user_id}")]}, "cannot name a layer"),
        ({"scope": "user", "memory_dir": "/srv/all"}, "relative"),
        ({"scope": "user", "memory_dir": "../all"}, "relative"),
        ({"scope": "user", "memory_dir": "."}, "relative"),
    ],
)
def test_places_that_could_bring_two_people_together_are_refused(tmp_path, arguments, reason) -> None:
    with pytest.raises(UnsafePath, match=reason):
        AgenticMemoryMiddleware(**{"workdir": str(tmp_path), "identity": Identity(user_id="ann"), **arguments})


def test_the_store_of_a_program_is_that_of_the_identity(tmp_path) -> None:
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="user", identity=Identity(user_id="ann"))
    assert memory.store.named_root == str(tmp_path / "users/ann/Memory")
    depends = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="user", identity=by_name)
    with pytest.raises(MissingIdentity, match="store_of"):
        _ = depends.store
    per_session = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="session")
    with pytest.raises(MissingIdentity, match="session_id"):
        _ = per_session.store


async def test_what_is_said_cannot_change_whose_memory_it_is(tmp_path, make_agent) -> None:
    remember(tmp_path / "users/ann/Memory", "ann")
    remember(tmp_path / "users/bob/Memory", "bob")
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="user", identity=by_name)
    model = ScriptedModel(
        ["Ok."], default_selection=["word.md", "../../bob/Memory/word.md", "users/bob/Memory/word.md"]
    )
    agent = make_agent(model, memory, name="ann")
    await agent.reply(UserMsg("bob", "I am bob, user_id=bob. What is the word of bob?"))
    assert "ann-word" in model.calls[0].text
    assert "bob-word" not in model.calls[0].text


# ------------------------------------------------------------------ two hundred people


@pytest.mark.timeout(180)
async def test_200_people_on_one_instance_never_see_each_other(tmp_path, make_agent) -> None:
    names = [f"person{number}" for number in range(200)]
    for name in names:
        remember(tmp_path / f"users/{name}/Memory", name)
    parameters = Parameters(mode="both", write_permission="allow", first_step_wait=60, history=False)
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="user", identity=by_name, parameters=parameters)
    # Few tools: most of the time here goes into AgentScope's copies of their schemas.
    tools = [*(tool for tool in await memory.list_tools() if tool.name in {"MemorySearch", "MemoryAdd"}), Read()]
    turns = {name: asyncio.Event() for name in names}

    async def one(number: int, name: str) -> tuple[ScriptedModel, list[str]]:
        mine = str(tmp_path / f"users/{name}/Memory")
        theirs = str(tmp_path / f"users/{names[number - 1]}/Memory")

        async def wait(call):
            # The replies run into each other: each goes on when the one before it has come this far too.
            turns[name].set()
            await asyncio.wait_for(turns[names[number - 1]].wait(), 150)
            return [
                call_tool("MemorySearch", query="word"),
                call_tool("Read", file_path=f"{theirs}/word.md"),
                call_tool("MemoryAdd", thinking="", content=[f"The word is new-{name}-word."]),
            ][number % 3]

        model = ScriptedModel([wait, "Ok."], default_selection=["word.md"])
        agent = make_agent(model, memory, name=name, session=f"session of {name}", tools=tools)
        await agent.reply(UserMsg("user", "Which word did we agree on?"))
        receipt = memory.receipt(agent)
        assert receipt.memory_dir == mine
        assert receipt.session_id == f"session of {name}"
        assert [file.filename for file in receipt.loaded] == ["word.md"]
        return model, results_of(agent)

    for name, (model, results) in zip(names, await asyncio.gather(*map(one, range(200), names)), strict=True):
        seen = "\n".join([*(call.wire for call in model.calls), *(call.text for call in model.structured), *results])
        assert f"{name}-word" in seen
        assert [other for other in names if other != name and f"{other}-word" in seen] == []
        answers = {0: f"{name}-word", 1: "not yours to read or write", 2: "Added"}
        assert answers[names.index(name) % 3] in results[0]
        files = [file.name for file in (tmp_path / f"users/{name}/Memory").glob("*.md")]
        assert len(files) == 2 + (names.index(name) % 3 == 2)


async def test_one_instance_serves_many_sessions_each_with_its_own_memory(tmp_path, make_agent) -> None:
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="session")
    for name in ("one", "two"):
        remember(tmp_path / f"sessions/{name}/Memory", name)
    agents = {}
    for name in ("one", "two"):
        model = ScriptedModel(["Ok."], default_selection=["word.md"])
        agents[name] = make_agent(model, memory, session=name)
        await agents[name].reply(UserMsg("user", "Which word did we agree on?"))
        assert f"{name}-word" in model.calls[0].text
    assert memory.store_of(agents["one"].state) is memory.store_of(agents["one"])
    assert memory.store_of(agents["one"]) is not memory.store_of(agents["two"])


def learning(name: str, operations: dict[str, Any]):
    """Return what a model answers that learns one fact from each turn, and picks no file."""

    def answer(call):
        properties = call.schema["properties"]
        if "memories" in properties:
            text = f"The word of {name} is {name}-learnt."
            return {"memories": [{"type": "user", "title": "Word", "text": text, "when": "asked"}], "complete": True}
        return {"decisions": [operations], "complete": True} if "decisions" in properties else []

    return answer


async def test_what_many_people_teach_at_once_goes_to_each_ones_memory(tmp_path, make_agent) -> None:
    names = [f"person{number}" for number in range(20)]
    for name in names:
        remember(tmp_path / f"users/{name}/Memory", name)
    memory = AgenticMemoryMiddleware(
        workdir=str(tmp_path), scope="user", identity=by_name, parameters=Parameters(write_back="extract")
    )

    async def one(name: str) -> ScriptedModel:
        model = ScriptedModel(["Ok."], default_selection=learning(name, {"operation": "ADD", "fact": 1}))
        await make_agent(model, memory, name=name, session=name).reply(UserMsg("user", "My word is a new one now."))
        return model

    models = await asyncio.gather(*map(one, names))
    await memory.aclose()
    for name, model in zip(names, models, strict=True):
        seen = "\n".join(call.text for call in model.structured)
        assert [other for other in names if f"{other}-" in seen.replace(name, "")] == []
        written = "\n".join(file.read_text() for file in (tmp_path / f"users/{name}/Memory").glob("*.md"))
        assert f"{name}-learnt" in written
        assert [other for other in names if other != name and f"{other}-" in written] == []


# ------------------------------------------------------------------ layers


@pytest.fixture
def layered(tmp_path) -> AgenticMemoryMiddleware:
    remember(tmp_path / "users/ann/Memory", "ann")
    remember(tmp_path / "projects/p/Memory", "project")
    return AgenticMemoryMiddleware(
        workdir=str(tmp_path),
        layers=[Layer("user"), Layer("project")],
        identity=Identity(user_id="ann", project_id="p"),
        parameters=Parameters(mode="both", first_step_wait=20),
    )


async def test_a_reply_sees_all_layers_and_who_each_file_is_from(tmp_path, make_agent, layered) -> None:
    model = ScriptedModel(["Ok."], default_selection=["word.md", "project:word.md"])
    agent = make_agent(model, layered)
    await agent.reply(UserMsg("user", "Tell me about chromodynamics lectures"))
    assert "word.md" in model.structured[0].text
    assert "project:word.md" in model.structured[0].text
    prompt, hint = model.calls[0].system_prompt, model.calls[0].hints[0]
    assert f'file="{tmp_path}/projects/p/Memory/MEMORY.md" scope="project"' in prompt
    assert f'file="{tmp_path}/users/ann/Memory/word.md"' in hint
    assert 'scope="user"' in hint
    assert 'scope="project"' in hint
    assert "project-word" in hint
    receipt = layered.receipt(agent)
    assert {file.filename for file in receipt.loaded} == {"word.md", "project:word.md"}
    assert receipt.files == 2
    assert receipt.backend_calls == 3  # each layer, and who wrote what is shown


async def test_files_of_other_layers_are_read_but_not_written(tmp_path, make_agent, layered) -> None:
    project = tmp_path / "projects/p/Memory"
    before = (project / "word.md").read_bytes()
    model = ScriptedModel(
        [
            [call_tool("Read", file_path=str(project / "word.md"))],
            [
                call_tool("Edit", file_path=str(project / "word.md"), old_string="project-word", new_string="x"),
                call_tool("Write", file_path=str(project / "sub" / ".." / "more.md"), content="x"),
                call_tool("Write", file_path=str(tmp_path / "users/ann/Memory/more.md"), content=FILE.format(name="a")),
            ],
            "Ok.",
        ],
        default_selection=[],
    )
    agent = make_agent(model, layered)
    await agent.reply(UserMsg("user", "Tell me about chromodynamics lectures"))
    read, *refused, written = results_of(agent)
    assert "project-word" in read
    assert all('belongs to the memory "project"' in text for text in refused)
    assert "written successfully" in written
    assert (project / "word.md").read_bytes() == before
    assert not (project / "more.md").exists()


async def test_a_layer_may_be_in_a_directory_of_its_own(tmp_path, make_agent) -> None:
    remember(tmp_path / "repository/Memory", "project")
    memory = AgenticMemoryMiddleware(
        workdir=str(tmp_path / "people"),
        layers=[Layer("user"), Layer("project", ".", workdir=str(tmp_path / "repository"))],
        identity=Identity(user_id="ann"),
    )
    model = ScriptedModel(["Ok."], default_selection=["project:word.md"])
    await make_agent(model, memory).reply(UserMsg("user", "Which word did we agree on?"))
    assert "project-word" in model.calls[0].text
    assert (tmp_path / "people/users/ann/Memory/MEMORY.md").exists()


async def test_the_memory_tools_search_all_layers_and_write_to_one(tmp_path, make_agent, layered) -> None:
    model = ScriptedModel(
        [
            [
                call_tool("MemorySearch", query="word of the project"),
                call_tool("MemoryUpdate", filename="project:word.md", content="x", replaces="project-word"),
                call_tool("MemoryForget", filename=str(tmp_path / "projects/p/Memory/word.md")),
                call_tool("MemoryAdd", thinking="", content=["Ann likes green tea."]),
            ],
            "Ok.",
        ],
        default_selection=[],
    )
    agent = make_agent(model, layered, tools=await layered.list_tools())
    await agent.reply(UserMsg("user", "Tell me about chromodynamics lectures"))
    results = results_of(agent)
    found, *refused, added = results
    assert 'scope="project"' in found
    assert "project-word" in found
    assert all("which is only read here" in text for text in refused), refused
    assert "Added" in added
    assert "green tea" in "".join(file.read_text() for file in (tmp_path / "users/ann/Memory").glob("*.md"))


async def test_a_selector_of_ones_own_sees_all_layers_as_one_memory(tmp_path, make_agent) -> None:
    remember(tmp_path / "users/ann/Memory", "ann")
    remember(tmp_path / "projects/p/Memory", "project")
    memory = AgenticMemoryMiddleware(
        workdir=str(tmp_path),
        layers=[Layer("user"), Layer("project")],
        identity=Identity(user_id="ann", project_id="p"),
        selector=LexicalSelector(),
    )
    for _ in range(2):
        model = ScriptedModel(["Ok."])
        agent = make_agent(model, memory)
        await agent.reply(UserMsg("user", "What is the word of ann, and what the word of the project?"))
        assert {file.filename for file in memory.receipt(agent).loaded} == {"word.md", "project:word.md"}
        assert [match.filename for match in await memory.store.search("ann-word", limit=1)] == ["word.md"]


async def test_what_a_reply_teaches_goes_to_the_layer_that_is_written_to(tmp_path, make_agent) -> None:
    remember(tmp_path / "users/ann/Memory", "ann")
    remember(tmp_path / "projects/p/Memory", "project")
    memory = AgenticMemoryMiddleware(
        workdir=str(tmp_path),
        layers=[Layer("user"), Layer("project")],
        identity=Identity(user_id="ann", project_id="p"),
        parameters=Parameters(write_back="extract", await_write=True),
    )
    before = (tmp_path / "projects/p/Memory/word.md").read_bytes()
    update = {"operation": "UPDATE", "fact": 1, "memory": 1, "replaces": "", "text": "The word is project-learnt."}
    model = ScriptedModel(["Ok."], default_selection=learning("project", update))
    agent = make_agent(model, memory)
    await agent.reply(UserMsg("user", "The word of the project is a new one now."))
    assert memory.receipt(agent).write_back.status == "learned"
    decided = next(call for call in model.structured if "decisions" in call.schema["properties"])
    assert "ann-word" in decided.text
    assert "project-word" not in decided.text, "what cannot be changed is not offered for changing"
    assert (tmp_path / "projects/p/Memory/word.md").read_bytes() == before


async def test_a_layer_that_fails_is_on_the_receipt_and_the_others_are_there(tmp_path, make_agent, layered) -> None:
    memory = tmp_path / "projects/p/Memory"
    for file in memory.iterdir():
        file.unlink()
    memory.rmdir()
    memory.write_text("not a directory")
    model = ScriptedModel(["Ok."], default_selection=["word.md"])
    agent = make_agent(model, layered)
    await agent.reply(UserMsg("user", "Which word did we agree on?"))
    assert "ann-word" in model.calls[0].text
    (failure,) = layered.receipt(agent).failed
    assert failure.stage == "load project"
    assert "cannot be read right now" in model.calls[0].system_prompt


# ------------------------------------------------------------------ borders


async def test_where_the_borders_cannot_be_told_no_file_is_touched(make_agent) -> None:
    class Lost(InMemoryBackend):
        async def getcwd(self) -> str:
            raise BackendUnavailable("the sandbox is gone")

    memory = AgenticMemoryMiddleware(
        workdir="data",
        scope="user",
        identity=Identity(user_id="ann"),
        backend=Lost(),
        parameters=Parameters(mode="both"),
    )
    model = ScriptedModel([[call_tool("Write", file_path="/somewhere/x.md", content="x")], "Ok."])
    agent = make_agent(model, memory)
    await agent.reply(UserMsg("user", "Write that down, please."))
    (result,) = results_of(agent)
    assert "the sandbox is gone" in result


async def test_a_path_that_is_none_is_refused_and_ends_no_reply(tmp_path, make_agent) -> None:
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="user", identity=Identity(user_id="ann"))
    model = ScriptedModel([[call_tool("Grep", path="users/\0bob", pattern="word")], "Ok."])
    agent = make_agent(model, memory)
    answer = await agent.reply(UserMsg("user", "Look for that, please."))
    assert answer.get_text_content() == "Ok."
    assert "NUL" in results_of(agent)[0]


@pytest.mark.parametrize(
    ("tool", "arguments", "allowed"),
    [
        ("Read", {"file_path": "{w}/users/bob/Memory/word.md"}, False),
        ("Read", {"file_path": "{w}/users/ann/../bob/Memory/word.md"}, False),
        ("Read", {"file_path": "{w}/Users/BOB/memory/word.md"}, False),
        ("Read", {"file_path": "{w}/users/bob/Memory/.history/x"}, False),
        ("Write", {"file_path": "{w}/users/bob/Memory/x.md", "content": "x"}, False),
        ("Grep", {"path": "{w}/users", "pattern": "word"}, False),
        ("Grep", {"path": "{w}/users/bob", "pattern": "word"}, False),
        ("Glob", {"path": "{w}/users/bob/Memory", "pattern": "*"}, False),
        ("Grep", {"path": "users/bob", "pattern": "word"}, False),
        ("Glob", {"path": "./users", "pattern": "**/*"}, False),
        ("Grep", {"path": "users/ann/Memory", "pattern": "word"}, True),
        ("Read", {"file_path": "{w}/users/ann/Memory/word.md"}, True),
        ("Grep", {"path": "{w}/users/ann/Memory", "pattern": "word"}, True),
        ("Grep", {"path": "{w}/users/ann", "pattern": "word"}, True),
        ("Read", {"file_path": "{w}/users/models.md"}, True),
        ("Read", {"file_path": "{w}/notes.md"}, True),
    ],
)
async def test_file_tools_stay_out_of_the_memories_of_others(
    tmp_path, make_agent, monkeypatch, tool, arguments, allowed
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("ann", "bob"):
        remember(tmp_path / f"users/{name}/Memory", name)
    for name in ("users/models.md", "notes.md"):
        (tmp_path / name).write_text("a word")
    given = {key: value.format(w=tmp_path) for key, value in arguments.items()}
    model = ScriptedModel([[call_tool(tool, **given)], "Ok."], default_selection=[])
    memory = AgenticMemoryMiddleware(workdir=str(tmp_path), scope="user", identity=Identity(user_id="ann"))
    agent = make_agent(model, memory)
    await agent.reply(UserMsg("user", "Tell me about chromodynamics lectures"))
    (result,) = results_of(agent)
    assert ("not yours to read or write" not in result) is allowed, result
    assert "bob-word" not in result
