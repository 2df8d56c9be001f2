"""The lines that agents and people write, made so that a torn one shows, and the journal of who wrote which."""

import json
import os
import re
import time
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

_LINE = re.compile(r"(?P<who>(?:agent|person)-\d+) wrote (?P<number>\d+-\d+) (?P<sum>[0-9a-f]{8})")

Kind = Literal["wrote", "dropped", "saved", "tried"]


def make_line(who: str, number: str) -> str:
    """Return a line nobody else writes, with a sum over itself."""
    text = f"{who} wrote {number}"
    return f"{text} {sha256(text.encode()).hexdigest()[:8]}"


def is_whole(line: str) -> bool:
    """Tell whether a line is one of ours, and all of it."""
    found = _LINE.fullmatch(line)
    return found is not None and make_line(found["who"], found["number"]) == line


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody did, put down once it was acknowledged.

    Attributes:
        kind: ``wrote``: ``lines`` are in ``file`` now; ``dropped``: its owner took them out, or is about to;
            ``saved``: a person's editor made ``file`` what ``content`` says; ``tried``: it did so, or was killed before.
        version: SHA-256 of the file, where the writer knows it.
        at: Seconds since 1970.
        until: When a save was over: in a busy container it takes its time.
    """

    kind: Kind
    file: str
    lines: tuple[str, ...] = ()
    content: str = ""
    version: str = ""
    at: float = 0.0
    until: float = 0.0


class Journal:
    """A file of notes; each is there for good before anything else happens."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, note: Note) -> None:
        """Put it down: one write, which a killed process has done or not done."""
        line = json.dumps({**asdict(note), "at": note.at or time.time(), "until": time.time()}) + "\n"
        os.write(self._descriptor, line.encode())


def read_journals(folder: Path) -> list[Note]:
    """Return the notes of everybody, in the order of time."""
    notes = []
    for path in folder.glob("*.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            data = json.loads(line)
            notes.append(Note(**{**data, "lines": tuple(data["lines"])}))
    return sorted(notes, key=lambda note: note.at)
