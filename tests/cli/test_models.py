"""Which model an environment asks for."""

import importlib.util

import pytest
from agentscope.model import AnthropicChatModel, DashScopeChatModel, OpenAIChatModel

from agentic_memory.models import PROVIDERS, InvalidModelChoice, choose_model, model_from_environment
from agentic_memory.offline import OfflineModel


def test_an_empty_environment_means_the_offline_model():
    assert isinstance(model_from_environment({}), OfflineModel)
    assert isinstance(model_from_environment({"OPENAI_API_KEY": "  "}), OfflineModel)
    assert str(choose_model({})) == "offline"


@pytest.mark.parametrize(
    ("variable", "kind"),
    [
        ("OPENAI_API_KEY", OpenAIChatModel),
        ("ANTHROPIC_API_KEY", AnthropicChatModel),
        ("DASHSCOPE_API_KEY", DashScopeChatModel),
    ],
)
def test_a_key_brings_the_model_of_its_provider(variable, kind):
    model = model_from_environment({variable: "a-key"})
    assert isinstance(model, kind)
    assert model.credential.api_key.get_secret_value() == "a-key"
    assert model.stream


def test_the_first_provider_in_the_stated_order_wins():
    env = {provider.variable: "value" for provider in PROVIDERS}
    for provider in PROVIDERS:
        choice = choose_model(env)
        assert (choice.provider, choice.model, choice.because) == (
            provider.name,
            provider.default_model,
            provider.variable,
        )
        del env[provider.variable]


def test_another_endpoint_can_be_named():
    env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert model_from_environment(env).credential.base_url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize(
    ("wanted", "model"),
    [("anthropic:claude-x", "claude-x"), ("Anthropic", "claude-sonnet-4-5"), (" anthropic : a:b ", "a:b")],
)
def test_the_choice_variable_decides(wanted, model):
    env = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "AGENTIC_MEMORY_MODEL": wanted}
    made = model_from_environment(env)
    assert isinstance(made, AnthropicChatModel)
    assert made.model == model


def test_the_offline_model_can_be_asked_for_although_a_key_is_set():
    assert isinstance(model_from_environment({"OPENAI_API_KEY": "k", "AGENTIC_MEMORY_MODEL": "offline"}), OfflineModel)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"AGENTIC_MEMORY_MODEL": "gpt-4"}, "AGENTIC_MEMORY_MODEL is 'gpt-4'.*offline, openai"),
        ({"AGENTIC_MEMORY_MODEL": "openai:gpt-4.1"}, "OPENAI_API_KEY is not set"),
        ({"OPENAI_API_KEY": "two words"}, "OPENAI_API_KEY holds characters"),
        ({"OPENAI_API_KEY": "schlüssel"}, "OPENAI_API_KEY holds characters"),
        ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "localhost:80"}, "OPENAI_BASE_URL is 'localhost:80'"),
    ],
)
def test_a_wrong_variable_is_named(env, says):
    with pytest.raises(InvalidModelChoice, match=says):
        model_from_environment(env)


def test_a_key_never_stands_in_a_message():
    with pytest.raises(InvalidModelChoice) as caught:
        model_from_environment({"OPENAI_API_KEY": "secret secret"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("variable", "module"), [("GEMINI_API_KEY", "google.genai"), ("OLLAMA_HOST", "ollama")])
def test_a_missing_package_is_named_with_the_command_that_brings_it(variable, module):
    try:
        there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        there = False
    if there:
        assert model_from_environment({variable: "http://127.0.0.1:9"}).model
    else:
        with pytest.raises(InvalidModelChoice, match=f"{variable} asks for .*pip install"):
            model_from_environment({variable: "http://127.0.0.1:9"})


def test_ollama_has_a_default_place():
    assert str(choose_model({"AGENTIC_MEMORY_MODEL": "ollama:llama3"})) == "ollama:llama3"
