"""The choosing of one reply: a quick selection that can stand in, and the one that decides."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from agentscope.model import ChatModelBase

from agentic_memory.parameters import MemoryParameters
from agentic_memory.selection.lexical import first_of
from agentic_memory.selection.model import MAX_PICKED_FILES
from agentic_memory.selection.query import Query
from agentic_memory.selection.selector import Selection, Selector, Spending, StructuredCall
from agentic_memory.shelf import Snapshot
from agentic_memory.store import MemoryStore

MAX_STAND_INS: Final = 3
"""Files shown while or because nobody has decided: fewer than a model may pick, since words mislead more often."""
PATIENCE_SHARE: Final = 0.7
"""Share of the wait before the first step that vectors may take; then words stand in."""

T = TypeVar("T")


class Recall:
    """Both selections of one reply, under way from the beginning.

    Args:
        store: Ranks the files quickly: by words, and by meaning when it has an embedding model.
        selector: Decides.
        parameters: How long, how many.
        query: What is meant.
        model: The agent's.
        call: How models are called.
        snapshot: Gives the files to choose from; None when there is nothing to choose from or nothing to choose.
        fail: Told of what fails.
    """

    def __init__(
        self,
        *,
        store: MemoryStore,
        selector: Selector,
        parameters: MemoryParameters,
        query: Query,
        model: ChatModelBase,
        call: StructuredCall,
        snapshot: Callable[[], Awaitable[Snapshot | None]],
        fail: Callable[[str, Exception], None],
    ) -> None:
        self._store = store
        self._selector = selector
        self._parameters = parameters
        self._query = query
        self._model = model
        self._call = call
        self._snapshot = snapshot
        self._fail = fail
        self._failed = False
        self.spent = Spending()
        self._ranking = asyncio.create_task(self._rank())
        self._deciding = asyncio.create_task(self._decide())

    @property
    def decided(self) -> bool:
        """Whether the selector is done, with whatever result."""
        return self._deciding.done()

    @property
    def ranked(self) -> Selection | None:
        """The quick selection, once it is there."""
        return self._ranking.result() if self._ranking.done() and not self._ranking.cancelled() else None

    async def wait(self, deadline: float) -> None:
        """Wait until there is something good to show, but not beyond ``deadline`` (``perf_counter`` seconds)."""
        ranked = await _in_time(self._ranking, deadline)
        if ranked is None or not ranked.clear:
            await _in_time(self._deciding, deadline)

    def stand_in(self) -> Selection:
        """Return what can be shown although nobody has decided."""
        ranked = self.ranked or Selection()
        # One clear match needs no company; otherwise a few stand in until the selector has answered.
        return replace(ranked, hits=first_of(ranked.hits) if ranked.clear else ranked.hits[:MAX_STAND_INS])

    async def decision(self) -> Selection | None:
        """Return what was decided; None when nothing was to be decided, or when that failed."""
        return await asyncio.shield(self._deciding)

    async def instead(self) -> Selection:
        """Return what is shown in place of a decision that failed."""
        if not self._failed:
            return Selection()
        ranked = await asyncio.shield(self._ranking)
        return replace(ranked, hits=ranked.hits[:MAX_STAND_INS])

    async def close(self) -> None:
        """Stop what still runs."""
        tasks: list[asyncio.Task[Any]] = [self._deciding, self._ranking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _rank(self) -> Selection:
        parameters = self._parameters
        if not parameters.recalls or self._query.small_talk or not self._query.text:
            return Selection()
        snapshot = await self._snapshot()
        if snapshot is None:
            return Selection()
        most = parameters.retrieval_max_files
        limit = MAX_PICKED_FILES if len(snapshot.documents) <= most else max(MAX_PICKED_FILES, most // 2)
        patience = PATIENCE_SHARE * parameters.first_step_wait
        try:
            return await self._store.select(snapshot, self._query.text, limit=limit, patience=patience)
        except Exception as error:  # noqa: BLE001 - without it the selector still decides
            self._fail("rank", error)
            return Selection()

    async def _decide(self) -> Selection | None:
        parameters = self._parameters
        if not parameters.recalls or not self._query.text or parameters.retrieval_max_files == 0:
            return None
        if self._query.small_talk and parameters.first_step_wait > 0:
            return None  # with first_step_wait=0 the selector is asked whatever is said, as upstream does
        snapshot = await self._snapshot()
        if snapshot is None:
            return None
        request = replace(
            self._store.request(
                snapshot, self._query.text, limit=MAX_PICKED_FILES, patience=parameters.retrieval_timeout
            ),
            model=parameters.retrieval_model or self._model,
            call=self._call,
            spent=self.spent,
            first=lambda: asyncio.shield(self._ranking),
        )
        try:
            return await asyncio.wait_for(self._selector.select(request), parameters.retrieval_timeout)
        except Exception as error:  # noqa: BLE001 - a selector that fails must not end the reply
            self._failed = True
            self._fail("select", error)
            return None


async def _in_time(task: "asyncio.Task[T]", deadline: float) -> T | None:
    """Return a task's result if it is there by ``deadline`` (``perf_counter`` seconds); the task goes on otherwise."""
    left = deadline - time.perf_counter()
    if not task.done() and left > 0:
        await asyncio.wait({task}, timeout=left)
    return task.result() if task.done() else None
