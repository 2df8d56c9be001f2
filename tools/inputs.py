"""What a model may hand to a tool."""

from agentic_memory.tools.answers import Refusal


def check_absolute(path: str) -> None:
    """Raise ``Refusal`` unless ``path`` is absolute."""
    if not path.startswith("/"):
        raise Refusal(f"file_path must be an absolute path, got: {path}")


def check_text(text: str, argument: str) -> None:
    """Raise ``Refusal`` when ``text`` holds half of a surrogate pair, which no file can."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise Refusal(
            f"{argument} holds {text[exc.start]!r} at character {exc.start}: half of a character, which cannot be "
            "written to a file. Repeat the call with the whole character"
        ) from exc
