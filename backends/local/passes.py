"""What is remembered of the last pass over each root. ``tree`` says when it may be relied on."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Final

from agentic_memory.backends.local.files import Signature
from agentic_memory.backends.values import FileRecord, Tree

MAX_CACHED_FILES: Final = 200_000
"""Remembered files of all roots together, some 400 bytes each."""

Request = tuple[str, str, bool, int]
"""Root, suffix, hidden, max_bytes: what decides which files a snapshot shows."""

Seen = tuple[Signature, bool, str, FileRecord | None]
"""A file as the last pass saw it: its signature, whether that is settled, its version, and its record without bytes
once somebody asked for one. A plain tuple: there is one per file, and a class costs a tenth of the whole pass.
"""


@dataclass(frozen=True, slots=True)
class Folder:
    """One directory as the last pass saw it. The same object again while nothing in it changed.

    Attributes:
        seen: Its own files by name.
        lean: Their records without bytes, the same list while they are the same; None before all were asked for.
        below: Its directories, by path.
        own: Its own signature; None when it must be listed again in any case: it is not settled, or holds something
            that has to be looked at each time, as a link.
    """

    seen: dict[str, Seen]
    lean: list[FileRecord] | None
    below: list[str]
    own: Signature | None


@dataclass(frozen=True, slots=True)
class Pass:
    """The last pass over one root.

    Attributes:
        folders: Every directory by path.
        lean: The last answer without any bytes, and its records by directory; None before there was one.
    """

    folders: dict[str, Folder]
    lean: tuple[dict[str, list[FileRecord]], Tree] | None

    @property
    def size(self) -> int:
        """How many files it remembers."""
        return sum(len(folder.seen) for folder in self.folders.values())


_passes: OrderedDict[Request, Pass] = OrderedDict()
_passes_lock = Lock()


def forget_passes() -> None:
    """Forget every pass, so that the next one is cold; for benchmarks and tests."""
    with _passes_lock:
        _passes.clear()


def last_pass(request: Request) -> Pass | None:
    """Return the last pass that was asked for the same."""
    with _passes_lock:
        last = _passes.get(request)
        if last is not None:
            _passes.move_to_end(request)
        return last


def remember(request: Request, this: Pass) -> None:
    """Keep a pass, and let the least recently used ones go."""
    with _passes_lock:
        _passes[request] = this
        _passes.move_to_end(request)
        while len(_passes) > 1 and sum(each.size for each in _passes.values()) > MAX_CACHED_FILES:
            _passes.popitem(last=False)
