"""The offline model in a real agent, with real tools on a real directory."""

import json
import os

import agentscope.tool
import pytest
from agentscope.agent import Agent
from agentscope.event import TextBlockDeltaEvent
from agentscope.formatter import OpenAIMultiAgentFormatter
from agentscope.message import HintBlock, SystemMsg, TextBlock, ToolCallBlock, UserMsg
from agentscope.model import ChatResponse
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, ToolChoice, Toolkit

import agentic_memory.tools
from agentic_memory import AgenticMemoryMiddleware
from agentic_memory.offline import OfflineModel

REMEMBER = "Remember that I live in Hangzhou and prefer concise Chinese answers."
RECALL = "Do you remember my location and answer style preference?"


@pytest.fixture(params=["ours", "agentscope"])
def tool_classes(request):
    return agentic_memory.tools if request.param == "ours" else agentscope.tool


@pytest.fixture
def make_agent(tmp_path, tool_classes):
    def make(*extra, stream=True, mode=PermissionMode.BYPASS, read=True):
        tools = [tool_classes.Write(), tool_classes.Edit(), *extra]
        return Agent(
            name="assistant",
            system_prompt="Be helpful.",
            model=OfflineModel(stream=stream),
            toolkit=Toolkit(tools=[tool_classes.Read(), *tools] if read else tools),
            middlewares=[AgenticMemoryMiddleware(workdir=str(tmp_path))],
            state=AgentState(permission_context=PermissionContext(mode=mode)),
        )

    return make


@pytest.fixture
def say(make_agent):
    async def say(text, **options):
        return (await make_agent(**options).reply(UserMsg("user", text))).get_text_content()

    return say


@pytest.fixture
def memory(tmp_path):
    return tmp_path / "Memory"


def texts(memory):
    return {path.name: path.read_text() for path in memory.glob("*.md")}


def calls(agent):
    return [
        (block.name, os.path.basename(json.loads(block.input).get("file_path", "")))
        for message in agent.state.context
        for block in message.content
        if isinstance(block, ToolCallBlock)
    ]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_new_agent_recalls_what_another_one_saved(say, memory, stream):
    saved = await say(REMEMBER, stream=stream)
    assert "user_location.md: I live in Hangzhou" in saved
    assert texts(memory)["MEMORY.md"].splitlines() == [
        "- [Location](user_location.md) — I live in Hangzhou",
        "- [Answer style](feedback_answer_style.md) — I prefer concise Chinese answers",
    ]
    answer = await say(RECALL, stream=stream)
    assert "user_location.md: I live in Hangzhou" in answer
    assert "feedback_answer_style.md: I prefer concise Chinese answers" in answer


async def test_a_chinese_question_finds_an_english_memory_and_is_answered_in_chinese(say):
    await say(REMEMBER)
    answer = await say("你还记得我住在哪里吗？")
    assert answer.startswith("记忆中的内容：")
    assert "I live in Hangzhou" in answer


async def test_chinese_facts_are_kept_in_chinese(say, memory):
    assert "已存入记忆" in await say("请记住我住在杭州，喜欢简洁的中文回答。")
    assert "我住在杭州" in texts(memory)["user_location.md"]
    assert "我住在杭州" in await say("where do I live?")


async def test_a_second_fact_on_a_subject_goes_into_its_file(say, memory):
    await say(REMEMBER)
    await say("Remember that I moved to Oslo")
    location = texts(memory)["user_location.md"]
    assert location.endswith("- I live in Hangzhou\n- I moved to Oslo\n")
    assert texts(memory)["MEMORY.md"].count("user_location.md") == 1


async def test_saying_the_same_twice_changes_nothing(say, memory):
    await say(REMEMBER)
    before = texts(memory)
    assert "Already in memory" in await say(REMEMBER)
    assert texts(memory) == before


async def test_a_file_that_the_index_does_not_list_is_extended_not_overwritten(say, memory):
    memory.mkdir()
    (memory / "user_location.md").write_text("---\nname: Home\ndescription: home\ntype: user\n---\n\nborn in Rome\n")
    assert "Saved" in await say("Remember that I live in Hangzhou")
    location = texts(memory)["user_location.md"]
    assert "born in Rome" in location
    assert "I live in Hangzhou" in location


