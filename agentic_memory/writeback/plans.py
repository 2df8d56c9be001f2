"""What decisions make of a memory: files written, changed and set aside, planned on what is there now. No I/O.

Planning again on a newer snapshot is how a change that somebody made meanwhile survives: an edit is found again in the
new text, a fact that stands there by now is not added a second time.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from agentic_memory.document import Document, edit_body, edit_field, parse_document
from agentic_memory.errors import InvalidMemory
from agentic_memory.lines import one_line
from agentic_memory.operations import Create, Forget, Rewrite
from agentic_memory.prompts import load_prompt
from agentic_memory.shelf import Snapshot
from agentic_memory.writeback.candidates import Language
from agentic_memory.writeback.decisions import Decision, Operation
from agentic_memory.writeback.nearest import is_marked
from agentic_memory.writeback.sentences import says, share_kept

MIN_MERGED_SHARE: Final = 0.8
"""Share of the words of each merged memory that must be found again in the text that takes their place."""
Change = Create | Rewrite | Forget
_LIST_ITEM: Final = re.compile(r"[-*+] ")
_SENTENCE_EDGE: Final = re.compile(r"[\n。！？；;.!?]\s*$")


@dataclass(frozen=True, slots=True)
class Learned:
    """One operation as it was carried out, or is proposed.

    Attributes:
        operation: What was done; an UPDATE of a file that a person wrote only adds to it.
        filename: Which memory; empty for one that is not written yet.
        title: What it is about.
        reason: Why, in the model's words.
    """

    operation: Operation
    filename: str
    title: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for one transaction.

    Attributes:
        operations: What is to be done to the store, at most one of each file; creations first.
        learned: Which decisions that carries out.
        dropped: What was not done, and why.
        for_people: Decisions that only a person may carry out: about text a person wrote, or locked.
    """

    operations: tuple[Change, ...] = ()
    learned: tuple[Learned, ...] = ()
    dropped: tuple[str, ...] = ()
    for_people: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for one plan.

    Attributes:
        own: Files whose every word a program wrote, and the version of which that is known.
        seen: Versions of the memories the model was shown whole; only those may be replaced as a whole.
        near: Files to look for a fact in, besides those that changed since.
        day: The day that superseding text is dated with.
        language: Of the words around superseded text.
        rewrite_people: Whether text that a person wrote may be rewritten like any other.
        ignore_marks: Whether pins and locks count; not for a proposal, which a person decides on.
    """

    own: Mapping[str, str]
    seen: Mapping[str, str]
    near: frozenset[str]
    day: date
    language: Language = "en"
    rewrite_people: bool = False
    ignore_marks: bool = False


def make_plan(snapshot: Snapshot, decisions: Sequence[Decision], rules: Rules) -> Plan:
    """Plan ``decisions`` in order on ``snapshot``, each on what the ones before made of it."""
    desk = _Desk(snapshot, rules)
    for decision in decisions:
        try:
            desk.carry_out(decision)
        except _NotDoneError as error:
            if error.ask:
                desk.for_people.append(decision)
            else:
                desk.dropped.append(f"{decision.operation} {one_line(decision.title)[:80]!r}: {error}")
        except InvalidMemory as error:
            desk.dropped.append(f"{decision.operation} {one_line(decision.title)[:80]!r}: {error}")
    return desk.plan()


class _NotDoneError(Exception):
    """An operation that is not carried out; ``ask``: but a person may."""

    def __init__(self, message: str, *, ask: bool = False) -> None:
        super().__init__(message)
        self.ask = ask


class _Desk:
    """The files as the operations so far leave them."""

    def __init__(self, snapshot: Snapshot, rules: Rules) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._changed: dict[str, Document] = {}
        self._gone: set[str] = set()
        self._new: list[Create] = []
        self.learned: list[Learned] = []
        self.dropped: list[str] = []
        self.for_people: list[Decision] = []

    def plan(self) -> Plan:
        """Return the plan."""
        documents = self._snapshot.documents
        rewrites = [
            Rewrite(filename=name, data=data, expected=documents[name][0].version)
            for name, document in self._changed.items()
            if name not in self._gone
            if (data := document.encode(document.text)) != _bytes(documents[name][1])
        ]
        discards = [Forget(filename=name, expected=documents[name][0].version) for name in sorted(self._gone)]
        return Plan(
            (*self._new, *rewrites, *discards), tuple(self.learned), tuple(self.dropped), tuple(self.for_people)
        )

    # ------------------------------------------------------------------ operations

    def carry_out(self, decision: Decision) -> None:
        """Carry out one decision on the desk.

        Raises:
            _NotDoneError: it breaks a rule; nothing of it was done.
        """
        filename = decision.filename or ""
        if filename and (filename not in self._snapshot.documents or filename in self._gone):
            if decision.fact is None:
                raise _NotDoneError("the memory is not there any more")
            decision, filename = replace(decision, operation="ADD", filename=None), ""
        match decision.operation:
            case "ADD":
                filename = self._add(decision)
            case "UPDATE":
                self._update(filename, decision)
            case "NONE":
                pass  # nothing is written, and the report says which memory has it
            case "DELETE":
                self._delete(filename, decision)
            case "MERGE":
                self._merge(filename, decision)
            case "EXPIRE":
                self._check(filename, "pinned", "locked")
                self._set(filename, "expires", f"{decision.until}")
            case "PIN" | "LOCK":
                self._set(filename, "pinned" if decision.operation == "PIN" else "locked", "true")
        self.learned.append(Learned(decision.operation, filename, decision.title, decision.reason))

    def _add(self, decision: Decision) -> str:
        fact = decision.fact
        assert fact is not None
        known = next((name for name in self._places() if says(self._document(name).body, fact.text)), None)
        if known is not None:
            raise _NotDoneError(f"{known} says this already")
        if any(says(new.content, fact.text) for new in self._new):
            raise _NotDoneError("it was given twice")
        self._new.append(Create(name=fact.title, description=fact.when, type=fact.type, content=fact.content))
        return ""

    def _update(self, filename: str, decision: Decision) -> None:
        fact = decision.fact
        assert fact is not None
        self._check(filename, "locked")
        body = self._document(filename).body
        text = decision.text or fact.text
        span = find_words(body, decision.replaces) if decision.replaces else None
        if span is None and says(body, text):
            raise _NotDoneError(f"{filename} says this already")
        if span is not None and not decision.text and not _is_whole(body, *span):
            span = None  # the fact is a sentence and would stand in the middle of one
            body = _append(body, self._instead(text, decision.replaces))
        elif span is not None and self._may_rewrite(filename):
            body = body[: span[0]] + text + body[span[1] :]
        elif decision.replaces:
            body = _append(body, self._instead(text, decision.replaces))
        else:
            body = _append(body, text)
        if fact.details and not says(body, fact.details):
            body = f"{body.rstrip()}\n\n{fact.details}\n"
        self._write_body(filename, body)

    def _delete(self, filename: str, decision: Decision) -> None:
        self._check(filename, "pinned", "locked", rewrite=True)
        if decision.replaces:
            body = self._document(filename).body
            span = find_words(body, decision.replaces)
            if span is None:
                raise _NotDoneError(f"{filename} does not have the words {decision.replaces[:60]!r}")
            rest = _cut_out(body, *span)
            if rest.strip():
                self._write_body(filename, rest)
                return
        self._gone.add(filename)

    def _merge(self, filename: str, decision: Decision) -> None:
        self._check(filename, "locked", rewrite=True)
        for other in decision.others:
            if other not in self._snapshot.documents or other in self._gone:
                raise _NotDoneError(f"{other} is not there any more")
            self._check(other, "pinned", "locked", rewrite=True)
        for name in (filename, *decision.others):
            if name in self._changed or self._rules.seen.get(name) != self._snapshot.documents[name][0].version:
                raise _NotDoneError(f"{name} was not shown as it is now, or not as a whole")
            kept = share_kept(self._document(name).body, decision.text)
            if kept < MIN_MERGED_SHARE:
                raise _NotDoneError(f"the merged text has only {kept:.0%} of the words of {name}")
        self._write_body(filename, f"{decision.text}\n")
        self._gone.update(decision.others)

    # ------------------------------------------------------------------ files

    def _places(self) -> list[str]:
        return [
            name for name in sorted(self._rules.near) if name in self._snapshot.documents and name not in self._gone
        ]

    def _document(self, filename: str) -> Document:
        return self._changed.get(filename) or self._snapshot.documents[filename][1]

    def _may_rewrite(self, filename: str) -> bool:
        return (
            self._rules.rewrite_people or self._rules.own.get(filename) == self._snapshot.documents[filename][0].version
        )

    def _check(self, filename: str, *marks: str, rewrite: bool = False) -> None:
        """Raise unless the memory may be changed so. A lock holds for people's text too; only people lift it."""
        fields = self._document(filename).fields
        for mark in marks:
            if is_marked(fields, mark) and not self._rules.ignore_marks:
                raise _NotDoneError(f"{filename} is {mark}", ask=True)
        if rewrite and not self._may_rewrite(filename):
            raise _NotDoneError(f"a person wrote {filename}", ask=True)

    def _set(self, filename: str, key: str, value: str) -> None:
        data = edit_field(self._document(filename), key, value)
        self._changed[filename] = parse_document(data, filename=filename)

    def _write_body(self, filename: str, body: str) -> None:
        data = edit_body(self._document(filename), body)
        self._changed[filename] = parse_document(data, filename=filename)

    def _instead(self, text: str, replaces: str) -> str:
        note = load_prompt(f"superseding.{self._rules.language}")
        return note.format(day=self._rules.day.isoformat(), text=text, replaces=one_line(replaces))


