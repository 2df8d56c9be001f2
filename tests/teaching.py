"""What a model that extracts and decides answers, and what it learns from; for the tests of write-back."""

from typing import Any

from agentscope.message import AssistantMsg, Msg, UserMsg
from scripted import ScriptedModel


def facts(*items: Any) -> dict[str, Any]:
    """Return an extraction; a text alone is a fact about the user."""
    return {"memories": [as_fact(item) for item in items], "complete": True}


def as_fact(item: Any) -> Any:
    return (
        {"type": "user", "title": item[:40], "text": item, "when": f"about: {item}"} if isinstance(item, str) else item
    )


def decisions(*items: dict[str, Any]) -> dict[str, Any]:
    return {"decisions": list(items), "complete": True}


def model(*answers: Any, **kwargs: Any) -> ScriptedModel:
    return ScriptedModel(selections=answers, **kwargs)


def talk(said: str = "I live in Hangzhou.", answered: str = "Noted.") -> list[Msg]:
    return [UserMsg("user", said), AssistantMsg("assistant", answered)]
