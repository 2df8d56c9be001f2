"""Structured answers: a pick of files, or a value the schema admits."""

import jsonschema
import pytest
from agentscope.agent import ContextConfig
from agentscope.message import SystemMsg, UserMsg
from pydantic import BaseModel, Field

from agentic_memory.offline import OfflineModel
from agentic_memory.offline.schema import answer_schema, select_files


class Selection(BaseModel):
    selected_files: list[str] = Field(default_factory=list)


MANIFEST = """- [user] user_location.md (2025-01-01): Where the user lives
- [feedback] style.md (2025-01-01): Answer style, concise and in Chinese
- cats and dogs.md: pets
team/deploy.md: how the service is deployed
用户_饮食.md：对花生过敏"""


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("Query: user: Do you remember my location and answer style preference?", ["style.md", "user_location.md"]),
        ("how do we deploy?", ["team/deploy.md"]),
        ("我对什么过敏？", ["用户_饮食.md"]),
        ("what are my pets called", ["cats and dogs.md"]),
        ("我住在哪里", ["user_location.md"]),
        ("compute 2+2", []),
        ("", []),
    ],
)
def test_files_that_share_words_with_the_message_are_selected(query, files):
    assert sorted(select_files(f"{query}\n\nAvailable memories:\n{MANIFEST}")) == files


def test_names_that_are_not_on_the_list_are_never_selected():
    assert select_files("location.md where do I live?") == []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("schema", [Selection, Selection.model_json_schema()])
async def test_the_selector_call_of_agentscope_is_answered(stream, schema):
    response = await OfflineModel(stream=stream).generate_structured_output(
        [SystemMsg("system", "Pick."), UserMsg("user", f"Query: where do I live?\n\nAvailable memories:\n{MANIFEST}")],
        structured_model=schema,
    )
    assert response.content == {"selected_files": ["user_location.md"]}
    assert response.usage.input_tokens > 0


async def test_a_context_summary_keeps_what_the_person_said():
    schema = ContextConfig().summary_schema
    response = await OfflineModel().generate_structured_output(
        [UserMsg("user", "Remember that I live in Hangzhou"), UserMsg("user", "<system-hint>Summarise.</system-hint>")],
        structured_model=schema,
    )
    jsonschema.validate(response.content, schema)
    assert all("Hangzhou" in text for text in response.content.values())
    assert all("Summarise" not in text for text in response.content.values())


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"type": "string", "minLength": 50}},
        {"a": {"type": "string", "maxLength": 3}},
        {"a": {"type": "integer", "minimum": 7}},
        {"a": {"type": "number", "exclusiveMinimum": 2}},
        {"a": {"type": "integer", "maximum": -4}},
        {"a": {"type": "boolean"}},
        {"a": {"enum": ["x", "y"]}},
        {"a": {"const": 5}},
        {"a": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
        {"a": {"type": ["string", "null"]}},
        {"a": {"type": "array", "items": {"type": "string"}, "minItems": 2}},
        {"a": {"$ref": "#/$defs/node"}},
        {"a": {"allOf": [{"$ref": "#/$defs/node"}]}},
        {"a": {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}},
    ],
)
def test_any_schema_gets_a_value_it_admits(properties):
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["a"],
        "$defs": {"node": {"type": "object", "properties": {"v": {"type": "string"}}, "required": ["v"]}},
    }
    jsonschema.validate(answer_schema(schema, [UserMsg("user", "hello")]), schema)


def test_a_schema_that_contains_itself_comes_to_an_end():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#"}},
        "required": ["a"],
    }
    assert isinstance(answer_schema(schema, [UserMsg("user", "hello")]), dict)
