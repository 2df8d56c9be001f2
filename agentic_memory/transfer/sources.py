"""A source on disk: a directory, a zip or one file, read into memory. Blocking; run it in a thread."""

import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentic_memory.errors import InvalidMemory
from agentic_memory.transfer.items import Files, unreadable
from agentic_memory.values import Problem

SUFFIXES: Final = (".md", ".json", ".jsonl", ".txt")
"""What any of the formats keeps memories in."""
MAX_FILES: Final = 50_000
MAX_MARKDOWN_BYTES: Final = 4 * 1024 * 1024
MAX_JSON_BYTES: Final = 512 * 1024 * 1024
"""An export of all conversations of some years has about a fifth of it."""
MAX_TOTAL_BYTES: Final = 1024 * 1024 * 1024


def read_source(source: str) -> tuple[Files, tuple[Problem, ...]]:
    """Return the files of a source that may hold memories, and what of it could not be read.

    Links that lead out of a directory are not followed, and of a zip no more is unpacked than it says it holds.

    Raises:
        InvalidMemory: there is nothing there, or it is nothing that can be read.
    """
    path = Path(source).expanduser()
    problems: list[Problem] = []
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            found = dict(_read_directory(path.resolve(), problems))
        elif zipfile.is_zipfile(path):
            found = _without_common_folder(dict(_read_zip(path, problems)))
        elif stat.S_ISREG(mode):
            found = {path.name: path.read_bytes()} if _fits(path.name, path.stat().st_size, problems) else {}
        else:
            raise InvalidMemory(f"{source}: neither a file nor a directory")
    except OSError as error:
        raise InvalidMemory(f"{source}: cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:  # damaged, an unknown method, a password
        raise InvalidMemory(f"{source}: cannot be unpacked: {error}") from error
    if not found and not problems:
        raise InvalidMemory(f"{source}: holds no {', '.join(SUFFIXES)} file")
    return found, tuple(problems)


def _read_directory(root: Path, problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    room = _Room(problems)
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        for name in sorted(names):
            file = Path(folder, name)
            relative = file.relative_to(root).as_posix()
            if name.startswith(".") or not name.lower().endswith(SUFFIXES):
                continue
            if not file.resolve().is_relative_to(root):
                problems.append(unreadable(relative, "a link that leads out of the directory"))
                continue
            try:
                if file.is_file() and room.takes(relative, file.stat().st_size):
                    yield relative, file.read_bytes()
            except OSError as error:
                problems.append(unreadable(relative, f"cannot be read: {error.strerror or error}"))


def _read_zip(path: Path, problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    room = _Room(problems)
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.filename.lstrip("/")
            hidden = any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))
            if info.is_dir() or hidden or not name.lower().endswith(SUFFIXES):
                continue
            if room.takes(name, info.file_size):
                with archive.open(info) as file:
                    yield name, file.read(info.file_size)


def _without_common_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    """Drop the folder that a zip was made of, if all files are in one."""
    tops = {path.partition("/")[0] for path in files}
    if len(tops) != 1 or any("/" not in path for path in files) or tops <= {"daily", "digest", "memory"}:
        return files
    return {path.partition("/")[2]: data for path, data in files.items()}


class _Room:
    """How much more of a source is read."""

    def __init__(self, problems: list[Problem]) -> None:
        self._problems = problems
        self._files = MAX_FILES
        self._bytes = MAX_TOTAL_BYTES

    def takes(self, name: str, size: int) -> bool:
        if not _fits(name, size, self._problems):
            return False
        if not self._files or size > self._bytes:
            self._problems.append(unreadable(name, "over the limit of what is read of one source; import it in parts"))
            return False
        self._files -= 1
        self._bytes -= size
        return True


def _fits(name: str, size: int, problems: list[Problem]) -> bool:
    limit = MAX_JSON_BYTES if name.lower().endswith((".json", ".jsonl")) else MAX_MARKDOWN_BYTES
    if size > limit:
        problems.append(unreadable(name, f"{size:,} bytes; no more than {limit:,} are read of such a file"))
    return size <= limit
