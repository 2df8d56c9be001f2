r"""Memory in any place that can run ``sh``: the three calls of the seam, each as one POSIX script.

``ShellBackend`` needs one thing of a subclass, ``_run``: run this script under ``sh`` with these bytes on its standard
input and give back its standard output. The scripts (``shell_*.sh``, package data) run on dash, bash and BusyBox ash
with the commands both coreutils and BusyBox have. They are constant texts: whatever varies travels in the request.

**Request**, on standard input: lines, then raw bytes up to the end.

1. a nonce, 32 hex digits, new for every call;
2. ``raw`` or ``base64``: how the answer shall be coded (``text_only`` places need base64);
3. the working directory, which must be there, or nothing;
4. the call's own lines (each script's first comment says which), a path as ``p`` and its bytes, or as ``e`` and octal
   escapes when it holds a newline;
5. the bytes: for ``transact`` those of every ``Put``, for ``snapshot`` the stat lines whose bytes the caller has, where
   it could not say "all that changed before this moment".

**Answer**, between ``\n<nonce> S\n`` and ``\n<nonce> E\n``. Without both it is no answer: a login banner, a broken
pipe or a dead sandbox is never taken for an empty directory. Exit codes are not asked for. ``X kind detail`` refuses;
``A`` is absent; ``K`` done; ``C`` a conflict, followed by what is there; ``f size hash stat-fields`` and exactly
``size`` bytes is a file. A snapshot is its listing, hashes and all bytes in a row; each file's bytes are proved by its
hash, and what was torn by a writer is asked for once more. ``=`` says that the listing hashes to the digest sent along.

**What may be trusted**: a stat line (device, inode, size, both times, path) stands for bytes only if the change time
was old enough when it was taken, see ``STAMP_SLACK_SECONDS``.

**Writing**: every text is staged beside its target, flushed and checked by hash. Then the lock of each directory is
taken (a symlink ``.agentic-memory.lock`` that names its owner; one left by a dead owner is cleared after its process
is gone, or after a minute where that cannot be seen), the preconditions are checked under it, and the names are
changed: ``mv`` over what is there, ``ln`` where nothing may be. A failure on the way undoes what was done; after a
``kill -9`` between two changes whoever clears the dead lock does so, from a journal beside it. Where there
is a ``flock`` command the directory is locked by it too, which keeps out ``LocalBackend`` on a shared mount.
"""

import posixpath
from abc import abstractmethod
from base64 import b64decode
from binascii import Error as Base64Error
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from secrets import token_hex
from typing import Final, TypeVar

import anyio.to_thread
from agentscope.tool import DirEntry

from agentic_memory.backends.base import Backend, check_path
from agentic_memory.backends.preconditions import check_changes, expected_word
from agentic_memory.backends.shell.answer import (
    Framed,
    Look,
    TornAnswerError,
    raise_refusal,
    read_entries,
    read_look,
    refusal,
    take_framed,
    unwrap,
)
from agentic_memory.backends.values import (
    ABSENT,
    MAX_FILE_BYTES,
    Absent,
    Change,
    Changes,
    Delete,
    FileRecord,
    Move,
    Obstacle,
    Put,
    Tree,
    version_of,
)
from agentic_memory.errors import BackendUnavailable, Conflict, UnsafePath

MAX_LOOKS: Final = 3
"""How often a snapshot asks for the files that others were writing while it read them."""

