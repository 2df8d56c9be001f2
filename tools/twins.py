"""Facts that a memory has already, in the same words or in words that mean no less and no more."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from agentic_memory.backends import FileRecord
from agentic_memory.document import Document
from agentic_memory.selection.stopwords import word_set
from agentic_memory.selection.words import fold, is_unspaced, split_chunks

_FILLERS: Final = word_set("a an the i i'm my me mine user users s is am are")
"""What "The user is a vegetarian" and "I am vegetarian" differ by. No pronoun of a third person and no tense: "his name"
is not "my name", and who lived somewhere need not live there."""
_FILLERS_UNSPACED: Final = re.compile(r"^(?:该?用户|我)(?:是)?|的")
_MARKUP: Final = re.compile(r"^\s*(?:[-*+>#]+|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
_SENTENCE_END: Final = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")


@dataclass(frozen=True, slots=True)
class Twin:
    """Where a fact stands already."""

    filename: str
    text: str


def fact_key(text: str) -> tuple[str, ...]:
    """Return what is compared of a fact: its words in order, without case, markup, articles and "the user"."""
    words: list[str] = []
    for chunk in split_chunks(fold(_MARKUP.sub("", text))):
        if is_unspaced(chunk):
            words.extend(_FILLERS_UNSPACED.sub("", chunk) if not words else chunk)
            continue
        word = chunk.casefold()
        if word not in _FILLERS:
            words.append(word.removesuffix("s") if len(word) > 3 else word)
    return tuple(words)


def find_twin(fact: str, documents: Mapping[str, tuple[FileRecord, Document]]) -> Twin | None:
    """Return where ``fact`` stands in ``documents``: as a line, a sentence, or a whole body."""
    key = fact_key(fact)
    if not key:
        return None
    for filename, (_, document) in documents.items():
        for statement in _statements(document.body):
            if fact_key(statement) == key:
                return Twin(filename, statement.strip())
    return None


def _statements(body: str) -> Iterator[str]:
    yield body
    for line in body.splitlines():
        if not line.strip():
            continue
        yield line
        sentences = _SENTENCE_END.split(line)
        if len(sentences) > 1:
            yield from sentences
