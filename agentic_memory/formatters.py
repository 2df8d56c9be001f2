"""Getting hints through formatters that drop them.

AgentScope's multi-agent formatters fold messages without tool calls into one history text and leave hint blocks out of
it. Whether a formatter does so is found out by asking it, not by its name.
"""

from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from agentscope.formatter import FormatterBase
from agentscope.message import HintBlock, Msg, TextBlock, UserMsg

_PROBE: Final = "memory-hint-probe"
_MEMORY_NAME: Final = "memory"
_drops: "WeakKeyDictionary[type[FormatterBase], bool]" = WeakKeyDictionary()


async def drops_hints(formatter: FormatterBase) -> bool:
    """Tell whether ``formatter`` loses a hint block outside a tool sequence; asked once per class."""
    kind = type(formatter)
    known = _drops.get(kind)
    if known is None:
        probe = [
            UserMsg(name="user", content="."),
            Msg(name="assistant", role="assistant", content=[HintBlock(hint=_PROBE)]),
        ]
        try:
            known = _PROBE not in str(await formatter.format(probe))
        except Exception:  # noqa: BLE001 - a formatter that chokes on the probe gets plain text, which all of them take
            known = True
        _drops[kind] = known
    return known


def has_hint(messages: Sequence[Msg], block_ids: set[str]) -> bool:
    """Tell whether any of ``block_ids`` stands in ``messages``."""
    return any(
        isinstance(block, HintBlock) and block.id in block_ids
        for message in messages
        if not isinstance(message.content, str)
        for block in message.content
    )


def expose_hints(messages: Sequence[Msg], block_ids: set[str]) -> list[Msg]:
    """Return ``messages`` with those hints as plain text of their own message, where they would be dropped.

    Messages with tool calls or results are left alone: formatters send them through their chat twin, which keeps hints.
    Nothing in ``messages`` is changed; the agent's context keeps its blocks.
    """
    exposed: list[Msg] = []
    for message in messages:
        if (
            not has_hint([message], block_ids)
            or message.has_content_blocks("tool_call")
            or message.has_content_blocks("tool_result")
        ):
            exposed.append(message)
            continue
        run: list[Any] = []
        for block in message.content:
            if isinstance(block, HintBlock) and block.id in block_ids and isinstance(block.hint, str):
                if run:
                    exposed.append(message.model_copy(update={"content": run}))
                    run = []
                exposed.append(UserMsg(name=_MEMORY_NAME, content=[TextBlock(text=block.hint)]))
            else:
                run.append(block)
        if run:
            exposed.append(message.model_copy(update={"content": run}))
    return exposed
