"""Whether a file tool may write to the memory, whichever tool it is and however it spells the path.

A shell command is not looked at: what it touches cannot be told from its text.
"""

import os
import posixpath
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import agentscope.tool
import anyio.to_thread
from agentscope.message import ToolCallBlock, ToolCallState
from agentscope.permission import PermissionBehavior, PermissionContext, PermissionDecision, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import BackendBase, ToolBase

from agentic_memory.backends import Backend, LocalBackend, adapt
from agentic_memory.borders import FILE_ARGUMENTS, FOLDER_ARGUMENT
from agentic_memory.check import is_memory_path
from agentic_memory.errors import AgenticMemoryError
from agentic_memory.index import INDEX_FILENAME
from agentic_memory.prompts import load_prompt
from agentic_memory.store import MemoryStore
from agentic_memory.tools import Edit, Write
from agentic_memory.tools.guarding import note_confirmed, objections_of_call
from agentic_memory.tools.memory_tool import WritePermission

NextDecision = Callable[[], Awaitable[PermissionDecision]]

WRITERS: Final = (agentscope.tool.Write, agentscope.tool.Edit)
"""AgentScope's tools that replace text in a file; ours are made of them."""


_FOLLOW: Final = r"""for path do
  rest=
  while [ ! -e "$path" ] && [ ! -L "$path" ] && [ "$path" != / ]; do
    rest=/${path##*/}$rest path=${path%/*}
    [ -n "$path" ] || path=/
  done
  printf '%s%s\000' "$(readlink -f "$path")" "$rest" || exit 1
done"""
"""Follows the links of what is there of each path; BusyBox's readlink fails where a directory is missing."""


@dataclass(frozen=True, slots=True)
class Target:
    """A path of a tool call that is, or may be, inside the memory directory.

    Attributes:
        path: As the call gives it.
        inside: Relative to the memory directory.
        surely: Whether it is known to be there: its links were followed. Else only its text says so.
    """

    path: str
    inside: str
    surely: bool


async def decide_write(
    tool: ToolBase,
    tool_input: Mapping[str, Any],
    *,
    call: ToolCallBlock,
    state: AgentState,
    store: MemoryStore,
    permission: WritePermission,
    decide_next: NextDecision,
) -> PermissionDecision:
    """Decide about one tool call; about one that does not write to the memory ``decide_next`` does.

    Args:
        tool, tool_input: What is called.
        call: The call itself; a person has let it pass when its state is ``ALLOWED``.
        state: The agent's.
        store: The memory.
        permission: ``ask`` is asked in every permission mode; ``allow`` covers memory files and MEMORY.md and nothing else.
        decide_next: AgentScope's own decision, which a deny rule of a person ends.
    """
    target = (
        None if await tool.check_read_only(dict(tool_input)) else await find_target(tool, tool_input, store, permission)
    )
    if target is None:
        return await decide_next()
    if any(part.startswith(".") for part in target.inside.split("/")):
        return _deny(load_prompt("write_bookkeeping").format(path=target.path))
    if permission == "deny":
        return _deny(load_prompt("write_denied").format(path=target.path))
    decision = await decide_next()
    mode, confirmed = state.permission_context.mode, call.state == ToolCallState.ALLOWED
    if (
        permission == "allow"
        and _is_covered(tool, target)
        and not await _is_ruled_out(tool, tool_input, state.permission_context)
    ):
        decision = PermissionDecision(PermissionBehavior.ALLOW, f"{target.path} is in the memory directory")
    if decision.behavior is PermissionBehavior.DENY:
        return decision
    unattended = mode is PermissionMode.DONT_ASK
    if permission == "ask" and not confirmed:
        return _deny(load_prompt("write_denied").format(path=target.path)) if unattended else _ask(target.path)
    if not isinstance(tool, WRITERS):
        return decision
    objections = await objections_of_call(tool_input, state=state)
    confirmable = all(objection.confirmable for objection in objections)
    if objections and confirmable and confirmed:
        note_confirmed(state, tool_input)
    elif objections and confirmable and not unattended:
        return _ask(target.path, objections[0].message)
    elif objections and not isinstance(tool, Write | Edit):  # ours say so themselves, on the bytes that are there now
        return _deny(f"{target.path} was not written: {objections[0].message}.")
    return decision


