"""What must not be written to a memory: one set of guards for tools, store and write-back.

A guard looks at what a file is and what it shall become, and objects in words a model can act on. A person's own edit,
by hand or from the command line, is not guarded: it is theirs to make.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Final, Literal

from agentic_memory.credentials import REDACTED, find_secrets, redact, secrets_in
from agentic_memory.dates import absolute, find_relative_dates
from agentic_memory.document import Document, parse_document
from agentic_memory.errors import WriteRefused
from agentic_memory.index import INDEX_FILENAME, parse_index
from agentic_memory.lines import count_breaks, normalise_newlines
from agentic_memory.orders import find_orders
from agentic_memory.stubs import find_stub
from agentic_memory.values import Objection

MAX_FILE_BYTES: Final = 1024 * 1024
"""Size up to which a memory may grow. The largest hand-kept one we know of has 226 kB; a fact needs one."""
MAX_LOST_SHARE: Final = 0.5
"""Share of a file's text that one write may take out without putting as much back."""
MIN_LOST_BYTES: Final = 1_000
"""Loss that always passes: in a short file every edit is a large share of it."""
MAX_LOST_ENTRIES_SHARE: Final = 1 / 3
"""Share of the entries of the index that one write may take out."""
MIN_LOST_ENTRIES: Final = 4
"""Entries that must be lost before anything is said: three memories may well be merged into one."""

AMOUNTS: Final = frozenset({"text-lost", "entries-lost"})
"""Codes that a large deletion has by its nature, so that one that was asked for in so many words is none."""

LossAction = Literal["refuse", "ask", "allow"]
SecretAction = Literal["refuse", "redact", "ask", "allow"]


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """What is done about a write that a guard objects to, where that is a matter of taste.

    Attributes:
        losses: A write that drops much of a file, of the index, or a name or description. ``ask``: the person who
            confirms tool calls decides; where there is nobody to ask it is refused.
        secrets: A key, token or password that was not in the file before. ``redact``: a note is written in its place.
    """

    losses: LossAction = "refuse"
    secrets: SecretAction = "refuse"

    def with_loss(self, *, allowed: bool) -> "WritePolicy":
        """Return the policy for a caller that may mean to drop text."""
        return replace(self, losses="allow") if allowed else self


def objections_to(
    filename: str, before: bytes | None, after: bytes, *, policy: WritePolicy, memory: bool = True
) -> list[Objection]:
    """List what is wrong with replacing ``before`` by ``after``, the worst first; empty when nothing is.

    Args:
        filename: Path of the file in any form; its last part and suffix count.
        before: What the writer knows of the file; None or empty when there is none.
        after: All of what it shall become.
        policy: What is allowed.
        memory: Whether the file is a memory or the index. Of any other file only what looks like an accident is told:
            a stub, lost bytes, a header that went away.
    """
    return list(_objections(filename, before or b"", after, policy, memory=memory))


def remarks_on(before: bytes | None, after: bytes, *, today: date) -> list[str]:
    """Say what of ``after`` is new, may be written, and had better be worded otherwise; in words a model can act on."""
    old, new = parse_document(before or b"").text, parse_document(after).text
    remarks: list[str] = []
    known = {old[order.start : order.end] for order in find_orders(old)}
    for order in find_orders(new):
        if new[order.start : order.end] not in known:
            remarks.append(
                f"Line {order.line} reads like an order to a model; memory is shown as data, and nobody will follow it. State "
                "the fact, and who said it"
            )
            break
    dates_before = {found.text for found in find_relative_dates(old)}
    for found in find_relative_dates(new):
        if found.text not in dates_before:
            meant = absolute(found, on=today)
            remarks.append(
                f'"{found.text}" means nothing to a later reader: write the date{f" ({meant})" if meant else ""} instead'
            )
            break
    return remarks


def refuse_objections(filename: str, before: bytes | None, after: bytes, *, policy: WritePolicy) -> None:
    """Raise ``WriteRefused`` when anything is wrong with the write; for writers that have nobody to ask."""
    objections = objections_to(filename, before, after, policy=policy)
    if objections:
        raise WriteRefused(filename, objections)


def _objections(
    filename: str, before: bytes, after: bytes, policy: WritePolicy, *, memory: bool
) -> Iterator[Objection]:
    old, new = parse_document(before, filename=filename), parse_document(after, filename=filename)
    if memory:
        yield from _unreadable(old, new)
        if len(after) > max(MAX_FILE_BYTES, len(before)):
            yield Objection(
                "too-large",
                f"it would have {len(after):,} bytes, and a memory may have {MAX_FILE_BYTES:,}. Keep what a later "
                "conversation needs, one subject a file, and name the place of the rest",
            )
    stub = find_stub(_shown(new), old=_shown(old))
    if stub:
        yield Objection("stub", stub)
    if old.text.count("\ufffd") < new.text.count("\ufffd") and old.encoding in {"surrogateescape", "binary"}:
        yield Objection(
            "unknown-bytes",
            "the file holds bytes of an unknown encoding, which were shown to you as \ufffd; writing that sign in their "
            "place would lose them. Use Edit for the part that changes",
        )
    if memory and policy.secrets != "allow":
        yield from _secrets(old.text, new.text, confirmable=policy.secrets == "ask")
    if policy.losses != "allow" and before:
        yield from _losses(filename, old, new, memory=memory, confirmable=policy.losses == "ask")


