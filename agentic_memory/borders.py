"""Which paths the file tools of a reply may not touch: other people's memories, and layers that are only read."""

import posixpath
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agentic_memory.errors import BackendUnavailable, UnsafePath
from agentic_memory.layers import LayeredStore
from agentic_memory.prompts import load_prompt
from agentic_memory.scopes import PathTemplate
from agentic_memory.store import MemoryStore

FILE_ARGUMENTS: Final = ("file_path", "notebook_path")
FOLDER_ARGUMENT: Final = "path"
"""By which AgentScope's Glob and Grep take where they search."""

_FIELD: Final = re.compile(r"\\\{\w+\\\}")


async def find_border(
    tool_input: Mapping[str, Any], *, store: MemoryStore, templates: Sequence[PathTemplate], read_only: bool
) -> str | None:
    """Return why a tool call may not be made, in words for the model; None when nothing stands in its way.

    A path counts as its text does, with ``~``, ``..`` and the working directory resolved and case and Unicode forms ignored as some disks do. What a
    shell command touches cannot be told from its text, and is not looked at.

    Args:
        tool_input: Arguments of the call.
        store: The memory of the reply.
        templates: Of its layers, the memory itself first.
        read_only: Whether the call changes nothing.
    """
    given = {name: tool_input.get(name) for name in (*FILE_ARGUMENTS, FOLDER_ARGUMENT)}
    paths = {name: path for name, path in given.items() if isinstance(path, str) and path}
    if not paths:
        return None
    beside = store.beside if isinstance(store, LayeredStore) else {}
    try:
        own = await store.root()
        layers = {name: _folded(await other.root()) for name, other in beside.items()}
        whole = {
            name: path if path.startswith("/") else await store.backend.resolve(path) for name, path in paths.items()
        }
    except (BackendUnavailable, UnsafePath) as error:
        return str(error)  # where the borders are cannot be told now, and the file cannot be reached either
    for argument, path in whole.items():
        folded = _folded(path)
        if _is_in(folded, _folded(own)):
            continue
        layer = next((name for name, root in layers.items() if _is_in(folded, root)), None)
        if layer is not None and not read_only:
            return load_prompt("layer_read_only").format(path=path, layer=layer, own=own)
        if layer is None and any(
            _is_anothers(folded, root, template, folder=argument == FOLDER_ARGUMENT)
            for root, template in zip((_folded(own), *layers.values()), templates, strict=True)
        ):
            return load_prompt("not_your_memory").format(path=path, own=own)
    return None


def _is_anothers(path: str, root: str, template: PathTemplate, *, folder: bool) -> bool:
    """Tell whether ``path``, outside of ``root``, is where ``template`` puts the memory of somebody else.

    A folder to be searched is so too if memories of others lie below it.
    """
    if not template.fields:
        return False
    parts = template.text.split("/")
    base = root.split("/")[: -len(parts)]
    names = path.split("/")
    if names[: len(base)] != base:
        return False
    names = names[len(base) :]
    if not all(map(_may_be, parts, names)):
        return False
    if len(names) >= len(parts):
        return True
    fixed = next(at for at, part in enumerate(parts) if "{" in part)
    if not folder or len(names) < max(fixed, 1):
        return False
    return any("{" in part for part in parts[len(names) :]) or not _is_in(root, path)


def _may_be(part: str, name: str) -> bool:
    pattern = _FIELD.sub("[^/]+", re.escape(part))
    return re.fullmatch(pattern, name, re.IGNORECASE) is not None


def _is_in(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _folded(path: str) -> str:
    return unicodedata.normalize("NFKC", posixpath.normpath(path)).casefold()
