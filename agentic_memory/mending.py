"""Mending a memory as text: only what can be proven to lose nothing and to mean what was meant.

A file is mended when it reads back with the same fields and the same body, and with problems fewer and none new. What is
wrong and needs a decision, such as which side of a conflict to keep, is left to people.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from agentic_memory.check import NearNames, check_index, entries_without_file
from agentic_memory.dates import find_relative_dates
from agentic_memory.descriptions import names_only_a_topic
from agentic_memory.document import Document, edit_field, parse_document, write_over
from agentic_memory.errors import InvalidMemory
from agentic_memory.frontmatter import read_block
from agentic_memory.index import (
    MAX_LINE_CHARS,
    add_entries,
    change_entry,
    drop_entries,
    drop_repeats,
    parse_index,
    render_entry,
)
from agentic_memory.lines import dominant_ending, split_lines
from agentic_memory.prose import blank_code
from agentic_memory.tokens import count_bytes, max_bytes_for

MAX_NAME_CHARS: Final = 80

_BLANKS: Final = re.compile("\ufeff?\\s+(?=-{3})")
_TITLE: Final = re.compile(r"^#[ \t]+(\S[^\r\n]*?)[ \t]*#*[ \t]*$", re.MULTILINE)


# --------------------------------------------------------------------------- one file


def mend_document(document: Document, *, filename: str) -> Document:
    """Return the file with its header mended, the same object when there is nothing to mend or it cannot be proven.

    The header is put first when only blank lines stand above it, closed, its values quoted where YAML reads something
    else; and a missing name becomes what the file is called anyhow: its title, else its file name.
    """
    if document.header is None or document.encoding == "binary":
        return document
    mended, last = document, None
    while mended is not last:  # what one step mends may be what kept another from proving itself
        last = mended
        for mend in (_put_first, _close, _quote):
            text = mend(mended)
            if text != mended.text:
                mended = _if_proven(mended, text, filename)
        mended = mended if mended.name else _give_name(mended, filename)
    return mended


def _if_proven(old: Document, text: str, filename: str) -> Document:
    new = parse_document(old.encode(text), filename=filename)
    same = (
        new.encoding == old.encoding
        and (new.name, new.description, new.type, new.body) == (old.name, old.description, old.type, old.body)
        and new.fields == old.fields
        and _all_fields(new) == _all_fields(old)
    )
    return new if same and _codes(new) < _codes(old) else old


def _codes(document: Document) -> Counter[str]:
    return Counter(problem.code for problem in document.problems)


def _all_fields(document: Document) -> list[tuple[str, str, str]]:
    """Return every field, those under ``metadata`` too, as it is read."""
    start, end = document.header or (0, 0)
    return [(field.parent, field.key, field.value) for field in read_block(document.text[start:end]).fields]


def _put_first(document: Document) -> str:
    blanks = _BLANKS.match(document.text)
    if blanks is None or not any(problem.code == "frontmatter-not-first" for problem in document.problems):
        return document.text
    mark = "\ufeff" if document.text[0] == "\ufeff" else ""
    return mark + document.text[blanks.end() :]


def _close(document: Document) -> str:
    text = document.text
    if document.header is None or not any(problem.code == "frontmatter-unterminated" for problem in document.problems):
        return text
    at, ending = document.header[1], dominant_ending(text)
    head = text[:at] if text[:at].endswith(("\r", "\n")) else text[:at] + ending
    return f"{head}---{ending}{text[at:]}"


def _quote(document: Document) -> str:
    text = document.text
    start, end = document.header or (0, 0)
    raw = [field for field in read_block(text[start:end]).fields if field.style == "raw"]
    for field in sorted(raw, key=lambda one: one.start, reverse=True):
        text = next(write_over(text, start, field, field.value))
    return text


def _give_name(document: Document, filename: str) -> Document:
    stem = filename.rpartition("/")[2][:-3]
    title = _TITLE.search(blank_code(document.body))
    for name in (title[1] if title else "", stem):
        if not 0 < len(name) <= MAX_NAME_CHARS or find_relative_dates(name):
            continue
        if names_only_a_topic(document.description, name=name) != names_only_a_topic(document.description, name=""):
            continue  # a name that says no more than the description
        try:
            named = parse_document(edit_field(document, "name", name), filename=filename)
        except InvalidMemory:
            continue
        if _codes(named) <= _codes(document):
            return named
    return document


# --------------------------------------------------------------------------- the index


def mend_index(
    text: str,
    documents: Mapping[str, Document],
    *,
    other_paths: Collection[str],
    max_tokens: int,
    may_drop: bool,
) -> str:
    """Return the index with its entries mended; free text and the order of lines stay.

    Entries of a near name get the right one; lines that only repeat another go; memories that are not listed are, as
    far as the budget allows.

    Args:
        text: The index; empty when there is none.
        documents: Every memory by its path.
        other_paths: What else stands in the directory: an entry that names one of these has its file.
        max_tokens: The budget for the index in the prompt.
        may_drop: Whether entries whose file is not there go too. What such a line says is lost to the index, so this
            is for memories that keep their history.
    """

    def unless_worse(old: str, new: str) -> str:
        if new == old:
            return old
        before, after = (
            Counter(problem.code for problem in check_index(parse_index(each), documents, other_paths, max_tokens))
            for each in (old, new)
        )
        return new if after <= before else old

    near = NearNames(documents)
    last = None
    while text != last:  # a line that goes makes room for others
        last = text
        text = unless_worse(text, _correct_names(text, documents, other_paths, near))
        text = unless_worse(text, drop_repeats(text))
        if may_drop:
            text = unless_worse(text, drop_entries(text, _gone(text, documents, other_paths, near)))
        text = unless_worse(text, _list_missing(text, documents, max_tokens=max_tokens))
    return text


def _correct_names(text: str, documents: Mapping[str, Document], others: Collection[str], near: NearNames) -> str:
    """Write the right name into entries that can only mean one memory, which nothing else lists."""
    index = parse_index(text)
    meant: dict[str, list[str]] = {}
    for filename in entries_without_file(index, documents, others):
        candidates = near.find(filename)
        if len(candidates) == 1 and index.find(candidates[0]) is None:
            meant.setdefault(candidates[0], []).append(filename)
    for path, wrong in meant.items():
        if len(wrong) == 1:
            text = change_entry(text, wrong[0], new_filename=path)
    return text


def _gone(text: str, documents: Mapping[str, Document], others: Collection[str], near: NearNames) -> set[str]:
    """Return the files of entries that may go: nothing of a similar name is there, and no text hangs on the line."""
    index, lines = parse_index(text), [*split_lines(text), ""]
    absent = entries_without_file(index, documents, others)
    hung = {
        entry.filename for entry in index.entries if lines[entry.line][:1] in {" ", "\t"} and lines[entry.line].strip()
    }
    return {filename for filename in absent if filename not in hung and not near.find(filename)}


def _list_missing(text: str, documents: Mapping[str, Document], *, max_tokens: int) -> str:
    index, ending = parse_index(text), dominant_ending(text)
    room = max_bytes_for(max_tokens) - count_bytes(text)
    lines: dict[str, str] = {}
    for path, document in documents.items():
        if document.encoding == "binary" or index.find(path) is not None:
            continue
        title = document.name or path.rpartition("/")[2][:-3]
        line = render_entry(title=title, filename=path, hook=document.description)
        room -= count_bytes(line) + len(ending)
        if room < 0:
            break
        if len(line) <= MAX_LINE_CHARS and parse_index(line).find(path) is not None:
            lines[path] = line
    return add_entries(text, lines)
