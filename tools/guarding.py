"""The guards as the file tools apply them: to memories in full, to other files as far as anything was clearly lost.

A tool does not know which files are memories. The middleware notes the memory directory and its policy in the agent's
state, with which they travel to the next process; a person's confirmation of one write is noted there alike.
"""

import posixpath
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from agentscope.state import AgentState

from agentic_memory.document import parse_document
from agentic_memory.encodings import decode
from agentic_memory.guards import AMOUNTS, WritePolicy, objections_to, remarks_on, without_new_secrets
from agentic_memory.index import INDEX_FILENAME
from agentic_memory.lines import normalise_newlines
from agentic_memory.tools.answers import Refusal
from agentic_memory.tools.reads import normalise_path
from agentic_memory.tools.replacement import replace_text
from agentic_memory.tools.seen import find_seen
from agentic_memory.values import Objection

POLICIES_KEY: Final = "agentic_memory.policies"
"""Where the policies stand in ``state.middle_context``, by memory directory."""
CONFIRMED_KEY: Final = "agentic_memory.confirmed"
"""Where the writes stand that a person has let pass, as digests."""
MAX_CONFIRMED: Final = 50
"""Confirmations remembered; each is used up by the write it is for."""


SECRETS_LEFT_OUT: Final = (
    " What looked like a key or a password was left out: memory is no place for it. Tell the user."
)


def note_policy(state: AgentState, root: str, policy: WritePolicy) -> None:
    """Tell the tools that memories are below ``root`` (absolute), and what may be written there."""
    policies = dict(_policies(state))
    policies[normalise_path(root)] = asdict(policy)
    state.middle_context[POLICIES_KEY] = policies


def policy_for(state: AgentState | None, path: str) -> WritePolicy | None:
    """Return the policy of the memory that ``path`` lies in; None when it lies in none that is known."""
    path = normalise_path(path)
    for root, policy in _policies(state).items() if state is not None else ():
        if path.startswith(f"{root.rstrip('/')}/"):
            try:
                return WritePolicy(**policy)
            except (TypeError, ValueError):  # noted by another release
                return WritePolicy()
    return None


def objections_of_tool(state: AgentState | None, path: str, before: bytes, after: bytes) -> list[Objection]:
    """List what is wrong with a write, whatever a person has confirmed."""
    policy = policy_for(state, path)
    memory = policy is not None or _looks_like_memory(path, before)
    return objections_to(path, before, after, policy=policy or WritePolicy(), memory=memory)


def refuse_harm(
    state: AgentState | None, path: str, before: bytes, after: bytes, *, call: Mapping[str, Any], deletes: bool = False
) -> None:
    """Raise ``Refusal`` when anything is wrong with a write that no person has confirmed.

    Args:
        state: The agent's.
        path: Absolute.
        before: What the agent knows of the file, empty when it shall be new.
        after: What it shall become.
        call: The arguments of the tool call, by which a confirmation is found.
        deletes: Whether the agent asked in so many words for text to go, so that much of it may.
    """
    objections = objections_of_tool(state, path, before, after)
    if deletes:
        objections = [objection for objection in objections if objection.code not in AMOUNTS]
    if objections and all(objection.confirmable for objection in objections) and _take_confirmation(state, call):
        return
    if objections:
        raise Refusal(f"{path} was not written: {objections[0].message}.")


async def objections_of_call(arguments: Mapping[str, Any], *, state: AgentState) -> list[Objection]:
    """List what is wrong with a call of Write or Edit, ours or AgentScope's, on the text that the agent knows.

    No round trip: what is not known here is left to the tool.
    """
    path = str(arguments.get("file_path", ""))
    before = await find_seen(state, path) or b""
    if "old_string" not in arguments:
        after: bytes = _encoded(arguments.get("content"))
        return objections_of_tool(state, path, before, after)
    old, new = str(arguments["old_string"]), str(arguments.get("new_string", ""))
    text, encoding = decode(before)
    if not old or old not in normalise_newlines(text) or encoding == "binary":
        return []
    objections = objections_of_tool(state, path, before, _encoded(replace_text(text, old, new).text))
    return [one for one in objections if new or one.code not in AMOUNTS]


def _encoded(text: object) -> bytes:
    return str(text or "").encode(
        "utf-8", "surrogateescape" if isinstance(text, str) and not text.isascii() else "strict"
    )


def leave_out_secrets(state: AgentState | None, path: str, before: bytes, after: bytes) -> bytes:
    """Return ``after`` with a note in the place of each new secret, where that is the policy."""
    policy = policy_for(state, path)
    if policy is None or policy.secrets != "redact":
        return after
    return without_new_secrets(path, before, after)


def remarks_of_tool(state: AgentState | None, path: str, before: bytes, after: bytes) -> str:
    """Return what to tell an agent of a memory it has written: what had better be worded otherwise."""
    if policy_for(state, path) is None and not _looks_like_memory(path, after):
        return ""
    return tell_remarks(before, after)


def tell_remarks(before: bytes, after: bytes) -> str:
    """Return in sentences what of ``after`` is new and had better be worded otherwise; empty when nothing is."""
    today = datetime.now().astimezone().date()
    return "".join(f" {remark}." for remark in remarks_on(before, after, today=today))


def note_confirmed(state: AgentState, call: Mapping[str, Any]) -> None:
    """Remember that a person has let this tool call pass."""
    confirmed = [*_confirmed(state), _digest(call)]
    state.middle_context[CONFIRMED_KEY] = confirmed[-MAX_CONFIRMED:]


def _take_confirmation(state: AgentState | None, call: Mapping[str, Any]) -> bool:
    if state is None or (digest := _digest(call)) not in (confirmed := _confirmed(state)):
        return False
    state.middle_context[CONFIRMED_KEY] = [one for one in confirmed if one != digest]
    return True


def _digest(call: Mapping[str, Any]) -> str:
    parts = "\0".join(f"{key}={call.get(key, '')}" for key in ("file_path", "content", "old_string", "new_string"))
    return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def _looks_like_memory(path: str, before: bytes) -> bool:
    if posixpath.basename(path) == INDEX_FILENAME:
        return True
    if not path.lower().endswith(".md") or not before.startswith(b"---"):
        return False
    document = parse_document(before, filename=path)
    return bool(document.name and document.description)


def _policies(state: AgentState) -> dict[str, dict[str, Any]]:
    # A session that another program saved may hold anything here.
    policies = state.middle_context.get(POLICIES_KEY)
    known = policies if isinstance(policies, dict) else {}
    return {root: policy for root, policy in known.items() if isinstance(policy, dict)}


def _confirmed(state: AgentState) -> list[str]:
    confirmed = state.middle_context.get(CONFIRMED_KEY)
    return confirmed if isinstance(confirmed, list) else []
