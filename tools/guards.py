"""What must not be written, because text would be lost by it: each guard returns a reason, or None."""

from agentic_memory.document import parse_document
from agentic_memory.encodings import decode
from agentic_memory.tools.stubs import find_stub

__all__ = ["find_blanked_header", "find_stub", "find_unknown_bytes"]


def find_blanked_header(new: bytes, *, old: bytes, path: str) -> str | None:
    """Return why ``new`` may not replace ``old`` if a memory would lose the name or description it has."""
    if not path.lower().endswith(".md"):
        return None
    before, after = parse_document(old, filename=path), parse_document(new, filename=path)
    lost = [
        key
        for key, had, has in (
            ("name", before.name, after.name),
            ("description", before.description, after.description),
        )
        if had and not has
    ]
    if not lost:
        return None
    return (
        f"it would take {' and '.join(lost)} out of the frontmatter, by which this memory is found. "
        "Keep the block between the --- lines at the top of the file"
    )


def find_unknown_bytes(new: str, *, old: bytes) -> str | None:
    """Return why ``new`` may not replace ``old`` if it writes down how unknown bytes were shown, not the bytes."""
    if "\ufffd" not in new or decode(old)[1] not in {"surrogateescape", "binary"}:
        return None
    return (
        "the file holds bytes of an unknown encoding, which were shown to you as \ufffd; writing that sign in their "
        "place would lose them. Use Edit for the part that changes"
    )
