"""One conversation with an agent that keeps a memory: the agent, its state on disk, and what is shown of a reply."""

import glob
import json
import logging
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from agentscope.agent import Agent
from agentscope.event import (
    ConfirmResult,
    ExceedMaxItersEvent,
    HintBlockEvent,
    ReplyEndEvent,
    RequireUserConfirmEvent,
    TextBlockDeltaEvent,
    TextBlockEndEvent,
    ToolCallDeltaEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
    ToolResultEndEvent,
    ToolResultTextDeltaEvent,
    UserConfirmResultEvent,
    UserInterruptEvent,
)
from agentscope.message import Msg, ToolCallBlock, ToolResultState, UserMsg
from agentscope.model import ChatModelBase
from agentscope.permission import (
    AdditionalWorkingDirectory,
    PermissionBehavior,
    PermissionContext,
    PermissionMode,
    PermissionRule,
)
from agentscope.state import AgentState
from agentscope.tool import Toolkit
from agentscope.types import ReplyFinishedReason

from agentic_memory.cli.output import one_line, print_note, printable
from agentic_memory.errors import AgenticMemoryError
from agentic_memory.middleware import AgenticMemoryMiddleware
from agentic_memory.offline.view import split_hint
from agentic_memory.receipt import Receipt
from agentic_memory.tools import Edit, Read, Write

AGENT_NAME: Final = "assistant"
SYSTEM_PROMPT: Final = "You are a helpful assistant. Answer in the language of the user."
MAX_SHOWN_CHARACTERS: Final = 300
MAX_ASKED_CHARACTERS: Final = 2_000

_TAG = re.compile(r"</?system-[a-z]+>")

_VERBS: Final = {
    "Read": "read",
    "Write": "wrote",
    "Edit": "edited",
    "MemorySearch": "searched",
    "MemoryAdd": "remembered:",
    "MemoryUpdate": "updated",
    "MemoryForget": "forgot",
}
_READERS: Final = frozenset({"Read", "MemorySearch"})