MAX_REMEMBERED_TREES: Final = 16
MAX_PATH_CHARACTERS: Final = 4095
LOCK_PATIENCE_SECONDS: Final = 10
_T = TypeVar("_T")
_SMALL_ANSWER_BYTES: Final = 64 * 1024  # read in the event loop's thread; anything larger in a worker


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What the last snapshot of a root proved.

    Attributes:
        versions: Version of each file by its stat line, where that line was old enough to prove it.
        old_before: What "old enough" was: every line below it is in ``versions``.
        token: Digest of the whole listing, when all of it was old enough.
        quiet: The tree without any bytes.
    """

    versions: dict[bytes, str]
    old_before: bytes
    token: str
    quiet: Tree


class ShellBackend(Backend):
    """Keep the backend's promises with ``sh`` alone. See the module text for the protocol.

    Args:
        workdir: A directory that must be there; when it is not, every call is ``BackendUnavailable``. None: not asked.
    """

    text_only = False
    """Whether the way back carries text only, so that answers must come in base64."""

    def __init__(self, workdir: str | None = None) -> None:
        self._workdir = None if workdir is None else check_path(workdir)
        self._remembered: OrderedDict[tuple[object, ...], _Remembered] = OrderedDict()
        self.round_trips = 0

    @abstractmethod
    async def _run(self, script: str, request: bytes) -> bytes:
        """Run ``script`` under ``sh`` with ``request`` on standard input, to its end; return its standard output.

        ``script`` is one of a few constant texts, so it may be cached where it runs. What cannot be told to have run
        to its end, or gave no answer in time, raises ``BackendUnavailable``; exit code and standard error need no look.
        """

    # ------------------------------------------------------------------ the seam

    async def snapshot(
        self,
        root: str,
        *,
        known: Collection[str] = frozenset(),
        suffix: str = "",
        hidden: bool = False,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> Tree:
        """See every file under ``root``; as ``Backend.snapshot``.

        Files that change while they are read cost up to two more round trips; one that never holds still is an
        obstacle.
        """
        root = check_path(root)
        key = (root, suffix, hidden, max_bytes)
        known = known if isinstance(known, (set, frozenset, dict)) else frozenset(known)
        before = self._remembered.get(key)
        asked = [_spell(root), _spell(_any_case(suffix)), str(int(bool(suffix))), str(int(hidden)), str(max_bytes)]
        have: dict[bytes, tuple[str, bytes | None]] = {}
        since, token, careful = b"", "-", False
        if before is not None:
            have.update((text, (version, None)) for text, version in before.versions.items() if version in known)
            if len(have) == len(before.versions):
                # All that is old is known: then a time says it, and the digest whether there is anything new at all.
                since, token = before.old_before, before.token or "-"
        for _ in range(MAX_LOOKS):
            head = _lines(*asked, "careful" if careful else "fast", token, f"since {since.decode()}" if since else "-")
            request = head if since else head + b"".join(text + b"\n" for text in have)
            body, nonce = await self._ask("snapshot", request, root)
            raise_refusal(body, root)
            if body.startswith(b"A\n"):
                self._remembered.pop(key, None)
                return Tree(root, exists=False, files=())
            if before is not None and body.split(b"\n", 2)[1:2] == [b"="]:
                return before.quiet
            read = partial(
                read_look, body, nonce, since=since, sent=have, careful=careful, max_bytes=max_bytes, root=root
            )
            look = await _aside(len(body), read)
            have.update(look.fresh)
            loose = [text for text in look.lines if text not in have]
            if not loose:
                break
            # Bytes that should have come but were torn by a writer are asked for one by one.
            careful = any(text in look.asked for text in loose)
            since, token = b"", "-"
        tree, self._remembered[key] = _settle(root, look, have, known)
        self._remembered.move_to_end(key)
        while len(self._remembered) > MAX_REMEMBERED_TREES:
            self._remembered.popitem(last=False)
        return tree

    async def fetch(
        self, path: str, *, within: str | None = None, max_bytes: int = MAX_FILE_BYTES
    ) -> FileRecord | Absent:
        """Read one file; as ``Backend.fetch``."""
        path = check_path(path)
        request = _lines(_spell(path), _spell(check_path(within) if within else ""), str(max_bytes))
        for _ in range(MAX_LOOKS):
            body, _nonce = await self._ask("fetch", request, path)
            if body.startswith((b"A\n", b"X not-a-directory ")):
                return ABSENT
            raise_refusal(body, path)
            found, whole = await _aside(len(body), partial(_take_checked, body))
            if whole:
                return FileRecord(path, found.size, found.mtime_ns, found.version, found.data)
            if found.problem == "too_large":
                raise BackendUnavailable(
                    f"{path} holds {found.size} bytes, over the limit of {max_bytes}; make it smaller"
                )
            if found.problem == "unreadable":
                raise BackendUnavailable(f"{path}: permission denied; give the sandbox's user access to it")
        raise BackendUnavailable(f"{path} changes faster than it can be read; try again later")

    async def transact(self, changes: Changes, *, within: str | None = None) -> None:
        """Apply all ``changes`` or none; as ``Backend.transact``."""
        planned = check_changes(changes)
        if not planned:
            return
        head = [_spell(check_path(within) if within else ""), str(LOCK_PATIENCE_SECONDS), str(len(planned))]
        size = sum(len(change.data) for change in planned if isinstance(change, Put))
        request = await _aside(size, partial(_change_request, head, planned))
        what = planned[0].source if isinstance(planned[0], Move) else planned[0].path
        body, _ = await self._ask("transact", request, what)
        if body.startswith(b"K\n"):
            return
        first, _, rest = body.partition(b"\n")
        words = first.split(b" ")
        if words[0] == b"C":
            raise await self._conflict(planned[int(words[1])], rest, at_target=words[2] == b"1")
        _raise_change_refusal(first, planned, what)
        raise TornAnswerError(f"{what}: the sandbox's answer does not have the agreed form")

    # ------------------------------------------------------------------ what AgentScope's tools call

    async def stat(self, path: str) -> DirEntry | None:
        """Return type, size and modification time; None when surely nothing is there."""
        path = await self.resolve(path)
        entries = await self._list(path, "entry")
        return replace(entries[0], name=posixpath.basename(path)) if entries else None

    async def file_exists(self, path: str) -> bool:
        """Tell whether a file or directory is at ``path``; ``BackendUnavailable`` when it cannot be told."""
        return await self.stat(path) is not None

    async def is_dir(self, path: str) -> bool:
        """Tell whether a directory is at ``path``; ``BackendUnavailable`` when it cannot be told."""
        entry = await self.stat(path)
        return entry is not None and entry.is_dir

    async def stat_mtime(self, path: str) -> float | None:
        """Return the modification time in seconds since 1970; None when surely nothing is there."""
        entry = await self.stat(path)
        return None if entry is None else entry.mtime

    async def scandir(self, path: str) -> list[DirEntry]:
        """List a directory; empty only when surely none is there."""
        return await self._list(await self.resolve(path), "children")

    async def list_dir(self, path: str, *, recursive: bool = False) -> list[str]:
        """List a directory's names, or the paths of every file below it."""
        if not recursive:
            return [entry.name for entry in await self.scandir(path)]
        path = await self.resolve(path)
        return [posixpath.join(path, entry.name) for entry in await self._list(path, "below")]

    async def _list(self, path: str, mode: str) -> list[DirEntry]:
        if path == "/" and mode == "entry":
            return [DirEntry("/", is_dir=True)]
        body, _ = await self._ask("list", _lines(_spell(path), mode), path)
        raise_refusal(body, path)
        return [] if body.startswith(b"A\n") else read_entries(body)

    async def _conflict(self, change: Change, rest: bytes, *, at_target: bool) -> Conflict:
        path = change.path if not isinstance(change, Move) else change.target if at_target else change.source
        expected = expected_word(ABSENT if at_target else change.expected)
        found, _ = take_framed(rest, 0)
        if found.problem == "vanished":
            return Conflict(path, expected=expected, current=None)
        if found.whole:
            return Conflict(path, expected=expected, current=found.data)
        record = await self.fetch(path)
        return Conflict(path, expected=expected, current=None if record is ABSENT else record.data)

    async def _ask(self, verb: str, request: bytes, what: str) -> tuple[bytes, str]:
        nonce = token_hex(16)
        head = _lines(nonce, "base64" if self.text_only else "raw", _spell(self._workdir or ""))
        self.round_trips += 1
        raw = await self._run(script_of(verb), head + request)
        body = await _aside(len(raw), partial(_open_answer, raw, nonce, text_only=self.text_only, what=what))
        return body, nonce


