"""Reading a container that has no shell, through the daemon's archive API: whole directories as tar streams.

Blocking code: it runs in worker threads only.
"""

import io
import posixpath
import tarfile
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from agentic_memory.backends.docker.wire import check_running, mapped
from agentic_memory.backends.values import (
    ABSENT,
    Absent,
    FileRecord,
    Obstacle,
    ObstacleKind,
    Tree,
    version_of,
)
from agentic_memory.errors import BackendUnavailable, UnsafePath

if TYPE_CHECKING:
    from docker import DockerClient

_MAX_LINKS: Final = 40
_FETCH_REFUSALS: Final = ("outside", "dangling", "loop", "special", "directory")


def snapshot_from_archive(
    client: "DockerClient",
    container: str,
    root: str,
    *,
    known: Collection[str],
    suffix: str,
    hidden: bool,
    max_bytes: int,
) -> Tree:
    """See every file under ``root``. The whole directory crosses over each time: an archive knows no versions."""
    # "/." has a symlinked root followed, and anything that is no directory refused.
    tar = _download(client, container, posixpath.join(root, "."))
    if tar is None:
        return Tree(root, exists=False, files=())
    with tar:
        return _Walk(tar, root, known, suffix.lower(), hidden, max_bytes).run()


def fetch_from_archive(
    client: "DockerClient", container: str, path: str, *, within: str | None, max_bytes: int
) -> FileRecord | Absent:
    """Read one file. Staying ``within`` a directory costs reading all of it: only then are its symlinks known."""
    if within is None:
        tar = _download(client, container, path)
        if tar is None:
            return ABSENT
        with tar:
            member = tar.next()
            if member is None or member.issym():
                raise BackendUnavailable(f"{path} is a symlink, which cannot be followed in an image without sh")
            if not member.isfile():
                raise UnsafePath(f"{path} is not a file")
            if member.size > max_bytes:
                raise BackendUnavailable(f"{path} holds {member.size} bytes, over the limit of {max_bytes}")
            return _record(tar, member, path)
    relative = posixpath.relpath(path, within)
    if relative.startswith("..") or relative == ".":
        raise UnsafePath(f"{path} is not inside {within}")
    tar = _download(client, container, posixpath.join(within, "."))
    if tar is None:
        return ABSENT
    with tar:
        walk = _Walk(tar, within, (), "", hidden=True, max_bytes=max_bytes)
        found = walk.run().find(relative)
        if isinstance(found, FileRecord):
            return FileRecord(path, found.size, found.mtime_ns, found.version, found.data)
        if isinstance(found, Obstacle):
            error = UnsafePath if found.kind in _FETCH_REFUSALS else BackendUnavailable
            raise error(f"{path}: {found.kind} {found.detail}")
        if relative in walk.members:
            raise UnsafePath(f"{path} is a directory, not a file")
        if walk.below_link(relative):
            raise BackendUnavailable(f"{path} lies below a symlink, which cannot be followed in an image without sh")
        return ABSENT


def _download(client: "DockerClient", container: str, path: str) -> tarfile.TarFile | None:
    """Return the archive of ``path``; None when surely nothing is there."""
    from docker.errors import NotFound

    with mapped(f"container {container}"):
        try:
            stream, _ = client.api.get_archive(container, path)
            packed = io.BytesIO(b"".join(stream))
        except NotFound:
            # The same answer for "no such file" and "no such container": only the second is not an absence.
            check_running(client, container)
            return None
    try:
        return tarfile.open(fileobj=packed)
    except tarfile.TarError as exc:
        raise BackendUnavailable(f"{path}: container {container} sent no whole archive") from exc


def _record(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str, *, known: Collection[str] = ()) -> FileRecord:
    held = tar.extractfile(member)
    data = held.read() if held is not None else b""
    version = version_of(data)
    return FileRecord(path, len(data), int(member.mtime * 1_000_000_000), version, None if version in known else data)


@dataclass(slots=True)
class _Walk:
    """One archive on its way to becoming a tree."""

    tar: tarfile.TarFile
    root: str
    known: Collection[str]
    suffix: str
    hidden: bool
    max_bytes: int
    members: dict[str, tarfile.TarInfo] = field(default_factory=dict)
    files: list[FileRecord] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)

    def run(self) -> Tree:
        """Look at every member."""
        try:
            self.members = {posixpath.normpath(member.name): member for member in self.tar.getmembers()}
            closed: list[str] = []
            for path in sorted(self.members):
                if path == "." or any(path.startswith(f"{above}/") for above in closed):
                    continue
                invisible = posixpath.basename(path).startswith(".") and not self.hidden
                if invisible or not self._see(path, self.members[path]):
                    closed.append(path)
        except tarfile.TarError as exc:
            raise BackendUnavailable(f"{self.root}: the archive was cut off") from exc
        return Tree(
            self.root,
            exists=True,
            files=tuple(sorted(self.files, key=lambda record: record.path)),
            obstacles=tuple(sorted(self.obstacles, key=lambda obstacle: obstacle.path)),
        )

    def below_link(self, path: str) -> bool:
        """Tell whether a directory above ``path`` is a symlink."""
        while path := posixpath.dirname(path):
            member = self.members.get(path)
            if member is not None and member.issym():
                return True
        return False

    def _see(self, path: str, member: tarfile.TarInfo) -> bool:
        """Take note of one member, and tell whether to look below it."""
        wanted = path.lower().endswith(self.suffix)
        real: tarfile.TarInfo | ObstacleKind = self._follow(path, member) if member.issym() else member
        if isinstance(real, str):
            if wanted or real == "outside":
                self._report(path, real)
        elif real.isdir():
            if wanted and self.suffix:
                self._report(path, "directory")
                return False
        elif wanted and not (real.isfile() or real.islnk()):
            self._report(path, "special")
        elif wanted and real.size > self.max_bytes:
            self._report(path, "too_large", f"{real.size} bytes, over the limit of {self.max_bytes}")
        elif wanted:
            self.files.append(_record(self.tar, real, path, known=self.known))
        return True

    def _report(self, path: str, kind: ObstacleKind, detail: str = "") -> None:
        self.obstacles.append(Obstacle(path, kind, detail))

    def _follow(self, path: str, member: tarfile.TarInfo) -> "tarfile.TarInfo | ObstacleKind":
        for _ in range(_MAX_LINKS):
            if not member.issym():
                return member
            target = posixpath.join(self.root, posixpath.dirname(path), member.linkname)
            path = posixpath.relpath(target, self.root)
            if path.startswith(".."):
                return "outside"
            if path not in self.members:
                return "unreadable" if self.below_link(path) else "dangling"
            member = self.members[path]
        return "loop"
