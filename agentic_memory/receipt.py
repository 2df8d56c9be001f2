"""What memory did in one reply: the receipt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from agentic_memory.writeback.report import LearnReport


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A memory file that was put into the context.

    Attributes:
        filename: Relative to the memory directory.
        version: SHA-256 of the bytes it was taken from.
        picked_by: ``model``: a model chose it; ``lexical``: its words matched; ``hybrid``: words or meaning did; or what a
            selector of your own calls itself.
        tokens: Estimated size of what was shown.
        step: 0-based reasoning step of the reply before which it was shown.
    """

    filename: str
    version: str
    picked_by: str
    tokens: int
    step: int


@dataclass(frozen=True, slots=True)
class CutFile:
    """A file of which only a part was shown; ``lines`` are the 1-based inclusive ranges left out."""

    filename: str
    lines: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that was not shown, and why."""

    filename: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that failed without ending the reply: at which stage, and the error's own words."""

    stage: str
    error: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What memory did in one reply. ``as_dict`` is JSON-serialisable; ``from_dict`` reads it back.

    Attributes:
        memory_dir: Absolute path of the memory directory; empty when it could not be resolved.
        reply_id, session_id: Which reply.
        query: What was searched for.
        files: Memory files seen.
        problems: Problems of files and places seen; ``MemoryStore.check`` lists them.
        index_version: SHA-256 of MEMORY.md; empty when it was absent or unreadable.
        index_tokens: Estimated size of the memory section of the system prompt.
        loaded: Files put into the context by this reply.
        cut: MEMORY.md or files of which lines were left out.
        left_out: Files not shown: index entries that fell out, picks already in the context, names nobody has.
        edited: Files that somebody else changed since the agent's last reply, as it was told.
        failed: What failed.
        selector_calls: Model calls made to pick files.
        selector_input_tokens, selector_output_tokens: What those calls cost, as the model told.
        unembedded: Passages without a vector yet, with an embedding model: their files were judged by words alone.
        backend_calls: Round trips to the backend while the reply ran, those of its tools included.
        bytes_read: Size of the files seen, in bytes.
        waited_ms: How long the first model call was held back for the pick.
        memory_ms: Time from the start of the reply until memory was loaded.
        write_back: What was learnt from the reply; ``waiting`` while it is being learnt, None when write-back is off or
            the reply did not complete.
    """

    memory_dir: str = ""
    reply_id: str = ""
    session_id: str = ""
    query: str = ""
    files: int = 0
    problems: int = 0
    index_version: str = ""
    index_tokens: int = 0
    loaded: tuple[LoadedFile, ...] = ()
    cut: tuple[CutFile, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    edited: tuple[str, ...] = ()
    failed: tuple[Failure, ...] = ()
    selector_calls: int = 0
    selector_input_tokens: int = 0
    selector_output_tokens: int = 0
    unembedded: int = 0
    backend_calls: int = 0
    bytes_read: int = 0
    waited_ms: float = 0.0
    memory_ms: float = 0.0
    write_back: LearnReport | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {name: _jsonable(getattr(self, name)) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read a receipt back from its JSON form; fields it does not know are ignored."""
        known = {key: value for key, value in data.items() if key in cls.__dataclass_fields__}
        known["loaded"] = tuple(LoadedFile(**item) for item in known.get("loaded", ()))
        known["cut"] = tuple(
            CutFile(filename=item["filename"], lines=tuple((first, last) for first, last in item["lines"]))
            for item in known.get("cut", ())
        )
        known["left_out"] = tuple(LeftOut(**item) for item in known.get("left_out", ()))
        known["edited"] = tuple(known.get("edited", ()))
        known["failed"] = tuple(Failure(**item) for item in known.get("failed", ()))
        if isinstance(known.get("write_back"), Mapping):
            known["write_back"] = LearnReport.from_dict(known["write_back"])
        return cls(**known)

    def attributes(self) -> dict[str, str | int | float | tuple[str, ...]]:
        """Return the OpenTelemetry attributes of this receipt."""
        return {
            "agentic_memory.dir": self.memory_dir,
            "agentic_memory.files": self.files,
            "agentic_memory.problems": self.problems,
            "agentic_memory.index.version": self.index_version,
            "agentic_memory.index.tokens": self.index_tokens,
            "agentic_memory.loaded": tuple(item.filename for item in self.loaded),
            "agentic_memory.cut": tuple(item.filename for item in self.cut),
            "agentic_memory.left_out": tuple(item.filename for item in self.left_out),
            "agentic_memory.failed": tuple(f"{item.stage}: {item.error}" for item in self.failed),
            "agentic_memory.selector.calls": self.selector_calls,
            "agentic_memory.unembedded": self.unembedded,
            "agentic_memory.backend.calls": self.backend_calls,
            "agentic_memory.bytes_read": self.bytes_read,
            "agentic_memory.waited_ms": self.waited_ms,
            "agentic_memory.memory_ms": self.memory_ms,
            **({} if self.write_back is None else {"agentic_memory.write_back": self.write_back.status}),
        }


def _jsonable(value: Any) -> Any:
    # By hand: `dataclasses.asdict` copies deeply, and a receipt may name hundreds of files.
    if isinstance(value, tuple):
        return [_jsonable(item) for item in value]
    if isinstance(value, LearnReport):
        return value.as_dict()
    if isinstance(value, LoadedFile | CutFile | LeftOut | Failure):
        return {name: _jsonable(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