async def test_free_text_in_the_index_stays(say, memory):
    memory.mkdir()
    (memory / "MEMORY.md").write_text("# Notes of mine\n\nDo not lose this.\n")
    assert "Saved" in await say("Remember that I live in Hangzhou")
    index = texts(memory)["MEMORY.md"]
    assert index.startswith("# Notes of mine\n\nDo not lose this.\n")
    assert "(user_location.md)" in index


async def test_forgetting_one_statement_leaves_the_others(say, memory):
    await say(REMEMBER)
    await say("Remember that I moved to Oslo")
    assert "Removed from memory:\n- user_location.md: I live in Hangzhou" in await say("Forget that I live in Hangzhou")
    assert not any("Hangzhou" in text for text in texts(memory).values())
    assert "I moved to Oslo" in texts(memory)["user_location.md"]


async def test_forgetting_the_only_statement_drops_the_index_line(say, memory):
    await say(REMEMBER)
    await say("Please forget my address")
    assert not any("Hangzhou" in text for text in texts(memory).values())
    assert "user_location" not in texts(memory)["MEMORY.md"]
    assert "feedback_answer_style.md" in texts(memory)["MEMORY.md"]
    assert "Hangzhou" not in await say("Where do I live?")


async def test_forgetting_what_is_not_there_removes_nothing(say, memory):
    await say(REMEMBER)
    before = texts(memory)
    assert "nothing was removed" in await say("Forget the launch codes")
    assert texts(memory) == before


async def test_a_long_note_is_not_emptied_for_a_topic_that_no_line_names(say, memory):
    memory.mkdir()
    body = "".join(f"- sheep {number} is white\n" for number in range(20))
    (memory / "farm.md").write_text(f"---\nname: Zebra\ndescription: zebra\ntype: user\n---\n\n{body}")
    (memory / "MEMORY.md").write_text("- [Zebra](farm.md) — zebra\n")
    before = texts(memory)
    assert "left as it is" in await say("Forget the zebra")
    assert texts(memory) == before


async def test_with_nothing_in_memory_it_says_so(say):
    assert "Memory holds nothing about that" in await say("What is my name?")
    assert "Memory is empty" in await say("What do you know about me?")


async def test_everything_is_told_when_asked_about_oneself(say):
    await say(REMEMBER)
    answer = await say("What do you know about me?")
    assert "I live in Hangzhou" in answer
    assert "I prefer concise Chinese answers" in answer


@pytest.mark.parametrize(("text", "words"), [("Write me a poem.", "do not reason"), ("写首诗吧", "不会推理")])
async def test_it_never_pretends_to_reason(say, text, words):
    assert words in await say(text)


async def test_a_refused_write_is_told_and_not_tried_again(make_agent, memory):
    agent = make_agent(mode=PermissionMode.DONT_ASK)
    reply = (await agent.reply(UserMsg("user", "Remember that I live in Hangzhou"))).get_text_content()
    assert reply.startswith("Not saved:")
    assert calls(agent).count(("Write", "user_location.md")) == 1
    assert "user_location.md" not in texts(memory)


async def test_without_a_tool_that_writes_it_says_so(tmp_path):
    agent = Agent(
        name="assistant",
        system_prompt="x",
        model=OfflineModel(),
        middlewares=[AgenticMemoryMiddleware(workdir=str(tmp_path))],
    )
    reply = await agent.reply(UserMsg("user", REMEMBER))
    assert "none of the tools I was given can write files" in reply.get_text_content()


async def test_without_a_memory_directory_in_the_prompt_it_says_so():
    agent = Agent(
        name="assistant", system_prompt="x", model=OfflineModel(), toolkit=Toolkit(tools=[agentscope.tool.Write()])
    )
    reply = await agent.reply(UserMsg("user", REMEMBER))
    assert "names no memory directory" in reply.get_text_content()


