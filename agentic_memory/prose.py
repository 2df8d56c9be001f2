"""The prose of a Markdown text: what is left when code is not looked at."""

import re
from typing import Final

_CODE: Final = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1|\Z)|`[^`\r\n]+`", re.MULTILINE | re.DOTALL)
_NO_BREAK: Final = re.compile(r"[^\r\n]")


def blank_code(text: str) -> str:
    """Return ``text`` with code fences and code spans made of spaces: every offset and every line stays what it was."""
    if "`" not in text and "~~~" not in text:
        return text
    return _CODE.sub(lambda code: _NO_BREAK.sub(" ", code[0]), text)
