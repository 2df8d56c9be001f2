"""chat: one message, a pipe, a session file, permissions, failures."""

import asyncio
import io
import json
import sys

import pytest
from agentscope.message import TextBlock
from agentscope.model import ChatResponse

from agentic_memory.cli import session as cli_session
from agentic_memory.offline import OfflineModel

REMEMBER = "Remember that I live in Hangzhou."


@pytest.fixture
def pipe(monkeypatch):
    def pipe(text):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return pipe


def test_one_message_is_remembered_and_the_next_process_recalls_it(run, tmp_path):
    ran = run("chat", "--yes", "--once", REMEMBER)
    assert ran.code == 0
    assert ran.out == "Saved to memory:\n- location.md: I live in Hangzhou\n"
    assert "remembered: Added location.md" in ran.err
    ran = run("chat", "--once", "Where do I live?")
    assert ran.out == "From memory:\n- location.md: I live in Hangzhou\n"
    assert "recalled location.md" in ran.err


def test_a_fact_is_added_extended_and_forgotten_with_the_memory_tools(run, tmp_path):
    index = tmp_path / "Memory" / "MEMORY.md"
    run("chat", "--yes", "--once", REMEMBER)
    assert index.read_text() == "- [Location](location.md) — I live in Hangzhou\n"
    assert run("chat", "--yes", "--once", REMEMBER).out.startswith("Already in memory:")
    run("chat", "--yes", "--once", "Remember that I live in Hangzhou near the West Lake.")
    assert (tmp_path / "Memory" / "location.md").read_text().count("Hangzhou") > 1
    assert index.read_text().count("(") == 1, "the same subject stays one file"
    ran = run("chat", "--yes", "--once", "Forget where I live.")
    assert ran.out.startswith("Removed from memory:")
    assert not (tmp_path / "Memory" / "location.md").exists()
    assert index.read_text() == ""
    assert len([*(tmp_path / "Memory" / ".trash").glob("*/location.md")]) == 1


def test_each_line_of_a_pipe_is_a_message(run, pipe):
    pipe(f"{REMEMBER}\n\n你还记得我住在哪里吗？\n")
    ran = run("chat", "--yes", "--quiet")
    assert ran.out.splitlines() == [
        "Saved to memory:",
        "- location.md: I live in Hangzhou",
        "记忆中的内容：",
        "- location.md：I live in Hangzhou",
    ]
    assert ran.err == ""


def test_without_somebody_to_ask_nothing_is_written(run, tmp_path):
    ran = run("chat", "--once", REMEMBER)
    assert ran.code == 0
    assert "nobody is there to ask; see --yes" in ran.err
    assert ran.out.startswith("Not saved:")
    assert not (tmp_path / "Memory" / "location.md").exists()


def test_a_session_is_taken_up_where_it_was_left(run, tmp_path):
    for text in ("hello", "hello again"):
        assert run("chat", "--session", "s.json", "--once", text).code == 0
    context = json.loads((tmp_path / "s.json").read_text())["context"]
    assert [block["text"] for message in context if message["role"] == "user" for block in message["content"]] == [
        "hello",
        "hello again",
    ]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_permissions_do_not_come_from_the_session_file(run, tmp_path):
    assert run("chat", "--session", "s.json", "--yes", "--once", "hello").code == 0
    assert run("chat", "--session", "s.json", "--once", REMEMBER).out.startswith("Not saved:")


def test_a_session_in_a_directory_that_is_not_there_is_refused_before_the_talk(run, tmp_path):
    ran = run("chat", "--session", "nowhere/s.json", "--once", "hello")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no directory nowhere" in ran.err


def test_nothing_to_say_is_wrong_use(run):
    assert run("chat", "--once", "  ").code == 2


@pytest.mark.parametrize("text", ["", "[]", "{", '{"context": 5}', "\x00\x01"])
def test_a_file_that_is_no_session_is_refused_and_kept(run, tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    ran = run("chat", "--session", "s.json", "--once", "hello")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert (tmp_path / "s.json").read_text() == text


def test_a_wrong_model_choice_ends_with_two_before_anything_is_sent(run, tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTIC_MEMORY_MODEL", "openai:gpt")
    ran = run("chat", "--once", "hello")
    assert ran.code == 2
    assert "OPENAI_API_KEY is not set" in ran.err
    assert not (tmp_path / "Memory").exists()


def test_a_model_that_fails_is_one_line_and_exit_code_three(run, monkeypatch):
    async def fail(*_, **__):
        raise ConnectionError("no route to the model")

    monkeypatch.setattr(OfflineModel, "_call_api", fail)
    ran = run("chat", "--once", "hello")
    assert ran.code == 3
    assert "no route to the model" in ran.err
    assert "Traceback" not in ran.err


def test_memory_that_cannot_be_reached_is_told_and_the_reply_still_comes(run, tmp_path):
    (tmp_path / "Memory").write_text("a file where the directory should be")
    ran = run("chat", "--once", "hello")
    assert "I am the offline stand-in" in ran.out
    assert "memory failed:" in ran.err


def test_what_a_model_says_cannot_drive_the_terminal(run, monkeypatch):
    async def colour(*_, **__):
        return ChatResponse(content=[TextBlock(text="\x1b[2Jgone\u202e")], is_last=True)

    monkeypatch.setattr(OfflineModel, "_call_api", colour)
    assert run("chat", "--once", "hello").out == "\\x1b[2Jgone\\u202e\n"


async def open_session(tmp_path, model, **options):
    options = {"session_file": tmp_path / "s.json", "quiet": True, **options}
    return await cli_session.open_session(model, workdir=str(tmp_path), memory_dir="Memory", **options)


async def test_an_interrupted_reply_is_saved_and_the_conversation_goes_on(tmp_path, capsys):
    started = asyncio.Event()

    class Endless(OfflineModel):
        slow = True

        async def _call_api(self, *arguments, **options):
            if self.slow:
                started.set()
                await asyncio.Event().wait()
            return await super()._call_api(*arguments, **options)

    model = Endless()
    session = await open_session(tmp_path, model)
    reply = asyncio.create_task(session.say("hello"))
    await started.wait()
    reply.cancel()
    await asyncio.wait([reply])
    assert "hello" in (tmp_path / "s.json").read_text()
    model.slow = False
    assert not (await session.say("hello again")).failed
    assert "offline stand-in" in capsys.readouterr().out


@pytest.mark.parametrize(("answers", "written"), [(["yes"], True), (["always"], True), (["no"], False)])
async def test_a_question_is_answered_once(tmp_path, capsys, answers, written):
    session = await open_session(tmp_path, OfflineModel())
    outcome = await session.say(REMEMBER)
    assert [call.name for call in outcome.question.tool_calls] == ["MemoryAdd"]
    assert not (tmp_path / "Memory" / "location.md").exists()
    outcome = await session.answer(outcome.question, answers)
    assert (tmp_path / "Memory" / "location.md").exists() is written
    assert outcome.question is None, "the file and its line in the index are one change, so one question"


async def test_a_question_left_open_is_withdrawn_by_the_next_message(tmp_path, capsys):
    session = await open_session(tmp_path, OfflineModel())
    assert (await session.say(REMEMBER)).question is not None
    taken_up = await open_session(tmp_path, OfflineModel())
    outcome = await taken_up.say("hello")
    assert outcome.question is None
    assert "offline stand-in" in capsys.readouterr().out
    assert not (tmp_path / "Memory" / "location.md").exists()