async def test_memory_add_and_forget_are_preferred_where_offered(make_agent, memory):
    done = []

    def MemoryAdd(name: str, description: str, type: str, content: str) -> str:  # noqa: A002, N802
        done.append(("add", name, type, content))
        return "added"

    def MemoryForget(filename: str) -> str:  # noqa: N802
        done.append(("forget", filename))
        return "forgotten"

    extra = [FunctionTool(MemoryAdd), FunctionTool(MemoryForget)]
    await make_agent(*extra).reply(UserMsg("user", "Remember that I live in Hangzhou"))
    assert done == [("add", "Location", "user", "I live in Hangzhou")]
    memory.mkdir(exist_ok=True)
    (memory / "pets.md").write_text("---\nname: Pets\ndescription: pets\ntype: user\n---\n\nMy dog is Rex\n")
    (memory / "MEMORY.md").write_text("- [Pets](pets.md) — my dog\n")
    await make_agent(*extra).reply(UserMsg("user", "Forget my dog"))
    assert done[1:] == [("forget", "pets.md")]


async def test_a_reply_is_streamed_in_pieces_that_add_up(make_agent):
    deltas = [
        event.delta
        async for event in make_agent().reply_stream(UserMsg("user", "hello"))
        if isinstance(event, TextBlockDeltaEvent)
    ]
    assert len(deltas) > 5
    assert "".join(deltas).startswith("I am the offline stand-in")


async def test_a_huge_memory_is_quoted_in_part_and_in_few_pieces():
    hint = (
        '<memory id="1" file="big.md">\n' + "\n".join(f"fact {n} about sheep" for n in range(20_000)) + "\n</memory 1>"
    )
    stream = await OfflineModel()(
        [UserMsg("user", "tell me about sheep?"), _hint(hint), UserMsg("user", "what about sheep?")]
    )
    chunks = [chunk async for chunk in stream]
    assert len(chunks) < 250
    assert "(+19988)" in chunks[-1].content[0].text
    assert chunks[-1].usage.input_tokens > 100_000


async def test_a_hint_that_comes_as_plain_text_for_a_formatter_is_still_a_hint(tmp_path, memory, tool_classes):
    memory.mkdir()
    (memory / "pets.md").write_text("---\nname: Pets\ndescription: my dog\ntype: user\n---\n\nMy dog is Rex\n")
    agent = Agent(
        name="assistant",
        system_prompt="x",
        model=OfflineModel(formatter=OpenAIMultiAgentFormatter()),
        middlewares=[AgenticMemoryMiddleware(workdir=str(tmp_path))],
    )
    reply = await agent.reply(UserMsg("user", "What is my dog called?"))
    assert reply.get_text_content() == "From memory:\n- pets.md: My dog is Rex"


async def test_the_same_conversation_gets_the_same_answer():
    messages = [SystemMsg("system", "Memory directory: `/m`"), UserMsg("user", REMEMBER)]
    tools = [_schema("Write"), _schema("Edit"), _schema("Read")]
    answers = [await OfflineModel(stream=False)(messages, tools) for _ in range(2)]
    assert _essence(answers[0]) == _essence(answers[1])
    ids = [block.id for answer in answers for block in answer.content]
    assert len(set(ids)) == len(ids)


async def test_tool_choice_is_kept():
    messages = [SystemMsg("system", "Memory directory: `/m`"), UserMsg("user", REMEMBER)]
    answer = await OfflineModel(stream=False)(messages, [_schema("Write")], ToolChoice(mode="none"))
    assert not [block for block in answer.content if isinstance(block, ToolCallBlock)]
    with pytest.raises(ValueError, match="Nonsense"):
        await OfflineModel(stream=False)(messages, [_schema("Write")], ToolChoice(mode="Nonsense"))


async def test_no_messages_and_no_tools_are_answered():
    answer = await OfflineModel(stream=False)([])
    assert "do not reason" in answer.content[0].text


def _hint(text):
    message = UserMsg("x", "x").model_copy(update={"role": "assistant", "content": [HintBlock(hint=text)]})
    assert isinstance(message.content[0], HintBlock)
    return message


def _schema(name):
    properties = {"file_path": {"type": "string"}}
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


def _essence(response: ChatResponse):
    return [block.text if isinstance(block, TextBlock) else (block.name, block.input) for block in response.content]
