"""Reading what the shell scripts answer: pure functions from bytes to values. Nothing here trusts a byte unproved."""

import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from time import gmtime, strftime
from typing import Final, cast, get_args

from agentscope.tool import DirEntry

from agentic_memory.backends.values import FileRecord, Obstacle, ObstacleKind, version_of
from agentic_memory.errors import AgenticMemoryError, BackendUnavailable, UnsafePath

STAMP_SLACK_SECONDS: Final = 2
"""How old a file's last change must be before its stat line proves its bytes.

Some sandboxes tell times in whole seconds, so an edit in the second of the look could leave the same line; one full
second more keeps a clock that is being slewed harmless.
"""

_STAMP_FIELDS: Final = 10  # %d %i %s %Y, then %y and %z, which are date, time and zone each

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


@dataclass(frozen=True, slots=True)
class Look:
    """What one snapshot request brought back, before it becomes a tree.

    Attributes:
        token: Hash of the listing; it stands for all of it.
        lines: Stat line of every file with an ordinary name, as bytes, to its path.
        fresh: Records by stat line whose bytes came along and agree with the hash.
        odd: Files whose names have newlines, by path.
        loose: Stat lines whose bytes did not come along whole.
        obstacles: By path.
        old_before: Stat lines whose change time is below this text prove the bytes in later requests.
    """

    token: str
    lines: Mapping[bytes, str]
    fresh: Mapping[bytes, FileRecord]
    odd: Mapping[str, Framed]
    loose: tuple[bytes, ...]
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


def read_look(body: bytes, nonce: str, *, sent: Collection[bytes], careful: bool, max_bytes: int, root: str) -> Look:
    """Read a snapshot's answer.

    Raises:
        BackendUnavailable: the listing cannot be trusted to be complete.
        TornAnswerError: it is not in the agreed form.
    """
    try:
        return _read_look(body, nonce, sent, careful=careful, max_bytes=max_bytes, root=root)
    except (ValueError, IndexError) as exc:
        # A field where none belongs: whatever wrote that was not our script on a sound system.
        raise TornAnswerError(f"{root}: {_NO_FORM}") from exc


def _read_look(body: bytes, nonce: str, sent: Collection[bytes], *, careful: bool, max_bytes: int, root: str) -> Look:
    head, rest = _cut(body, b"\n")
    words = head.split(b" ")
    if len(words) != 4 or words[0] != b"T":
        raise TornAnswerError(f"{root}: {_NO_FORM}")
    mark = nonce.encode()
    listing, rest = _cut(rest, b"\n%s G\n" % mark)
    odd_part, rest = _cut(rest, b"\n%s H\n" % mark)
    hash_part, blob = _cut(b"\n" + rest, b"\n%s C\n" % mark)
    lines, odd_names, obstacles = _read_listing(listing, root, max_bytes, find_failed=words[2] != b"0")
    odd, at = {}, 0
    for name in odd_names:
        odd[name], at = take_framed(odd_part, at)
    filtered = words[3] == b"1"
    asked = [line for line in _file_lines(listing) if not filtered or (line not in sent and _size(line) <= max_bytes)]
    if careful:
        fresh, loose = _read_careful(blob, asked, lines, obstacles)
    else:
        fresh, loose = _read_fast(hash_part[1:] + b"\n", blob, asked, lines)
    cutoff = strftime("%Y-%m-%d %H:%M:%S", gmtime(int(words[1]) - STAMP_SLACK_SECONDS + 1)).encode()
    return Look(
        token=sha256(listing + b"\n").hexdigest(),
        lines=lines,
        fresh=fresh,
        odd=odd,
        loose=tuple(line for line in loose if line in lines),
        obstacles=obstacles,
        old_before=cutoff,
    )


def proves(line: bytes, old_before: bytes) -> bool:
    """Tell whether a stat line is old enough that equal lines mean equal bytes."""
    words = line.split(b" ", 10)
    changed = b"%s %s" % (words[8], words[9])
    return len(words[8]) == len(b"2000-01-01") and changed < old_before


def record_of(line: bytes, path: str, version: str, data: bytes | None = None) -> FileRecord:
    """Return the record that a stat line and a proved version make."""
    words = line.split(b" ", 7)
    return FileRecord(path, int(words[3]), mtime_of(words[4], words[6]), version, data)


def mtime_of(seconds: bytes, clock: bytes) -> int:
    """Return nanoseconds since 1970 from ``%Y`` and the clock part of ``%y``."""
    fraction = clock.partition(b".")[2]
    return int(seconds) * 1_000_000_000 + (int(fraction.ljust(9, b"0")[:9]) if fraction.isdigit() else 0)


