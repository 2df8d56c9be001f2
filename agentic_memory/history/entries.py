"""The values of history: who changed a file, from what to what; and the lines of the log they are kept in."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Final, Literal, get_args

from agentic_memory.backends.values import version_of

Who = Literal["agent", "person", "tool", "store", "consolidation", "unknown"]
"""``agent``: changed while a reply ran; ``tool``: the same, with text copied from what a tool had answered; ``person``: by
the command line; ``store``: by a program through the store; ``consolidation``: by a model that sorts the memory; ``unknown``: by anything else, noticed afterwards: an editor, a sync program, another agent's shell."""

_WHO: Final = frozenset(get_args(Who))


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes files, and during which reply of which session."""

    who: Who = "unknown"
    session: str = ""
    reply: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """What a file became at one moment.

    Attributes:
        version: SHA-256 of its bytes: what ``MemoryStore.restore`` takes. None: the file went away.
        filename: Relative to the memory directory.
        when: When it was changed, or when the change was noticed. UTC.
        who: See ``Who``.
        why: What was done, in a few words.
        session, reply: During which reply; empty when none is known.
        size: Bytes; 0 when the file went away.
        previous: The version before; None when there was no file.
        transaction: What was changed together, or noticed in one look, has the same: what ``MemoryStore.undo`` takes. Empty
            when it was found, not seen to change.
    """

    version: str | None
    filename: str
    when: datetime
    who: Who
    why: str
    session: str
    reply: str
    size: int
    previous: str | None
    transaction: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__} | {"when": self.when.isoformat()}


@dataclass(frozen=True, slots=True)
class State:
    """All of a file at one moment; ``when`` is its modification time."""

    data: bytes = field(repr=False)
    when: datetime
    version: str

    @classmethod
    def of(cls, data: bytes, *, when: datetime) -> "State":
        """Make one from the bytes alone."""
        return cls(data, when, version_of(data))


@dataclass(frozen=True, slots=True)
class Change:
    """One file that became another, appeared (``before`` is None) or went away (``after`` is None).

    Attributes:
        since: The change was not made by the store but noticed: when the file was last seen as ``before``.
    """

    filename: str
    before: State | None
    after: State | None
    when: datetime
    author: Author
    why: str
    since: datetime | None = None
    transaction: str = ""

    @property
    def size(self) -> int:
        """Bytes that keeping it may take."""
        return sum(len(state.data) for state in (self.before, self.after) if state is not None)

    def entry(self) -> "Entry":
        """Return what the log says of it."""
        version = Version(
            version=None if self.after is None else self.after.version,
            filename=self.filename,
            when=self.when,
            who=self.author.who,
            why=self.why,
            session=self.author.session,
            reply=self.author.reply,
            size=0 if self.after is None else len(self.after.data),
            previous=None if self.before is None else self.before.version,
            transaction=self.transaction,
        )
        earlier = self.before
        return Entry(version, self.since, None if earlier is None else (earlier.when, len(earlier.data)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the log: the version, since when it may have been so, and time and size of the version before."""

    version: Version
    since: datetime | None
    earlier: tuple[datetime, int] | None


def render_entries(entries: Iterable[Entry]) -> bytes:
    """Render a log file: one JSON object a line."""
    return b"".join(_render(entry) + b"\n" for entry in entries)


def _render(entry: Entry) -> bytes:
    version = entry.version
    line: dict[str, Any] = {
        "file": version.filename,
        "before": version.previous,
        "after": version.version,
        "size": version.size,
        "when": version.when.isoformat(),
        "who": version.who,
        "why": version.why,
        "session": version.session,
        "reply": version.reply,
        "transaction": version.transaction,
    }
    if entry.since is not None:
        line["since"] = entry.since.isoformat()
    if entry.earlier is not None:
        line["before_when"], line["before_size"] = entry.earlier[0].isoformat(), entry.earlier[1]
    return json.dumps(line, separators=(",", ":")).encode()


def parse_entries(data: bytes) -> tuple[list[Entry], list[int]]:
    """Read a log file: its entries, and the 1-based numbers of the lines that are none."""
    entries: list[Entry] = []
    wrong: list[int] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entries.append(_parse(json.loads(line)))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            wrong.append(number)
    return entries, wrong


def _parse(line: dict[str, Any]) -> Entry:
    version = Version(
        version=_version(line["after"]),
        filename=_text(line["file"]),
        when=_time(line["when"]),
        who=line["who"] if line["who"] in _WHO else "unknown",
        why=_text(line.get("why", "")),
        session=_text(line.get("session", "")),
        reply=_text(line.get("reply", "")),
        size=int(line["size"]),
        previous=_version(line["before"]),
        transaction=_text(line.get("transaction", "")),
    )
    earlier = (_time(line["before_when"]), int(line["before_size"])) if "before_when" in line else None
    return Entry(version, _time(line["since"]) if "since" in line else None, earlier)


def new_transaction_id() -> str:
    """Return a name that no other transaction of a memory has; a person may type its first digits."""
    return token_hex(6)


def is_version(text: str) -> bool:
    """Tell whether ``text`` can be a version: 64 lowercase hex digits, and so also safe as a file name."""
    return len(text) == 64 and not set(text) - set("0123456789abcdef")


def _version(value: Any) -> str | None:
    if value is None or (isinstance(value, str) and is_version(value)):
        return value
    raise ValueError(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _time(value: Any) -> datetime:
    moment = datetime.fromisoformat(_text(value))
    if moment.tzinfo is None:
        raise ValueError(value)
    return moment.astimezone(UTC)


def entries_by_file(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Sort the lines of a log by the file they tell of."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.version.filename, []).append(entry)
    return found


def versions_of(filename: str, entries: Iterable[Entry]) -> list[Version]:
    """Put together what the log says of one file, newest first.

    Several programs may have noticed one change, and one of them may have made it: that is told once. A version that is
    only known as the one before a change, because nobody was there when it came to be, gets a place of its own.
    """
    own = sorted((entry for entry in entries if entry.version.filename == filename), key=lambda one: one.version.when)
    told: list[Version] = []
    standing: set[str | None] = set()
    for entry in own:
        version = entry.version
        at = _told_already(told, entry)
        if at is not None:
            if told[at].who == "unknown" != version.who:
                told[at] = replace(
                    told[at],
                    who=version.who,
                    why=version.why,
                    session=version.session,
                    reply=version.reply,
                    transaction=version.transaction,
                )
            continue
        if version.previous is not None and entry.earlier is not None and version.previous not in standing:
            when, size = entry.earlier
            told.append(
                Version(
                    version=version.previous,
                    filename=filename,
                    when=min(when, version.when),
                    who="unknown",
                    why="found",
                    session="",
                    reply="",
                    size=size,
                    previous=told[-1].version if told else None,
                )
            )
        told.append(version)
        standing |= {version.version, version.previous}
    return told[::-1]


def with_present(versions: list[Version], filename: str, present: State | None) -> list[Version]:
    """Put what a file is now before the versions that are known of it, unless that is the newest of them."""
    previous = versions[0].version if versions else None
    if present is None or previous == present.version:
        return versions
    found = Version(present.version, filename, present.when, "unknown", "found", "", "", len(present.data), previous)
    return [found, *versions]


def _told_already(told: Sequence[Version], entry: Entry) -> int | None:
    if entry.since is None:
        return None
    for at in range(len(told) - 1, -1, -1):
        if told[at].when < entry.since:
            return None
        if told[at].version == entry.version.version and told[at].why != "found":
            return at
    return None
