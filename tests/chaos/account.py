"""The account after a run: every line that was acknowledged, and where it is."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from agentic_memory import MemoryStore
from agentic_memory.backends import Backend
from agentic_memory.errors import BackendUnavailable, MemoryNotFound
from chaos.actors import SHARED
from chaos.lines import Note, is_whole


@dataclass
class Account:
    """What a run came to.

    Attributes:
        acknowledged: Lines whose writer was told that they are written.
        there: Those that are where they were written.
        overwritten: Those that a person's editor wrote over, as editors do that look before and not while they save.
            The history has every one of them that an agent wrote.
        lost, torn, unrecorded, problems: What must not be.
    """

    acknowledged: int = 0
    there: int = 0
    overwritten: int = 0
    saves: int = 0
    kills: int = 0
    lost: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    unrecorded: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing was lost."""
        return not (self.lost or self.torn or self.unrecorded or self.problems)

    def render(self) -> str:
        """Say it in a few lines."""
        first = (
            f"{self.acknowledged} acknowledged lines, {self.there} there, {self.overwritten} overwritten by an editor; "
            f"{self.saves} saves by hand, {self.kills} kills"
        )
        rest = (
            f"{what}: {len(found)}" + "".join(f"\n  {one}" for one in found[:10])
            for what in ("lost", "torn", "unrecorded", "problems")
            for found in [getattr(self, what)]
        )
        return "\n".join([first, *rest])


async def settle(backend: Backend, root: str, notes: Sequence[Note], *, kills: int) -> Account:
    """Compare the notes of everybody with what is there now and with the history."""
    workdir, _, memory_dir = root.rpartition("/")
    store = MemoryStore(workdir=workdir, memory_dir=memory_dir, backend=backend)
    account = Account(kills=kills, saves=sum(note.kind == "saved" for note in notes))
    files = {file.filename: file for file in await store.get_all()}
    await _record_when_free(store)
    for file in files.values():
        for line in file.content.splitlines():
            if " wrote " in line and not is_whole(line):
                account.torn.append(f"{file.filename}: {line!r}")
        if file.filename in SHARED and file.content.count("\n## ") < 7:
            account.torn.append(f"{file.filename}: headings are gone")
    wanted: dict[tuple[str, str], Note] = {}
    for note in notes:
        for line in note.lines:
            if note.kind == "dropped":
                wanted.pop((note.file, line), None)
            else:
                wanted[note.file, line] = note
    account.acknowledged = sum(len(note.lines) for note in notes if note.kind != "dropped")
    missing: dict[str, list[Note]] = defaultdict(list)
    for (filename, line), note in wanted.items():
        if filename in files and line in files[filename].content:
            account.there += 1
        else:
            missing[filename].append(Note(note.kind, filename, (line,), note.content, note.version, note.at))
    for filename, gone in missing.items():
        await _explain(store, filename, gone, notes, account)
    for note in notes:
        if note.kind == "wrote" and note.version:
            try:
                await store.read_version(note.version)
            except MemoryNotFound:
                account.unrecorded.append(f"{note.file} {note.version[:12]}")
    account.problems = [
        f"{problem.file}: {problem.code}: {problem.message}"
        for problem in await store.check()
        # How many memories there are is the run's own doing: an agent that was killed leaves its files to nobody.
        if problem.severity != "info" and problem.code != "index-over-budget"
    ]
    return account


async def _record_when_free(store: MemoryStore) -> None:
    """Write down what was noticed; a lock whose holder was killed out of sight is cleared after a minute."""
    until = time.monotonic() + 90
    while True:
        try:
            await store.record_history()
        except BackendUnavailable:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(1)
        else:
            return


async def _explain(
    store: MemoryStore, filename: str, gone: list[Note], notes: Sequence[Note], account: Account
) -> None:
    """A line may be missing only if a person's editor saved over it: with an older text, at the moment it was written."""
    saves = [note for note in notes if note.kind in {"saved", "tried"} and note.file == filename]
    texts = []
    for version in reversed(await store.history(filename)):
        if version.version is None:
            continue
        try:
            data = await store.read_version(version.version)
        except MemoryNotFound:
            # A transaction whose writer was killed half way may have been listed before it was taken back.
            if version in await store.history(filename):
                account.unrecorded.append(f"{filename}: {version}")
        else:
            texts.append((version.when.timestamp(), data.decode("utf-8", "replace")))
    for note in gone:
        line = note.lines[0]
        held = [when for when, text in texts if line in text]
        if note.kind == "wrote" and not held:
            account.unrecorded.append(f"{filename}: {line}")
        last = max([note.at, *held])
        dropped = min((when for when, text in texts if when > last and line not in text), default=float("inf"))
        if any(save.until >= note.at - 1 and save.at <= dropped and line not in save.content for save in saves):
            account.overwritten += 1
        else:
            account.lost.append(f"{filename}: {line}")
