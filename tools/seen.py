"""How much of a file's current bytes an agent knows."""

from enum import Enum

from agentscope.state import AgentState

from agentic_memory.backends import version_of
from agentic_memory.bases import BaseSource, find_base, remember_base
from agentic_memory.tools.cache import cached_text, show_as_utf8, show_text
from agentic_memory.tools.reads import known_version, note_read


class Seen(Enum):
    """What an agent was shown of a file."""

    NEVER = "never"
    BEFORE = "before"
    """Some earlier bytes: somebody else changed the file since."""
    CURRENT = "current"


def how_seen(state: AgentState | None, path: str, data: bytes) -> Seen:
    """Tell how much of ``data``, the bytes now at ``path``, the agent knows.

    What AgentScope's own Read left in its cache is proof as good as our record. Without a state nothing can be told
    of the agent, and AgentScope's tools then let everything pass; so does this.
    """
    if state is None:
        return Seen.CURRENT
    version = known_version(state, path)
    if version == version_of(data):
        return Seen.CURRENT
    text = cached_text(state, path)
    if text is not None and text in {show_text(data), show_as_utf8(data)}:
        return Seen.CURRENT
    return Seen.NEVER if version is None and text is None else Seen.BEFORE


def was_seen(state: AgentState | None, path: str) -> bool:
    """Say whether the agent was ever shown ``path``, whatever is there now."""
    return state is not None and (known_version(state, path) is not None or cached_text(state, path) is not None)


async def find_seen(state: AgentState | None, path: str, *, elsewhere: BaseSource | None = None) -> bytes | None:
    """Return the bytes of ``path`` that the agent was last shown or wrote, None when nobody keeps them any more."""
    if state is None:
        return None
    version = known_version(state, path)
    data = None if version is None else await find_base(version, elsewhere=elsewhere)
    if data is not None:
        return data
    text = cached_text(state, path)
    # What AgentScope caches has lost the bytes that it shows as U+FFFD; line endings do not matter to a merge.
    return None if text is None or "\ufffd" in text else text.encode("utf-8", errors="surrogatepass")


def keep_as_seen_before(state: AgentState, path: str) -> None:
    """Let what the agent knows of ``path`` outlive AgentScope's cache entry, which is about to be dropped."""
    text = cached_text(state, path)
    if text is not None and known_version(state, path) is None:
        note_read(state, path, remember_base(text.encode("utf-8", errors="replace")))
