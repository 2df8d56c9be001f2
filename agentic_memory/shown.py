"""Memory text as a model is shown it: nothing that a person cannot see, and no secrets. The file itself stays as it is."""

import re
from typing import Final

from agentic_memory.credentials import redact
from agentic_memory.fence import printable

# Zero-width and bidirectional controls, tags and the variation selectors that can carry any bytes unseen.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)
# A joiner belongs into emoji and into Persian or Indic words; next to a Latin letter it only hides something.
_STRAY_JOINER: Final = re.compile("(?<![^\\x00-\u024f])[\u200c\u200d]|[\u200c\u200d](?![^\\x00-\u024f])")
_COMMENT: Final = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CODE_FENCE: Final = re.compile(
    r"^[ ]{0,3}(`{3,}|~{3,})[^\n]*\n.*?(?:^[ ]{0,3}\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)


def as_shown(text: str) -> str:
    """Return ``text`` without HTML comments and with invisible characters spelled out; its lines keep their numbers."""
    return reveal(without_comments(printable(text)))


def reveal(text: str) -> str:
    """Spell out the characters of ``text`` that show nothing but may tell a model something, as ``<U+200B>``."""
    if text.isascii():
        return text
    return _STRAY_JOINER.sub(_spell, _INVISIBLE.sub(_spell, text))


def without_comments(text: str) -> str:
    """Return ``text`` without HTML comments, which no reader of the rendered page sees; those in code blocks are code."""
    if "<!--" not in text:
        return text
    parts: list[str] = []
    done = 0
    for code in _CODE_FENCE.finditer(text):
        if text.rfind("<!--", done, code.start()) > text.rfind("-->", done, code.start()):
            continue  # the fence itself stands in a comment
        parts += _COMMENT.sub(_only_breaks, text[done : code.start()]), code[0]
        done = code.end()
    return "".join((*parts, _COMMENT.sub(_only_breaks, text[done:])))


def without_secrets(text: str, *, hide: bool) -> str:
    """Return ``text`` with a note in the place of each secret, if they are to be hidden."""
    return redact(text) if hide else text


def _spell(match: re.Match[str]) -> str:
    return f"<U+{ord(match[0]):04X}>"


def _only_breaks(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")
