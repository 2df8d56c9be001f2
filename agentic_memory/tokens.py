"""Tokens, estimated the way AgentScope estimates them: a quarter of the UTF-8 bytes."""

from agentic_memory.lines import split_lines

BYTES_PER_TOKEN = 4


def count_bytes(text: str) -> int:
    """Return the UTF-8 size of ``text``; a byte that was not UTF-8 when read counts as three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of ``text``: its UTF-8 bytes / 4, rounded half up."""
    return (count_bytes(text) + BYTES_PER_TOKEN // 2) // BYTES_PER_TOKEN


def max_bytes_for(max_tokens: int) -> int:
    """Return the largest number of bytes that is still estimated at ``max_tokens``."""
    return max_tokens * BYTES_PER_TOKEN + BYTES_PER_TOKEN // 2 - 1


def cut_to_tokens(text: str, max_tokens: int) -> str:
    """Return the longest prefix of whole lines that fits.

    When the first line alone is too long, the prefix ends at a character instead. Empty for ``max_tokens <= 0``.
    """
    if max_tokens <= 0:
        return ""
    room = max_bytes_for(max_tokens)
    if count_bytes(text) <= room:
        return text
    # A character has at least one byte, so nothing behind `room + 1` characters can matter.
    text = text[: room + 1]
    size = end = 0
    for line in split_lines(text):
        size += count_bytes(line)
        if size > room:
            break
        end += len(line)
    # The last line of the shortened text may be half a line: it counts only when the loop found it too long.
    if end and end < len(text):
        return text[:end]
    raw = text.encode("utf-8", "surrogatepass")[:room]
    while raw and not _is_whole(raw):
        raw = raw[:-1]
    return raw.decode("utf-8", "surrogatepass")


def _is_whole(raw: bytes) -> bool:
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
