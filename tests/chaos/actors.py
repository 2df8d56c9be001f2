"""Who acts: an agent with tools and store, and a person with an editor. Each runs in a process that may be killed."""

import asyncio
import contextlib
import random
import time
from pathlib import Path

from agentscope.message import ToolResultState
from agentscope.state import AgentState

from agentic_memory import MemoryStore
from agentic_memory.backends import version_of
from agentic_memory.errors import AgenticMemoryError
from agentic_memory.tools import Edit, Read, Write
from chaos.lines import Journal, Note, make_line
from chaos.places import Place, faulty

SHARED = ("agents_0.md", "agents_1.md", "everybody_0.md", "everybody_1.md", "everybody_2.md")
"""Files that all agents write to; those called ``everybody`` are edited by people as well."""
MAX_OWN_FILES = 4


def heading_of(who: str) -> str:
    """Return the line below which ``who`` writes."""
    return f"## {who}\n"


def act_as_agent(place: Place, who: str, seed: int, journal: Path, until: float) -> None:
    """Read, write, edit, add, update, rename and forget until the time is over."""
    asyncio.run(_Agent(place, who, seed, Journal(journal)).run(until))


class _Agent:
    def __init__(self, place: Place, who: str, seed: int, journal: Journal) -> None:
        self.place, self.who, self.seed, self.journal = place, who, seed, journal
        self.chance = random.Random(seed)
        self.count = 0
        self.own: dict[str, list[str]] = {}

    async def run(self, until: float) -> None:
        async with faulty(self.place.backend(), self.chance) as self.backend:
            workdir, _, memory_dir = self.place.root.rpartition("/")
            self.store = MemoryStore(workdir=workdir, memory_dir=memory_dir, backend=self.backend)
            with contextlib.suppress(AgenticMemoryError):
                await self.store.load()
            actions = [self.edit, self.edit, self.write, self.add, self.update, self.rename, self.forget]
            while time.time() < until:
                with contextlib.suppress(AgenticMemoryError):
                    await self.chance.choice(actions)()
                await asyncio.sleep(self.chance.uniform(0, 0.05))

    def new_line(self) -> str:
        self.count += 1
        return make_line(self.who, f"{self.seed}-{self.count}")

    async def edit(self) -> None:
        await self._change_shared(whole=False)

    async def write(self) -> None:
        await self._change_shared(whole=True)

    async def _change_shared(self, *, whole: bool) -> None:
        state = AgentState()
        name = self.chance.choice(SHARED)
        path = f"{self.place.root}/{name}"
        await Read(backend=self.backend)(file_path=path, _agent_state=state)
        text = (await self.store.get(name)).content
        await asyncio.sleep(self.chance.uniform(0, 0.1))  # thinks, or waits for a permission
        line, heading = self.new_line(), heading_of(self.who)
        if whole:
            record = await self.backend.fetch(path)
            header = record.data.decode().partition("\n---\n")[0] + "\n---\n\n"
            content = header + text.replace(heading, f"{heading}{line}\n", 1)
            chunk = await Write(backend=self.backend)(file_path=path, content=content, _agent_state=state)
        else:
            arguments = {"old_string": heading, "new_string": f"{heading}{line}\n"}
            chunk = await Edit(backend=self.backend)(file_path=path, **arguments, _agent_state=state)
        if chunk.state == ToolResultState.RUNNING and (heading in text or not whole):
            self.journal.note(Note("wrote", name, (line,)))

    async def add(self) -> None:
        if len(self.own) >= MAX_OWN_FILES:
            return
        line = self.new_line()
        name = f"{self.who} {self.seed} {self.count}"
        file = await self.store.add(
            name=name, description=f"Read when asking for {name}.", type="project", content=f"{line}\n"
        )
        self.own[file.filename] = [line]
        self.journal.note(Note("wrote", file.filename, (line,), version=file.version))

    async def update(self) -> None:
        filename, lines = self._one_of_own()
        line = self.new_line()
        file = await self.store.get(filename)
        done = await self.store.update(filename, content=f"{file.content}{line}\n", expected=file.version)
        lines.append(line)
        self.journal.note(Note("wrote", filename, (line,), version=done.version))

    async def rename(self) -> None:
        filename, lines = self._one_of_own()
        self.journal.note(Note("dropped", filename, tuple(lines)))
        file = await self.store.rename(filename, f"{filename[:-3]}_r.md"[-60:])
        self.own[file.filename] = self.own.pop(filename)
        self.journal.note(Note("wrote", file.filename, tuple(lines), version=file.version))

    async def forget(self) -> None:
        filename, lines = self._one_of_own()
        self.journal.note(Note("dropped", filename, tuple(lines)))
        await self.store.forget(filename)
        del self.own[filename]

    def _one_of_own(self) -> tuple[str, list[str]]:
        if not self.own:
            raise AgenticMemoryError("nothing of mine yet")
        filename = self.chance.choice(sorted(self.own))
        return filename, self.own[filename]


def act_as_person(place: Place, who: str, seed: int, journal: Path, until: float) -> None:
    """Open a file, add a line, look whether it changed meanwhile as editors do, and save."""
    notes, chance = Journal(journal), random.Random(seed)
    count = 0
    while time.time() < until:
        time.sleep(chance.uniform(0.05, 0.3))
        name = chance.choice([name for name in SHARED if name.startswith("everybody")])
        path = f"{place.root}/{name}"
        try:
            before = place.read(path)
            heading = heading_of(who)
            if heading not in before.decode():
                continue
            count += 1
            line = make_line(who, f"{seed}-{count}")
            after = before.decode().replace(heading, f"{heading}{line}\n", 1)
            time.sleep(chance.uniform(0, 0.2))
            if place.read(path) != before:
                continue  # the editor says that the file changed on disk, and the person begins again
            began = time.time()
        except (OSError, UnicodeDecodeError):
            continue
        try:
            place.save(path, after.encode(), in_place=chance.random() < 0.5)
        except OSError:
            notes.note(Note("tried", name, content=after, at=began))
            continue
        # Put down with the moment before the save: whoever dropped the line did it later.
        notes.note(Note("saved", name, (line,), content=after, version=version_of(after.encode()), at=began))
