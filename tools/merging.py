"""What the tools do when the file they write to is newer than the text the agent knows."""

from functools import partial
from typing import Final

import anyio.to_thread

from agentic_memory.merge import merge_files
from agentic_memory.tools.answers import Refusal
from agentic_memory.tools.cache import show_text
from agentic_memory.tools.diffs import unified_diff

MAX_DIFF_LINES: Final = 60
"""Lines of a difference shown to a model; more of it is better read in the file."""


async def merge_newer(path: str, *, base: bytes, ours: bytes, theirs: bytes) -> bytes:
    """Return ``theirs``, the file as it is now, with what turned ``base`` into ``ours``.

    Raises:
        Refusal: both changed the same lines. It shows them, for the agent to decide with the newer text in view.
    """
    # Not on the event loop: a merge takes milliseconds, but one of a huge file takes seconds.
    merge = await anyio.to_thread.run_sync(partial(merge_files, base, ours, theirs, filename=path))
    if merge.data is None:
        raise Refusal(
            f"{path} changed since you read it, in the same lines as you wanted to change, so nothing was written:\n"
            f"{merge.as_diff(path=path)}\n"
            "Read it again, and make your change in the text that is there now, keeping what others wrote."
        )
    return merge.data


def describe_merged(path: str, *, sent: bytes, written: bytes) -> str:
    """Tell the agent that its text was merged, and what the file has now that it did not send."""
    lines = unified_diff(show_text(sent), show_text(written), path=path).splitlines()
    if len(lines) > MAX_DIFF_LINES:
        lines[MAX_DIFF_LINES - 1 :] = [f"... {len(lines) - MAX_DIFF_LINES + 1} more lines"]
    return (
        " It had changed since you read it: your changes were merged with the newer text, and both are kept. From what "
        "you sent to what the file holds now:\n" + "\n".join(lines) + "\nRead it again before you rewrite it."
    )
