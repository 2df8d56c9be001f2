"""What a model is shown of memory: no secrets, no comments, nothing invisible; and what it may then write."""

import random
import string

import pytest
from agentscope.message import UserMsg
from scripted import ScriptedModel, call_tool

QUESTION = "Where do I live, and how do I like my answers?"


@pytest.fixture
def token() -> str:
    return "ghp_" + "".join(random.Random(7).choices(string.ascii_letters, k=35)) + "7"


async def test_a_secret_written_by_hand_is_shown_to_no_model(workdir, make_memory, make_agent, token) -> None:
    memory_dir = workdir / "Memory"
    for name in ("user_profile.md", "MEMORY.md", "deploy.md"):
        path = memory_dir / name
        path.write_text(path.read_text("utf-8").replace("deploy", f"deploy {token}").replace("Lives", f"{token} lives"))
    memory = make_memory()
    model = ScriptedModel(["Hangzhou."], selections=[["user_profile.md", "deploy.md"]])
    await make_agent(model, memory).reply(UserMsg("user", QUESTION))
    told = "".join(call.wire for call in model.calls)
    assert token not in told
    assert "[redacted github-token]" in told
    assert "secret" in {problem.code for problem in await memory.store.check()}


async def test_secrets_are_shown_when_that_is_allowed(workdir, make_memory, make_agent, token) -> None:
    (workdir / "Memory" / "user_profile.md").write_text(f"---\nname: User\ndescription: home\n---\nKey {token}\n")
    model = ScriptedModel(["Hangzhou."], selections=[["user_profile.md"]])
    await make_agent(model, make_memory(secrets="allow")).reply(UserMsg("user", QUESTION))
    assert token in model.calls[0].wire


async def test_what_was_not_shown_as_it_is_must_be_read_before_it_is_written(
    workdir, make_memory, make_agent, token
) -> None:
    path = workdir / "Memory" / "user_profile.md"
    text = f"---\nname: User\ndescription: home\n---\nLives here.\n<!-- for people -->\nKey {token}\n"
    path.write_text(text)
    write = call_tool("Write", file_path=str(path), content=text.replace("<!-- for people -->\n", ""))
    model = ScriptedModel([write, "Done."], selections=[["user_profile.md"]])
    await make_agent(model, make_memory()).reply(UserMsg("user", QUESTION))
    assert "for people" not in model.calls[0].wire
    assert "must read the file first" in model.calls[1].wire
    assert path.read_text() == text


async def test_a_secret_that_the_model_writes_is_refused_and_then_not_written(
    workdir, make_memory, make_agent, token
) -> None:
    path = workdir / "Memory" / "key.md"
    write = call_tool("Write", file_path=str(path), content=f"---\nname: Key\ndescription: CI\n---\n{token}\n")
    model = ScriptedModel([write, "I did not save it."], selections=[[]])
    await make_agent(model, make_memory()).reply(UserMsg("user", "Remember the key."))
    assert "does not belong into a memory" in model.calls[1].wire
    assert not path.exists()


async def test_a_secret_is_left_out_and_that_is_said_when_the_policy_is_to_redact(
    workdir, make_memory, make_agent, token
) -> None:
    path = workdir / "Memory" / "key.md"
    text = f"---\nname: Key\ndescription: CI\n---\nUse {token} for CI.\n"
    edit = call_tool("Edit", file_path=str(path), old_string="for CI", new_string=f"{token[:-1]}8 for CI")
    model = ScriptedModel([call_tool("Write", file_path=str(path), content=text), edit, "Saved."], selections=[[]])
    memory = make_memory(secrets="redact", history=True)
    await make_agent(model, memory).reply(UserMsg("user", "Remember the key."))
    assert path.read_text() == text.replace(token, "[redacted github-token] [redacted github-token]")
    assert "was left out" in model.calls[1].wire
    assert "was left out" in model.calls[2].wire
    kept = b"".join(file.read_bytes() for file in (workdir / "Memory" / ".history").rglob("*") if file.is_file())
    assert token.encode() not in kept
