"""Reading what the shell scripts answer: pure functions from bytes to values. Nothing here trusts a byte unproved."""

import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from time import gmtime, strftime
from typing import Final, NamedTuple, cast, get_args

from agentscope.tool import DirEntry

from agentic_memory.backends.values import FileRecord, Obstacle, ObstacleKind, version_of
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable, UnsafePath

STAMP_SLACK_SECONDS: Final = 2
"""How old a file's last change must be before its stat line proves its bytes.

Some sandboxes tell times in whole seconds, so an edit in the second of the look could leave the same line; one full
second more keeps a clock that is being slewed harmless.
"""

_STAMP_FIELDS: Final = 10  # %d %i %s %Y, then %y and %z, which are date, time and zone each

_CLOCK: Final = "%Y-%m-%d %H:%M:%S"
_NEVER_OLD: Final = b"~"  # sorts behind every time
_NO_FORM: Final = "the sandbox's answer does not have the agreed form; try again, or look at what its sh says"
_UNSAFE: Final = {
    "outside": "leads out of the directory it must stay in",
    "dangling": "is a symlink to nothing; remove the link or make its target",
    "loop": "is a symlink into itself; remove it",
    "directory": "is a directory, not a file",
    "special": "is not a regular file (FIFO, socket or device)",
    "not-a-directory": "lies below something that is not a directory",
    "relative-link": "is a relative symlink, which would break if moved elsewhere",
}
_UNAVAILABLE: Final = {
    "denied": "permission denied; give the sandbox's user access to it",
    "cannot-tell": "it cannot be told what is there",
    "busy": "try again later",
    "failed": "nothing was changed; free the place or its permissions and repeat",
}


class TornAnswerError(BackendUnavailable):
    """An answer without its beginning or end: the sandbox broke off, or something else spoke."""


@dataclass(frozen=True, slots=True)
class Framed:
    """One file as ``emit`` framed it: its bytes, or why there are none."""

    size: int = 0
    mtime_ns: int = 0
    version: str = ""
    data: bytes = field(default=b"", repr=False)
    problem: str = ""

    @property
    def whole(self) -> bool:
        """Whether the bytes are those that were hashed at the place."""
        return not self.problem and version_of(self.data) == self.version


class Line(NamedTuple):
    """What ``stat`` said of one file. ``text`` is the whole of it, and stands for it between looks."""

    text: bytes
    name: bytes
    path: str
    size: int
    mtime_ns: int
    changed: bytes

    def record(self, version: str, data: bytes | None = None) -> FileRecord:
        """Return the record that this line and a proved version make."""
        # Bytes that came may be newer than the line; they are what counts.
        size = self.size if data is None else len(data)
        return FileRecord(self.path, size, self.mtime_ns, version, data)


@dataclass(frozen=True, slots=True)
class Look:
    """What one snapshot request brought back, before it becomes a tree.

    Attributes:
        token: Hash of the listing; it stands for all of it.
        lines: Every file with an ordinary name, by the text of its line.
        fresh: Versions and bytes, by line, of the files whose bytes came along and agree with the hash.
        odd: Files whose names have newlines, by path.
        asked: Texts of the lines whose bytes should have come.
        obstacles: By path.
        old_before: Lines whose change time is below this text prove the bytes in later requests.
    """

    token: str
    lines: Mapping[bytes, Line]
    fresh: Mapping[bytes, tuple[str, bytes]]
    odd: Mapping[str, Framed]
    asked: Collection[bytes]
    obstacles: Mapping[str, Obstacle]
    old_before: bytes


def unwrap(raw: bytes, nonce: str, *, what: str) -> bytes:
    """Return what stands between the two sentinels of ``nonce``, or raise ``TornAnswerError``."""
    start = b"\n%s S\n" % nonce.encode()
    end = b"\n%s E\n" % nonce.encode()
    at = raw.find(start)
    to = raw.rfind(end)
    if at < 0 or to < at:
        heard = raw[:200].decode("utf-8", "replace").strip()
        raise TornAnswerError(f"{what}: the sandbox gave no whole answer{f' but said {heard!r}' if heard else ''}")
    return raw[at + len(start) : max(to, at + len(start))]


def raise_refusal(body: bytes, what: str) -> None:
    """Raise what an ``X`` line says, if ``body`` is one."""
    if body.startswith(b"X "):
        raise refusal(body, what)


def refusal(body: bytes, what: str) -> AgenticMemoryError:
    """Return the error that an ``X`` line stands for."""
    _, _, words = _decode(body).partition("\n")[0].partition(" ")
    kind, _, detail = words.partition(" ")
    detail = detail.strip()
    if kind in _UNSAFE:
        return UnsafePath(f"{what} {_UNSAFE[kind]}")
    why = _UNAVAILABLE.get(kind, "")
    return BackendUnavailable(": ".join(part for part in (what, detail if detail != what else "", why) if part))


