"""Relations that memory files state about each other in their frontmatter."""

from collections.abc import Mapping
from typing import Final

from agentic_memory.document import Document
from agentic_memory.selection.model import match_names

SUPERSEDED_BY: Final = "superseded_by"
MAX_STEPS: Final = 8
"""Successors followed in a row. A longer chain is more likely a mistake than a history."""


def successor_of(documents: Mapping[str, tuple[object, Document]], filename: str) -> str:
    """Return the file that took the place of ``filename``, after ``superseded_by`` links; itself when there is none.

    ``documents``: file name to a pair whose second is the document. A link to a file that does not exist, or back to one that was passed, is not followed.
    """
    seen = {filename}
    names = tuple(documents)
    for _ in range(MAX_STEPS):
        stated = documents[filename][1].fields.get(SUPERSEDED_BY, "").strip().strip("[]")
        found = match_names([stated], names)[0] if stated else ()
        if not found or found[0] in seen:
            break
        filename = found[0]
        seen.add(filename)
    return filename
