"""Windows: overlapping stretches of a document, each short enough to have one meaning."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentic_memory.selection.passages import find_headings, split_blocks

if TYPE_CHECKING:
    from agentic_memory.document import Document

WINDOW_BLOCKS: Final = 3
"""Paragraphs in a window. One to eight were tried, see docs/recall.md: a turn of talk means little without the next."""
WINDOW_CHARS: Final = 1_000
"""Size that a window of several paragraphs does not pass: a longer text has several meanings."""
BLOCK_CHARS: Final = 500
"""Size from which one paragraph is cut."""
MAX_WINDOWS: Final = 1_000
"""Windows of one file; in a file so long that it has more, paragraphs are cut larger. Above 226 kB or so."""


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch: what is embedded, and the offset into the body where it begins."""

    text: str
    start: int


def split_windows(document: "Document") -> list[Window]:
    """Return windows that begin at every paragraph and reach over the next ones, and one of the name and description.

    A short text is one window with its name and description; a file that says nothing has none.
    """
    header = ". ".join(filter(None, (document.name.strip(), document.description.strip())))
    body = document.body
    size = max(BLOCK_CHARS, len(body) // MAX_WINDOWS)
    blocks = split_blocks(body, find_headings(body), size)
    if not blocks:
        return [Window(header, 0)] if header else []
    windows: list[Window] = []
    reached = 0
    for at, (start, end) in enumerate(blocks):
        stop = end
        for _, further in blocks[at + 1 : at + WINDOW_BLOCKS]:
            if further - start > max(WINDOW_CHARS, size):
                break
            stop = further
        if stop > reached:  # else the window before has it all
            windows.append(Window(body[start:stop].strip(), start))
            reached = stop
    if not header:
        return windows
    if len(windows) == 1:
        return [Window(f"{header}\n{windows[0].text}", windows[0].start)]
    return [Window(header, 0), *windows]
