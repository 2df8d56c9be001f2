"""Whose memory it is: ids as directory names that no other id can have, and templates of the paths made from them."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from types import MappingProxyType
from typing import Final, Literal

from agentic_memory.errors import MissingIdentity, UnsafePath

Scope = Literal["user", "agent", "project", "session"]

TEMPLATES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "user": "users/{user_id}",
        "agent": "agents/{agent_id}/{user_id}",  # what an agent learns about one user is not for the next one
        "project": "projects/{project_id}",
        "session": "sessions/{session_id}",
    }
)
"""Where the memory of each scope is, below the working directory. None of them lies within another."""

MAX_NAME_CHARS: Final = 100
"""Of an encoded id; a longer one ends in a hash. File systems allow 255 bytes, encrypted ones 143."""
KEPT_OF_LONG_NAMES: Final = 32
"""Characters of a long id that stay readable before its hash."""

_PLAIN: Final = re.compile(r"[a-z0-9]")
_PLAIN_INSIDE: Final = re.compile(r"[a-z0-9_@.-]")
# Names of devices on Windows and on disks shared with it, whatever follows the first dot.
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{device}{n}" for device in ("com", "lpt") for n in range(10))}
)
_FIELD: Final = re.compile(r"\{([^{}]*)\}")
_NOT_IN_A_PATH: Final = re.compile(r"[\x00-\x1f\x7f\\]")


def encode_id(raw: str) -> str:
    """Return a directory name for an id: another one for every other id, on any disk.

    Lower-case letters, digits and ``_ @ . -`` between them stay as they are; everything else becomes ``=`` and two hex
    digits for each byte of its UTF-8 form. So the name is ASCII without capitals, which disks that ignore case or
    normalise Unicode cannot confuse, and it is never hidden, ``..`` or a device. An id that gets long keeps its
    beginning and ends in ``=-`` and its SHA-256.

    Raises:
        MissingIdentity: it is empty. There is no directory for nobody.
    """
    if not raw:
        raise MissingIdentity("an id is empty: give the id of a user, agent, project or session")
    last = len(raw) - 1
    name = "".join(
        char if (_PLAIN_INSIDE if 0 < at < last and raw[at - 1] != "." else _PLAIN).fullmatch(char) else _escape(char)
        for at, char in enumerate(raw)
    )
    if name.partition(".")[0] in _RESERVED:
        name = _escape(name[0]) + name[1:]
    if len(name) <= MAX_NAME_CHARS:
        return name
    digest = hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:KEPT_OF_LONG_NAMES]}=-{digest}"


def _escape(char: str) -> str:
    return "".join(f"={byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who a reply is for, as the host program knows it. Nothing a model says may end up here.

    ``session_id`` is taken from the agent's state when it is None.
    """

    user_id: str | None = None
    agent_id: str | None = None
    project_id: str | None = None
    session_id: str | None = None


IDENTITY_FIELDS: Final = tuple(each.name for each in fields(Identity))


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A relative path with ids in it, such as ``users/{user_id}``: checked when it is made, safe to fill with any id.

    Attributes:
        text: The template. ``{user_id}``, ``{agent_id}``, ``{project_id}``, ``{session_id}``; at most one per part.
        fields: Those that are in it.

    Raises:
        UnsafePath: it is empty, absolute, leaves the directory, or has a part from which ids could be confused.
    """

    text: str
    fields: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Check the template and find its fields."""
        found = [name for part in self.text.split("/") for name in _fields_of(part, self.text)]
        object.__setattr__(self, "fields", tuple(dict.fromkeys(found)))

    def fill(self, identity: Identity) -> str:
        """Return the path for one identity.

        Raises:
            MissingIdentity: an id that the template needs is not known. There is no default to fall back on.
        """
        missing = [name for name in self.fields if not getattr(identity, name)]
        if missing:
            raise MissingIdentity(
                f"the memory at {self.text!r} needs {' and '.join(missing)}, which is not known here; give "
                f"identity=Identity({', '.join(f'{name}=...' for name in missing)}) from your authentication, "
                "never from what a model or a message says"
            )
        return _FIELD.sub(lambda match: encode_id(getattr(identity, match[1])), self.text)

    def meets(self, other: "PathTemplate") -> bool:
        """Tell whether some ids give both the same directory, or one inside the other's."""
        pairs = zip_longest(self.text.split("/"), other.text.split("/"))
        return all(mine is None or theirs is None or _may_be_equal(mine, theirs) for mine, theirs in pairs)


def _fields_of(part: str, template: str) -> list[str]:
    names = _FIELD.findall(part)
    literal = _FIELD.sub("", part)
    wrong = None
    if part in {"", ".", ".."} or part.startswith("~") or _NOT_IN_A_PATH.search(part):
        wrong = "give names with / between them, relative to the working directory"
    elif "{" in literal or "}" in literal:
        wrong = "a brace is not closed or not opened"
    elif unknown := [name for name in names if name not in IDENTITY_FIELDS]:
        wrong = f"there is no {{{unknown[0]}}}; the fields are {', '.join(f'{{{name}}}' for name in IDENTITY_FIELDS)}"
    elif len(names) > 1:
        wrong = f"{part!r} has two ids in one part, and a-b with c is what a with b-c is: put a / between them"
    if wrong:
        raise UnsafePath(f"path template {template!r}: {wrong}")
    return names


def _may_be_equal(one: str, other: str) -> bool:
    """Tell whether two parts of templates can come to the same name on some disk; True when in doubt."""
    mine, theirs = (_FIELD.split(unicodedata.normalize("NFKC", part).casefold()) for part in (one, other))
    if len(mine) == len(theirs) == 1:
        return mine == theirs
    if not _goes_with(mine[0], theirs[0], str.startswith) or not _goes_with(mine[-1], theirs[-1], str.endswith):
        return False
    if len(mine) > 1 and len(theirs) > 1:
        return True
    literal, start = (mine[0], theirs[0]) if len(mine) == 1 else (theirs[0], mine[0])
    first = literal[len(start) :][:1]
    return first == "=" or bool(_PLAIN.fullmatch(first))  # an encoded id starts with nothing else


def _goes_with(one: str, other: str, has_end: Callable[[str, str], bool]) -> bool:
    return has_end(one, other) or has_end(other, one)