@cache
def script_of(verb: str) -> str:
    """Return the text of the script for ``verb`` (snapshot, fetch, transact or list)."""
    return text_of("common") + text_of(verb)


@cache
def text_of(name: str) -> str:
    """Return the text of ``<name>.sh``."""
    return (resources.files("agentic_memory.backends.shell") / f"{name}.sh").read_text("utf-8")


def _settle(
    root: str, look: Look, have: dict[bytes, tuple[str, bytes | None]], known: Collection[str]
) -> tuple[Tree, _Remembered]:
    """Make the tree out of what was proved now and what was proved before."""
    files: list[FileRecord] = []
    quiet: list[FileRecord] = []
    obstacles = dict(look.obstacles)
    versions: dict[bytes, str] = {}
    settled = not look.odd
    for text, line in look.lines.items():
        if text not in have:
            settled = False
            obstacles[line.path] = Obstacle(line.path, "unreadable", "it changes while it is being read")
            continue
        version, data = have[text]
        if line.changed < look.old_before:
            versions[text] = version
        else:
            settled = False
        held = line.record(version, data)
        bare = held if data is None else FileRecord(held.path, held.size, held.mtime_ns, version, None)
        files.append(bare if version in known else held)
        quiet.append(bare)
    for path, found in look.odd.items():
        _place_odd(path, found, known, files, obstacles)
    # A tree with odd names is never settled, so it is never given back from here.
    tree = Tree(
        root,
        exists=True,
        files=tuple(sorted(files, key=_by_path)),
        obstacles=tuple(sorted(obstacles.values(), key=_by_path)),
    )
    bare_tree = replace(tree, files=tuple(sorted(quiet, key=_by_path)))
    return tree, _Remembered(versions, look.old_before, look.token if settled else "", bare_tree)


