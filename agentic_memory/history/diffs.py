"""The difference between two versions, for people to read."""

import difflib
from collections.abc import Iterator

from agentic_memory.document import parse_document

_NO_NEWLINE = "\n\\ No newline at end of file\n"


def diff_versions(old: bytes, new: bytes, *, filename: str, labels: tuple[str, str]) -> str:
    """Return the unified diff of two versions of a file, in whatever encoding each is; empty when they are equal."""
    before, after = (parse_document(data, filename=filename).text.splitlines(keepends=True) for data in (old, new))
    lines = difflib.unified_diff(before, after, f"{filename} {labels[0]}", f"{filename} {labels[1]}")
    return "".join(_ended(lines))


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith(("\n", "\r")) else line + _NO_NEWLINE
