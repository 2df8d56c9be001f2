"""The command line, ``agentic-memory``."""

from agentic_memory.cli.app import main

__all__ = ["main"]
