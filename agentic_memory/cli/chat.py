"""``agentic-memory chat``: talk to an agent that keeps a memory, and see what memory does."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from agentic_memory.cli.options import MemoryDir, Workdir
from agentic_memory.cli.output import one_line, print_note
from agentic_memory.errors import AgenticMemoryError

if TYPE_CHECKING:
    from agentscope.message import ToolCallBlock

    from agentic_memory.cli.session import Answer, ChatSession

PROMPT: Final = "> "
GOODBYES: Final = frozenset({"/exit", "/quit", "/bye"})


def chat(
    *,
    workdir: Workdir = ".",
    memory_dir: MemoryDir = "Memory",
    once: Annotated[
        str | None, typer.Option("--once", metavar="TEXT", help="Send one message, print the reply and exit.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Let the agent change files in the memory directory without asking.")
    ] = False,
    session: Annotated[
        Path | None,
        typer.Option("--session", metavar="FILE", help="File that the conversation is kept in and taken up from."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print replies only, not what memory and tools do.")
    ] = False,
) -> None:
    """Talk to an agent that keeps a memory.

    What is recalled and written is shown as it happens.

    The model is the one whose key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY, DASHSCOPE_API_KEY, GEMINI_API_KEY,
    OLLAMA_HOST; AGENTIC_MEMORY_MODEL=provider:model decides); without any, an offline stand-in that follows rules.
    Ctrl-C interrupts a reply, Ctrl-D ends. Each line of a pipe is one message.
    """
    if once is not None and not once.strip():
        raise typer.BadParameter("there is nothing to say", param_hint="--once")
    from agentic_memory.cli.session import open_session
    from agentic_memory.models import choose_model, model_from_environment

    choice = choose_model(os.environ)
    model = model_from_environment(os.environ)
    interactive = once is None and sys.stdin.isatty()
    with asyncio.Runner() as runner:
        talk = runner.run(
            open_session(
                model,
                workdir=workdir,
                memory_dir=memory_dir,
                session_file=session,
                accept_edits=yes,
                quiet=quiet,
            )
        )
        try:
            if interactive and not quiet:
                print_note((f"memory: {talk.root}   model: {choice}   Ctrl-C interrupts, Ctrl-D ends", "dim"))
                if talk.taken_up:
                    print_note((f"taking up the conversation of {session} ({talk.taken_up} messages)", "dim"))
            failed = False
            for message in [once] if once is not None else _messages(interactive=interactive):
                failed = not _exchange(runner, talk, message, interactive=interactive) or failed
        finally:
            runner.run(talk.close())
    # A person at the keyboard has seen the error and gone on; a script has only the exit code.
    if failed and not interactive:
        raise typer.Exit(3)


def _exchange(runner: asyncio.Runner, talk: "ChatSession", message: str, *, interactive: bool) -> bool:
    """Have one exchange; False when it failed. An interrupt ends the reply, not the conversation."""
    try:
        outcome = runner.run(talk.say(message))
        # Asked outside the event loop: there, Ctrl-C would cancel the reply but leave a thread reading the keyboard.
        while (question := outcome.question) is not None:
            answers: list[Answer] = [_ask(talk, call, interactive=interactive) for call in question.tool_calls]
            outcome = runner.run(talk.answer(question, answers))
    except KeyboardInterrupt:
        print_note("")
        runner.run(talk.withdraw())
    except AgenticMemoryError as error:
        print_note(("agentic-memory: ", "bold red"), one_line(str(error)))
        return False
    except Exception as error:
        # Whatever a provider's SDK raises: the conversation so far is worth more than a traceback.
        if os.environ.get("AGENTIC_MEMORY_DEBUG"):
            raise
        print_note(
            ("agentic-memory: ", "bold red"), f"the reply failed: {type(error).__name__}: {one_line(str(error))}"
        )
        return False
    else:
        return not outcome.failed
    return True


def _ask(talk: "ChatSession", call: "ToolCallBlock", *, interactive: bool) -> "Answer":
    """Ask about one tool call; anything but a clear yes, the end of input included, is a no."""
    if not interactive:
        talk.refuse(call)
        return "no"
    talk.describe(call)
    try:
        answer = input("  allow? [y]es, [a]lways in this conversation, [N]o: ").strip().lower()
    except EOFError:
        print_note("")
        return "no"
    if answer in {"a", "always"}:
        return "always"
    return "yes" if answer in {"y", "yes"} else "no"


def _messages(*, interactive: bool) -> Iterator[str]:
    if not interactive:
        for raw in sys.stdin.buffer:
            if line := raw.decode("utf-8", "replace").strip():
                yield line
        return
    with suppress(ImportError):
        import readline  # noqa: F401 # pyright: ignore[reportUnusedImport] - being imported gives input() line editing and history
    while True:
        try:
            line = input(PROMPT).strip()
        except KeyboardInterrupt:
            print_note("")
            continue
        except EOFError:
            print_note("")
            return
        if line in GOODBYES:
            return
        if line:
            yield line