async def find_target(
    tool: ToolBase, tool_input: Mapping[str, Any], store: MemoryStore, permission: WritePermission
) -> Target | None:
    """Return the path of a call that is in the memory directory, if there is one."""
    for argument in (*FILE_ARGUMENTS, FOLDER_ARGUMENT):
        path = tool_input.get(argument)
        if isinstance(path, str) and path and "\0" not in path:
            # Following links takes a round trip elsewhere than on the local disk, so only where something hangs on it.
            target = await _locate(path, store, tool=tool, follow=permission != "inherit")
            if target is not None:
                return target
    return None


async def _locate(path: str, store: MemoryStore, *, tool: ToolBase, follow: bool) -> Target | None:
    root = await store.root()
    try:
        plain = await store.backend.resolve(path)
        real = await _follow(plain, root, store.backend) if follow and _is_same_place(tool, store.backend) else None
    except (AgenticMemoryError, OSError):
        plain, real = posixpath.normpath(path), None
    if real is not None:
        return Target(path, real, surely=True)
    inside = _below(plain, root, fold=True)
    return None if inside is None else Target(path, inside, surely=False)


async def _follow(path: str, root: str, backend: Backend) -> str | None:
    """Return ``path`` relative to ``root`` with every link followed; None when it is elsewhere or cannot be told."""
    if isinstance(backend, LocalBackend):
        return await anyio.to_thread.run_sync(_follow_here, path, root)
    try:
        done = await backend.exec_shell(["sh", "-c", _FOLLOW, "sh", path, root])
    except NotImplementedError:  # a place without a shell has no links that lead into it
        return _below(path, root, fold=False)
    real = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    return _below(real[0], real[1], fold=False) if done.exit_code == 0 and len(real) == 3 else None


def _follow_here(path: str, root: str) -> str | None:
    real = os.path.realpath(path)
    # By identity and not by name: on a disk that ignores case, and through a bind mount, names differ.
    for parent in Path(real).parents:
        try:
            same = parent.samefile(root)
        except OSError:
            continue
        if same:
            return Path(real).relative_to(parent).as_posix()
    return None


def _below(path: str, root: str, *, fold: bool) -> str | None:
    path, root = posixpath.normpath(path), posixpath.normpath(root)
    names, base = path.split("/"), root.split("/")
    if len(names) <= len(base):
        return None
    same = (_fold(path), _fold(root)) if fold else (path, root)
    return "/".join(names[len(base) :]) if same[0].startswith(f"{same[1].rstrip('/')}/") else None


def _fold(path: str) -> str:
    return unicodedata.normalize("NFKC", path).casefold()


def _is_same_place(tool: ToolBase, backend: Backend) -> bool:
    """Tell whether a tool works where the memory is; one that does not say where it works does."""
    own = getattr(tool, "_place", None) or getattr(tool, "_backend", None)
    return not isinstance(own, BackendBase) or adapt(own).cache_key == backend.cache_key


def _is_covered(tool: ToolBase, target: Target) -> bool:
    is_memory = target.inside == INDEX_FILENAME or is_memory_path(target.inside)
    return target.surely and is_memory and isinstance(tool, WRITERS)


async def _is_ruled_out(tool: ToolBase, tool_input: Mapping[str, Any], context: PermissionContext) -> bool:
    """Tell whether a person has ruled the call out: by a deny rule, or by the mode in which nothing is written."""
    if context.mode is PermissionMode.EXPLORE:
        return True
    for rule in context.deny_rules.get(tool.name, []):
        if not rule.rule_content or await tool.match_rule(rule.rule_content, dict(tool_input)):
            return True
    return False


def _ask(path: str, reason: str = "") -> PermissionDecision:
    message = f"{path} is long-term memory"
    return PermissionDecision(
        PermissionBehavior.ASK, f"{message}: {reason}" if reason else message, reason or message, bypass_immune=True
    )


def _deny(message: str) -> PermissionDecision:
    return PermissionDecision(PermissionBehavior.DENY, message, message)
