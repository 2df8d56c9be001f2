"""What an agent has read: the version of each file that it was last shown, kept in its own state.

The record lives in ``state.middle_context`` as a plain dict of path to version, so it is saved and loaded with the
session and stays valid when another process, with new tool objects, goes on with it. Text is not kept: a version is
enough to tell whether the bytes at hand are the bytes the agent saw.
"""

import posixpath
from collections.abc import Collection
from typing import Final

from agentscope.state import AgentState

READS_KEY: Final = "agentic_memory.reads"
"""Where the record stands in ``state.middle_context``."""

MAX_READS: Final = 500
"""Paths remembered per agent; beyond it the one noted longest ago is forgotten and has to be read again."""


def note_read(state: AgentState, path: str, version: str) -> None:
    """Record that the agent was shown ``path`` (absolute) at ``version`` and so may build on those bytes."""
    reads = _reads(state)
    key = normalise_path(path)
    reads.pop(key, None)  # a dict keeps the place of a key that is set again; only a new key goes to the end
    reads[key] = version
    while len(reads) > MAX_READS:
        del reads[next(iter(reads))]
    state.middle_context[READS_KEY] = reads


def known_version(state: AgentState, path: str) -> str | None:
    """Return the version of ``path`` (absolute) the agent was last shown, or None when it never saw the file."""
    return _reads(state).get(normalise_path(path))


def known_versions(state: AgentState) -> dict[str, str]:
    """Return the version of every file the agent was shown and still may build on, by absolute path."""
    return dict(_reads(state))


def forget_read(state: AgentState, path: str) -> None:
    """Make the agent read ``path`` (absolute) again before it may write there."""
    _reads(state).pop(normalise_path(path), None)


def keep_reads(state: AgentState, paths: Collection[str]) -> None:
    """Forget every file but ``paths`` (absolute): what a compressed context no longer shows has to be read again."""
    kept = {normalise_path(path) for path in paths}
    reads = _reads(state)
    for path in [path for path in reads if path not in kept]:
        del reads[path]


def _reads(state: AgentState) -> dict[str, str]:
    # A session that another program saved may hold anything here; unreadable means "has read nothing", which is safe.
    reads = state.middle_context.get(READS_KEY)
    return reads if isinstance(reads, dict) else {}


def normalise_path(path: str) -> str:
    """Return the one spelling under which an absolute path is recorded; links are not followed."""
    normal = posixpath.normpath(path)
    # POSIX lets exactly two leading slashes mean something else, and normpath keeps them; no file system here does.
    return normal[1:] if normal.startswith("//") else normal
