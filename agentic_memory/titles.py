"""Titles and descriptions for memories that were given none: made of their own first words, by no model."""

import re
from typing import Final

from agentic_memory.lines import one_line

MAX_TITLE_WORDS: Final = 7
MAX_TITLE_CHARACTERS: Final = 48
MAX_DESCRIPTION_CHARACTERS: Final = 120

_MARKUP: Final = "#-*> \t"
_CLAUSE_END: Final = re.compile(r"[.!?;:,](?=\s|$)|[。！？；：，、\n]")


def title_of(text: str) -> str:
    """Return a title: the first words of the first clause."""
    line = one_line(text.lstrip(_MARKUP))
    clause = _CLAUSE_END.split(line)[0].strip() or line
    title = shorten(" ".join(clause.split()[:MAX_TITLE_WORDS]), MAX_TITLE_CHARACTERS)
    return title[:1].upper() + title[1:]


def describe(text: str) -> str:
    """Return one line that stands for a text in the index: its first line with words in it."""
    first = next((line for line in text.splitlines() if line.strip(_MARKUP) and not line.startswith("#")), text)
    return shorten(first.strip().lstrip(_MARKUP), MAX_DESCRIPTION_CHARACTERS)


def shorten(text: str, room: int) -> str:
    """Return ``text`` on one line of at most ``room`` characters, cut between words where there are any."""
    text = one_line(text)
    if len(text) <= room:
        return text
    cut = text[: room - 1]
    return f"{cut[: cut.rfind(' ')] if ' ' in cut[room // 2 :] else cut}…"
