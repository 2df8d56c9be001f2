"""The model's pick: one structured call that names the memory files worth showing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from agentscope.message import SystemMsg, UserMsg
from agentscope.model import ChatModelBase
from pydantic import BaseModel, BeforeValidator, Field

MAX_PICKED_FILES: Final = 5
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


def _listed(value: Any) -> Any:
    """Take a bare name, or names in one string, for the list that was meant."""
    if isinstance(value, str):
        return [part for part in re.split(r"[\n,]", value) if part.strip()]
    return value


class MemorySelection(BaseModel):
    """The answer asked of the selector."""

    selected_files: Annotated[list[str], BeforeValidator(_listed)] = Field(
        description="Names of the files that help, as listed, most useful first; at most 5; empty when none does."
    )


@dataclass(frozen=True, slots=True)
class Pick:
    """What the model chose.

    Attributes:
        filenames: Existing files, best first, each once.
        unknown: Names in the answer that no file has.
        input_tokens, output_tokens: What the call cost, 0 when the model does not tell.
    """

    filenames: tuple[str, ...]
    unknown: tuple[str, ...]
    input_tokens: int = 0
    output_tokens: int = 0


async def pick_by_model(
    model: ChatModelBase, *, instructions: str, query: str, manifest: str, filenames: Sequence[str]
) -> Pick:
    """Ask the model once which files help with ``query``.

    The manifest stands before the query so that a provider's prefix cache holds while the memory does not change.
    """
    answer = await model.generate_structured_output(
        [
            SystemMsg(name="system", content=instructions),
            UserMsg(name="user", content=f"Available memories:\n{manifest}\n\nQuery: {query}"),
        ],
        structured_model=MemorySelection,
    )
    content = answer.content if isinstance(answer.content, Mapping) else {}
    picked, unknown = match_names(content.get("selected_files"), filenames)
    usage = answer.usage
    return Pick(
        filenames=picked[:MAX_PICKED_FILES],
        unknown=unknown,
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
    )


def render_manifest(files: Iterable[tuple[str, str, str]], *, max_description: int) -> str:
    """List (filename, type, description) one per line; descriptions are cut at ``max_description`` characters."""
    lines = []
    for filename, kind, description in files:
        shown = " ".join(description.split())
        if len(shown) > max_description:
            shown = shown[:max_description].rstrip() + "…"
        name = _CONTROL.sub("?", filename)  # a name with a newline in it must not forge a line of its own
        tag = f"[{' '.join(kind.split())}] " if kind else ""
        lines.append(f"- {tag}{name}" + (f": {shown}" if shown else ""))
    return "\n".join(lines)


def match_names(answer: Any, filenames: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Match the names a model answered with those that exist: (found, unknown), each once, in the answer's order.

    Tolerates what models really answer: ``./p.md``, ``Memory/p.md``, an absolute path, ``p`` for ``p.md``, another
    case, ``[user] p.md``, a copied manifest line, quotes or backticks, and a bare string instead of a list.
    """
    names = _listed(answer)
    if not isinstance(names, list | tuple):
        return (), ()
    exact = set(filenames)
    folded: dict[str, str] = {}
    for filename in filenames:
        folded.setdefault(filename.casefold(), filename)
    found: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for name in names:
        if not isinstance(name, str) or not name.strip():
            continue
        hit = next((match for form in _forms(name) if (match := _lookup(form, exact, folded))), None)
        if hit is None:
            unknown[name.strip()] = None
        else:
            found[hit] = None
    return tuple(found), tuple(unknown)


def _lookup(form: str, exact: set[str], folded: Mapping[str, str]) -> str | None:
    for candidate in (form, f"{form}.md"):
        if candidate in exact:
            return candidate
        if candidate.casefold() in folded:
            return folded[candidate.casefold()]
    return None


def _forms(name: str) -> Iterable[str]:
    """Yield what may be meant by ``name``, the most literal first."""
    bare = name.strip().strip("`\"'“”‘’ ")
    bare = re.sub(r"^[-*+]\s+", "", bare)
    bare = re.sub(r"^\[[^\]]*\]\s*", "", bare).strip("`\"' ")
    yield bare
    if (line := re.match(r"(.+?\.md)\b", bare, re.IGNORECASE)) is not None:
        bare = line[1]
        yield bare
    while bare.startswith("./"):
        bare = bare[2:]
    yield bare
    parts = bare.replace("\\", "/").strip("/").split("/")
    for start in range(1, len(parts)):
        yield "/".join(parts[start:])
