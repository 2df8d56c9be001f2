"""The help of every command, as kept in tests/cli/help. To accept a change: AGENTIC_MEMORY_UPDATE_GOLDEN=1."""

import os
import re
from pathlib import Path

import pytest

HELP = Path(__file__).parent / "help"
COMMANDS = (
    "",
    "chat",
    "list",
    "show",
    "search",
    "add",
    "edit",
    "forget",
    "history",
    "diff",
    "restore",
    "undo",
    "purge",
    "tidy",
    "proposals",
    "accept",
    "reject",
    "dream",
    "check",
    "repair",
    "watch",
    "import",
    "export",
    "status",
)


def spelled_alike(text):
    """Drop what differs between releases of the parser: braces and types around the names of arguments."""
    text = re.sub(r"\{([A-Z]+)\}", r"\1", text)
    text = re.sub(r"(?m)^(  [A-Z]+(?:\.\.\.)?) <[^>]*>", r"\1", text)
    return re.sub(r"(?m)^(  [A-Z]+\.*) +", r"\1  ", text)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", ["80", "200"])
def test_help_is_as_kept_whatever_the_terminal(run, command, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    ran = run(*filter(None, [command]), "--help")
    assert ran.code == 0
    golden = HELP / f"{command or 'agentic-memory'}.txt"
    if os.environ.get("AGENTIC_MEMORY_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(spelled_alike(ran.out), encoding="utf-8")
    assert spelled_alike(ran.out) == golden.read_text(encoding="utf-8")


def test_every_command_has_its_help_kept(run):
    listed = re.findall(r"(?m)^  ([a-z]+) {2,}", run("--help").out.split("Commands:")[1])
    assert sorted(listed) == sorted(filter(None, COMMANDS))
