"""Relations that memory files state about each other: in their frontmatter, and as ``[[links]]`` in their text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from agentic_memory.document import Document
from agentic_memory.prose import blank_code
from agentic_memory.selection.model import match_names
from agentic_memory.selection.passages import count_lines, find_headings, split_parts, split_passages, widen_passage
from agentic_memory.selection.words import all_terms, query_terms

if TYPE_CHECKING:
    from agentic_memory.selection.lexical import Hit

SUPERSEDED_BY: Final = "superseded_by"
RELATES_TO: Final = "relates_to"
MAX_STEPS: Final = 8
"""Successors followed in a row. A longer chain is more likely a mistake than a history."""
MAX_LINKS: Final = 16
"""Links of one file that are looked at: a file that links to everything says nothing about any of it."""
MAX_CHARS: Final = 8_000
"""What is read of a linked file to see whether it has what is asked for."""

Documents = Mapping[str, tuple[object, Document]]
"""File name to a pair whose second is the document."""

_BLANKS: Final = re.compile(r"[ _-]+")
_LINK: Final = re.compile(r"\[\[([^\[\]|#\r\n]+)(?:[|#][^\[\]\r\n]*)?\]\]")


def successor_of(documents: Documents, filename: str) -> str:
    """Return the file that took the place of ``filename``, after ``superseded_by`` links; itself when there is none.

    A link to a file that does not exist, or back to one that was passed, is not followed.
    """
    seen = {filename}
    for _ in range(MAX_STEPS):
        stated = documents[filename][1].fields.get(SUPERSEDED_BY, "").strip().strip("[]")
        found = match_names([stated], tuple(documents))[0] if stated else ()
        if not found or found[0] in seen:
            break
        filename = found[0]
        seen.add(filename)
    return filename


def neighbours_of(documents: Documents, filename: str) -> list[str]:
    """Return the files that ``filename`` relates to or links to, in its own order; those that do not exist are left out."""
    document = documents[filename][1]
    return _targets(documents, [*_related(document), *_links(document.body)], but=filename)


def with_neighbour(documents: Documents, hits: Sequence["Hit"], query: str) -> list["Hit"]:
    """Return the hits with at most one file more, right after the first, which links to it and does not suffice.

    That is so when the linked file has words of the query that the first hit lacks, or when the link stands in the very
    passage that answers.
    """
    if not hits:
        return []
    first, there = hits[0], {hit.filename for hit in hits}
    linked = [name for name in neighbours_of(documents, first.filename) if name not in there]
    if not linked:
        return list(hits)
    missing = set(query_terms(query)) - _terms(documents[first.filename][1])
    pointed = set(_targets(documents, _links(first.passage), but=first.filename))
    best = max(linked, key=lambda name: (len(missing & _terms(documents[name][1])), name in pointed))
    if best not in pointed and missing.isdisjoint(_terms(documents[best][1])):
        return list(hits)
    passage, line = best_passage(documents[best][1], query)
    return [first, replace(first, filename=best, passage=passage, line=line, via=first.filename), *hits[1:]]


def _related(document: Document) -> Iterator[str]:
    for stated in re.split(r"[,\n]", document.fields.get(RELATES_TO, "").strip("[] ")):
        yield stated.strip(" \t\"'[]")


def _links(text: str) -> Iterator[str]:
    if "[[" in text:
        for link in _LINK.finditer(blank_code(text)):
            yield link[1]


def _targets(documents: Documents, stated: Sequence[str] | Iterator[str], *, but: str) -> list[str]:
    names = [name for name in stated if name.strip()][:MAX_LINKS]
    if not names:
        return []
    spelled = [
        form for name in names for form in (name, _BLANKS.sub("_", name.strip()), _BLANKS.sub("-", name.strip()))
    ]
    found, _ = match_names(spelled, tuple(documents))
    return [name for name in found if name != but]


def _terms(document: Document) -> frozenset[str]:
    return all_terms("\n".join([document.name, document.description, document.body[:MAX_CHARS]]))


def best_passage(document: Document, query: str) -> tuple[str, int]:
    """Return the passage of a file that has most of the query, and the line where it begins."""
    body = document.body[:MAX_CHARS]
    headings, asked = find_headings(body), set(query_terms(query))
    passages = [piece for part in split_parts(body, headings) for piece in split_passages(body, part, headings)]
    counts = [len(asked & all_terms(body[start:end])) for start, end in passages]
    start, end = widen_passage(passages, counts.index(max(counts)))
    shown = body[start:end]
    if not shown.strip():
        return document.description or document.name, 1
    start += len(shown) - len(shown.lstrip())
    return shown.strip(), count_lines(body, start, first=document.body_line)
