"""Memories that are Markdown already: Claude Code's directories, OpenClaw and ReMe workspaces, basic-memory vaults."""

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from agentic_memory.check import is_memory_path
from agentic_memory.document import Document, parse_document
from agentic_memory.index import parse_index
from agentic_memory.transfer.items import Files, Item, Parsed, left_out, split_sections, text_of, unreadable
from agentic_memory.values import Problem

_HEADER_FIELDS: Final = frozenset({"name", "description", "type", "title", "metadata"})
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


# ------------------------------------------------------------------ Claude Code, and this package's own directories


def parse_memory_directory(files: Files) -> Parsed:
    """Read a directory of memory files with an index, as Claude Code and this package keep them.

    What MEMORY.md says besides its entries becomes memories of its own, one for each heading.
    """
    problems: list[Problem] = []
    items = [
        _item(path, document, key=f"memory-directory:{path}", kind=document.type or "reference", filename=path)
        for path, document in _documents(files, problems)
        if _basename(path) != "MEMORY.md"
    ]
    for path, data in files.items():
        if _basename(path) == "MEMORY.md":
            items.extend(_beside_the_entries(path, text_of(data)))
    return Parsed(tuple(items), tuple(problems))


def _beside_the_entries(path: str, text: str) -> Iterator[Item]:
    lines = text.split("\n")
    for entry in parse_index(text).entries:
        lines[entry.line - 1] = ""
    for title, body in split_sections("\n".join(lines)):
        yield Item(key=f"memory-directory:{path}#{title}", content=body, name=title, type="reference")


# ------------------------------------------------------------------ OpenClaw

_ABOUT_THE_AGENT: Final = frozenset({"SOUL", "AGENTS", "IDENTITY", "TOOLS", "HEARTBEAT", "BOOTSTRAP", "BOOT"})


def parse_openclaw(files: Files) -> Parsed:
    """Read an OpenClaw workspace: MEMORY.md and USER.md by their headings, and each file below ``memory/``."""
    problems: list[Problem] = []
    items: list[Item] = []
    for path, document in _documents(files, problems):
        stem = _basename(path).removesuffix(".md")
        if path in {"MEMORY.md", "memory.md", "USER.md"}:
            kind = "user" if path == "USER.md" else "reference"
            items.extend(
                Item(key=f"openclaw:{path}#{title}", content=body, name=title or stem.capitalize(), type=kind)
                for title, body in split_sections(document.body)
            )
        elif path.startswith("memory/"):
            day = _DAY.search(stem)
            items.append(
                _item(
                    path,
                    document,
                    key=f"openclaw:{path}",
                    kind="project" if day else document.type or "reference",
                    name=f"Notes of {stem}" if day else "",
                    created=day[0] if day else "",
                )
            )
        elif stem.upper() in _ABOUT_THE_AGENT:
            problems.append(left_out(path, "tells the agent how to behave; it is no memory"))
        else:
            problems.append(left_out(path, "not one of the workspace's memory files"))
    return Parsed(tuple(items), tuple(problems))


def looks_like_openclaw(files: Files) -> bool:
    """Tell whether a directory is a workspace of OpenClaw."""
    daily = any(re.match(r"memory/\d{4}-\d\d-\d\d", path) for path in files)
    return daily or ("SOUL.md" in files and bool({"MEMORY.md", "USER.md", "AGENTS.md"} & files.keys()))


# ------------------------------------------------------------------ ReMe

_KIND_OF_DIGEST: Final = {"personal": "user", "procedure": "procedure", "wiki": "reference"}


def parse_reme(files: Files) -> Parsed:
    """Read a ReMe workspace: the cards below ``daily/`` and ``digest/``. Its sources and indexes are no memories."""
    problems: list[Problem] = []
    items: list[Item] = []
    passed_over: dict[str, int] = {}
    for path, document in _documents(files, problems):
        top, _, rest = path.partition("/")
        if top not in {"daily", "digest"}:
            passed_over[top] = passed_over.get(top, 0) + 1
            continue
        day = _DAY.search(path)
        kind = "project" if top == "daily" else _KIND_OF_DIGEST.get(rest.partition("/")[0], "reference")
        items.append(
            _item(path, document, key=f"reme:{path}", kind=document.type or kind, created=day[0] if day else "")
        )
    problems += [left_out(top, f"{count} files that are no memory cards") for top, count in passed_over.items()]
    return Parsed(tuple(items), tuple(problems))


def looks_like_reme(files: Files) -> bool:
    """Tell whether a directory is a workspace of ReMe."""
    return any(path.startswith(("daily/", "digest/")) and path.endswith(".md") for path in files)


# ------------------------------------------------------------------ basic-memory


def parse_basic_memory(files: Files) -> Parsed:
    """Read a vault of basic-memory: each note as it stands, its observations and relations in the text."""
    problems: list[Problem] = []
    items = [
        _item(
            path,
            document,
            key=f"basic-memory:{document.fields.get('permalink') or path}",
            kind=document.type if document.type not in {"", "note"} else "reference",
            name=document.fields.get("title", ""),
        )
        for path, document in _documents(files, problems)
    ]
    return Parsed(tuple(items), tuple(problems))


def looks_like_basic_memory(files: Files) -> bool:
    """Tell whether a directory is a vault of basic-memory: notes with a permalink."""
    return any(
        path.endswith(".md") and "permalink" in parse_document(data, filename=path).fields
        for path, data in files.items()
    )


# ------------------------------------------------------------------ small things


def _documents(files: Files, problems: list[Problem]) -> Iterator[tuple[str, Document]]:
    for path, data in sorted(files.items()):
        if not path.lower().endswith(".md"):
            continue
        if any(part.startswith(".") for part in path.split("/")):
            continue
        document = parse_document(data, filename=path)
        if document.encoding == "binary":
            problems.append(unreadable(path, "holds NUL bytes, so it is no text"))
        elif document.body.strip():
            yield path, document
        elif _basename(path) != "MEMORY.md":
            problems.append(unreadable(path, "has no text"))


def _item(
    path: str, document: Document, *, key: str, kind: str, name: str = "", created: str = "", filename: str = ""
) -> Item:
    fields = {name: value for name, value in document.fields.items() if name not in _HEADER_FIELDS and value}
    if created:
        fields.setdefault("created", created)
    stem = _basename(path).removesuffix(".md").replace("_", " ").replace("-", " ").strip()
    return Item(
        key=key,
        content=text_of(document.encode(document.body)).strip("\n"),
        name=name or document.name or stem[:1].upper() + stem[1:],
        description=document.description,
        type=kind,
        filename=filename if is_memory_path(filename or ".") else "",
        fields=fields,
    )


def _basename(path: str) -> str:
    return posixpath.basename(path)
