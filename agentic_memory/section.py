"""The memory section of the system prompt: the instructions and MEMORY.md."""

from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import anyio.to_thread

from agentic_memory.backends import ABSENT, FileRecord, Obstacle
from agentic_memory.backends.values import version_of
from agentic_memory.fence import as_attribute, fence_id, printable
from agentic_memory.index import IndexEntry, fit_index
from agentic_memory.prompts import load_prompt
from agentic_memory.shelf import INDEX_FILENAME, Snapshot, obstacle_problem
from agentic_memory.tokens import estimate_tokens

NAMES_SHARE: Final = 0.25
"""Share of the index budget that may go to naming the entries that fell out of it."""

_rendered: "WeakKeyDictionary[Snapshot, dict[tuple[str, int], Section]]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Section:
    """The section as rendered.

    Attributes:
        text: What is appended to the system prompt.
        index_version: Version of MEMORY.md that it shows; empty when there is none to show.
        complete: Whether the whole of MEMORY.md is in it, so that the agent has read it.
        cut_lines: 1-based inclusive ranges of MEMORY.md left out.
        cut_entries: The entries on those lines.
    """

    text: str
    index_version: str = ""
    complete: bool = False
    cut_lines: tuple[tuple[int, int], ...] = ()
    cut_entries: tuple[IndexEntry, ...] = ()


async def section_of(snapshot: Snapshot, *, instructions: str, max_tokens: int) -> Section:
    """Return the section of a snapshot, rendered off the event loop and once."""
    rendered = _rendered.setdefault(snapshot, {})
    key = (instructions, max_tokens)
    if key not in rendered:
        rendered[key] = await anyio.to_thread.run_sync(
            lambda: render_section(snapshot, instructions=instructions, max_tokens=max_tokens)
        )
    return rendered[key]


def render_section(snapshot: Snapshot, *, instructions: str, max_tokens: int) -> Section:
    """Render instructions and index; MEMORY.md takes at most ``max_tokens``.

    An index that is too long is cut at whole lines from its middle: head and tail are kept, so neither the oldest nor
    the newest entries vanish first; a line ``<<<TRUNCATED>>>`` stands in the gap, and a closing note names the files
    whose entries fell out, within a quarter of the budget.
    """
    file = f"{snapshot.root}/{INDEX_FILENAME}"
    record = snapshot.index_record
    if isinstance(record, Obstacle):
        problem = obstacle_problem(record)
        return render_unavailable(instructions, root=snapshot.root, reason=f"{problem.message}; {problem.fix}")
    version = record.version if isinstance(record, FileRecord) else version_of(b"")
    if record is ABSENT or not snapshot.index.text.strip():
        empty = load_prompt("index_empty")
        return Section(_fenced(instructions, snapshot.root, file, empty), version, complete=True)
    fitted = fit_index(snapshot.index, max_tokens=max_tokens)
    if not fitted.cut_lines:
        index = printable(snapshot.index.text).rstrip("\n")
        return Section(_fenced(instructions, snapshot.root, file, index), version, complete=True)
    fitted = fit_index(snapshot.index, max_tokens=int(max_tokens * (1 - NAMES_SHARE)))
    note = load_prompt("index_cut").format(
        lines=_ranges(fitted.cut_lines),
        count=len(fitted.cut),
        names=_names(fitted.cut, max_tokens=int(max_tokens * NAMES_SHARE)),
        file=as_attribute(file),
        first=fitted.cut_lines[0][0],
    )
    index = printable(fitted.text).rstrip("\n")
    text = _fenced(instructions, snapshot.root, file, index, note=f"\n{note}")
    return Section(text, version, cut_lines=fitted.cut_lines, cut_entries=fitted.cut)


def render_unavailable(instructions: str, *, root: str, reason: str) -> Section:
    """Render the section for a memory that cannot be read: the instructions stand, and nothing claims it is empty."""
    note = load_prompt("index_unavailable").format(reason=as_attribute(reason))
    return Section(_fenced(instructions, root, f"{root}/{INDEX_FILENAME}", note))


def _fenced(instructions: str, root: str, file: str, index: str, *, note: str = "") -> str:
    section = load_prompt("index_section").format(
        id=fence_id(f"{index}{note}"), file=as_attribute(file), index=index, note=note
    )
    return f"{instructions.replace('{memory_dir}', root)}\n\n{section}"


def _ranges(lines: tuple[tuple[int, int], ...]) -> str:
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in lines]
    return f"line{'s' if len(shown) > 1 or '-' in shown[0] else ''} {', '.join(shown)}"


def _names(entries: tuple[IndexEntry, ...], *, max_tokens: int) -> str:
    names: list[str] = []
    used = 0
    for entry in entries:
        name = as_attribute(entry.filename)
        used += estimate_tokens(f"{name}, ")
        if used > max_tokens:
            break
        names.append(name)
    rest = len(entries) - len(names)
    if rest:
        names.append(f"and {rest} more")
    return ", ".join(names) or "none of them names a file"
