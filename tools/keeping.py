"""A tool's write, which goes into the history of the memory it is in."""

import posixpath
from datetime import UTC, datetime

from agentic_memory.backends import ABSENT, Backend, Put, version_of
from agentic_memory.check import is_memory_path
from agentic_memory.history.entries import Author, Change, State, new_transaction_id
from agentic_memory.history.writing import transact_kept
from agentic_memory.index import INDEX_FILENAME
from agentic_memory.shelf import find_shelf


async def replace_file(place: Backend, path: str, data: bytes, *, before: bytes | None, why: str) -> None:
    """Write ``data`` where ``before`` is, or nothing when that is None; errors as ``Backend.replace``.

    Where a store of this process keeps the history of the memory, the write and what it replaced go there in the same
    transaction. Otherwise, and under a name that the store cannot know, they are noticed at the store's next look.
    """
    expected = ABSENT if before is None else version_of(before)
    # A path that climbs may lead elsewhere than it reads, through a symlink.
    shelf = None if ".." in path.split("/") else find_shelf(place.cache_key, posixpath.normpath(path))
    filename = "" if shelf is None else posixpath.relpath(path, shelf.root)
    if shelf is None or shelf.past.archive is None or not (filename == INDEX_FILENAME or is_memory_path(filename)):
        await place.replace(path, data, expected=expected)
        return
    now = datetime.now(UTC)
    change = Change(
        filename,
        None if before is None else State.of(before, when=now),
        State.of(data, when=now),
        now,
        shelf.past.author(Author("agent")),
        why,
        transaction=new_transaction_id(),
    )
    await transact_kept(
        place,
        [Put(path, data, expected)],
        [shelf.past.credit(change)],
        root=shelf.root,
        archive=shelf.past.archive,
        past=shelf.past,
    )