def _read_listing(
    listing: bytes, root: str, max_bytes: int, *, find_failed: bool
) -> tuple[dict[bytes, str], list[str], dict[str, Obstacle]]:
    lines: dict[bytes, str] = {}
    odd: list[str] = []
    obstacles: dict[str, Obstacle] = {}
    announced = counted = closed = refused = rooted = 0
    complaints: list[str] = []
    for line in listing.split(b"\n") if listing else ():
        tag, _, text = line.partition(b" ")
        if tag == b"F":
            counted += 1
            path = _decode(line.split(b" ", 11)[11][2:])
            lines[line] = path
        elif tag == b"N":
            announced += int(text)
        elif tag == b"G":
            odd.append(_decode(_unspell(text.split(b" ")[-1]))[2:])
        elif tag in (b"O", b"P"):
            kind, _, name = text.partition(b" ")
            path = _decode(name if tag == b"O" else _unspell(name))[2:]
            obstacles.setdefault(path, _obstacle(path, kind))
        elif tag == b"D":
            closed += 1
        elif line == b"R":
            rooted += 1
        elif line.endswith(b": Permission denied"):
            refused += 1
        elif not line.endswith(b": No such file or directory") or b"./" not in line:
            complaints.append(_decode(line))
    # A folder that find could not enter was told of by name as well; whatever else it says, or a failure it does not
    # explain, means that files may be missing from the list.
    unexplained = find_failed and not (refused or b": No such file" in listing)
    if complaints or counted != announced or refused > closed or rooted != 1 or unexplained:
        said = f": {complaints[0]}" if complaints else ""
        raise BackendUnavailable(f"{root}: it could not be listed completely{said}")
    for line, path in list(lines.items()):
        if path in obstacles:
            del lines[line]
        elif _size(line) > max_bytes:
            obstacles[path] = Obstacle(path, "too_large", f"{_size(line)} bytes, over the limit of {max_bytes}")
            del lines[line]
    return lines, odd, obstacles


def _read_fast(
    hashes: bytes, blob: bytes, asked: list[bytes], lines: Mapping[bytes, str]
) -> tuple[dict[bytes, FileRecord], list[bytes]]:
    """Cut one run of bytes into files: sizes say where, hashes say whether."""
    fresh: dict[bytes, FileRecord] = {}
    told: list[tuple[bytes, str]] = []
    loose: list[bytes] = []
    at = 0
    for line in asked:
        version, at = _take_hash(hashes, at, line.split(b" ", 11)[11])
        if version:
            told.append((line, version))
        else:
            loose.append(line)
    start, stop, first, last = 0, len(blob), 0, len(told)
    # One file that changed while it was read shifts everything behind it: then the rest is cut from the end.
    while first < last:
        line, version = told[first]
        data = blob[start : start + _size(line)]
        if version_of(data) != version:
            break
        start += len(data)
        first += 1
        _keep(fresh, line, version, data, lines)
    while last > first:
        line, version = told[last - 1]
        data = blob[max(stop - _size(line), start) : stop]
        if version_of(data) != version:
            break
        stop -= len(data)
        last -= 1
        _keep(fresh, line, version, data, lines)
    loose.extend(line for line, _ in told[first:last])
    return fresh, loose


def _read_careful(
    blob: bytes, asked: list[bytes], lines: Mapping[bytes, str], obstacles: dict[str, Obstacle]
) -> tuple[dict[bytes, FileRecord], list[bytes]]:
    fresh: dict[bytes, FileRecord] = {}
    loose: list[bytes] = []
    at = 0
    for line in asked:
        found, at = take_framed(blob, at)
        if found.whole:
            if line in lines:
                fresh[line] = FileRecord(lines[line], found.size, found.mtime_ns, found.version, found.data)
        elif found.problem in get_args(ObstacleKind) and line in lines:
            obstacles.setdefault(lines[line], _obstacle(lines[line], found.problem.encode()))
        elif not found.problem:
            loose.append(line)
    return fresh, loose


def _keep(fresh: dict[bytes, FileRecord], line: bytes, version: str, data: bytes, lines: Mapping[bytes, str]) -> None:
    if line in lines:
        fresh[line] = record_of(line, lines[line], version, data)


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


def _file_lines(listing: bytes) -> Iterator[bytes]:
    return (line for line in listing.split(b"\n") if line.startswith(b"F "))


def _size(line: bytes) -> int:
    return int(line.split(b" ", 4)[3])


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