def read_entries(body: bytes) -> list[DirEntry]:
    """Read the entries of a ``list`` answer; their names are paths relative to what was asked about.

    Raises:
        BackendUnavailable: part of it could not be seen.
    """
    entries: list[DirEntry] = []
    for line in body.removeprefix(b"L\n").split(b"\n")[:-1]:
        words = line.split(b" ", 4)
        if words[0] not in (b"E", b"Q") or len(words) != 5:
            raise_refusal(line, "the directory")
            raise TornAnswerError(_NO_FORM)
        name = _decode(_unspell(words[4]) if words[0] == b"Q" else words[4])[2:]
        if words[1] == b"-":
            entries.append(DirEntry(name, is_dir=False))
            continue
        is_dir = stat.S_ISDIR(int(words[1], 16))
        entries.append(DirEntry(name, is_dir, None if is_dir else int(words[2]), float(words[3])))
    return entries


def take_framed(body: bytes, at: int) -> tuple[Framed, int]:
    """Read one framed file at ``at`` and tell where the next begins."""
    end = body.find(b"\n", at)
    words = body[at:end].split(b" ") if end >= 0 else []
    if words and words[0] == b"x" and len(words) > 1:
        size = int(words[2]) if words[-1].isdigit() else 0
        return Framed(size, problem=words[1].decode("ascii", "replace")), end + 1
    if len(words) != 3 + _STAMP_FIELDS or words[0] != b"f" or not words[1].isdigit():
        raise TornAnswerError(_NO_FORM)
    size = int(words[1])
    data = body[end + 1 : end + 1 + size]
    if len(data) != size:
        raise TornAnswerError("the sandbox's answer was cut off")
    return Framed(size, mtime_of(words[6], words[8]), words[2].decode("ascii"), data), end + 1 + size


def read_look(
    body: bytes, nonce: str, *, since: bytes, sent: Collection[bytes], careful: bool, max_bytes: int, root: str
) -> Look:
    """Read a snapshot's answer.

    Args:
        since, sent: What the request told of the caller's knowledge.

    Raises:
        BackendUnavailable: the listing cannot be trusted to be complete.
        TornAnswerError: it is not in the agreed form.
    """
    try:
        return _read_look(body, nonce.encode(), since, sent, careful=careful, max_bytes=max_bytes, root=root)
    except (ValueError, IndexError) as exc:
        # A field where none belongs: whatever wrote that was not our script on a sound system.
        raise TornAnswerError(f"{root}: {_NO_FORM}") from exc


def _read_look(
    body: bytes, mark: bytes, since: bytes, sent: Collection[bytes], *, careful: bool, max_bytes: int, root: str
) -> Look:
    head, rest = _cut(body, b"\n")
    tag, now, find_status, can_filter = head.split(b" ")
    if tag != b"T":
        raise TornAnswerError(f"{root}: {_NO_FORM}")
    listing, rest = _cut(rest, b"\n%s G\n" % mark)
    odd_part, rest = _cut(rest, b"\n%s H\n" % mark)
    hashes, blob = _cut(b"\n" + rest, b"\n%s C\n" % mark)
    found, odd_names, obstacles = _read_listing(listing, root, find_failed=find_status != b"0")
    odd, at = {}, 0
    for name in odd_names:
        odd[name], at = take_framed(odd_part, at)
    asked = found
    if can_filter == b"1":
        asked = [line for line in found if line.size <= max_bytes]
        asked = [line for line in asked if (line.changed >= since if since else line.text not in sent)]
    fresh = _read_careful(blob, asked, obstacles) if careful else _read_fast(hashes[1:] + b"\n", blob, asked, obstacles)
    lines = {}
    for line in found:
        if line.size > max_bytes:
            obstacles[line.path] = Obstacle(line.path, "too_large", f"{line.size} bytes, over the limit of {max_bytes}")
        elif line.path not in obstacles:
            lines[line.text] = line
    return Look(
        token=sha256(listing + b"\n").hexdigest(),
        lines=lines,
        fresh=fresh,
        odd=odd,
        asked=frozenset(line.text for line in asked),
        obstacles=obstacles,
        old_before=strftime(_CLOCK, gmtime(int(now) - STAMP_SLACK_SECONDS + 1)).encode(),
    )


def mtime_of(seconds: bytes, clock: bytes) -> int:
    """Return nanoseconds since 1970 from ``%Y`` and the clock part of ``%y``."""
    fraction = clock[len(b"00:00:00.") :]
    return int(seconds) * 1_000_000_000 + (int(fraction) if len(fraction) == len(b"000000000") else 0)


def _read_line(text: bytes) -> Line:
    words = text.split(b" ", 11)
    name = words[11]
    # %z of a year with more than four digits would not compare as text; nothing is proved by it then.
    changed = b"%s %s" % (words[8], words[9]) if len(words[8]) == len(b"2000-01-01") else _NEVER_OLD
    return Line(text, name, _decode(name[2:]), int(words[3]), mtime_of(words[4], words[6]), changed)


