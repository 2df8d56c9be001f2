"""Sleep-time consolidation: what could be tidier in a memory, each change with its reason. No model is asked here."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Literal

from agentic_memory.backends import FileRecord
from agentic_memory.dates import absolute, find_relative_dates
from agentic_memory.document import Document, edit_body
from agentic_memory.duplicates import Duplicate
from agentic_memory.history.entries import Version
from agentic_memory.operations import Create, Forget, Rewrite, Update
from agentic_memory.ordering import order_by_use
from agentic_memory.shelf import INDEX_FILENAME, Snapshot
from agentic_memory.tokens import estimate_tokens
from agentic_memory.writeback.nearest import is_marked

MAX_FILE_TOKENS: Final = 2_000
"""Size from which a memory is taken apart: a hint shows no more of one file."""
MIN_SECTIONS: Final = 3
_SECTION: Final = re.compile(r"(?m)^## +(?P<title>.+?)[ \t]*$")

DreamKind = Literal["archive", "forget-copy", "date", "split", "merge", "describe", "order"]
Operation = Create | Rewrite | Forget | Update


@dataclass(frozen=True, slots=True)
class Dreamt:
    """One change, and why.

    Attributes:
        kind: ``archive``: it has expired; ``forget-copy``: another memory says the same; ``date``: "tomorrow" becomes a
            day; ``split``: one file becomes several; ``merge``: several become one; ``describe``: a better description; ``order``: of the
            index, what is used most first.
        filenames: The memories it is about, the one that stays first.
        why: For people.
        operations: What is done.
        seen: What the memories were when it was thought out; it is not done to any other version.
    """

    kind: DreamKind
    filenames: tuple[str, ...]
    why: str
    operations: tuple[Operation, ...] = field(repr=False)
    seen: Mapping[str, str] = field(repr=False)

    def holds(self, snapshot: Snapshot) -> bool:
        """Tell whether every memory it is about still is what it was."""
        there = {name: record.version for name, (record, _) in snapshot.documents.items()}
        if isinstance(snapshot.index_record, FileRecord):
            there[INDEX_FILENAME] = snapshot.index_record.version
        return all(there.get(name) == version for name, version in self.seen.items())

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"kind": self.kind, "files": list(self.filenames), "why": self.why}


@dataclass(frozen=True, slots=True)
class Known:
    """What a dream knows besides the files.

    Attributes:
        own: Files whose every version a program wrote.
        histories: The versions of each file, newest first.
        expired: Files whose time is over.
        today: The day.
    """

    own: frozenset[str]
    histories: Mapping[str, Sequence[Version]]
    expired: frozenset[str]
    today: date

    def may_change(self, filename: str, document: Document) -> bool:
        """Tell whether a program may change the text of a file."""
        return filename in self.own and not is_marked(document.fields, "locked") and document.encoding != "binary"

    def may_go(self, filename: str, document: Document) -> bool:
        """Tell whether a program may take a file away."""
        return self.may_change(filename, document) and not is_marked(document.fields, "pinned")


def dream_alone(snapshot: Snapshot, duplicates: Sequence[Duplicate], known: Known) -> Iterator[Dreamt]:
    """Yield what needs no model, at most one change of each file."""
    touched: set[str] = set()
    for change in (*_archive(snapshot, known), *_forget_copies(snapshot, duplicates, known)):
        if touched.isdisjoint(change.filenames):
            touched.update(change.filenames)
            yield change
    for filename, (_, document) in snapshot.documents.items():
        if filename in touched or not known.may_change(filename, document):
            continue
        found = _split(snapshot, filename) or _write_out_dates(snapshot, filename, known)
        if found is not None:
            yield found


def _archive(snapshot: Snapshot, known: Known) -> Iterator[Dreamt]:
    for filename in sorted(known.expired):
        document = snapshot.documents[filename][1]
        # What has expired has done so by its own header, whoever wrote that.
        if not is_marked(document.fields, "pinned") and not is_marked(document.fields, "locked"):
            seen = _seen(snapshot, filename)
            forget = Forget(filename=filename, expected=seen[filename])
            yield Dreamt("archive", (filename,), "its header says that its time is over", (forget,), seen)


def _forget_copies(snapshot: Snapshot, duplicates: Sequence[Duplicate], known: Known) -> Iterator[Dreamt]:
    for copy in duplicates:
        if copy.similarity < 1 or not known.may_go(copy.path, snapshot.documents[copy.path][1]):
            continue
        seen = _seen(snapshot, copy.original, copy.path)
        forget = Forget(filename=copy.path, expected=seen[copy.path])
        why = f"{copy.original} says the same word for word"
        yield Dreamt("forget-copy", (copy.original, copy.path), why, (forget,), seen)


def _write_out_dates(snapshot: Snapshot, filename: str, known: Known) -> Dreamt | None:
    """Write dates out by the day a memory was written, which is known of one that was never changed."""
    versions = known.histories.get(filename, ())
    if len(versions) != 1:
        return None
    document = snapshot.documents[filename][1]
    body, day, written = document.body, versions[0].when.astimezone().date(), []
    for found in reversed(find_relative_dates(body)):
        meant = absolute(found, on=day)
        if meant is not None:
            body = body[: found.start] + meant + body[found.end :]
            written.append(f'"{found.text}" → {meant}')
    if not written:
        return None
    seen = _seen(snapshot, filename)
    rewrite = Rewrite(filename=filename, data=edit_body(document, body), expected=seen[filename])
    return Dreamt("date", (filename,), f"written on {day}: {', '.join(reversed(written))}", (rewrite,), seen)


def _split(snapshot: Snapshot, filename: str) -> Dreamt | None:
    """Make a memory of each section of one that is too long; what stands before them stays, with links to the parts."""
    document = snapshot.documents[filename][1]
    body = document.body
    heads = list(_SECTION.finditer(body))
    if estimate_tokens(body) < MAX_FILE_TOKENS or len(heads) < MIN_SECTIONS or "```" in body:
        return None
    if is_marked(document.fields, "pinned"):
        return None
    ends = [*(head.start() for head in heads[1:]), len(body)]
    title = document.name or filename.removesuffix(".md")
    parts = [
        Create(
            name=f"{title}: {head['title']}",
            description=f"{document.description or title} — {head['title']}",
            type=document.type,
            content=body[head.end() : end].strip("\n") + "\n",
        )
        for head, end in zip(heads, ends, strict=True)
    ]
    rest = body[: heads[0].start()].rstrip("\n")
    links = "\n".join(f"- [[{part.name}]]" for part in parts)
    seen = _seen(snapshot, filename)
    kept = Rewrite(
        filename=filename, data=edit_body(document, f"{rest}\n\n{links}\n".lstrip("\n")), expected=seen[filename]
    )
    why = f"about {estimate_tokens(body):,} tokens in {len(parts)} sections, and a hint shows {MAX_FILE_TOKENS:,}"
    return Dreamt("split", (filename,), why, (*parts, kept), seen)


def order_index(snapshot: Snapshot, uses: Mapping[str, int]) -> Dreamt | None:
    """Put the entries of MEMORY.md that are used most first; None when they are, or when nothing was used."""
    record, document = snapshot.index_record, snapshot.index_document
    text = order_by_use(document.text, {name: count for name, count in uses.items() if name in snapshot.documents})
    if text == document.text or document.encoding == "binary" or not isinstance(record, FileRecord):
        return None
    rewrite = Rewrite(filename=INDEX_FILENAME, data=document.encode(text), expected=record.version)
    why = "the entries that are used most come first"
    return Dreamt("order", (INDEX_FILENAME,), why, (rewrite,), {INDEX_FILENAME: record.version})


def _seen(snapshot: Snapshot, *filenames: str) -> dict[str, str]:
    return {name: snapshot.documents[name][0].version for name in filenames}
