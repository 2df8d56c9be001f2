"""``AgenticMemoryMiddleware``: AgentScope's hooks, each a thin call into the memory of the running reply."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from agentscope.agent import Agent
from agentscope.embedding import EmbeddingModelBase
from agentscope.event import ExternalExecutionResultEvent, UserConfirmResultEvent, UserInterruptEvent
from agentscope.message import Msg
from agentscope.middleware import MiddlewareBase
from agentscope.permission import PermissionBehavior, PermissionContext, PermissionDecision
from agentscope.state import AgentState
from agentscope.tool import ToolBase
from opentelemetry import trace

from agentic_memory.backends import ABSENT
from agentic_memory.borders import find_border
from agentic_memory.calls import calls_of
from agentic_memory.errors import UnsafePath
from agentic_memory.formatters import drops_hints, expose_hints, has_hint
from agentic_memory.hints import HintLedger
from agentic_memory.parameters import MemoryParameters
from agentic_memory.permissions import decide_write
from agentic_memory.places import IdentitySource, Layer, Places, layers_of
from agentic_memory.receipt import Receipt
from agentic_memory.reply import ReplyMemory
from agentic_memory.section import render_unavailable, section_of
from agentic_memory.selection import ModelSelector, Selector
from agentic_memory.selection.query import build_query
from agentic_memory.shelf import INDEX_FILENAME
from agentic_memory.store import BackendSource, HistoryPlace, MemoryStore
from agentic_memory.tokens import BYTES_PER_TOKEN
from agentic_memory.tools import MemoryAdd, MemoryForget, MemorySearch, MemoryUpdate
from agentic_memory.tools.memory_tool import StoreSource, ask_a_person, is_unasked
from agentic_memory.usage import instructions_for
from agentic_memory.write_back import Watch, WriteBack

DRAIN_SECONDS: Final = 10.0
"""For a shutdown: what a service is usually given before it is killed, and some."""
NextHandler = Callable[..., AsyncGenerator[Any, None]]


class AgenticMemoryMiddleware(MiddlewareBase):
    """Long-term memory in Markdown files, for any number of agents and sessions at once.

    Takes the place of ``agentscope.middleware.AgenticMemoryMiddleware``: the same arguments, the same defaults.
    The system prompt gets instructions and the ``MEMORY.md`` index; during a reply a model picks the memory files that
    matter and they are shown as one hint. Failing memory never ends a reply unless ``on_error="raise"``.

    Args:
        workdir: Directory that holds the memory directory, in the backend's own terms.
        memory_dir: The memory directory below it.
        parameters: What can be tuned.
        backend: Where the bytes live: a backend of ours or of AgentScope, a workspace, or a callable that gives one.
            The local disk when None.
        scope: ``user``, ``agent``, ``project`` or ``session``: a memory of its own for each of them, below a directory
            of ``workdir`` that no other id can name; or a template of that directory, ``tenants/{user_id}``.
        layers: Several memories that are read together; the first is written to. Takes the place of ``scope``.
        identity: Who replies are for, or a function that tells it of an agent: from your authentication, never from
            what was said. The session is the agent's own. Without an id that is needed nothing is read or written:
            ``MissingIdentity``.
        selector: Decides which files are shown; one of ``agentic_memory.selection`` or your own. None: a model reads the
            descriptions of the best candidates and picks, as ``parameters`` say; where words leave no doubt, and when the
            model is late or fails, the files that match stand in.
        embedding_model: Any AgentScope embedding model: what matches is then found by meaning too, not only by words.
        history: Another backend for the versions, or (backend, directory), so that they outlive a sandbox; beside the files
            when None. ``parameters`` say whether, and how much.
    """

    FILENAME_MEMORY_MD: str = INDEX_FILENAME
    Parameters = MemoryParameters

    def __init__(
        self,
        *,
        workdir: str,
        memory_dir: str = "Memory",
        parameters: MemoryParameters | None = None,
        backend: BackendSource | None = None,
        scope: str | None = None,
        layers: Sequence[Layer] = (),
        identity: IdentitySource | None = None,
        selector: Selector | None = None,
        embedding_model: EmbeddingModelBase[Any] | None = None,
        history: HistoryPlace | None = None,
    ) -> None:
        self._parameters = parameters or MemoryParameters()
        self._selector: Selector = selector or ModelSelector(
            instructions=self._parameters.retrieval_instructions,
            max_candidates=self._parameters.retrieval_max_files,
            max_description_chars=self._parameters.retrieval_max_tokens_per_frontmatter * BYTES_PER_TOKEN,
        )
        where: dict[str, Any] = {"workdir": workdir, "memory_dir": memory_dir, "backend": backend}
        kept = self._parameters.history
        where |= {"history": history if kept and history is not None else kept, "retention": self._parameters.retention}
        where |= {"policy": self._parameters.write_policy}
        where |= {"embedding_model": embedding_model}
        chosen = layers_of(scope, layers)
        if identity is not None and not chosen:
            raise UnsafePath("identity is given, but everybody would share one memory: give scope='user' or layers too")
        self._places = Places(chosen, identity=identity, **where) if chosen else None
        self._shared = None if self._places else MemoryStore(**where)
        self._write_back = WriteBack(self._parameters)
        # The replies under way, by agent: weak, so that an agent dropped in mid-reply takes its entry along.
        self._replies: WeakKeyDictionary[Agent, list[ReplyMemory]] = WeakKeyDictionary()
        self._stores: WeakKeyDictionary[Agent, MemoryStore] = WeakKeyDictionary()  # of each agent's last reply

    @property
    def store(self) -> MemoryStore:
        """The memory itself, for programs. Where whose it is depends on the agent, ``MissingIdentity``: ``store_of``."""
        return self._shared or self._store_for(None, None)

    def store_of(self, who: Agent | AgentState | PermissionContext) -> MemoryStore:
        """Return the memory of an agent, or of the agent with that state: that of its running reply, if there is one.

        Raises:
            MissingIdentity: it cannot be told whose it is. Without a running reply it takes the agent where ``identity`` is
                a function.
        """
        if self._shared is not None:
            return self._shared
        if not isinstance(who, AgentState | PermissionContext):
            return self._stores[who] if self._reply_of(who) else self._store_for(who, who.state)
        for agent in self._replies:
            known = who is agent.state or who is agent.state.permission_context
            if known and self._reply_of(agent):
                return self._stores[agent]
        return self._store_for(None, who if isinstance(who, AgentState) else None)

    def receipt(self, agent: Agent) -> Receipt | None:
        """Return what memory did in the agent's last reply, or did so far in the running one; None before the first."""
        running = self._reply_of(agent)
        if running is not None:
            return running.receipt
        store = self._stores.get(agent) or self.store_of(agent)
        data = HintLedger(agent.state, store.named_root).peek("receipt")
        return Receipt.from_dict(data) if isinstance(data, dict) else None

    async def list_tools(self) -> list[ToolBase]:
        """Return the memory tools for the agent's toolkit, ``MemorySearch`` first; none in ``static_control`` mode."""
        if self._parameters.mode == "static_control":
            return []
        # Whose memory it is may take the agent to tell; then the tools ask when they are called.
        store: StoreSource = self.store_of if self._places is not None else self.store
        permission = self._parameters.write_permission
        writers = (MemoryAdd, MemoryUpdate, MemoryForget)
        return [
            MemorySearch(store, hide_secrets=self._parameters.hides_secrets),
            *(writer(store, permission=permission) for writer in writers),
        ]

    async def aclose(self, *, timeout: float = DRAIN_SECONDS) -> None:
        """Let what replies taught be written within ``timeout`` seconds, and release what the middleware holds.

        What is not written by then stands in the queue of the memory, and is learnt after a later reply.
        """
        await self._write_back.aclose(timeout=timeout)
        for store in self._places.stores() if self._places else [self.store]:
            await store.aclose()

    # ------------------------------------------------------------------ hooks

    async def on_system_prompt(self, agent: Agent, current_prompt: str) -> str:
        """Append the memory section. Within a reply it is the same text every time."""
        reply = self._reply_of(agent)
        section = await self._section_now(agent) if reply is None else await reply.section()
        if reply is not None:
            self._raise_if_asked(reply)
        return f"{current_prompt}\n\n{section}"

    async def on_reply(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: NextHandler
    ) -> AsyncGenerator[Any, None]:
        """Start the memory work of a reply, and end it with the reply."""
        inputs = input_kwargs.get("inputs")
        if isinstance(inputs, UserInterruptEvent):
            async for item in next_handler(**input_kwargs):
                yield item
            return
        said, history, resumed = _taken_in(agent, inputs)
        reply = self._begin(agent, said, history, resumed=resumed)
        running = self._replies.setdefault(agent, [])
        running.append(reply)
        watch: Watch | None = None
        try:
            if self._parameters.write_back == "extract":
                watch = await self._write_back.watch(agent, self._stores[agent], said, resumed=resumed)
            async for item in next_handler(**input_kwargs):
                if watch is not None and (noted := watch.see(item)) is not None:
                    reply.note_learnt(noted)
                yield item
            await reply.record_changes()
            if watch is not None and self._parameters.await_write and (task := watch.learn(reply.note_learnt)):
                await asyncio.wait({task})
        finally:
            running.remove(reply)
            await reply.close()
            _trace(reply.receipt)
            if watch is not None:
                watch.learn(reply.note_learnt)  # last, so that nothing of it runs before the caller has the answer

    async def on_compress_context(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[None]]
    ) -> None:
        """Show what was picked before the context is counted, so that a hint never overruns what was measured."""
        reply = self._reply_of(agent)
        # A tool may ask for compression too; between a tool call and its result is no place for a hint.
        if reply is None or agent.state.get_unfinished_tool_calls(agent.name):
            await next_handler(**input_kwargs)
            return
        shown = await reply.step()
        self._raise_if_asked(reply)
        context = agent.state.context
        await next_handler(**input_kwargs)
        if agent.state.context is not context:  # compressed: AgentScope puts another list in its place
            reply.put_back(shown)
            reply.forget_what_is_gone()

    async def on_reasoning(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: NextHandler
    ) -> AsyncGenerator[Any, None]:
        """Tell of the hints shown, then let the agent reason."""
        reply = self._reply_of(agent)
        if reply is not None:
            for event in reply.take_events():
                yield event
        async for item in next_handler(**input_kwargs):
            yield item

    async def on_check_permission(
        self,
        agent: Agent,
        input_kwargs: dict[str, Any],
        next_handler: Callable[..., Awaitable[PermissionDecision]],
    ) -> PermissionDecision:
        """Keep file tools to the reply's own memory, and to what may be written there; ask a person where one must be."""
        if self._places is not None and agent is not None:
            tool, tool_input = input_kwargs["tool"], input_kwargs["tool_input"]
            reason = await find_border(
                tool_input,
                store=self.store_of(agent),
                templates=self._places.templates,
                read_only=await tool.check_read_only(tool_input),
            )
            if reason is not None:
                return PermissionDecision(PermissionBehavior.DENY, reason, reason)
        if agent is None:
            return await self._decide(input_kwargs, next_handler)
        return await decide_write(
            input_kwargs["tool"],
            input_kwargs["tool_input"],
            call=input_kwargs["tool_call"],
            state=agent.state,
            store=self.store_of(agent),
            permission=self._parameters.write_permission,
            decide_next=lambda: self._decide(input_kwargs, next_handler),
        )

    async def _decide(
        self, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[PermissionDecision]]
    ) -> PermissionDecision:
        decision = await next_handler(**input_kwargs)
        return ask_a_person(input_kwargs["tool"]) if is_unasked(decision) else decision

    async def on_acting(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: NextHandler
    ) -> AsyncGenerator[Any, None]:
        """Remember that a tool ran which may have changed files: then the end of the reply takes another look."""
        reply = self._reply_of(agent)
        if reply is not None:
            await reply.note_tool(input_kwargs["tool_call"])
        async for item in next_handler(**input_kwargs):
            yield item

    async def on_model_call(
        self, agent: Agent, input_kwargs: dict[str, Any], next_handler: Callable[..., Awaitable[Any]]
    ) -> Any:
        """Turn hints into plain text for formatters that would drop them."""
        formatter = getattr(input_kwargs.get("current_model"), "formatter", None)
        ids = {hint["block"] for hint in HintLedger(agent.state, self.store_of(agent).named_root).hints()}
        messages: Sequence[Msg] = input_kwargs["messages"]
        if formatter is not None and ids and has_hint(messages, ids) and await drops_hints(formatter):
            input_kwargs = {**input_kwargs, "messages": expose_hints(messages, ids)}
        return await next_handler(**input_kwargs)

    # ------------------------------------------------------------------ inside

    def _begin(self, agent: Agent, said: Sequence[Msg], history: Sequence[Msg], *, resumed: bool) -> ReplyMemory:
        query = build_query([_text(message) for message in said], [_text(message) for message in history])
        store = self._stores[agent] = self._shared or self._store_for(agent, agent.state)
        return ReplyMemory(
            agent=agent,
            store=store,
            parameters=self._parameters,
            selector=self._selector,
            call=calls_of(agent, without=self),
            query=query,
            resumed=resumed,
        )

    def _store_for(self, agent: Agent | None, state: AgentState | None) -> MemoryStore:
        assert self._places is not None  # one of the two is there
        return self._places.store_for(self._places.identify(agent, state=state))

    def _reply_of(self, agent: Agent | None) -> ReplyMemory | None:
        running = self._replies.get(agent) if agent is not None else None
        return running[-1] if running else None

    async def _section_now(self, agent: Agent | None) -> str:
        """Render the section outside a reply: for a caller that only wants to see the prompt."""
        parameters = self._parameters
        store = self.store if agent is None else self.store_of(agent)
        instructions = await instructions_for(agent, parameters)
        try:
            snapshot = await store.load()
            if snapshot.index_record is ABSENT:
                await store.ensure_index()
        except Exception as error:
            if parameters.on_error == "raise":
                raise
            return render_unavailable(instructions, root=store.named_root, reason=str(error)).text
        section = await section_of(
            snapshot,
            instructions=instructions,
            max_tokens=parameters.memory_max_tokens,
            hide_secrets=parameters.hides_secrets,
        )
        return section.text

    def _raise_if_asked(self, reply: ReplyMemory) -> None:
        if self._parameters.on_error == "raise" and reply.causes:
            raise reply.causes[0]


def _taken_in(agent: Agent, inputs: Any) -> tuple[list[Msg], list[Msg], bool]:
    """Return what a reply answers, the messages before it, and whether it goes on after a confirmation."""
    own = agent.name
    history = [message for message in agent.state.context if _text(message)]
    resumed = isinstance(inputs, UserConfirmResultEvent | ExternalExecutionResultEvent)
    new = [inputs] if isinstance(inputs, Msg) else inputs if isinstance(inputs, list) else []
    new = [message for message in new if isinstance(message, Msg)]
    if not new:
        # Observed before, or answered by a confirmation: what was said last by anybody else.
        end = len(history)
        while resumed and end and history[end - 1].name == own:
            end -= 1
        start = end
        while start and history[start - 1].name != own:
            start -= 1
        new, history = history[start:end], history[:start]
    return new, history, resumed


def _text(message: Msg) -> str:
    return message.get_text_content() or ""


def _trace(receipt: Receipt) -> None:
    span = trace.get_current_span()
    if span.is_recording():
        span.set_attributes(receipt.attributes())
