"""Whose memory a call of Mem0's kind is about, and where that is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import unquote

from agentic_memory.errors import MemoryNotFound, MissingIdentity
from agentic_memory.scopes import encode_id

IDS: Final = ("user_id", "agent_id", "run_id")
"""The ids of Mem0. The first that is given says where a memory lives; the others are kept in its file."""
TOPS: Final = {"users": "user_id", "agents": "agent_id", "sessions": "run_id"}
"""Directory below the working directory -> the id it is named by; as the scopes of the middleware have them."""

_HASHED: Final = re.compile(r"[a-z0-9_@.=-]{1,32}=-[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose memory it is.

    Attributes:
        top: One of ``TOPS``.
        name: The id as a directory is called by it.
        further: The ids beside it.
    """

    top: str
    name: str
    further: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, ids: Mapping[str, Any]) -> Self:
        """Return who ``ids`` mean; other keys are passed over.

        Raises:
            MissingIdentity: there is no id.
        """
        given = {name: value for name in IDS if (value := ids.get(name)) is not None}
        for name, value in given.items():
            if not isinstance(value, str) or not value.strip():
                raise MissingIdentity(f"{name} is {value!r}: give it as a text that is not empty")
        if not given:
            raise MissingIdentity("it is not said whose memory it is: give user_id, agent_id or run_id")
        first, value = next(iter(given.items()))
        top = next(top for top, name in TOPS.items() if name == first)
        return cls(top, encode_id(value), tuple((name, text) for name, text in given.items() if name != first))

    @property
    def directory(self) -> str:
        """Its directory below the working directory."""
        # No encoded id is "_": beside it lie the memories that the agent has of single users.
        return f"{self.top}/{self.name}/_" if self.top == "agents" else f"{self.top}/{self.name}"

    @property
    def ids(self) -> dict[str, str]:
        """The id it lives by."""
        return {TOPS[self.top]: _decode(self.name)}

    def id_of(self, filename: str) -> str:
        """Return the id of one of its memories."""
        return f"{self.top}/{self.name}/{filename}"


def find_place(memory_id: str) -> tuple[Owner, str]:
    """Return the owner and the file name that the id of a memory stands for.

    Raises:
        MemoryNotFound: no memory has such an id.
    """
    top, _, rest = memory_id.partition("/")
    name, _, filename = rest.partition("/")
    if top not in TOPS or not filename or not (_HASHED.fullmatch(name) or _is_encoded(name)):
        raise MemoryNotFound(f"there is no memory {memory_id!r}; ids look like users/alice/green_tea.md")
    return Owner(top, name), filename


def _is_encoded(name: str) -> bool:
    return bool(name) and encode_id(_decode(name)) == name


def _decode(name: str) -> str:
    """Return the id that a directory name stands for; of a very long one only the beginning and a hash are known."""
    return name if _HASHED.fullmatch(name) else unquote(name.replace("=", "%"), errors="surrogatepass")
