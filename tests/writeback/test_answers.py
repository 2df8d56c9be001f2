"""Reading what models really answer."""

import json

import pytest
from agentscope.exception import StructuredOutputError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from scripted import ScriptedModel

from agentic_memory.writeback.answers import MalformedAnswer, Question, ask, read_items, read_object


class Thing(BaseModel):
    text: str
    type: str


QUESTION = Question("Take notes.", "He said A.", "things", Thing)
WHOLE = {"things": [{"text": "a", "type": "user"}], "complete": True}


async def test_a_whole_structured_answer_takes_one_call() -> None:
    model = ScriptedModel(selections=[WHOLE])
    answer = await ask(model, QUESTION)
    assert answer.items == ({"text": "a", "type": "user"},)
    assert (answer.cost.calls, len(model.structured), len(model.calls)) == (1, 1, 0)


@pytest.mark.parametrize(
    "first",
    [
        {"memory": [{"text": "a"}]},
        {"things": [{"text": "half a fact that was cu", "type": "user"}]},  # no "complete": it was cut
        {"things": "a", "complete": True},
        StructuredOutputError("prose"),
        RuntimeError("tool_choice is not supported in thinking mode"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_asked_for_once_more_in_plain_text(first) -> None:
    model = ScriptedModel([json.dumps(WHOLE)], selections=[first])
    answer = await ask(model, QUESTION)
    assert answer.items == ({"text": "a", "type": "user"},)
    assert (answer.cost.calls, len(model.structured), len(model.calls)) == (2, 1, 1)


@pytest.mark.parametrize("second", ["I noted it for you.", '{"memory":[{"text":"a"}]}', '{"things":[{"text":"liv', ""])
async def test_a_second_answer_that_cannot_be_used_is_an_error_that_tells_the_cost(second) -> None:
    model = ScriptedModel([second or " "], selections=[{}])
    with pytest.raises(MalformedAnswer, match="things") as caught:
        await ask(model, QUESTION)
    assert caught.value.cost.calls == 2


async def test_a_streaming_model_is_read_to_its_end() -> None:
    model = ScriptedModel([json.dumps(WHOLE)], selections=[{}], stream=True)
    assert (await ask(model, QUESTION)).items == ({"text": "a", "type": "user"},)


def test_agentscope_itself_accepts_an_answer_with_one_bad_item() -> None:
    schema = QUESTION.schema()
    schema.model_validate({"things": [{"text": "a"}, {"text": "b", "type": "user"}], "complete": True})
    assert "complete" in schema.model_json_schema()["required"]


@pytest.mark.parametrize(
    "text",
    [
        '{"things": [], "note": "a, }"}',
        '```json\n{"things": [], "note": "a, }"}\n```',
        'Here it is:\n```\n{"things": [], "note": "a, }",}\n```\nAnything else?',
        'Sure! {"things": [,], "note": "a, }"} There.'.replace("[,]", "[]"),
        '{"things": [\n], "note": "a, }",\n}',
    ],
)
def test_fences_prose_and_trailing_commas_are_read(text) -> None:
    assert read_object(text) == {"things": [], "note": "a, }"}


@pytest.mark.parametrize("text", ["", "nothing", "[1]", '{"things": [{"text": "liv', "```json\n{\n```", "{" * 5000])
def test_what_does_not_end_or_is_no_object_is_none(text) -> None:
    assert read_object(text) is None


@given(
    st.dictionaries(
        st.text(max_size=8),
        st.recursive(st.text(max_size=12) | st.integers() | st.none(), st.lists, max_leaves=6),
        max_size=4,
    ),
    st.booleans(),
)
def test_any_object_is_read_back_fenced_or_not(value, fenced) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert read_object(f"```json\n{text}\n```" if fenced and "```" not in text else text) == value


@given(st.text(max_size=40), st.integers(min_value=1, max_value=60))
def test_no_cut_of_an_answer_is_taken_for_a_whole_one(fact, cut) -> None:
    whole = json.dumps({"things": [{"text": fact, "type": "user"}], "complete": True})
    found = read_object(whole[:-cut])
    assert found is None or "things" not in found


def test_items_without_a_required_key_are_left_out_and_said() -> None:
    read, wrong = read_items([{"text": "a"}, {"text": "b", "type": "user"}, "c", None], Thing)
    assert [thing.text for thing in read] == ["b"]
    assert [line.split(":")[0] for line in wrong] == [f"item {number} was left out" for number in (1, 3, 4)]
    assert "type" in wrong[0]
