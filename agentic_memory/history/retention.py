"""Which versions may go: told from the log, so that nothing goes whose loss nobody could have noticed yet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from agentic_memory.errors import InvalidMemory
from agentic_memory.history.entries import Entry, Version, entries_by_file, versions_of

GRACE: Final = timedelta(days=7)
"""How long what a file was last is kept whatever the bound on bytes: a week in which somebody may miss it."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How much history is kept. A version's age begins when it was replaced or removed, not when it was written.

    Attributes:
        max_age_days: A version goes so long after it was replaced; None: never.
        max_bytes: Over it the versions that were replaced first go; None: no bound. What a file is, and what it was last
            within a week, stays over any bound.
    """

    max_age_days: float | None = None
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        """Refuse bounds that would keep nothing by mistake."""
        if self.max_age_days is not None and not self.max_age_days > 0:
            raise InvalidMemory(f"max_age_days is {self.max_age_days!r}: give days over 0, or None to keep all")
        if self.max_bytes is not None and self.max_bytes < 0:
            raise InvalidMemory(f"max_bytes is {self.max_bytes!r}: give bytes, or None to keep all")

    @property
    def bounded(self) -> bool:
        """Whether there is any bound."""
        return self.max_age_days is not None or self.max_bytes is not None


@dataclass(frozen=True, slots=True)
class _Old:
    """A version that is not what its file is now."""

    version: str
    replaced: datetime
    last: bool
    """Whether it is what the file was before the present."""


def expired_versions(
    entries: Iterable[Entry], *, present: Mapping[str, str], retention: Retention, now: datetime
) -> frozenset[str]:
    """Return the versions whose bytes may go.

    Args:
        entries: The whole log.
        present: File name -> what it is now.
        retention: The bounds.
        now: The time.
    """
    sizes: dict[str, int] = {}
    old: list[_Old] = []
    for filename, own in entries_by_file(entries).items():
        told = versions_of(filename, own)
        sizes.update({one.version: one.size for one in told if one.version is not None})
        old += _old_of(told, present.get(filename), now)
    current = {*present.values()}
    # The same bytes may have been there several times, and in several files: the last time counts.
    replaced: dict[str, datetime] = {}
    for one in sorted(old, key=lambda item: item.replaced):
        if one.version not in current:
            replaced[one.version] = one.replaced
    gone: set[str] = set()
    if retention.max_age_days is not None:
        limit = now - timedelta(days=retention.max_age_days)
        gone = {version for version, when in replaced.items() if when < limit}
    if retention.max_bytes is not None:
        guarded = {one.version for one in old if one.last and one.replaced >= now - GRACE}
        total = sum(size for version, size in sizes.items() if version not in gone)
        for version in sorted(replaced.keys() - gone - guarded, key=lambda one: replaced[one]):
            if total <= retention.max_bytes:
                break
            gone.add(version)
            total -= sizes[version]
    return frozenset(gone)


def _old_of(told: Sequence[Version], present: str | None, now: datetime) -> list[_Old]:
    """Return what a file was, from its versions, newest first."""
    old: list[_Old] = []
    replaced, last = now, True
    for version in told:
        if version.version is not None and version.version != present:
            old.append(_Old(version.version, replaced, last))
            last = False
        replaced = version.when
    return old


def entries_left(entries: Sequence[Entry], gone: frozenset[str]) -> list[Entry]:
    """Return the lines of a log without versions that are gone; what followed on one does not tell of its bytes."""
    left: list[Entry] = []
    for entry in entries:
        if entry.version.version in gone:
            continue
        if entry.version.previous in gone:
            if entry.version.version is None:
                continue  # a removal of what is known no more
            left.append(replace(entry, earlier=None))
        else:
            left.append(entry)
    return left
