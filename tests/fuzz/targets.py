"""What must hold for any bytes. A target takes bytes, cuts them into what it needs, and fails by an exception."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from agentic_memory.check import check_memory
from agentic_memory.document import edit_body, edit_field, parse_document, render_document
from agentic_memory.errors import InvalidMemory
from agentic_memory.index import TRUNCATION_MARK, add_entry, change_entry, drop_entry, fit_index, parse_index
from agentic_memory.lines import split_lines
from agentic_memory.merge import merge_documents, merge_indexes
from agentic_memory.tokens import estimate_tokens

SEPARATOR: Final = b"\xfe\xff\xfe"
"""Cuts an input into several: three bytes that no text holds in this order, and that a fuzzer soon learns."""
KEYS: Final = ("name", "description", "type", "owner")


def fuzz_document(data: bytes) -> None:
    """Any file is read and written back byte for byte; an edit of one field or of the body changes nothing else."""
    first, value, key = (*data.split(SEPARATOR, 2), b"", b"")[:3]
    document = parse_document(first, filename="a.md")
    assert document.encode(document.text) == first
    assert document.text.endswith(document.body)
    assert all(problem.file == "a.md" and (problem.line or 1) >= 1 for problem in document.problems)
    check_memory(documents={"a.md": document}, index=None)
    text = value.decode("utf-8", "replace")
    name = KEYS[len(key) % len(KEYS)]
    try:
        edited = parse_document(edit_field(document, name, text), filename="a.md")
    except InvalidMemory:
        pass  # says why it cannot be put in; nothing was written
    else:
        assert edited.body == document.body
        assert {k: v for k, v in edited.fields.items() if k != name} == {
            k: v for k, v in document.fields.items() if k != name
        }
    try:
        with_body = parse_document(edit_body(document, text), filename="a.md")
    except InvalidMemory:
        return
    problems = {problem.code for problem in (*document.problems, *with_body.problems)}
    # Without a header the body is the whole file and may bring one along, and a second header in a row is part of the
    # body. Bytes that are no text may look like some once those around them are gone.
    if document.header and "second-block" not in problems and document.encoding != "surrogateescape":
        assert stripped(with_body.fields) == stripped(document.fields)  # an open block scalar gets its line break


def fuzz_rendering(data: bytes) -> None:
    """What is rendered reads back as it was given."""
    name, description, kind, content = (
        part.decode("utf-8", "replace").replace("\0", "") for part in (*data.split(SEPARATOR, 3), b"", b"", b"")[:4]
    )
    document = parse_document(render_document(name=name, description=description, type=kind, content=content))
    assert document.body.rstrip("\r\n") == content.rstrip("\r\n")
    again = parse_document(
        render_document(name=document.name, description=document.description, type=document.type, content=document.body)
    )
    assert (again.fields, again.body) == (document.fields, document.body)


def fuzz_index(data: bytes) -> None:
    """Any index is read; its entries come and go by whole lines, and every other line stays as it is."""
    first, second = (*data.split(SEPARATOR, 1), b"")[:2]
    text, title = first.decode("utf-8", "replace"), second.decode("utf-8", "replace")
    index = parse_index(text)
    added = add_entry(text, title=title, filename="new/a b.md", hook=title)
    if index.find("new/a b.md") is None:
        assert parse_index(added).find("new/a b.md") is not None
        assert is_insertion(text, added)
    for entry in index.entries[:3]:
        change_entry(text, entry.filename, title=title, hook=title)
        assert parse_index(drop_entry(text, entry.filename)).find(entry.filename) is None
    budget = len(second)
    fitted = fit_index(index, max_tokens=budget)
    assert estimate_tokens(text) <= budget or fitted.cut_lines
    shown = [line.strip() for line in split_lines(fitted.text) if TRUNCATION_MARK not in line]
    assert is_subsequence([line for line in shown if line], [line.strip() for line in split_lines(text)])


def fuzz_merge(data: bytes) -> None:
    """Any three files merge or clash; what one side left alone is as the other has it."""
    base, ours, theirs = (*data.split(SEPARATOR, 2), b"", b"")[:3]
    for merge in (merge_documents, merge_indexes):
        result = merge(base, ours, theirs)
        assert (result.data is None) is bool(result.clashes)
        result.as_diff(path="a.md").encode()
        assert merge(base, base, theirs).data == theirs
        assert merge(base, ours, base).data == ours
        assert merge(base, ours, ours).data == ours


def stripped(fields: Mapping[str, str]) -> dict[str, str]:
    """Return fields without the white space at their ends."""
    return {key: value.strip() for key, value in fields.items()}


def is_insertion(old: str, new: str) -> bool:
    """Tell whether ``new`` is ``old`` with one piece put in somewhere."""
    head = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), len(old))
    return len(new) >= len(old) and new.endswith(old[head:])


def is_subsequence(some: list[str], of: list[str]) -> bool:
    """Tell whether ``of`` holds all of ``some`` in that order."""
    rest = iter(of)
    return all(item in rest for item in some)


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = MappingProxyType(
    {"document": fuzz_document, "rendering": fuzz_rendering, "index": fuzz_index, "merge": fuzz_merge}
)
