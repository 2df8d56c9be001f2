"""Text the offline model works on: new memory files, and edits of existing ones that touch no other line."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from agentic_memory.offline.intent import MAX_HOOK_CHARACTERS, Fact
from agentic_memory.offline.view import parse_entries
from agentic_memory.offline.words import language_of, terms_of, widen
from agentic_memory.rendering import render_document

MAX_WHOLE_FILE_LINES: Final = 6
"""A file of more statements is never emptied for a topic that none of them names."""

_FRONTMATTER = re.compile(r"\A\ufeff?---[ \t]*\n.*?^---[ \t]*\n?", re.MULTILINE | re.DOTALL)
_SAID = {"en": "The user said:", "zh": "用户说过："}
_FORGOTTEN = {"en": "(forgotten at the user's request)", "zh": "（已按用户要求忘记）"}


@dataclass(frozen=True, slots=True)
class Replacement:
    """One exact replacement: ``old`` occurs once in the text it was made for."""

    old: str
    new: str


def render_file(facts: Sequence[Fact]) -> str:
    """Return a new memory file that holds ``facts``, which share a file name."""
    first = facts[0]
    language = language_of(first.text)
    subject = f"{first.title}——" if language == "zh" else f"{first.title} of the user — "
    if language == "en" and first.type != "user":
        subject = f"{first.title} — "
    content = f"{_SAID[language]}\n\n" + "".join(f"- {fact.text}\n" for fact in facts).replace("\0", "")
    return render_document(
        name=first.title, description=subject + first.hook, type=first.type, content=content
    ).decode()


def add_statements(text: str, facts: Sequence[Fact]) -> str:
    """Return ``text`` with the facts it does not hold yet, below its last line."""
    missing = [f"- {fact.text}" for fact in facts if fact.text not in text]
    stripped = text.rstrip("\n")
    return "\n".join([stripped, *missing]) + text[len(stripped) :]


def render_entry(fact: Fact) -> str:
    """Return the index line of a fact's file."""
    title = fact.title.replace("[", "(").replace("]", ")")
    return f"- [{title}]({fact.filename}) — {fact.hook}"


def add_entries(index: str, facts: Sequence[Fact]) -> str:
    """Return ``index`` with an entry for every file of ``facts``; an entry that stands there learns the new fact."""
    lines = index.split("\n")
    entries = {entry.filename: entry for entry in parse_entries(index)}
    fresh: dict[str, str] = {}
    for fact in facts:
        entry = entries.get(fact.filename)
        if entry is None:
            fresh.setdefault(fact.filename, render_entry(fact))
        elif fact.text not in entry.line and len(entry.line) + len(fact.text) < MAX_HOOK_CHARACTERS + 40:
            lines[lines.index(entry.line)] = f"{entry.line}; {fact.text}"
    if fresh:
        last = max((at for at, line in enumerate(lines) if parse_entries(line)), default=-1)
        if last < 0:
            last = max((at for at, line in enumerate(lines) if line.strip()), default=-1)
        lines[last + 1 : last + 1] = fresh.values()
    return "\n".join(lines)


def drop_entry(index: str, filename: str) -> str:
    """Return ``index`` without the entries of one file."""
    return "\n".join(
        line for line in index.split("\n") if not any(entry.filename == filename for entry in parse_entries(line))
    )


def withdraw_hook(index: str, filename: str, doomed: Sequence[str]) -> str:
    """Return ``index`` with ``doomed`` statements taken out of the entry of one file, which keeps its title."""
    lines = index.split("\n")
    for entry in parse_entries(index):
        if entry.filename == filename:
            line = entry.line
            for statement in map(plain_statement, doomed):
                line = line.replace(f"; {statement}", "").replace(f"{statement}; ", "").replace(statement, "")
            lines[lines.index(entry.line)] = line.rstrip(" —")
    return "\n".join(lines)


def plain_statement(line: str) -> str:
    """Return a line of a memory file without its bullet."""
    return line.strip().lstrip("-*+ ")


def body_of(text: str) -> str:
    """Return a memory file's text after its frontmatter."""
    return _FRONTMATTER.sub("", text, count=1)


def statements_of(text: str) -> list[str]:
    """Return the lines of a memory file's body that state something."""
    furniture = {*_SAID.values(), *_FORGOTTEN.values()}
    return [
        line
        for line in body_of(text).split("\n")
        if terms_of(line) and line.strip() not in furniture and not line.startswith("#")
    ]


def matching_statements(text: str, topic: str) -> list[str]:
    """Return the statements of a memory file that speak of ``topic``; by its own words first, then by its subject's."""
    statements = statements_of(text)
    for terms in (terms_of(topic), widen(terms_of(topic))):
        scores = {statement: len(terms & terms_of(statement)) for statement in statements}
        best = max(scores.values(), default=0)
        if best:
            return [statement for statement, score in scores.items() if score > best / 2]
    return []


def remove_statements(text: str, doomed: Sequence[str]) -> str:
    """Return a memory file without some statements.

    When none would be left, a word says so in their place, and the description, which repeats them, is replaced too.
    """
    header, body = text[: len(text) - len(body_of(text))], body_of(text)
    lines = [line for line in body.split("\n") if line not in doomed]
    if not any(statement not in doomed for statement in statements_of(text)):
        note = _FORGOTTEN[language_of(doomed[0])]
        header = re.sub(r"^description:.*$", f"description: {note}", header, count=1, flags=re.MULTILINE)
        return header + ("\n" if header else "") + note + text[len(text.rstrip("\n")) :]
    for statement in doomed:
        if (plain := plain_statement(statement)) and plain in header:
            kept = next(each for each in statements_of(text) if each not in doomed)
            header = header.replace(plain, plain_statement(kept))
    return header + "\n".join(lines)


def replacement_between(old: str, new: str) -> Replacement | None:
    """Return the smallest replacement of whole lines that turns ``old`` into ``new``; None when they are equal.

    Lines above are taken in until what is replaced is unique and neither side is a bare line break, because an
    editing tool refuses ambiguous text and a removed line must take its break along.
    """
    if old == new:
        return None
    before, after = old.split("\n"), new.split("\n")
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    while True:
        was = "\n".join(before[head : len(before) - tail])
        becomes = after[head : len(after) - tail]
        # Counting would miss occurrences that overlap.
        if was.strip() and becomes and old.find(was) == old.rfind(was):
            return Replacement(was, "\n".join(becomes))
        if head:
            head -= 1
        elif tail:
            tail -= 1
        else:
            return Replacement(old, new)
