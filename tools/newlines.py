"""Line endings as a model sees them, all alike, and where they are in the file, kept as they are."""

import re
from bisect import bisect_left

from agentic_memory.lines import normalise_newlines


def is_uniformly_crlf(text: str) -> bool:
    r"""Say whether every line of ``text`` that ends does so with ``\r\n``, and at least one does."""
    pairs = text.count("\r\n")
    return pairs > 0 and text.count("\n") == pairs == text.count("\r")


class NewlineMap:
    r"""Find a place of the normalised text in the text itself, where ``\r\n`` takes two characters and not one."""

    __slots__ = ("_pairs", "normal")

    def __init__(self, text: str) -> None:
        self.normal = normalise_newlines(text)
        # Each \r\n before it shifts a character by one; a pair's own normalised place is its raw place less those.
        self._pairs = [match.start() - nth for nth, match in enumerate(re.finditer("\r\n", text))]

    def raw(self, position: int) -> int:
        """Return where in the text the character at ``position`` of the normalised text begins."""
        return position + bisect_left(self._pairs, position)
