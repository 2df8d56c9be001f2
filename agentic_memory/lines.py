"""Lines as editors see them: ended by LF, CR LF or a lone CR, and by nothing else.

``str.splitlines`` also breaks at form feeds and at U+2028, which occur inside real descriptions.
"""

import re
from collections.abc import Iterator

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BREAK = re.compile(r"\r\n|\r|\n")
# Everything that YAML, `str.splitlines` or a terminal would take for the end of a line.
_ANY_BREAK = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


def split_lines(text: str) -> list[str]:
    """Split ``text`` into lines that keep their ends; joined they are ``text`` again."""
    return _LINE.findall(text)


def each_line(text: str) -> Iterator[str]:
    """Yield the lines of ``split_lines`` one by one, for callers that stop early."""
    return (match[0] for match in _LINE.finditer(text))


def strip_ending(line: str) -> str:
    """Return ``line`` without the line break at its end."""
    return line.rstrip("\r\n")


def count_breaks(text: str, start: int, end: int) -> int:
    """Count the line breaks in ``text[start:end]``."""
    if text.find("\r", start, end) < 0:
        return text.count("\n", start, end)
    return sum(1 for _ in _BREAK.finditer(text, start, end))


def dominant_ending(text: str) -> str:
    r"""Return the line break that ``text`` uses most, ``\n`` when it has none or in doubt."""
    both = text.count("\r\n")
    feeds = text.count("\n") - both
    returns = text.count("\r") - both
    if both > feeds and both >= returns:
        return "\r\n"
    return "\r" if returns > feeds else "\n"


def normalise_newlines(text: str) -> str:
    r"""Return ``text`` with every ``\r\n`` and lone ``\r`` as ``\n``, which is how AgentScope shows it to a model."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def one_line(text: str) -> str:
    """Fold ``text`` into one line: every break, with the blanks around it, becomes one space."""
    return _ANY_BREAK.sub(" ", text.strip()).strip()