def _read_listing(listing: bytes, root: str, *, find_failed: bool) -> tuple[list[Line], list[str], dict[str, Obstacle]]:
    found: list[Line] = []
    odd: list[str] = []
    obstacles: dict[str, Obstacle] = {}
    announced = missing = closed = refused = rooted = 0
    batch = 0
    complaints: list[str] = []
    for text in listing.split(b"\n") if listing else ():
        tag, _, rest = text.partition(b" ")
        if tag == b"F":
            found.append(_read_line(text))
        elif tag == b"N":
            missing += announced - (len(found) - batch)
            announced, batch = int(rest), len(found)
        elif tag == b"!":
            # These lines stay: the script, too, goes by every line there is. Their number is no longer vouched for.
            announced = len(found) - batch
        elif tag == b"G":
            odd.append(_decode(_unspell(rest.split(b" ")[-1]))[2:])
        elif tag in (b"O", b"P"):
            kind, _, name = rest.partition(b" ")
            path = _decode(name if tag == b"O" else _unspell(name))[2:]
            obstacles.setdefault(path, _obstacle(path, kind))
        elif tag == b"D":
            closed += 1
        elif text == b"R":
            rooted += 1
        elif text.endswith(b": Permission denied"):
            refused += 1
        elif not text.endswith(b": No such file or directory") or b"./" not in text:
            complaints.append(_decode(text))
    missing += announced - (len(found) - batch)
    # A folder that find could not enter was told of by name as well; whatever else it says, or a failure it does not
    # explain, means that files may be missing from the list.
    unexplained = find_failed and not (refused or b": No such file" in listing)
    if complaints or missing or refused > closed or rooted != 1 or unexplained:
        said = f": {complaints[0]}" if complaints else ""
        raise BackendUnavailable(f"{root}: it could not be listed completely{said}")
    return found, odd, obstacles


def _read_fast(
    hashes: bytes, blob: bytes, asked: list[Line], obstacles: dict[str, Obstacle]
) -> dict[bytes, tuple[str, bytes]]:
    """Cut one run of bytes into files: sizes say where, hashes say whether."""
    fresh: dict[bytes, tuple[str, bytes]] = {}
    told: list[tuple[Line, str]] = []
    at = 0
    for line in asked:
        version, at = _take_hash(hashes, at, line.name)
        if version:
            told.append((line, version))
    for text in hashes[at:].split(b"\n"):
        if text.startswith(b"U ./"):
            path = _decode(text[4:])
            obstacles.setdefault(path, _obstacle(path, b"unreadable"))
    start, stop, first, last = 0, len(blob), 0, len(told)
    # One file that changed while it was read shifts everything behind it: then the rest is cut from the end.
    while first < last:
        line, version = told[first]
        data = blob[start : start + line.size]
        if version_of(data) != version:
            break
        start += line.size
        first += 1
        fresh[line.text] = version, data
    while last > first:
        line, version = told[last - 1]
        data = blob[max(stop - line.size, start) : stop]
        if version_of(data) != version:
            break
        stop -= line.size
        last -= 1
        fresh[line.text] = version, data
    return fresh


def _read_careful(blob: bytes, asked: list[Line], obstacles: dict[str, Obstacle]) -> dict[bytes, tuple[str, bytes]]:
    fresh: dict[bytes, tuple[str, bytes]] = {}
    at = 0
    for line in asked:
        found, at = take_framed(blob, at)
        if found.whole:
            fresh[line.text] = found.version, found.data
        elif found.problem in get_args(ObstacleKind):
            obstacles.setdefault(line.path, _obstacle(line.path, found.problem.encode()))
    return fresh


def _take_hash(hashes: bytes, at: int, name: bytes) -> tuple[str, int]:
    """Read the digest line of ``name`` at ``at``; no version when that line is another file's."""
    start = at
    if hashes[at : at + 1] == b"\\":
        # GNU's way to say that the name on this line is escaped.
        name = name.replace(b"\\", b"\\\\").replace(b"\r", b"\\r")
        at += 1
    version, gap, rest = hashes[at : at + 64], hashes[at + 64 : at + 66], at + 66
    if gap in (b"  ", b" *") and hashes[rest : rest + len(name) + 1] == name + b"\n":
        return version.decode("ascii", "replace"), rest + len(name) + 1
    return "", start


def _obstacle(path: str, kind: bytes) -> Obstacle:
    word = kind.decode("ascii", "replace")
    if word not in get_args(ObstacleKind):
        raise TornAnswerError(f"{path}: {_NO_FORM}")
    return Obstacle(path, cast("ObstacleKind", word))


def _unspell(octal: bytes) -> bytes:
    return bytes(int(digits, 8) for digits in octal.split(b"\\0")[1:])


def _cut(body: bytes, mark: bytes) -> tuple[bytes, bytes]:
    before, found, after = body.partition(mark)
    if not found:
        raise TornAnswerError("the sandbox's answer was cut off")
    return before, after


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
