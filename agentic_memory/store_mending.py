"""The part of a store that mends what needs no decision."""

from dataclasses import replace
from typing import Final

import anyio
import anyio.to_thread

from agentic_memory.draft import Draft
from agentic_memory.repair import repair_snapshot
from agentic_memory.store_purging import StorePurging
from agentic_memory.values import Repair

SETTLE_SECONDS: Final = 0.25
"""Pause before the look that decides whether a line of the index goes: many editors save by taking the file away for a
moment."""


class StoreMending(StorePurging):
    """Mending a memory. See ``MemoryStore``."""

    async def repair(self, *, apply: bool = False) -> Repair:
        """Mend what is wrong and can be mended without a decision, in one change that can be undone.

        Every fix is proven by reading the file back: it says the same, with fewer problems and no new one. A second
        run changes nothing.

        Args:
            apply: Whether anything is written; otherwise the result tells what would be.
        """
        seen = await self._look()
        found = await anyio.to_thread.run_sync(lambda: repair_snapshot(seen, may_drop=self._keeps_history))
        if not apply or not found.changes:
            return found
        if any(problem.code == "entry-without-file" for problem in found.mended):
            await anyio.sleep(SETTLE_SECONDS)

        def plan(draft: Draft) -> Repair:
            now = draft.snapshot
            planned = found if now is seen else repair_snapshot(now, may_drop=self._keeps_history)
            for filename, data in planned.changes.items():
                draft.write(filename, data)
            return planned

        done, _, transaction = await self._change(plan, why=self._reason("repaired"))
        return replace(done, transaction=transaction)
