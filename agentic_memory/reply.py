"""The memory work of one reply: load, pick, show. One object per reply; nothing of it outlives the reply."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio.to_thread
from agentscope.agent import Agent
from agentscope.event import HintBlockEvent, ModelCallEndEvent, ModelCallStartEvent
from agentscope.message import HintBlock, ToolCallBlock

from agentic_memory.backends import ABSENT
from agentic_memory.bases import remember_base
from agentic_memory.document import Document
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable
from agentic_memory.hand_edits import compare, look_at, own_part, parse_sighting, render_edits, sight
from agentic_memory.hints import HintLedger, ShownFile, render_hint, say_author, show_file
from agentic_memory.history.entries import Author, is_version
from agentic_memory.layers import LayeredSnapshot
from agentic_memory.parameters import MemoryParameters
from agentic_memory.recall import Recall
from agentic_memory.receipt import CutFile, Failure, LeftOut, LoadedFile, Receipt
from agentic_memory.section import Section, ShownIndex, render_unavailable, section_of
from agentic_memory.selection.query import Query
from agentic_memory.selection.selector import Selection, Selector, Spending, StructuredCall
from agentic_memory.shelf import INDEX_FILENAME, Snapshot
from agentic_memory.store import MemoryStore
from agentic_memory.tokens import estimate_tokens
from agentic_memory.tools.edit import Edit
from agentic_memory.tools.guarding import note_policy
from agentic_memory.tools.memory_tool import MemoryTool
from agentic_memory.tools.reads import keep_reads, known_versions, note_read
from agentic_memory.tools.seen import Seen, how_seen
from agentic_memory.tools.sources import tool_results
from agentic_memory.tools.write import Write
from agentic_memory.usage import instructions_for
from agentic_memory.writeback.report import LearnReport

logger = logging.getLogger("agentic_memory")

LOOK_IN_THREAD_FROM: Final = 1_000
"""Files from which taking stock of them leaves the event loop."""
AUTHORS_WAIT_SECONDS: Final = 1.0
"""How long a hint is held back for who wrote its files."""
MIN_SHOWN_TOKENS: Final = 100
"""Room below which no further file is begun: a few lines of it would only tell that it exists."""
MAX_NAMED_ENTRIES: Final = 500
"""Entries that fell out of the index named on a receipt, which is saved with the agent's state; the rest is counted,
and ``cut`` has the lines of all of them."""


class ReplyMemory:
    """Everything memory does between the start and the end of one reply of one agent."""

    def __init__(
        self,
        *,
        agent: Agent,
        store: MemoryStore,
        parameters: MemoryParameters,
        selector: Selector,
        call: StructuredCall,
        query: Query,
        resumed: bool,
    ) -> None:
        self._agent = agent
        self._store = store
        self._parameters = parameters
        self._query = query
        self._began = time.perf_counter()
        self._calls_before = store.round_trips
        self._parked_calls = 0
        self._events: list[HintBlockEvent] = []
        self._frozen: str | None = None
        self._stepped = False
        self._shown_blocks: list[HintBlock] = []
        self._shown_tokens = 0
        self._used: list[str] = []
        self._ledger = HintLedger(agent.state, store.named_root)
        self._picked = False
        self._ranking_noted = False
        self._told = Spending()
        self._resumed = resumed
        self._acted = self._acted_elsewhere = False
        self._looked_last: Snapshot | None = None
        self._missed: tuple[str, ...] = ()
        self._writes_before = 0
        self._known_before: dict[str, str] = {}
        self._recording: asyncio.Task[None] | None = None
        self.causes: list[Exception] = []
        self.receipt = Receipt(session_id=agent.state.session_id, query=query.text)
        self._loading: asyncio.Task[Snapshot | None] = asyncio.create_task(self._load())
        self._recall = Recall(
            store=store,
            selector=selector,
            parameters=parameters,
            query=query,
            model=agent.model,
            call=call,
            snapshot=self._choosable,
            fail=self._fail,
        )

    # ------------------------------------------------------------------ loading

    async def _load(self) -> Snapshot | None:
        try:
            root = await self._store.root()
            self._ledger = HintLedger(self._agent.state, root)
            note_policy(self._agent.state, root, self._parameters.write_policy)
            self.receipt = replace(self.receipt, memory_dir=root)
            if self._resumed:
                self._take_up()
            self._writes_before = await self._store.writes()
            self._known_before = known_versions(self._agent.state)
            snapshot = await self._load_in_time()
        except Exception as error:  # noqa: BLE001 - whatever the backend raises, memory must not end the reply
            self._fail("load", error)
            return None
        await self._begin_history()
        self.receipt = replace(
            self.receipt,
            files=len(snapshot.documents),
            problems=len(snapshot.problems),
            bytes_read=sum(record.size for record in snapshot.tree.files),
            memory_ms=_since(self._began),
        )
        if isinstance(snapshot, LayeredSnapshot):
            for view in snapshot.views:
                if view.snapshot is None:
                    self._fail(f"load {view.name}", BackendUnavailable(view.error))
        if snapshot.index_record is ABSENT:
            try:
                await self._store.ensure_index()
            except Exception as error:  # noqa: BLE001 - a read-only memory is still worth reading
                self._fail("create MEMORY.md", error)
        return snapshot

    async def _load_in_time(self) -> Snapshot:
        """Load, but do not let a backend that hangs hold the reply: it is left to its own timeouts."""
        load = asyncio.create_task(self._store.load())
        load.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody else may be left to ask
        limit = self._parameters.load_timeout
        try:
            await asyncio.wait({load}, timeout=limit)
            if load.done():
                return load.result()
        finally:
            load.cancel()
        raise BackendUnavailable(f"{self._store.named_root}: the backend did not answer within {limit:g} s")

    async def _choosable(self) -> Snapshot | None:
        snapshot = await asyncio.shield(self._loading)
        return None if snapshot is None or not snapshot.documents or self._picked else snapshot

    # ------------------------------------------------------------------ the system prompt

    async def section(self) -> str:
        """Return the memory section of the system prompt; the same text until the reply ends."""
        if self._frozen is None:
            snapshot = await asyncio.shield(self._loading)
            if self._frozen is None:  # a resumed reply finds the text it was parked with
                text = await self._render(snapshot)
                self._frozen = self._frozen or text  # two callers at once freeze one text
        return self._frozen

    async def _render(self, snapshot: Snapshot | None) -> str:
        instructions = await instructions_for(self._agent, self._parameters)
        if snapshot is None:
            reason = self.receipt.failed[-1].error if self.receipt.failed else "it was not loaded"
            return render_unavailable(instructions, root=self._store.named_root, reason=reason).text
        section = await section_of(
            snapshot,
            instructions=instructions,
            max_tokens=self._parameters.memory_max_tokens,
            hide_secrets=self._parameters.hides_secrets,
        )
        if self._frozen is None:
            self._note_section(section)
        return section.text

    def _note_section(self, section: Section) -> None:
        own = section.indexes[0]
        self.receipt = replace(self.receipt, index_version=own.version, index_tokens=estimate_tokens(section.text))
        for shown in section.indexes:
            if shown.cut_lines:
                self._note_cut_index(shown)
            elif shown.complete and shown.snapshot is not None:
                self._note_read(shown.snapshot.path_of(INDEX_FILENAME), shown.version, shown.snapshot.index_document)

    def _note_cut_index(self, shown: ShownIndex) -> None:
        prefix = shown.filename.removesuffix(INDEX_FILENAME)
        fallen = [
            LeftOut(prefix + entry.filename, f"its entry, {shown.filename} line {entry.line}, is over the index budget")
            for entry in shown.cut_entries[:MAX_NAMED_ENTRIES]
        ]
        rest = len(shown.cut_entries) - len(fallen)
        if rest:
            fallen.append(LeftOut(shown.filename, f"{rest} more entries are over the index budget; see cut"))
        self.receipt = replace(
            self.receipt,
            cut=(*self.receipt.cut, CutFile(shown.filename, shown.cut_lines)),
            left_out=(*self.receipt.left_out, *fallen),
        )

    # ------------------------------------------------------------------ the hint

    async def step(self) -> list[HintBlock]:
        """Show what is ready before a reasoning step; before the first, wait a little for it.

        Returns:
            The blocks that were put into the context.
        """
        shown_before = len(self._shown_blocks)
        first, self._stepped = not self._stepped, True
        snapshot = await asyncio.shield(self._loading) if first else None
        if snapshot is not None:
            await _prepare_sighting(snapshot)
            self._tell_edits(snapshot)
        if not self._parameters.recalls:
            return self._shown_blocks[shown_before:]
        if first:
            self._trim()
            if self._parameters.first_step_wait > 0:
                await self._first_step(snapshot)
            elif self._agent.state.cur_iter > 0:  # upstream's timing: never before a reply's first step
                await self._show_pick()
        else:
            await self._show_pick()
        return self._shown_blocks[shown_before:]

    async def _first_step(self, snapshot: Snapshot | None) -> None:
        if snapshot is None or not snapshot.documents or self._picked:
            return
        waiting = time.perf_counter()
        await self._recall.wait(self._began + self._parameters.first_step_wait)
        self.receipt = replace(self.receipt, waited_ms=_since(waiting))
        self._note_recall()
        if self._recall.decided:
            await self._show_pick()
        else:
            await self._show(snapshot, self._recall.stand_in())

    async def _show_pick(self) -> None:
        if self._picked or not self._recall.decided:
            return
        self._picked = True
        self._note_recall()
        pick, snapshot = await self._recall.decision(), await asyncio.shield(self._loading)
        if snapshot is None:
            return
        if pick is not None:
            for name in pick.unknown:
                self._leave_out(name, "picked by the model, but there is no such file")
            await self._show(snapshot, pick)
        elif not self._shown_tokens:
            await self._show(snapshot, await self._recall.instead())

    async def _show(self, snapshot: Snapshot, selection: Selection) -> None:
        known = (*(self._recall.ranked or Selection()).hits, *(hit for hit in selection.hits if hit.passage))
        focus = {hit.filename: hit.line for hit in known}
        chosen = self._fresh(snapshot, selection.filenames, focus)
        authors = await self._authors_of(snapshot, chosen)
        shown: list[ShownFile] = []
        for number, filename in enumerate(chosen, 1):
            room = self._parameters.retrieval_max_tokens - self._shown_tokens
            if room < MIN_SHOWN_TOKENS and self._shown_tokens:
                self._leave_out(filename, "over the budget of the reply, retrieval_max_tokens")
                continue
            place = f"{number}/{len(chosen)}"
            file = self._show_one(
                snapshot,
                filename,
                room=room,
                place=place,
                focus=focus.get(filename, 1),
                author=authors.get(filename, ""),
            )
            self._shown_tokens += file.tokens
            shown.append(file)
        if not shown:
            return
        self._put(render_hint(shown), shown)
        self._used += [file.filename for file in shown]
        state = self._agent.state
        loaded = tuple(
            LoadedFile(file.filename, file.version, selection.by, file.tokens, state.cur_iter) for file in shown
        )
        self.receipt = replace(self.receipt, loaded=(*self.receipt.loaded, *loaded))

    def _put(self, hint: str, shown: Sequence[ShownFile] = ()) -> None:
        """Put a hint into the context."""
        state, block = self._agent.state, HintBlock(hint=hint)
        state.append_context(self._agent.name, [block])
        self._shown_blocks.append(block)
        self._ledger.add(block, shown, reply_id=state.reply_id, tokens=estimate_tokens(hint))
        self._events.append(
            HintBlockEvent(reply_id=state.reply_id, block_id=block.id, source=block.source, hint=block.hint)
        )

    def _fresh(self, snapshot: Snapshot, filenames: Sequence[str], focus: Mapping[str, int]) -> list[str]:
        """Return what of ``filenames`` is to be shown: successors for what is superseded, and nothing twice.

        A long file of which another part is in the context is shown again, from where this question's answer is.
        """
        chosen: dict[str, None] = {}
        for picked in filenames:
            filename = snapshot.successor_of(picked)
            if filename != picked:
                self._leave_out(picked, f"superseded by {filename}")
            record, document = snapshot.documents[filename]
            if self._ledger.shows(filename, record.version, line=focus.get(filename, 1)):
                self._leave_out(filename, "already in the context with this content")
            elif document.encoding == "binary":
                self._leave_out(filename, "not text")
            else:
                chosen[filename] = None
        return list(chosen)

    async def _authors_of(self, snapshot: Snapshot, filenames: Sequence[str]) -> dict[str, str]:
        """Look up, in one round trip for all files of a hint, who wrote what they hold; nothing without a history."""
        try:
            async with asyncio.timeout(AUTHORS_WAIT_SECONDS):
                wrote = await self._store.who_wrote({name: snapshot.documents[name][0].version for name in filenames})
        except Exception as error:  # noqa: BLE001 - the hint is worth more than its date
            self._fail_history(error)
            return {}
        return {filename: say_author(version) for filename, version in wrote.items()}

    def _show_one(
        self, snapshot: Snapshot, filename: str, *, room: int, place: str, focus: int, author: str
    ) -> ShownFile:
        record, document = snapshot.documents[filename]
        path = snapshot.path_of(filename)
        file = show_file(
            snapshot.file(filename),
            document,
            path=path,
            max_tokens=min(self._parameters.retrieval_max_tokens_per_md, room),
            focus=focus,
            place=place,
            scope=snapshot.scope_of(filename),
            hide_secrets=self._parameters.hides_secrets,
            author=author,
        )
        if file.left_out:
            self.receipt = replace(self.receipt, cut=(*self.receipt.cut, CutFile(filename, file.left_out)))
        elif not file.altered:
            self._note_read(path, record.version, document)
        return file

    def _note_read(self, path: str, version: str, document: Document) -> None:
        """The agent has seen these bytes whole: it may write there, and what it writes can be merged on them."""
        note_read(self._agent.state, path, version)
        remember_base(document.encode(document.text), version=version)

    def put_back(self, blocks: Sequence[HintBlock]) -> None:
        """Bring back hints that a context compression took out before any model call saw them."""
        lost = self._ledger.missing(blocks)
        if lost:
            self._agent.state.append_context(self._agent.name, [*lost])

    def forget_what_is_gone(self) -> None:
        """After a compression, let the agent write only where the context still shows it what is there."""
        state, root = self._agent.state, self._store.named_root
        snapshot = self._loading.result() if self._loading.done() else None
        names = [filename for hint in self._ledger.live() for filename in hint["files"]]
        shown = {f"{root}/{name}" if snapshot is None else snapshot.path_of(name) for name in names}
        cached = {entry.file_path for entry in state.tool_context.read_file_cache}  # AgentScope's own choice of Reads
        keep_reads(state, {f"{root}/{INDEX_FILENAME}", *shown, *cached})

    def take_events(self) -> list[HintBlockEvent | ModelCallStartEvent | ModelCallEndEvent]:
        """Hand over the events since the last call: hints shown, and what picking them cost, as a model call.

        So the tokens of the pick count in the reply's usage and in AgentScope's budget of a reply.
        """
        events: list[HintBlockEvent | ModelCallStartEvent | ModelCallEndEvent] = [*self._events]
        self._events = []
        spent, told = self._recall.spent, self._told
        if (spent.input_tokens, spent.output_tokens) != (told.input_tokens, told.output_tokens):
            reply_id = self._agent.state.reply_id
            model = self._parameters.retrieval_model or self._agent.model
            events += [
                ModelCallStartEvent(reply_id=reply_id, model_name=model.model),
                ModelCallEndEvent(
                    reply_id=reply_id,
                    input_tokens=spent.input_tokens - told.input_tokens,
                    output_tokens=spent.output_tokens - told.output_tokens,
                ),
            ]
            self._told = replace(spent)
        return events

    def _trim(self) -> None:
        limit = self._parameters.hint_context_max_tokens
        for filename in self._ledger.trim(max_tokens=limit, reply_id=self._agent.state.reply_id):
            self._leave_out(filename, "shown by an earlier reply, taken out of the context to save room")

    # ------------------------------------------------------------------ hand edits

    def _tell_edits(self, snapshot: Snapshot) -> None:
        """Tell the agent in one line what somebody else changed since it last looked; nothing in its first reply."""
        last = parse_sighting(self._ledger.peek("seen"))
        if last is None:
            return
        state = self._agent.state

        def knows(filename: str) -> bool:
            own = own_part(snapshot)
            document = own.index_document if filename == INDEX_FILENAME else own.documents[filename][1]
            return how_seen(state, own.path_of(filename), document.encode(document.text)) is Seen.CURRENT

        edits, self._missed = compare(last, snapshot, written=self._store.written_since(), knows=knows)
        if edits:
            self._put(render_edits(edits, language=self._parameters.language))
            self.receipt = replace(self.receipt, edited=(*self.receipt.edited, *edits.filenames))

    async def _note_sighting(self) -> None:
        """Keep what the agent has seen for its next reply; one that never came to a step has seen nothing."""
        looked = self._loading.done() and not self._loading.cancelled()
        snapshot = self._loading.result() if looked else None
        if snapshot is None or not self._stepped:
            return
        # What a shell changed is only known from a look at the end, and then all that changed till there is its own.
        if self._looked_last is not None and self._acted_elsewhere:
            snapshot = self._looked_last
        await _prepare_sighting(snapshot)
        last = parse_sighting(self._ledger.peek("seen"))
        prefix = f"{own_part(snapshot).root.rstrip('/')}/"
        read = {
            path.removeprefix(prefix): version
            for path, version in known_versions(self._agent.state).items()
            if path.startswith(prefix) and version != self._known_before.get(path) and is_version(version)
        }
        written = {**self._store.written_since(self._writes_before), **read}
        self._ledger.data["seen"] = sight(snapshot, written=written, last=last, missed=self._missed).as_dict()

    # ------------------------------------------------------------------ history

    async def _begin_history(self) -> None:
        """Write down, beside the reply, what others changed since the last look; what changes from here on is ours."""
        if self._parameters.history:
            state = self._agent.state
            root = await self._store.root()
            await self._store.begin_reply(
                self,
                lambda: Author("agent", state.session_id, state.reply_id),
                sources=lambda: tool_results(state, root=root),
            )
            self._recording = asyncio.create_task(self._record())

    async def note_tool(self, call: ToolCallBlock) -> None:
        """Remember whether a tool ran that may have changed files."""
        if self._acted_elsewhere or not self._parameters.history:
            return
        try:
            tool = await self._agent.toolkit.get_tool(call.name)
            harmless = tool is not None and await tool.check_read_only(json.loads(call.input or "{}"))
        except Exception:  # noqa: BLE001 - a tool that cannot say it is harmless may not be
            tool, harmless = None, False
        if not harmless:
            self._acted = True
            self._acted_elsewhere = not isinstance(tool, Write | Edit | MemoryTool)

    async def record_changes(self) -> None:
        """Look once more when a tool may have changed files, and write down what did change."""
        if self._recording is None:
            return
        await self._recording
        if not self._acted:
            return
        try:
            self._looked_last = await self._load_in_time()
        except Exception as error:  # noqa: BLE001 - the next look will notice it
            self._fail_history(error)
            return
        await self._record()

    async def _record(self) -> None:
        try:
            async with asyncio.timeout(self._parameters.load_timeout):
                await self._store.record_history()
        except Exception as error:  # noqa: BLE001 - it stays pending, and the reply has nothing to do with it
            self._fail_history(error)

    def _fail_history(self, error: Exception) -> None:
        logger.info("memory: history was not written, it is tried again: %s", error)
        failure = Failure("history", str(error) or type(error).__name__)
        self.receipt = replace(self.receipt, failed=(*self.receipt.failed, failure))

    # ------------------------------------------------------------------ write-back

    def note_learnt(self, report: LearnReport) -> None:
        """Put what was learnt from the reply on its receipt, also after its end, while there is no newer one."""
        self.receipt = replace(self.receipt, write_back=report)
        saved = self._ledger.peek("receipt")
        if isinstance(saved, dict) and saved.get("reply_id") == self.receipt.reply_id != "":
            self._ledger.data["receipt"] = self.receipt.as_dict()

    # ------------------------------------------------------------------ parking, ending

    def _take_up(self) -> None:
        """Go on with a reply that was parked on a confirmation: same prompt, same receipt, no second pick."""
        parked, receipt = self._ledger.peek("parked"), self._ledger.peek("receipt")
        if not isinstance(parked, dict) or parked.get("reply_id") != self._agent.state.reply_id:
            return
        self._frozen = parked.get("section")
        self._picked = bool(parked.get("picked"))
        if isinstance(receipt, dict):
            self.receipt = Receipt.from_dict(receipt)
            self._parked_calls = self.receipt.backend_calls
            self._recall.spent.calls += self.receipt.selector_calls
            self._recall.spent.input_tokens += self.receipt.selector_input_tokens
            self._recall.spent.output_tokens += self.receipt.selector_output_tokens
            self._told = replace(self._recall.spent)

    async def close(self) -> None:
        """End the reply: stop what still runs, and leave the receipt in the agent's state."""
        tasks: list[asyncio.Task[Any]] = [self._loading]
        if self._recording is not None:
            tasks.append(self._recording)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._recall.close(), return_exceptions=True)
        self._note_recall()
        self._store.end_reply(self)
        state, data = self._agent.state, self._ledger.data
        self.receipt = replace(
            self.receipt,
            reply_id=state.reply_id,
            backend_calls=self._parked_calls + self._store.round_trips - self._calls_before,
        )
        data["receipt"] = self.receipt.as_dict()
        await self._note_sighting()
        if state.has_awaiting_tool_calls(self._agent.name):
            data["parked"] = {"reply_id": state.reply_id, "section": self._frozen, "picked": self._picked}
        else:
            data.pop("parked", None)
        await self._note_uses()

    async def _note_uses(self) -> None:
        """Count what was shown, when the answer is out."""
        try:
            await self._store.note_use(self._used)
        except Exception as error:  # noqa: BLE001 - a count is no matter of the reply
            logger.debug("memory: uses are not counted: %s", error)

    # ------------------------------------------------------------------ notes

    def _note_recall(self) -> None:
        """Bring on the receipt what choosing cost, and what it had to do without."""
        spent, ranked = self._recall.spent, self._recall.ranked
        self.receipt = replace(
            self.receipt,
            selector_calls=spent.calls,
            selector_input_tokens=spent.input_tokens,
            selector_output_tokens=spent.output_tokens,
        )
        if ranked is None or self._ranking_noted:
            return
        self._ranking_noted = True
        failed = tuple(Failure(stage, _said(error)) for stage, error in ranked.failed)
        self.receipt = replace(self.receipt, failed=(*self.receipt.failed, *failed), unembedded=ranked.waiting)

    def _fail(self, stage: str, error: Exception) -> None:
        text = _said(error)
        logger.warning("memory: %s failed, the reply goes on: %s", stage, text)
        self.receipt = replace(self.receipt, failed=(*self.receipt.failed, Failure(stage, text)))
        self.causes.append(error)

    def _leave_out(self, filename: str, reason: str) -> None:
        left_out = LeftOut(filename, reason)
        if left_out not in self.receipt.left_out:
            self.receipt = replace(self.receipt, left_out=(*self.receipt.left_out, left_out))


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, AgenticMemoryError) else f"{type(error).__name__}: {error}"


async def _prepare_sighting(snapshot: Snapshot) -> None:
    """Take stock of a large memory off the event loop; of a small one it takes less than a millisecond."""
    if len(snapshot.documents) > LOOK_IN_THREAD_FROM:
        await anyio.to_thread.run_sync(look_at, snapshot)


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
