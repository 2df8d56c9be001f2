"""The command line, ``agentic-memory``.

Exit codes: 0 done; 1 not found, or problems found; 2 wrong use; 3 the memory cannot be reached or written.
"""

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Final

import typer

from agentic_memory.cli.chat import chat
from agentic_memory.cli.checking import check_memory, repair_memory
from agentic_memory.cli.dreaming import dream_memory
from agentic_memory.cli.output import print_note
from agentic_memory.cli.past import purge_memory, restore_memory, show_diff, show_history, tidy_history, undo_changes
from agentic_memory.cli.proposals import accept_proposals, list_waiting, reject_proposals
from agentic_memory.cli.reading import list_memories, search_memories, show_memory, show_status
from agentic_memory.cli.transfer import export_memories, import_memories
from agentic_memory.cli.watching import watch_memory
from agentic_memory.cli.whose import with_whose
from agentic_memory.cli.writing import add_memory, edit_memory, forget_memories
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable

DEBUG_VARIABLE: Final = "AGENTIC_MEMORY_DEBUG"

app = typer.Typer(
    name="agentic-memory",
    help="Long-term memory for agents, as Markdown files that people can read and edit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in (
    ("chat", chat),
    ("list", list_memories),
    ("show", show_memory),
    ("search", search_memories),
    ("add", add_memory),
    ("edit", edit_memory),
    ("forget", forget_memories),
    ("history", show_history),
    ("diff", show_diff),
    ("restore", restore_memory),
    ("undo", undo_changes),
    ("purge", purge_memory),
    ("tidy", tidy_history),
    ("proposals", list_waiting),
    ("accept", accept_proposals),
    ("reject", reject_proposals),
    ("dream", dream_memory),
    ("check", check_memory),
    ("repair", repair_memory),
    ("watch", watch_memory),
    ("import", import_memories),
    ("export", export_memories),
    ("status", show_status),
):
    app.command(name)(with_whose(command))


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the form of a typer callback
    if wanted:
        typer.echo(version("agentic-memory"))
        raise typer.Exit


@app.callback()
def common(
    *,
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Long-term memory for agents, as Markdown files that people can read and edit."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. Errors are one line; ``AGENTIC_MEMORY_DEBUG=1`` shows where they came from."""
    try:
        app(args=None if arguments is None else [*arguments], prog_name="agentic-memory")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        text = " ".join(str(error).split()) or type(error).__name__
        if not isinstance(error, AgenticMemoryError):
            text = f"unexpected {type(error).__name__}: {text} (set {DEBUG_VARIABLE}=1 to see where)"
        print_note(("agentic-memory: ", "bold red"), text)
        sys.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """Return the exit code that stands for ``error``."""
    if isinstance(error, BackendUnavailable):
        return 3
    # Ours that are a ValueError too tell of a wrong argument, variable or session file.
    return 2 if isinstance(error, AgenticMemoryError) and isinstance(error, ValueError) else 1
