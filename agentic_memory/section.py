"""The memory section of the system prompt: the instructions and MEMORY.md, of every layer where there are several."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import anyio.to_thread

from agentic_memory.backends import ABSENT, FileRecord, Obstacle
from agentic_memory.backends.values import version_of
from agentic_memory.fence import as_attribute, fence_id, printable
from agentic_memory.index import IndexEntry, fit_index
from agentic_memory.layers import SEPARATOR, LayeredSnapshot
from agentic_memory.orders import find_orders
from agentic_memory.prompts import load_prompt
from agentic_memory.shelf import INDEX_FILENAME, Snapshot, obstacle_problem
from agentic_memory.shown import as_shown, without_secrets
from agentic_memory.tokens import estimate_tokens

NAMES_SHARE: Final = 0.25
"""Share of the index budget that may go to naming the entries that fell out of it."""

_rendered: "WeakKeyDictionary[Snapshot, dict[tuple[str, int, bool], Section]]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ShownIndex:
    """One MEMORY.md as a section shows it.

    Attributes:
        filename: ``MEMORY.md``; that of another layer with the layer before it.
        snapshot: What it was taken from.
        text: In its fence.
        version: Of the file; empty when there is none to show.
        complete: Whether all of it is shown, so that the agent has read it.
        cut_lines: 1-based inclusive ranges of it left out.
        cut_entries: The entries on those lines.
    """

    filename: str
    snapshot: Snapshot | None
    text: str
    version: str = ""
    complete: bool = False
    cut_lines: tuple[tuple[int, int], ...] = ()
    cut_entries: tuple[IndexEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """The section as rendered: what is appended to the system prompt, and each index in it."""

    text: str
    indexes: tuple[ShownIndex, ...] = ()


async def section_of(snapshot: Snapshot, *, instructions: str, max_tokens: int, hide_secrets: bool = True) -> Section:
    """Return the section of a snapshot, rendered off the event loop and once."""
    rendered = _rendered.setdefault(snapshot, {})
    key = (instructions, max_tokens, hide_secrets)
    if key not in rendered:
        rendered[key] = await anyio.to_thread.run_sync(
            lambda: render_section(
                snapshot, instructions=instructions, max_tokens=max_tokens, hide_secrets=hide_secrets
            )
        )
    return rendered[key]


def render_section(snapshot: Snapshot, *, instructions: str, max_tokens: int, hide_secrets: bool = True) -> Section:
    """Render instructions and index; the indexes of all layers together take at most ``max_tokens``.

    An index that is too long is cut at whole lines from its middle: head and tail are kept, so neither the oldest nor
    the newest entries vanish first; a line ``<<<TRUNCATED>>>`` stands in the gap, and a closing note names the files
    whose entries fell out, within a quarter of the budget.
    """
    if not isinstance(snapshot, LayeredSnapshot):
        shown = _show_index(snapshot, max_tokens=max_tokens, hide_secrets=hide_secrets)
        return Section(_join(instructions, snapshot.root, shown.text), (shown,))
    needed = [0 if view.snapshot is None else estimate_tokens(view.snapshot.index.text) for view in snapshot.views]
    indexes = [
        _unavailable(view.root, view.error, scope=view.name)
        if view.snapshot is None
        else _show_index(
            view.snapshot,
            max_tokens=share,
            scope=view.name,
            own=view is snapshot.views[0],
            hide_secrets=hide_secrets,
        )
        for view, share in zip(snapshot.views, share_out(max_tokens, needed), strict=True)
    ]
    own, *others = indexes
    names = ", ".join(view.name for view in snapshot.views[1:])
    note = load_prompt("layers").format(own=snapshot.views[0].name, others=names)
    texts = [own.text, note, *(shown.text for shown in others)]
    return Section(_join(instructions, snapshot.root, *texts), tuple(indexes))


def share_out(total: int, needed: Sequence[int]) -> list[int]:
    """Divide a budget: who needs less than an equal share gets just that, and the rest is shared by the others."""
    shares = [0] * len(needed)
    left = sorted(range(len(needed)), key=lambda at: needed[at])
    while left:
        at = left.pop(0)
        shares[at] = total // (len(left) + 1)
        total -= min(needed[at], shares[at])
    return shares


def render_unavailable(instructions: str, *, root: str, reason: str) -> Section:
    """Render the section for a memory that cannot be read: the instructions stand, and nothing claims it is empty."""
    return Section(_join(instructions, root, _unavailable(root, reason).text))


def _show_index(
    snapshot: Snapshot, *, max_tokens: int, hide_secrets: bool, scope: str = "", own: bool = True
) -> ShownIndex:
    file = f"{snapshot.root}/{INDEX_FILENAME}"
    filename = INDEX_FILENAME if own else f"{scope}{SEPARATOR}{INDEX_FILENAME}"
    record = snapshot.index_record
    if isinstance(record, Obstacle):
        problem = obstacle_problem(record)
        return _unavailable(snapshot.root, f"{problem.message}; {problem.fix}", scope=scope)
    version = record.version if isinstance(record, FileRecord) else version_of(b"")
    fitted = fit_index(snapshot.index, max_tokens=max_tokens)
    if record is ABSENT or not snapshot.index.text.strip():
        text = _fenced(file, load_prompt("index_empty"), scope=scope)
        return ShownIndex(filename, snapshot, text, version, complete=True)
    if not fitted.cut_lines:
        shown = without_secrets(as_shown(snapshot.index.text), hide=hide_secrets)
        # What is not shown as it is has not been read: the agent must not write it back so.
        complete = shown == printable(snapshot.index.text)
        return ShownIndex(
            filename, snapshot, _fenced(file, shown.rstrip("\n"), scope=scope), version, complete=complete
        )
    fitted = fit_index(snapshot.index, max_tokens=int(max_tokens * (1 - NAMES_SHARE)))
    note = load_prompt("index_cut").format(
        lines=_ranges(fitted.cut_lines),
        count=len(fitted.cut),
        names=_names(fitted.cut, max_tokens=int(max_tokens * NAMES_SHARE)),
        file=as_attribute(file),
        first=fitted.cut_lines[0][0],
    )
    index = without_secrets(as_shown(fitted.text), hide=hide_secrets).rstrip("\n")
    text = _fenced(file, index, note=f"\n{note}", scope=scope)
    return ShownIndex(filename, snapshot, text, version, cut_lines=fitted.cut_lines, cut_entries=fitted.cut)


def _unavailable(root: str, reason: str, *, scope: str = "") -> ShownIndex:
    note = load_prompt("index_unavailable").format(reason=as_attribute(reason))
    return ShownIndex(INDEX_FILENAME, None, _fenced(f"{root}/{INDEX_FILENAME}", note, scope=scope))


def _join(instructions: str, root: str, *texts: str) -> str:
    return "\n\n".join([instructions.replace("{memory_dir}", root), *texts])


def _fenced(file: str, index: str, *, note: str = "", scope: str = "") -> str:
    if find_orders(index):
        note += f"\n{load_prompt('index_caution')}"
    return load_prompt("index_section").format(
        id=fence_id(f"{index}{note}"),
        file=as_attribute(file),
        scope=f' scope="{as_attribute(scope)}"' if scope else "",
        index=index,
        note=note,
    )


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