def _bytes(document: Document) -> bytes:
    return document.encode(document.text)


def find_words(body: str, words: str) -> tuple[int, int] | None:
    """Find where ``words`` stand in ``body``, whatever the white space between them; None when they do not."""
    parts = [re.escape(part) for part in words.split()]
    if not parts:
        return None
    pattern = r"\s+".join(parts)
    edged = rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])" if words.strip().isascii() else pattern
    found = re.search(edged, body) or re.search(edged, body, re.IGNORECASE)
    return found.span() if found else None


def _is_whole(body: str, start: int, end: int) -> bool:
    """Tell whether a span is a whole sentence or line, list marks aside."""
    before = body[:start].rstrip(" \t*_")
    before = re.sub(r"(^|\n)[ \t]*(?:[-*+>]|\d+[.)])$", r"\1", before)
    starts = not before.strip() or _SENTENCE_EDGE.search(before) is not None
    ends = not body[end:].strip() or body[end - 1] in ".!?。！？" or body[end:].lstrip(" \t*_")[:1] in "\n.!?。！？;；"
    return starts and ends


def _append(body: str, text: str) -> str:
    """Put ``text`` below ``body``, as a list item where that ends in a list."""
    head = body.rstrip()
    last = head.rsplit("\n", 1)[-1]
    if not head:
        return f"{text}\n"
    if _LIST_ITEM.match(last) and "\n" not in text:
        return f"{head}\n{last[:2]}{text}\n"
    return f"{head}\n\n{text}\n"


def _cut_out(body: str, start: int, end: int) -> str:
    """Take a span out, and the line it stood on when nothing else is on it."""
    line_start = body.rfind("\n", 0, start) + 1
    line_end = body.find("\n", end)
    line_end = len(body) if line_end < 0 else line_end + 1
    rest = body[line_start:start] + body[end:line_end]
    if not rest.strip(" \t\r\n-*+>.。"):
        return body[:line_start] + body[line_end:]
    return body[:line_start] + re.sub(r"(?<=\S) {2,}", " ", rest) + body[line_end:]
