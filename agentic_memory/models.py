"""The chat model that an environment asks for; the offline one when it asks for none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentic_memory.errors import AgenticMemoryError

if TYPE_CHECKING:
    # AgentScope takes a second to import: whoever only asks which model it would be need not pay for it.
    from agentscope.model import ChatModelBase

CHOICE_VARIABLE: Final = "AGENTIC_MEMORY_MODEL"
OFFLINE: Final = "offline"


class InvalidModelChoice(AgenticMemoryError, ValueError):
    """The environment asks for a model that cannot be had; the message names the variable and the remedy."""


@dataclass(frozen=True, slots=True)
class Provider:
    """Where chat models come from.

    Attributes:
        name: What stands before the colon of ``AGENTIC_MEMORY_MODEL``.
        variable: The key or host that makes it available.
        base_url_variable: Another endpoint that speaks the same protocol; empty when there is no such setting.
        default_model: Taken when no model is named.
        package: The SDK that AgentScope needs for it.
        build: From (key or host, model name, base URL or None) to the model.
    """

    name: str
    variable: str
    base_url_variable: str
    default_model: str
    package: str
    build: "Callable[[str, str, str | None], ChatModelBase]"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """Which model it will be; ``because`` names the variable that decided, empty for the offline model."""

    provider: str
    model: str
    because: str

    def __str__(self) -> str:
        """Return ``provider:model``, as ``AGENTIC_MEMORY_MODEL`` takes it."""
        return self.provider if self.provider == OFFLINE else f"{self.provider}:{self.model}"


def _build_openai(key: str, model: str, base_url: str | None) -> "ChatModelBase":
    from agentscope.credential import OpenAICredential
    from agentscope.model import OpenAIChatModel
    from pydantic import SecretStr

    return OpenAIChatModel(credential=OpenAICredential(api_key=SecretStr(key), base_url=base_url), model=model)


def _build_anthropic(key: str, model: str, base_url: str | None) -> "ChatModelBase":
    from agentscope.credential import AnthropicCredential
    from agentscope.model import AnthropicChatModel
    from pydantic import SecretStr

    return AnthropicChatModel(credential=AnthropicCredential(api_key=SecretStr(key), base_url=base_url), model=model)


def _build_dashscope(key: str, model: str, base_url: str | None) -> "ChatModelBase":
    from agentscope.credential import DashScopeCredential
    from agentscope.model import DashScopeChatModel
    from pydantic import SecretStr

    credential = DashScopeCredential(api_key=SecretStr(key))
    if base_url is not None:
        credential = credential.model_copy(update={"base_url": base_url})
    return DashScopeChatModel(credential=credential, model=model)


def _build_gemini(key: str, model: str, _base_url: str | None) -> "ChatModelBase":
    from agentscope.credential import GeminiCredential
    from agentscope.model import GeminiChatModel
    from pydantic import SecretStr

    return GeminiChatModel(credential=GeminiCredential(api_key=SecretStr(key)), model=model)


def _build_ollama(host: str, model: str, _base_url: str | None) -> "ChatModelBase":
    from agentscope.credential import OllamaCredential
    from agentscope.model import OllamaChatModel

    return OllamaChatModel(credential=OllamaCredential(host=host), model=model)


PROVIDERS: Final = (
    Provider("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "gpt-4.1-mini", "openai", _build_openai),
    Provider(
        "anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "claude-sonnet-4-5", "anthropic", _build_anthropic
    ),
    Provider("dashscope", "DASHSCOPE_API_KEY", "DASHSCOPE_BASE_URL", "qwen-plus", "openai", _build_dashscope),
    Provider("gemini", "GEMINI_API_KEY", "", "gemini-2.5-flash", "google-genai", _build_gemini),
    Provider("ollama", "OLLAMA_HOST", "", "qwen3:8b", "ollama", _build_ollama),
)
"""In the order in which they are looked for. The default models answer quickly and call tools reliably."""


def choose_model(env: Mapping[str, str]) -> ModelChoice:
    """Return which model ``env`` asks for, without making it.

    ``AGENTIC_MEMORY_MODEL`` ("provider:model", "provider" or "offline") decides; without it the first provider whose
    key or host is set, in the order of ``PROVIDERS``; without any, the offline model. Empty variables count as unset.

    Raises:
        InvalidModelChoice: the provider is unknown or its key is missing.
    """
    wanted = _value(env, CHOICE_VARIABLE)
    if wanted is None:
        found = next((provider for provider in PROVIDERS if _value(env, provider.variable)), None)
        if found is None:
            return ModelChoice(OFFLINE, OFFLINE, "")
        return ModelChoice(found.name, found.default_model, found.variable)
    name, _, model = (part.strip() for part in wanted.partition(":"))
    if name.lower() == OFFLINE:
        return ModelChoice(OFFLINE, OFFLINE, CHOICE_VARIABLE)
    chosen = next((provider for provider in PROVIDERS if provider.name == name.lower()), None)
    if chosen is None:
        known = ", ".join([OFFLINE, *(provider.name for provider in PROVIDERS)])
        raise InvalidModelChoice(
            f"{CHOICE_VARIABLE} is {wanted!r}, and {name!r} is no provider; write provider:model with one of {known}"
        )
    # Ollama has a default place; every other provider needs its key.
    if _value(env, chosen.variable) is None and chosen.name != "ollama":
        raise InvalidModelChoice(
            f"{CHOICE_VARIABLE} is {wanted!r}, but {chosen.variable} is not set; set it to your key"
        )
    return ModelChoice(chosen.name, model or chosen.default_model, CHOICE_VARIABLE)


def model_from_environment(env: Mapping[str, str]) -> "ChatModelBase":
    """Make the model that ``env`` asks for; see ``choose_model`` for how it is chosen.

    Raises:
        InvalidModelChoice: it cannot be had; nothing has been sent anywhere.
    """
    choice = choose_model(env)
    if choice.provider == OFFLINE:
        from agentic_memory.offline import OfflineModel

        return OfflineModel()
    provider = next(provider for provider in PROVIDERS if provider.name == choice.provider)
    secret = _value(env, provider.variable) or ""
    if not secret.isprintable() or not secret.isascii() or " " in secret:
        raise InvalidModelChoice(f"{provider.variable} holds characters that no key or host has; copy it again")
    base_url = _value(env, provider.base_url_variable) if provider.base_url_variable else None
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise InvalidModelChoice(
            f"{provider.base_url_variable} is {base_url!r}; it has to begin with http:// or https://"
        )
    try:
        return provider.build(secret, choice.model, base_url)
    except ImportError as error:
        raise InvalidModelChoice(
            f"{choice.because} asks for {choice}, which needs another package; install it: pip install {provider.package}"
        ) from error
    except Exception as error:
        raise InvalidModelChoice(f"{choice.because} asks for {choice}, which cannot be made: {error}") from error


def _value(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None
