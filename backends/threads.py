"""Blocking work in worker threads that is waited for to its end."""

import asyncio
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

_T = TypeVar("_T")


async def run_to_end(
    call: Callable[[], _T], cancelled: Event | None = None, *, limiter: CapacityLimiter | None = None
) -> _T:
    """Run ``call`` in a worker thread to its end, whatever becomes of the caller meanwhile.

    A thread cannot be stopped. A caller that is cancelled and goes on at once would leave a change behind that happens
    later; so it gets its ``CancelledError`` when the call is over. ``call`` must be bounded in time by itself.

    Args:
        call: What blocks.
        cancelled: Set when the caller no longer wants the answer, so that ``call`` can give up where it only waits.
        limiter: How many threads may do so at once; AnyIO's default when None.
    """
    task = asyncio.ensure_future(to_thread.run_sync(call, limiter=limiter))
    interrupted = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            interrupted = True
            if cancelled is not None:
                cancelled.set()
    if interrupted:
        if not task.cancelled():
            task.exception()  # the caller is gone; nobody else will ask for it
        raise asyncio.CancelledError
    return task.result()
