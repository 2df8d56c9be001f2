"""Names of memory files as callers give them: checked before anything is asked of a backend."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from agentic_memory.check import is_memory_path
from agentic_memory.errors import UnsafePath
from agentic_memory.index import INDEX_FILENAME


def checked_path(filename: str) -> str:
    """Return ``filename`` in its plain form; ``UnsafePath`` when it is no path inside the memory directory."""
    parts = PurePosixPath(filename).parts
    if not filename or "\0" in filename or filename.startswith(("/", "~")) or ".." in parts:
        raise UnsafePath(f"{filename!r} is not a path inside the memory directory")
    return str(PurePosixPath(filename))


def checked_file(filename: str) -> str:
    """Return the plain form of a memory's file name, or of MEMORY.md."""
    return INDEX_FILENAME if filename == INDEX_FILENAME else checked_memory(filename)


def checked_memory(filename: str) -> str:
    """Return the plain form of a memory's file name; ``UnsafePath`` when no memory can be called that."""
    filename = checked_path(filename)
    if not is_memory_path(filename):
        raise UnsafePath(
            f"{filename!r} cannot be a memory file: it needs a visible name that ends in .md, not MEMORY.md"
        )
    return filename


def free_filename(filename: str, taken: Iterable[str]) -> str:
    """Return ``filename``, with a number when one of ``taken`` is called so in whatever case."""
    folded = {name.casefold() for name in taken}
    if filename.casefold() not in folded:
        return filename
    stem = filename.removesuffix(".md")
    number = 2
    while f"{stem}_{number}.md".casefold() in folded:
        number += 1
    return f"{stem}_{number}.md"
