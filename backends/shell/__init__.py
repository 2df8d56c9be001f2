"""Any place with nothing but a POSIX ``sh``."""

from agentic_memory.backends.shell.protocol import ShellBackend, script_of, text_of

__all__ = ["ShellBackend", "script_of", "text_of"]
