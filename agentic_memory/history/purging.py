"""What has to go when a file is purged: told from the log and from all that is under the memory directory."""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from agentic_memory.backends import Change, Delete, Put, Tree
from agentic_memory.document import parse_document
from agentic_memory.history.archive import Archive, Log
from agentic_memory.history.entries import Entry, render_entries
from agentic_memory.index import INDEX_FILENAME, drop_entry

ASIDE = (".trash", ".conflicts")
"""Folders that hold copies of memories, each in a folder named by the time."""
PURGED_WORD = "(purged)"


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge did, each line for people.

    Attributes:
        filename: Which memory.
        removed: What is gone.
        kept: What holds the same text, or may hold some of it, and stays: look at it yourself.
        remaining: What was to go and was still there when everything was read again. Empty: the purge is verified.
    """

    filename: str
    removed: tuple[str, ...]
    kept: tuple[str, ...]
    remaining: tuple[str, ...]


def versions_of_file(filename: str, entries: Iterable[Entry], trees: Iterable[Tree]) -> set[str]:
    """Return every version a file ever had, as the log, the file itself and its copies set aside tell."""
    found = {version for entry in entries if entry.version.filename == filename for version in _both(entry)}
    for tree in trees:
        found |= {file.version for file in tree.files if is_copy_of(filename, file.path)}
    return found


def versions_of_others(filename: str, entries: Iterable[Entry], tree: Tree) -> dict[str, str]:
    """Return the versions that other files have or had, and one of those files for each."""
    found = {
        version: entry.version.filename
        for entry in entries
        if entry.version.filename != filename
        for version in _both(entry)
    }
    for file in tree.files:
        if not file.path.startswith(".") and file.path.lower().endswith(".md") and file.path != filename:
            found[file.version] = file.path
    return found


def is_copy_of(filename: str, path: str) -> bool:
    """Tell whether ``path`` is a file itself or a copy of it that was set aside."""
    if path == filename:
        return True
    folder, _, rest = path.partition("/")
    return folder in ASIDE and rest.partition("/")[2] == filename


def is_like(filename: str, path: str) -> bool:
    """Tell whether ``path`` looks like what an editor or a sync program makes of a file: ``a.md~``, ``.a.md.swp``."""
    stem = posixpath.basename(filename).removesuffix(".md").casefold()
    name = posixpath.basename(path).casefold()
    same_folder = posixpath.dirname(path) == posixpath.dirname(filename)
    ours = name == posixpath.basename(filename).casefold()
    return same_folder and not ours and name.lstrip(".#~").startswith((f"{stem}.", f"{stem}~"))


def without_entry(data: bytes, filename: str) -> bytes:
    """Return an index without the line of a file."""
    document = parse_document(data, filename=INDEX_FILENAME)
    return document.encode(drop_entry(document.text, filename))


def rewrite_log(archive: Archive, log: Log, filename: str, renamed: Mapping[str, str]) -> tuple[list[Change], int]:
    """Return the changes that take a file out of the log and its line out of the versions of MEMORY.md; and how many lines.

    Args:
        archive: Where the log is.
        log: As it was read.
        filename: Whose lines go; where another line names it, a word takes its place.
        renamed: Versions of MEMORY.md that had its entry, and what they are without.
    """
    changes: list[Change] = []
    lines = 0
    for file, read in log.files:
        entries = [_without(entry, filename, renamed) for entry in read.entries if entry.version.filename != filename]
        lines += len(read.entries) - len(entries)
        if entries == [*read.entries]:
            continue
        path = posixpath.join(archive.log, file.path)
        changes.append(Put(path, render_entries(entries), file.version) if entries else Delete(path, file.version))
    return changes, lines


def _without(entry: Entry, filename: str, renamed: Mapping[str, str]) -> Entry:
    version = entry.version
    if filename in version.why:
        version = replace(version, why=version.why.replace(filename, PURGED_WORD))
    if version.filename == INDEX_FILENAME:
        after, before = version.version, version.previous
        version = replace(
            version,
            version=None if after is None else renamed.get(after, after),
            previous=None if before is None else renamed.get(before, before),
        )
    return entry if version is entry.version else replace(entry, version=version)


def _both(entry: Entry) -> set[str]:
    return {version for version in (entry.version.version, entry.version.previous) if version is not None}