def without_new_secrets(filename: str, before: bytes | None, after: bytes) -> bytes:
    """Return ``after`` with a note in the place of each secret that ``before`` does not hold."""
    old, new = parse_document(before or b"", filename=filename), parse_document(after, filename=filename)
    text = redact(new.text, keep=secrets_in(old.text))
    return after if text == new.text else new.encode(text)


def _secrets(old: str, new: str, *, confirmable: bool) -> Iterator[Objection]:
    known = secrets_in(old)
    if any(secret not in new for secret in known) and any(
        new.count(mark) > old.count(mark) for mark in set(REDACTED.findall(new))
    ):
        yield Objection(
            "redacted-mark",
            "it would write down the mark that was shown to you in the place of a secret, and the secret itself would be "
            "lost. Use Edit for the part that changes",
        )
    for finding in find_secrets(new):
        if new[finding.start : finding.end] not in known:
            yield Objection(
                "secret",
                f"line {count_breaks(new, 0, finding.start) + 1} holds a {finding.kind.replace('-', ' ')}, which does not belong into a "
                "memory. Leave it out, and say where it is kept instead",
                confirmable=confirmable,
            )
            return


def _shown(document: Document) -> str:
    return normalise_newlines(document.text)


def _unreadable(old: Document, new: Document) -> Iterator[Objection]:
    if new.encoding == "binary" != old.encoding:
        yield Objection("binary", "it holds NUL bytes, and a memory is text. Write text only")
    elif new.encoding == "surrogateescape" != old.encoding:
        yield Objection("not-utf8", "it is not valid UTF-8. Write UTF-8")


def _losses(filename: str, old: Document, new: Document, *, memory: bool, confirmable: bool) -> Iterator[Objection]:
    if filename.lower().endswith(".md"):
        lost = [key for key in ("name", "description") if getattr(old, key) and not getattr(new, key)]
        if lost:
            yield Objection(
                "blanked-header",
                f"it would take {' and '.join(lost)} out of the frontmatter, by which this memory is found. "
                "Keep the block between the --- lines at the top of the file",
            )
    if not memory:
        return
    if filename.rpartition("/")[2] == INDEX_FILENAME:
        yield from _lost_entries(old.text, new.text, confirmable=confirmable)
    yield from _lost_text(_shown(old), _shown(new), confirmable=confirmable)


def _lost_entries(old: str, new: str, *, confirmable: bool) -> Iterator[Objection]:
    before = {entry.filename for entry in parse_index(old).entries}
    lost = before - {entry.filename for entry in parse_index(new).entries}
    if len(lost) >= MIN_LOST_ENTRIES and len(lost) > len(before) * MAX_LOST_ENTRIES_SHARE:
        named = ", ".join(sorted(lost)[:3])
        yield Objection(
            "entries-lost",
            f"it would take {len(lost)} of {len(before)} entries out of the index, {named} among them. {_ON_PURPOSE}",
            confirmable=confirmable,
        )


def _lost_text(old: str, new: str, *, confirmable: bool) -> Iterator[Objection]:
    # What comes in weighs against what goes out: text that was reworded or moved about is not lost.
    before, after = _weigh(old), _weigh(new)
    total, left = _bytes(before), _bytes(after)
    gone, come = _bytes(before - after), _bytes(after - before)
    if gone - come >= MIN_LOST_BYTES and gone - come > total * MAX_LOST_SHARE:
        share = math.floor((gone - come) / total * 100)
        yield Objection(
            "text-lost",
            f"it would take out {share} % of the text: {total:,} bytes are there, {left:,} would be left. {_ON_PURPOSE}",
            confirmable=confirmable,
        )


_ON_PURPOSE: Final = (
    "If the text was cut off, give the whole of it. If it shall go, take it out with Edit: the old text as old_string, "
    "an empty new_string"
)


def _weigh(text: str) -> Counter[str]:
    """Count the lines of ``text`` without the blanks around them."""
    return Counter(line for raw in text.split("\n") if (line := raw.strip()))


def _bytes(lines: Counter[str]) -> int:
    return sum(len(line.encode("utf-8", "surrogatepass")) * count for line, count in lines.items())
