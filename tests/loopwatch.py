"""Notice code that blocks the event loop.

Everything an event loop does is a handle that it runs. ``watch()`` times each of them, in every thread, and a
sampling thread notes where the slow ones stood. The limit is wide on purpose: a busy machine stretches every step,
and a check that cries wolf gets switched off. What it is for are the real mistakes: a blocking SDK call, a big
parse, a lock taken the wrong way, which take as long as the disk, the network or the input likes.
"""

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

LIMIT_SECONDS: Final = 2.0
_SAMPLE_SECONDS: Final = 0.25
_SHOWN_FRAMES: Final = 12


@dataclass(slots=True)
class _Step:
    handle: asyncio.Handle
    since: float
    stack: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """One step of a loop that took too long.

    Attributes:
        seconds: Wall time of the step.
        handle: What ran.
        stack: Where it stood when the limit passed; empty when native code let no other thread look.
    """

    seconds: float
    handle: str
    stack: str

    def __str__(self) -> str:
        where = self.stack or "(no other thread got to run meanwhile, so where it stood is unknown)\n"
        return f"the event loop stood still for {self.seconds:.2f} s in {self.handle}, at:\n{where}"


@contextmanager
def watch(limit: float = LIMIT_SECONDS) -> Iterator[list[Block]]:
    """Collect every step that runs longer than ``limit`` seconds while the context is open; complete when it closes.

    A machine that stands still as a whole holds up the sampling thread too: that time is not the step's, unless the
    step itself used the processor meanwhile.
    """
    blocks: list[Block] = []
    slow: list[tuple[float, float, Block]] = []  # begin, processor seconds
    stalls: list[tuple[float, float]] = []
    running: dict[int, _Step] = {}
    closed = threading.Event()
    run = asyncio.Handle._run
    pause = min(_SAMPLE_SECONDS, limit / 2)

    def timed_run(handle: asyncio.Handle) -> None:
        thread = threading.get_ident()
        outer = running.get(thread)  # a nested loop: rare, but the outer step is still running
        step = running[thread] = _Step(handle, time.perf_counter())
        used = time.thread_time()
        try:
            run(handle)
        finally:
            seconds = time.perf_counter() - step.since
            if outer is None:
                del running[thread]
            else:
                running[thread] = outer
            if seconds > limit:
                slow.append((step.since, time.thread_time() - used, Block(seconds, repr(handle), step.stack)))

    def sample() -> None:
        last = time.perf_counter()
        while True:
            over = closed.wait(pause)
            now = time.perf_counter()
            if now - last > 2 * pause:
                stalls.append((last + pause, now))
            last = now
            if over:
                return
            for thread, step in list(running.items()):
                frame = sys._current_frames().get(thread)
                if frame is not None and now - step.since > limit / 2 and not step.stack:
                    step.stack = "".join(traceback.format_stack(frame)[-_SHOWN_FRAMES:])

    sampler = threading.Thread(target=sample, name="loop-watch", daemon=True)
    asyncio.Handle._run = timed_run  # type: ignore[method-assign]
    sampler.start()
    try:
        yield blocks
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]
        closed.set()
        sampler.join()
        for since, used, block in slow:
            end = since + block.seconds
            stalled = sum(max(0.0, min(end, until) - max(since, begin)) for begin, until in stalls)
            if used > limit or block.seconds - stalled > limit:
                blocks.append(block)
