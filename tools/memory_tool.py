"""What the memory tools have in common: the store they work on, their words, and who has to agree."""

import posixpath
import re
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, Final, Literal

from agentscope.permission import (
    PermissionBehavior,
    PermissionContext,
    PermissionDecision,
    PermissionMode,
    PermissionRule,
)
from agentscope.state import AgentState
from agentscope.tool import ToolBase, ToolMiddlewareBase

from agentic_memory.errors import MissingIdentity
from agentic_memory.prompts import load_prompt
from agentic_memory.shelf import Snapshot
from agentic_memory.store import MemoryStore
from agentic_memory.tools.answers import Refusal

StoreSource = MemoryStore | Callable[[AgentState | PermissionContext], MemoryStore]
"""The memory, or a function of the host program that tells it for the agent with that state."""

WritePermission = Literal["inherit", "ask", "allow", "deny"]
"""Who lets a memory tool write: AgentScope's rules as for ``Write``, a person each time, everybody, nobody."""

NEEDS_A_YES: Final = "memory is written only when a person agrees"
"""The reason of a refusal that is a question in truth, where the permission mode would have answered it unasked."""

_ARGUMENT = re.compile(r"^## (\w+)\n", re.MULTILINE)


class MemoryTool(ToolBase):
    """A tool on memory. Whose memory it is comes from ``store`` alone; no argument of a model can change it."""

    prompt: ClassVar[str]
    """The file in ``prompts/`` that describes the tool and, under a heading each, its arguments."""
    arguments: ClassVar[dict[str, dict[str, Any]]]
    """The JSON schema of each argument, without its description."""
    required: ClassVar[tuple[str, ...]]
    is_state_injected = True
    is_read_only = False
    is_concurrency_safe = False

    def __init__(
        self,
        store: StoreSource,
        *,
        permission: WritePermission = "ask",
        middlewares: list[ToolMiddlewareBase] | None = None,
    ) -> None:
        super().__init__(middlewares)
        self._source = store
        self._permission = permission
        self.description, described = _words(self.prompt)
        self.input_schema = {
            "type": "object",
            "properties": {name: {**schema, "description": described[name]} for name, schema in self.arguments.items()},
            "required": [*self.required],
        }

    def _store_of(self, who: AgentState | PermissionContext | None) -> MemoryStore:
        """Return the memory that a call is about."""
        if isinstance(self._source, MemoryStore):
            return self._source
        if who is None:
            raise MissingIdentity(f"{self.name} has to be called by an agent here, which says whose memory it is")
        return self._source(who)

    async def check_permissions(self, tool_input: dict[str, Any], context: PermissionContext) -> PermissionDecision:  # noqa: ARG002 - AgentScope's signature
        """Decide by ``permission``; a question is one that no allow rule and no permission mode answers."""
        if self.is_read_only or self._permission == "allow":
            return PermissionDecision(PermissionBehavior.ALLOW, f"{self.name} is allowed")
        if self._permission == "deny":
            reason = f"{self.name} is switched off: memory is not written by tools here. Go on without it."
            return PermissionDecision(PermissionBehavior.DENY, reason)
        if self._permission == "inherit":
            return await self._as_for_write(context)
        if context.mode is PermissionMode.BYPASS:
            # AgentScope lets every question of a tool pass here. The middleware turns this refusal into a question.
            message = f"{self.name} needs a person's yes, and nobody is asked here. Tell the user what to remember."
            return PermissionDecision(PermissionBehavior.DENY, message, NEEDS_A_YES)
        return ask_a_person(self)

    async def _as_for_write(self, context: PermissionContext) -> PermissionDecision:
        unattended = context.mode in {PermissionMode.ACCEPT_EDITS, PermissionMode.DONT_ASK}
        if unattended and self._path_in_allowed_working_path(await self._store_of(context).root(), context):
            return PermissionDecision(PermissionBehavior.ALLOW, "the memory directory is a working directory")
        return PermissionDecision(PermissionBehavior.PASSTHROUGH, "")

    async def generate_suggestions(self, tool_input: dict[str, Any]) -> list[PermissionRule]:
        """Suggest no rule where none would be obeyed."""
        return [] if self._permission == "ask" else await super().generate_suggestions(tool_input)


def ask_a_person(tool: ToolBase) -> PermissionDecision:
    """Return the question whether ``tool`` may write; no allow rule answers it."""
    return PermissionDecision(
        PermissionBehavior.ASK, f"{tool.name} wants to write to long-term memory", NEEDS_A_YES, bypass_immune=True
    )


def is_unasked(decision: PermissionDecision) -> bool:
    """Tell whether ``decision`` refuses what a person has only not been asked about."""
    return decision.behavior is PermissionBehavior.DENY and decision.decision_reason == NEEDS_A_YES


def find_filename(snapshot: Snapshot, filename: str) -> str:
    """Return the memory that a model means: by its file name, or by its path as hints show it.

    Raises:
        Refusal: there is none; the message names those that come near.
    """
    name = posixpath.normpath(filename.strip()) if filename.strip() else ""
    if name.startswith("/"):
        name = next((known for known in snapshot.documents if snapshot.path_of(known) == name), name)
    for candidate in (name, f"{name}.md"):
        if candidate in snapshot.documents:
            return candidate
    near = get_close_matches(name, snapshot.documents, n=3, cutoff=0.5)
    hint = f"Did you mean {', '.join(near)}?" if near else "See MEMORY.md or MemorySearch for the names."
    raise Refusal(f"there is no memory {filename!r}. {hint}")


@cache
def _words(prompt: str) -> tuple[str, dict[str, str]]:
    description, *rest = _ARGUMENT.split(load_prompt(prompt))
    return description.strip(), {name: text.strip() for name, text in zip(rest[::2], rest[1::2], strict=True)}
