"""What has to be done to undo changes, or to go back to a time: told from the log alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from agentic_memory.history.entries import Entry, Version, entries_by_file, versions_of


@dataclass(frozen=True, slots=True)
class Step:
    """One file that became another; None: it was not there."""

    filename: str
    before: str | None
    after: str | None


def steps_to_undo(entries: Iterable[Entry], name: str) -> list[Step]:
    """Return what a reply or transaction did, the last first; what followed on itself without a break is one step."""
    own = sorted(
        {entry.version for entry in entries if name in {entry.version.reply, entry.version.transaction}},
        key=lambda version: (version.when, version.filename),
    )
    steps: list[Step] = []
    for version in own:
        last = next((at for at in range(len(steps) - 1, -1, -1) if steps[at].filename == version.filename), None)
        if last is not None and steps[last].after == version.previous:
            steps[last] = Step(version.filename, steps[last].before, version.version)
        else:
            steps.append(Step(version.filename, version.previous, version.version))
    return [step for step in reversed(steps) if step.before != step.after]


@dataclass(frozen=True, slots=True)
class Bygone:
    """What all files were at one time.

    Attributes:
        versions: File name -> version; None: it was not there.
        unknown: Files that were there before anybody kept a version of them, so that it cannot be told.
    """

    versions: Mapping[str, str | None]
    unknown: tuple[str, ...]


def files_at(entries: Iterable[Entry], when: datetime) -> Bygone:
    """Tell what each file that the log knows was at a time. A file the log does not know has not changed since."""
    versions: dict[str, str | None] = {}
    unknown: list[str] = []
    for filename, own in sorted(entries_by_file(entries).items()):
        told = versions_of(filename, own)
        at = next((version for version in told if version.when <= when), None)
        if at is not None:
            versions[filename] = at.version
        elif _was_created(told[-1]):
            versions[filename] = None
        else:
            unknown.append(filename)
    return Bygone(versions, tuple(unknown))


def _was_created(first: Version) -> bool:
    return first.previous is None and first.why != "found"
