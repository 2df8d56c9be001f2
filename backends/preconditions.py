"""Preconditions of a change: what a writer demands of a path before it is touched."""

from dataclasses import replace

from agentic_memory.backends.base import check_path
from agentic_memory.backends.values import ABSENT, ANY, Change, Changes, Expected, Move, version_of
from agentic_memory.errors import Conflict, UnsafePath


def check_changes(changes: Changes) -> list[Change]:
    """Return ``changes`` with their paths normalised, or raise when a path is unsafe or occurs twice."""
    planned: list[Change] = []
    seen: set[str] = set()
    for change in changes:
        paths = [check_path(path) for path in paths_of(change)]
        for path in paths:
            if path in seen:
                raise UnsafePath(f"{path} occurs twice in one transaction; make it one change")
            seen.add(path)
        if isinstance(change, Move):
            planned.append(replace(change, source=paths[0], target=paths[1]))
        else:
            planned.append(replace(change, path=paths[0]))
    return planned


def paths_of(change: Change) -> tuple[str, ...]:
    """Return the paths that ``change`` touches."""
    return (change.source, change.target) if isinstance(change, Move) else (change.path,)


def expected_word(expected: Expected) -> str:
    """Return ``expected`` as ``Conflict`` shows it."""
    return expected if isinstance(expected, str) else expected.value


def demand(path: str, expected: Expected, current: bytes | None, *, version: str | None = None) -> None:
    """Raise ``Conflict`` unless ``expected`` holds for the bytes at ``path`` (None: no file).

    ``version`` spares the hashing where it is known already.
    """
    if expected is ANY:
        return
    holds = expected is ABSENT if current is None else (version or version_of(current)) == expected
    if not holds:
        raise Conflict(path, expected=expected_word(expected), current=current)
