"""The part of a long text that has a certain line in it, cut at paragraphs."""

from typing import Final

from agentic_memory.tokens import cut_to_tokens, estimate_tokens

HEADER_SHARE: Final = 0.2
"""Share of the budget that the header of a file may take when the part shown is from further down."""
LEAD_LINES: Final = 6
"""Lines looked back over for the start of the paragraph, and its heading, that a line belongs to."""
TAIL_SHARE: Final = 0.7
"""A cut moves back to the end of a paragraph as long as this share of the part stays."""


def cut_around(text: str, *, max_tokens: int, focus: int, header_end: int) -> list[tuple[int, str]]:
    """Cut pieces of ``text`` that together take at most ``max_tokens``, as (1-based first line, lines).

    The first piece is the head of the text. When ``focus`` (a 1-based line) lies beyond it, the head shrinks to the
    first ``header_end`` lines, if they are short enough, and a second piece begins at the paragraph of that line.
    """
    head = cut_to_tokens(text, max_tokens).rstrip("\n")
    lines = text.split("\n")
    if focus <= head.count("\n") + 1 or focus > len(lines):
        return [(1, _end_at_paragraph(head))] if head else []
    header = "\n".join(lines[:header_end])
    if estimate_tokens(header) > max_tokens * HEADER_SHARE:
        header = ""
    start = _paragraph_start(lines, focus - 1)
    room = max_tokens - estimate_tokens(header)
    body = cut_to_tokens("\n".join(lines[start:]), room).rstrip("\n")
    if start + body.count("\n") + 1 < len(lines):
        body = _end_at_paragraph(body)
    else:
        start, body = _reach_back(lines, start, body, room)
    pieces = [(1, header)] if header else []
    return [*pieces, (start + 1, body)] if body else pieces


def _paragraph_start(lines: list[str], at: int) -> int:
    start = at
    while start > 0 and at - start < LEAD_LINES and lines[start - 1].strip():
        start -= 1
    heading = start
    while heading > 0 and start - heading < 2 and not lines[heading - 1].strip():
        heading -= 1
    return heading - 1 if heading > 0 and lines[heading - 1].startswith("#") else start


def _end_at_paragraph(text: str) -> str:
    end = text.rfind("\n\n")
    return text[:end] if end > len(text) * TAIL_SHARE else text


def _reach_back(lines: list[str], start: int, body: str, room: int) -> tuple[int, str]:
    """Fill what is left of the room with the lines before: the text ends here, there is nothing after."""
    used = estimate_tokens(body)
    while start > 0 and (more := estimate_tokens(lines[start - 1] + "\n")) + used <= room:
        start -= 1
        used += more
        body = f"{lines[start]}\n{body}"
    return start, body
