"""The table of nodes behind ``InMemoryBackend``: what a POSIX file system is, as far as memory can tell."""

import posixpath
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from time import time_ns
from typing import Final

from agentic_memory.backends.values import FileRecord, Obstacle, ObstacleKind, Tree
from agentic_memory.errors import BackendUnavailable, UnsafePath

MAX_LINKS: Final = 40
"""Symlinks followed in one path before it counts as a loop, as Linux does it."""

NEW_FILE_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class File:
    """A regular file."""

    data: bytes = field(repr=False)
    version: str
    mtime_ns: int
    mode: int = NEW_FILE_MODE


@dataclass(frozen=True, slots=True)
class Link:
    """A symlink, with its text as written."""

    target: str


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory; its members are the nodes whose path starts with its own."""

    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Special:
    """A FIFO, a socket or a device."""


Node = File | Link | Directory | Special
Nodes = dict[str, Node]


class LinkLoopError(Exception):
    """A path whose symlinks never end."""


@dataclass(frozen=True, slots=True)
class Walk:
    """One snapshot in the making."""

    root: str
    nodes: Nodes
    denied: Collection[str]
    known: Collection[str]
    suffix: str
    hidden: bool
    max_bytes: int
    files: list[FileRecord] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)

    def run(self) -> Tree:
        """Walk the nodes below the root."""
        try:
            real = resolve(self.nodes, self.root)
        except LinkLoopError as exc:
            raise BackendUnavailable(f"{self.root} is a symlink into itself; make it a directory") from exc
        if is_denied(self.denied, real):
            raise BackendUnavailable(f"{self.root}: permission denied; give this user access to it")
        if real not in self.nodes:
            if self.root in self.nodes:
                raise BackendUnavailable(f"{self.root} is a symlink to nothing; make it a directory")
            if any(isinstance(self.nodes.get(above), File | Special) for above in ancestors(real)):
                raise BackendUnavailable(f"{self.root} lies below a file; choose another directory")
            return Tree(self.root, exists=False, files=())
        if not isinstance(self.nodes[real], Directory):
            raise BackendUnavailable(f"{self.root} is not a directory")
        below = real.rstrip("/") + "/"
        closed: list[str] = []
        for path in sorted(self.nodes):
            if not path.startswith(below) or any(path.startswith(f"{above}/") for above in closed):
                continue
            if not self._see(path, path[len(below) :], real):
                closed.append(path)
        return Tree(
            self.root,
            exists=True,
            files=tuple(sorted(self.files, key=lambda record: record.path)),
            obstacles=tuple(sorted(self.obstacles, key=lambda obstacle: obstacle.path)),
        )

    def _see(self, path: str, name: str, real_root: str) -> bool:
        """Take note of one node, and tell whether to look below it."""
        if posixpath.basename(path).startswith(".") and not self.hidden:
            return False
        node = self.nodes[path]
        wanted = name.lower().endswith(self.suffix)
        if isinstance(node, Directory):
            if path in self.denied:
                return self._report(name, "unreadable", "permission denied")
            if wanted and self.suffix:
                return self._report(name, "directory", "a directory where a file could be")
        elif isinstance(node, Link):
            self._see_link(path, name, real_root, wanted=wanted)
        elif wanted:
            self._see_file(path, name, node)
        return True

    def _see_link(self, path: str, name: str, real_root: str, *, wanted: bool) -> None:
        try:
            real = resolve(self.nodes, path)
        except LinkLoopError:
            if wanted:
                self._report(name, "loop", "a symlink into itself")
            return
        target = self.nodes.get(real)
        if not lies_in(real, real_root):
            if wanted or isinstance(target, Directory):
                self._report(name, "outside", f"a symlink to {real}")
        elif isinstance(target, Directory):
            # It is seen under its own path; seeing it here too would list its files twice, or never end.
            if wanted and self.suffix:
                self._report(name, "directory", "a directory where a file could be")
        elif target is None:
            if wanted:
                self._report(name, "dangling", f"a symlink to {real}, where nothing is")
        elif wanted:
            self._see_file(real, name, target)

    def _see_file(self, path: str, name: str, node: Node) -> None:
        if is_denied(self.denied, path):
            self._report(name, "unreadable", "permission denied")
        elif not isinstance(node, File):
            self._report(name, "special", "not a regular file")
        elif len(node.data) > self.max_bytes:
            self._report(name, "too_large", f"{len(node.data)} bytes, over the limit of {self.max_bytes}")
        else:
            data = None if node.version in self.known else node.data
            self.files.append(FileRecord(name, len(node.data), node.mtime_ns, node.version, data))

    def _report(self, name: str, kind: ObstacleKind, detail: str) -> bool:
        self.obstacles.append(Obstacle(name, kind, detail))
        return False


def resolve(nodes: Nodes, path: str, *, follow_last: bool = True) -> str:
    """Follow every symlink in ``path``; what is not there is taken as it stands."""
    at, links = "", 0
    pending = path.split("/")[::-1]
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = posixpath.dirname(at).rstrip("/")
            continue
        node = nodes.get(f"{at}/{part}")
        if isinstance(node, Link) and (pending or follow_last):
            links += 1
            if links > MAX_LINKS:
                raise LinkLoopError(path)
            pending.extend(node.target.split("/")[::-1])
            if node.target.startswith("/"):
                at = ""
        else:
            at = f"{at}/{part}"
    return at or "/"


def confine(nodes: Nodes, path: str, within: str | None, *, follow_last: bool = True) -> str:
    """Return the real path of ``path``, which must lie in the real ``within``."""
    try:
        real = resolve(nodes, path, follow_last=follow_last)
        inside = None if within is None else resolve(nodes, within)
    except LinkLoopError as exc:
        raise UnsafePath(f"{path} is a symlink into itself; remove it") from exc
    if inside is not None and (real == inside or not lies_in(real, inside)):
        raise UnsafePath(f"{path} is not inside {within}")
    return real


def file_or_absent(nodes: Nodes, path: str, real: str) -> File | None:
    """Return the file at ``path``, whose real path is ``real``; None when nothing is there."""
    node = nodes.get(real)
    if isinstance(node, File):
        return node
    if isinstance(node, Directory):
        raise UnsafePath(f"{path} is a directory, not a file")
    if node is not None:
        raise UnsafePath(f"{path} is not a regular file (FIFO, socket or device)")
    if isinstance(nodes.get(resolve(nodes, path, follow_last=False)), Link):
        raise UnsafePath(f"{path} is a symlink to {real}, where nothing is; remove the link or make its target")
    for above in ancestors(path):
        if isinstance(nodes.get(resolve(nodes, above, follow_last=False)), Link) and resolve(nodes, above) not in nodes:
            raise BackendUnavailable(f"{above} is a symlink to nothing; remove it or make its target")
    return None


def behind_link(nodes: Nodes, entry: str, path: str, inside: str | None) -> File | None:
    """Return the file that the symlink ``entry`` leads to; None when it leads to nothing."""
    node = nodes.get(confine(nodes, entry, inside))
    if node is None or isinstance(node, File):
        return node
    raise UnsafePath(f"{path} is a symlink to something that is not a file")


def make_parents(nodes: Nodes, path: str) -> None:
    """Make the directories above ``path``."""
    for above in ancestors(path):
        node = nodes.setdefault(above, Directory(time_ns()))
        if not isinstance(node, Directory):
            raise UnsafePath(f"{path} lies below {above}, which is not a directory")


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above ``path``, the nearest first."""
    while path != "/":
        path = posixpath.dirname(path)
        yield path


def lies_in(path: str, directory: str) -> bool:
    """Tell whether ``path`` is ``directory`` or below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def is_child(path: str, directory: str) -> bool:
    """Tell whether ``path`` is directly in ``directory``."""
    return path != "/" and posixpath.dirname(path) == directory


def drop(nodes: Nodes, path: str) -> None:
    """Take away ``path`` and what is below it."""
    for node in [node for node in nodes if node == path or node.startswith(f"{path}/")]:
        del nodes[node]


def is_denied(denied: Collection[str], path: str) -> bool:
    """Tell whether reading ``path`` was forbidden, by itself or through a directory above it."""
    return any(lies_in(path, closed) for closed in denied)