def _by_path(seen: FileRecord | Obstacle) -> str:
    return seen.path


def _place_odd(
    path: str, found: Framed, known: Collection[str], files: list[FileRecord], obstacles: dict[str, Obstacle]
) -> None:
    if found.whole:
        data = None if found.version in known else found.data
        files.append(FileRecord(path, found.size, found.mtime_ns, found.version, data))
    elif found.problem == "too_large":
        obstacles[path] = Obstacle(path, "too_large", f"{found.size} bytes")
    elif found.problem != "vanished":
        obstacles[path] = Obstacle(path, "unreadable", "it could not be read, or changes while it is being read")


def _raise_change_refusal(line: bytes, planned: list[Change], what: str) -> None:
    """Raise what an ``X`` line of ``transact`` says, about the change whose number it carries."""
    if not line.startswith(b"X "):
        return
    kind, _, rest = line[2:].partition(b" ")
    number, _, detail = rest.partition(b" ")
    if number.isdigit() and int(number) < len(planned):
        change = planned[int(number)]
        what = change.source if isinstance(change, Move) else change.path
        rest = detail
    raise refusal(b"X %s %s\n" % (kind, rest), what)


def _open_answer(raw: bytes, nonce: str, *, text_only: bool, what: str) -> bytes:
    if text_only:
        try:
            raw = b64decode(b"".join(raw.split()), validate=True)
        except Base64Error as exc:
            raise TornAnswerError(f"{what}: the sandbox gave no whole answer") from exc
    return unwrap(raw, nonce, what=what)


def _take_checked(body: bytes) -> tuple[Framed, bool]:
    found, _ = take_framed(body, 0)
    return found, found.whole


def _change_request(head: list[str], planned: list[Change]) -> bytes:
    lines = [*head, *(line for change in planned for line in _change_lines(change))]
    return _lines(*lines) + b"".join(change.data for change in planned if isinstance(change, Put))


async def _aside(size: int, work: Callable[[], _T]) -> _T:
    """Do what takes long for large sizes (hashing, decoding) in a worker thread, and small things at once."""
    return work() if size <= _SMALL_ANSWER_BYTES else await anyio.to_thread.run_sync(work)


def _change_lines(change: Change) -> list[str]:
    expected = expected_word(change.expected)
    if isinstance(change, Put):
        return [f"put {expected} {version_of(change.data)} {len(change.data)}", _spell(change.path)]
    if isinstance(change, Delete):
        return [f"delete {expected} - 0", _spell(change.path)]
    return [f"move {expected} - 0", _spell(change.source), _spell(change.target)]


def _lines(*lines: str) -> bytes:
    try:
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise UnsafePath(f"{exc.object!r} has characters that no file name can hold") from exc


def _spell(path: str) -> str:
    if len(path) > MAX_PATH_CHARACTERS:
        raise UnsafePath(f"{path[:64]}... has {len(path)} characters; no system opens a path of over 4,095 bytes")
    if "\n" not in path:
        return f"p{path}"
    return "e" + "".join(f"\\0{byte:03o}" for byte in path.encode("utf-8", "surrogateescape"))


def _any_case(suffix: str) -> str:
    """Return a ``find -name`` pattern for names that end in ``suffix``, whatever the case of its letters."""
    parts = ["*"]
    for character in suffix:
        if character.isascii() and character.isalpha():
            parts.append(f"[{character.lower()}{character.upper()}]")
        else:
            parts.append(f"\\{character}" if character.isascii() and not character.isalnum() else character)
    return "".join(parts)
