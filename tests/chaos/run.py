"""One run: start everybody, kill at random, wait, settle."""

import asyncio
import contextlib
import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentic_memory import MemoryStore
from chaos.account import Account, settle
from chaos.actors import SHARED, act_as_agent, act_as_person, heading_of
from chaos.lines import read_journals
from chaos.places import Place

AGENTS = 6
PEOPLE = 2
KILL_EVERY_SECONDS = 0.7

_FORK = multiprocessing.get_context("fork")  # a restarted agent must not spend its life importing


def run_chaos(place: Place, *, seconds: float, seed: int, accident: Callable[[], None] | None = None) -> Account:
    """Let six agents and two people work for ``seconds`` while agents are killed, and say what was lost.

    Args:
        accident: Done now and then: what else may happen at this place.
    """
    chance = random.Random(seed)
    asyncio.run(_plant(place))
    until = time.time() + seconds
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        journals = Path(folder)

        def start(who: str) -> multiprocessing.process.BaseProcess:
            act = act_as_agent if who.startswith("agent") else act_as_person
            process = _FORK.Process(
                target=act, args=(place, who, chance.randrange(10**9), journals / f"{who}.jsonl", until), daemon=True
            )
            process.start()
            return process

        names = [*(f"agent-{number}" for number in range(AGENTS)), *(f"person-{number}" for number in range(PEOPLE))]
        running = {who: start(who) for who in names}
        while time.time() < until:
            time.sleep(chance.uniform(0, 2 * KILL_EVERY_SECONDS))
            victim = f"agent-{chance.randrange(AGENTS)}"
            running[victim].kill()
            running[victim].join()
            kills += 1
            running[victim] = start(victim)
            if accident is not None and chance.random() < 0.2:
                accident()
        for process in running.values():
            process.join(timeout=60)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        notes = read_journals(journals)
    return asyncio.run(_settle(place, notes, kills))


async def _plant(place: Place) -> None:
    workdir, _, memory_dir = place.root.rpartition("/")
    backend = place.backend()
    store = MemoryStore(workdir=workdir, memory_dir=memory_dir, backend=backend)
    everybody = [*(f"agent-{number}" for number in range(AGENTS)), *(f"person-{number}" for number in range(PEOPLE))]
    for name in SHARED:
        title = name.removesuffix(".md")
        content = f"# {title}\n\n" + "\n".join(heading_of(who) for who in everybody)
        await store.add(
            name=title,
            description=f"Read when asking what was done in {title}.",
            type="project",
            content=content,
            filename=name,
        )
    await _close(backend)


async def _settle(place: Place, notes, kills: int) -> Account:
    backend = place.backend()
    try:
        return await settle(backend, place.root, notes, kills=kills)
    finally:
        await _close(backend)


async def _close(backend) -> None:
    close = getattr(backend, "aclose", None)
    if close is not None:
        await close()
