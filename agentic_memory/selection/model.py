"""The model's pick: one structured call that names the memory files worth showing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final

from agentscope.message import SystemMsg, UserMsg
from agentscope.model import ChatModelBase
from pydantic import BaseModel, BeforeValidator, Field

from agentic_memory.credentials import redact
from agentic_memory.errors import AgenticMemoryError
from agentic_memory.selection.selector import Spending, StructuredCall

MAX_PICKED_FILES: Final = 5
MAX_CALLS: Final = 2
_NUMBER: Final = re.compile(r"\s*[(\[#]?(\d{1,6})[)\].]?\s*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


def _listed(value: Any) -> Any:
    """Take a bare name, a bare number, or names in one string, for the list of names that was meant."""
    if isinstance(value, str):
        return [part for part in re.split(r"[\n,]", value) if part.strip()]
    if isinstance(value, int):
        return [str(value)]
    if isinstance(value, list | tuple):
        return [str(item) if isinstance(item, int) else item for item in value]
    return value


class MemorySelection(BaseModel):
    """The answer asked of the selector."""

    selected_files: Annotated[list[str], BeforeValidator(_listed)] = Field(
        description="Names (or numbers) of the files that help, as listed, most useful first; 5 at most; or none."
    )


@dataclass(frozen=True, slots=True)
class Pick:
    """What the model chose.

    Attributes:
        filenames: Existing files, best first, each once.
        unknown: Names in the answer that no file has.
    """

    filenames: tuple[str, ...]
    unknown: tuple[str, ...]


class MalformedPick(AgenticMemoryError):
    """A model answered the question for file names with something else, twice."""


async def pick_by_model(
    call: StructuredCall,
    model: ChatModelBase,
    *,
    instructions: str,
    query: str,
    manifest: str,
    filenames: Sequence[str],
    spent: Spending,
) -> Pick:
    """Ask the model which files help with ``query``: once, and once more when the answer is no selection.

    The manifest stands before the query so that a provider's prefix cache holds while the memory does not change.

    Raises:
        MalformedPick: neither answer was a selection.
    """
    calls = 0
    while True:
        calls += 1
        spent.calls += 1
        messages = [
            SystemMsg(name="system", content=instructions),
            UserMsg(name="user", content=f"Available memories:\n{manifest}\n\nQuery: {query}"),
        ]
        answer = await call(model, messages, MemorySelection)
        if answer.usage is not None:
            spent.input_tokens += answer.usage.input_tokens
            spent.output_tokens += answer.usage.output_tokens
        content = answer.content if isinstance(answer.content, Mapping) else {}
        listed = _listed(content.get("selected_files"))
        if isinstance(listed, list):
            picked, unknown = match_names(listed, filenames)
            return Pick(picked[:MAX_PICKED_FILES], unknown)
        if calls == MAX_CALLS:
            raise MalformedPick(f"the model answered {str(answer.content)[:200]!r}, which is no list of file names")


@lru_cache(maxsize=10_000)
def _redacted(description: str) -> str:
    # A file is chosen without its secrets, whatever the policy. Cached: it is asked for every file in every reply.
    return redact(description)


def render_manifest(files: Iterable[tuple[str, str, str]], *, max_description: int) -> str:
    """List (filename, type, description) one per line; descriptions are cut at ``max_description`` characters."""
    lines = []
    for number, (filename, kind, description) in enumerate(files, 1):
        shown = _redacted(" ".join(description.split()))
        if len(shown) > max_description:
            shown = shown[:max_description].rstrip() + "…"
        name = _CONTROL.sub("?", filename)  # a name with a newline in it must not forge a line of its own
        tag = f"[{' '.join(kind.split())}] " if kind else ""
        lines.append(f"- ({number}) {tag}{name}" + (f": {shown}" if shown else ""))
    return "\n".join(lines)


def match_names(answer: Any, filenames: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Match the names a model answered with those that exist: (found, unknown), each once, in the answer's order.

    ``filenames`` are in the manifest's order: an answer by number counts too. Tolerates what models really answer: ``./p.md``, ``Memory/p.md``, an absolute path, ``p`` for ``p.md``, another
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
        if hit is None and (number := _NUMBER.fullmatch(name)) and 0 < int(number[1]) <= len(filenames):
            hit = filenames[int(number[1]) - 1]
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
    bare = re.sub(r"^\(\d+\)\s*", "", bare)
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
