"""What the environment can say about memory, and what the factory makes of it."""

import re
from pathlib import Path

import pytest
from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from scripted import ScriptedModel

import agentic_memory.shelf
from agentic_memory import Layer
from agentic_memory.parameters import MemoryParameters
from agentic_memory.service import (
    MAX_KEPT,
    OWN_VARIABLES,
    PREFIX,
    InvalidSettings,
    MemoryMiddlewareFactory,
    ServiceSettings,
    parameter_variables,
)

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


def read(**values: str) -> ServiceSettings:
    return ServiceSettings.from_environment({f"{PREFIX}{name}": value for name, value in values.items()})


def test_an_empty_environment_keeps_users_apart_in_the_workspace() -> None:
    settings = read(ENABLED="", SCOPE=" ")
    assert settings == ServiceSettings()
    assert settings.enabled
    assert settings.workdir is None
    assert settings.layers == (Layer("user"),)


def test_every_setting_is_read() -> None:
    settings = read(
        ENABLED="off",
        WORKDIR="/srv/memory",
        DIR="Notes",
        SCOPE="user, team=teams/{project_id}",
        PROJECT_ID="billing",
        HISTORY="true",
        FIRST_STEP_WAIT="0.5",
        MEMORY_MAX_TOKENS="1000",
        ON_ERROR="raise",
    )
    assert not settings.enabled
    assert (settings.workdir, settings.memory_dir, settings.project_id) == ("/srv/memory", "Notes", "billing")
    assert settings.layers == (Layer("user"), Layer("team", "teams/{project_id}"))
    parameters = settings.parameters
    assert (parameters.history, parameters.first_step_wait, parameters.memory_max_tokens) == (True, 0.5, 1000)
    assert parameters.on_error == "raise"


def test_a_scope_may_be_a_template() -> None:
    assert read(SCOPE="tenants/{user_id}").layers == (Layer("memory", "tenants/{user_id}"),)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"ENABLED": "maybe"}, "ENABLED is 'maybe': use true or false"),
        ({"HISTORY": "maybe"}, "HISTORY is 'maybe'"),
        ({"MEMORY_MAX_TOKENS": "-1"}, "MEMORY_MAX_TOKENS is '-1'"),
        ({"MODE": "all"}, "MODE is 'all'"),
        ({"SCOPE": "everybody"}, "'everybody' is no scope"),
        ({"SCOPE": "project"}, "set AGENTIC_MEMORY_PROJECT_ID too"),
        ({"SCOPE": "user,user"}, "two layers are called 'user'"),
        ({"SCOPE": "user,"}, "cannot name a layer"),
        ({"SCOPE": "users/{name}"}, r"there is no \{name\}"),
        ({"DIR": "/srv"}, "relative"),
    ],
)
def test_a_setting_that_cannot_be_is_named(values, reason) -> None:
    with pytest.raises(InvalidSettings, match=reason):
        read(**values)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidSettings, match=r"ENABLED.*HISTORY.*SCOPE"):
        read(ENABLED="x", HISTORY="x", SCOPE="x")


def test_a_name_that_is_no_setting_is_told_and_ignored(caplog) -> None:
    assert read(SCOPES="user", SERVICE_HOST="10.0.0.1", MODEL="offline") == ServiceSettings()
    assert "AGENTIC_MEMORY_SCOPES is not a setting and is ignored; is it AGENTIC_MEMORY_SCOPE?" in caplog.text
    assert "AGENTIC_MEMORY_MODEL" not in caplog.text


def test_the_factory_reads_the_environment_of_its_process(monkeypatch) -> None:
    monkeypatch.setenv("AGENTIC_MEMORY_SCOPE", "nobody")
    with pytest.raises(InvalidSettings):
        MemoryMiddlewareFactory()


@pytest.mark.skipif(not PAGE.exists(), reason="outside a checkout there is no page")
def test_the_page_has_every_variable_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(AGENTIC_MEMORY_\w+)` \| (.*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {f"{PREFIX}{name}" for name in OWN_VARIABLES} <= set(rows)
    defaults = {"ENABLED": "true", "WORKDIR": "", "DIR": "Memory", "SCOPE": "user", "PROJECT_ID": "", "MODE": "both"}
    fields = MemoryParameters.model_fields
    for variable, shown in rows.items():
        default = defaults.get(variable.removeprefix(PREFIX))
        if default is None:
            value = fields[parameter_variables()[variable]].default
            default = str(value).lower() if isinstance(value, bool) else str(value)
        assert shown.strip("`") == default, variable


# ------------------------------------------------------------------ turns


async def take_turn(factory: MemoryMiddlewareFactory, user: str, session: str) -> ScriptedModel:
    middlewares = await factory(user, "agent", session)
    model = ScriptedModel(["Ok."], default_selection=["word.md"])
    agent = Agent(
        name="a",
        system_prompt="",
        model=model,
        toolkit=Toolkit(),
        middlewares=middlewares,
        state=AgentState(session_id=session),
    )
    await agent.reply(UserMsg("user", "Which word did we agree on?"))
    assert middlewares[0].receipt(agent).backend_calls == 1
    return model


async def test_a_new_instance_for_every_turn_reads_and_parses_nothing_again(tmp_path, monkeypatch) -> None:
    directory = tmp_path / "users/ann/Memory"
    directory.mkdir(parents=True)
    for number in range(50):
        (directory / f"word{number}.md").write_text(
            f"---\nname: w{number}\ndescription: The word\n---\nword-{number}\n"
        )
    (directory / "MEMORY.md").write_text("- [w](word1.md) — the word\n")
    parsed: list[str] = []
    parse = agentic_memory.shelf.parse_document

    def counted(data, *, filename):
        parsed.append(filename)
        return parse(data, filename=filename)

    monkeypatch.setattr(agentic_memory.shelf, "parse_document", counted)
    await take_turn(MemoryMiddlewareFactory(read(WORKDIR=str(tmp_path))), "ann", "first")
    parsed.clear()
    for number in range(5):
        await take_turn(MemoryMiddlewareFactory(read(WORKDIR=str(tmp_path))), "ann", f"s{number}")
    assert [name for name in parsed if name != "MEMORY.md"] == []


async def test_a_session_keeps_its_instance_and_only_so_many_are_kept(tmp_path) -> None:
    factory = MemoryMiddlewareFactory(read(WORKDIR=str(tmp_path)))
    (first,) = await factory("ann", "agent", "s")
    assert (await factory("ann", "agent", "s"))[0] is first
    assert (await factory("bob", "agent", "s"))[0] is not first
    for number in range(MAX_KEPT):
        await factory("ann", "agent", f"s{number}")
    assert (await factory("ann", "agent", "s"))[0] is not first
    await factory.aclose()
    await factory.aclose()


async def test_memory_without_a_place_is_an_error() -> None:
    with pytest.raises(InvalidSettings, match="set AGENTIC_MEMORY_WORKDIR"):
        await MemoryMiddlewareFactory(read())("ann", "agent", "s")