Answer = Literal["yes", "no", "always"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far a reply came: to a question, to its end, or to a failure that was printed."""

    question: RequireUserConfirmEvent | None = None
    failed: bool = False


class InvalidSession(AgenticMemoryError, ValueError):
    """A session file that no conversation can be taken up from."""


class ChatSession:
    """An agent, the memory it keeps, and where its state is saved.

    Attributes:
        root: Absolute path of the memory directory.
        taken_up: Messages that an earlier conversation left.
    """

    def __init__(
        self,
        agent: Agent,
        memory: AgenticMemoryMiddleware,
        *,
        root: str,
        session_file: Path | None,
        quiet: bool,
    ) -> None:
        self.agent = agent
        self.root = root
        self.taken_up = len(agent.state.context)
        self._memory = memory
        self._file = session_file
        self._quiet = quiet
        self._calls: dict[str, tuple[str, str]] = {}
        self._results: dict[str, str] = {}
        self._in_text = False

    async def say(self, message: str) -> Outcome:
        """Send a message and print the reply as it comes, up to its end or to a question."""
        if self.agent.state.has_awaiting_tool_calls(self.agent.name):
            # A conversation left in the middle of a question: it is withdrawn before the next message.
            await self.withdraw()
        return await self._run(UserMsg("user", message))

    async def answer(self, question: RequireUserConfirmEvent, answers: Sequence[Answer]) -> Outcome:
        """Go on with a reply after a question; ``answers`` are in the order of the question's tool calls."""
        results = [
            ConfirmResult(
                confirmed=answer != "no", tool_call=call, rules=call.suggested_rules if answer == "always" else None
            )
            for call, answer in zip(question.tool_calls, answers, strict=True)
        ]
        return await self._run(UserConfirmResultEvent(reply_id=question.reply_id, confirm_results=results))

    async def withdraw(self) -> Outcome:
        """End a reply that waits for an answer."""
        return await self._run(UserInterruptEvent(reply_id=self.agent.state.reply_id))

    async def close(self) -> None:
        """Release what the session holds."""
        await self._memory.aclose()

    async def _run(self, inputs: Msg | UserConfirmResultEvent | UserInterruptEvent) -> Outcome:
        outcome = Outcome()
        try:
            async with aclosing(self.agent.reply_stream(inputs)) as events:
                async for event in events:
                    if isinstance(event, RequireUserConfirmEvent):
                        outcome = Outcome(question=event)
                    elif isinstance(event, ReplyEndEvent):
                        outcome = Outcome(failed=event.finished_reason == ReplyFinishedReason.ERROR)
                    self._show(event)
        finally:
            self._end_text()
            self._save()
        if outcome.question is None:
            self._show_receipt()
        return outcome

    # ------------------------------------------------------------------ what is shown

    def _show(self, event: Any) -> None:
        match event:
            case TextBlockDeltaEvent():
                # Only what the model says goes to standard output: that is what a pipe wants.
                sys.stdout.write(printable(event.delta))
                sys.stdout.flush()
                self._in_text = True
            case TextBlockEndEvent():
                self._end_text()
            case HintBlockEvent(source=None) if isinstance(event.hint, str):
                if names := split_hint(event.hint, self.root):
                    self._note("recalled", ", ".join(names), "green")
            case ToolCallStartEvent():
                self._calls[event.tool_call_id] = (event.tool_call_name, "")
            case ToolCallDeltaEvent():
                name, text = self._calls.get(event.tool_call_id, ("", ""))
                self._calls[event.tool_call_id] = (name, text + event.delta)
            case ToolCallEndEvent():
                self._end_text()
            case ToolResultTextDeltaEvent():
                self._results[event.tool_call_id] = self._results.get(event.tool_call_id, "") + event.delta
            case ToolResultEndEvent():
                self._show_result(event)
            case ExceedMaxItersEvent():
                self._note("stopped", "the model took too many steps", "red")
            case ReplyEndEvent(finished_reason=ReplyFinishedReason.INTERRUPTED):
                self._note("interrupted", "", "yellow")
            case ReplyEndEvent(finished_reason=ReplyFinishedReason.ERROR):
                reason = event.error.message if event.error else "no reason was given"
                self._end_text()
                print_note(("agentic-memory: ", "bold red"), f"the reply failed: {one_line(reason)}")

    def _show_result(self, event: ToolResultEndEvent) -> None:
        name, text = self._calls.pop(event.tool_call_id, ("", ""))
        output = self._results.pop(event.tool_call_id, "")
        target = self._target(text)
        if event.state in {ToolResultState.SUCCESS, ToolResultState.RUNNING}:
            if name == "MemoryAdd":
                target = one_line(output)[:MAX_SHOWN_CHARACTERS]  # where it went is the tool's to say
            self._note(_VERBS.get(name, f"{name} done:"), target, "cyan" if name in _READERS else "magenta")
        elif event.state == ToolResultState.DENIED:
            self._note("not allowed:", f"{name} {target}", "yellow")
        elif event.state != ToolResultState.INTERRUPTED:  # an interrupt is told once, at the end of the reply
            reason = one_line(_TAG.sub("", output))[:MAX_SHOWN_CHARACTERS]
            self._note(f"{name} failed", f"{target}: {reason}", "yellow")

    def _show_receipt(self) -> None:
        receipt: Receipt | None = self._memory.receipt(self.agent)
        if receipt is None:
            return
        for cut in receipt.cut:
            ranges = ", ".join(f"{first}-{last}" for first, last in cut.lines)
            self._note("cut", f"{cut.filename} lines {ranges}", "yellow")
        for failure in receipt.failed:
            # Failing memory does not end a reply, so this is the only place a person learns of it.
            print_note(("memory failed: ", "bold red"), f"{failure.stage}: {one_line(failure.error)}")

    def _note(self, verb: str, what: str, style: str) -> None:
        self._end_text()
        if not self._quiet:
            print_note((f"  · {verb} ", style), (one_line(what), "dim"))

    def _end_text(self) -> None:
        if self._in_text:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._in_text = False

    def _target(self, text: str) -> str:
        try:
            arguments = json.loads(text)
            path = str(arguments.get("file_path") or arguments.get("filename") or arguments.get("name") or "")
        except (ValueError, AttributeError):
            return one_line(text)[:MAX_SHOWN_CHARACTERS]
        return path.removeprefix(f"{self.root}/") or one_line(text)[:MAX_SHOWN_CHARACTERS]

    # ------------------------------------------------------------------ what is asked

    def refuse(self, call: ToolCallBlock) -> None:
        """Tell why a tool call is refused without a question."""
        self._note("refused", f"{call.name} {self._target(call.input)}: nobody is there to ask; see --yes", "yellow")

    def describe(self, call: ToolCallBlock) -> None:
        """Print what a tool call would do."""
        self._end_text()
        print_note((f"  {call.name} ", "bold magenta"), (self._target(call.input), "cyan"))
        try:
            arguments = json.loads(call.input)
        except ValueError:
            return
        for key in ("old_string", "replaces", "new_string", "description", "content"):
            sign, style = ("-", "red") if key in {"old_string", "replaces"} else ("+", "green")
            given = arguments.get(key) or ""
            text = "\n".join(map(str, given)) if isinstance(given, list) else str(given)
            for line in text[:MAX_ASKED_CHARACTERS].splitlines():
                print_note((f"    {sign} {line}", style))

    # ------------------------------------------------------------------ what is kept

    def _save(self) -> None:
        if self._file is None:
            return
        text = self.agent.state.model_dump_json(indent=2)
        # Replaced in one step: an interrupt in mid-write must not cost the conversation.
        try:
            with tempfile.NamedTemporaryFile(
                "w", dir=self._file.parent, prefix=f".{self._file.name}.", encoding="utf-8", delete=False
            ) as new:
                new.write(text)
            Path(new.name).replace(self._file)
        except OSError as error:
            print_note(("agentic-memory: ", "bold red"), f"the session was not saved: {self._file}: {error.strerror}")


async def open_session(
    model: ChatModelBase,
    *,
    workdir: str,
    memory_dir: str,
    session_file: Path | None = None,
    accept_edits: bool = False,
    quiet: bool = False,
) -> ChatSession:
    """Make the agent of a conversation.

    Args:
        model: What answers.
        workdir, memory_dir: Where the memory is.
        session_file: Where the conversation is kept; taken up from there if the file exists.
        accept_edits: Change files in the memory directory without asking. Everything else is asked either way.
        quiet: Show replies and failures only.

    Raises:
        InvalidSession: the session file holds something else.
        UnsafePath: ``workdir`` or ``memory_dir`` is no path.
    """
    # What is worth knowing is printed from the receipt and the events, not told twice.
    logging.getLogger("as").setLevel(logging.ERROR)
    logging.getLogger("agentic_memory").addHandler(logging.NullHandler())
    # A person at a terminal wants to see afterwards what was done, and to take it back.
    parameters = AgenticMemoryMiddleware.Parameters(history=True, mode="both")
    memory = AgenticMemoryMiddleware(workdir=workdir, memory_dir=memory_dir, parameters=parameters)
    root = await memory.store.root()
    state = _load_state(session_file)
    # Permissions come from this command line, never from a file that somebody may have edited.
    state.permission_context = _permissions(root, accept_edits=accept_edits)
    backend = memory.store.backend
    files = [Read(backend=backend), Write(backend=backend), Edit(backend=backend)]
    agent = Agent(
        name=AGENT_NAME,
        system_prompt=SYSTEM_PROMPT,
        model=model,
        toolkit=Toolkit(tools=[*files, *await memory.list_tools()]),
        middlewares=[memory],
        state=state,
    )
    return ChatSession(agent, memory, root=root, session_file=session_file, quiet=quiet)


def _permissions(root: str, *, accept_edits: bool) -> PermissionContext:
    inside = f"{glob.escape(root)}/**"
    read = PermissionRule(
        tool_name="Read", rule_content=inside, behavior=PermissionBehavior.ALLOW, source="command line"
    )
    return PermissionContext(
        mode=PermissionMode.ACCEPT_EDITS if accept_edits else PermissionMode.DEFAULT,
        working_directories={root: AdditionalWorkingDirectory(path=root, source="command line")},
        allow_rules={"Read": [read]},
    )


def _load_state(session_file: Path | None) -> AgentState:
    if session_file is None:
        return AgentState()
    if not session_file.parent.is_dir():
        raise InvalidSession(f"{session_file}: there is no directory {session_file.parent}; make it first")
    if not session_file.exists():
        return AgentState()
    try:
        return AgentState.model_validate_json(session_file.read_bytes())
    except OSError as error:
        raise InvalidSession(f"{session_file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidSession(f"{session_file}: holds no conversation; name another file or remove it") from error
