"""How each operation changes a draft of the memory: the file, and its line in MEMORY.md with it."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from agentic_memory.backends import version_of
from agentic_memory.credentials import redact
from agentic_memory.document import Document, edit_body, edit_field, memory_filename, parse_document, render_document
from agentic_memory.draft import Draft
from agentic_memory.errors import BackendUnavailable, Conflict, InvalidMemory, MemoryNotFound
from agentic_memory.filenames import checked_file, checked_memory, free_filename
from agentic_memory.guards import WritePolicy, refuse_objections, without_new_secrets
from agentic_memory.index import INDEX_FILENAME, add_entry, change_entry, drop_entry, is_own_hook
from agentic_memory.merge import merge_files
from agentic_memory.operations import Create, Forget, Operation, Rename, Rewrite, Update

TRASH = ".trash"


def carry_out(
    operation: Operation, draft: Draft, *, bases: Mapping[str, bytes], stamp: str, policy: WritePolicy | None
) -> str:
    """Carry ``operation`` out on ``draft`` and return the file it is about, as that is called afterwards.

    Args:
        operation: What shall be done.
        draft: What it is done to.
        bases: The bytes of versions that operations were made from, as far as they are known.
        stamp: The time as it stands in names in the trash.
        policy: What the guards let pass; None for what needs no guard: a person's edit, or an old version.

    Raises:
        AgenticMemoryError: it cannot be done; then the draft is not to be used.
    """
    match operation:
        case Create():
            return _create(operation, draft, policy)
        case Update():
            return _update(operation, draft, bases, policy)
        case Rewrite():
            return _rewrite(operation, draft, bases, policy)
        case Forget():
            return _forget(operation, draft, stamp)
        case Rename():
            return _rename(operation, draft)


def _create(operation: Create, draft: Draft, policy: WritePolicy | None) -> str:
    if not operation.name.strip():
        raise InvalidMemory("a memory needs a name: a short title")
    data = render_document(
        name=operation.name,
        description=operation.description,
        type=operation.type,
        content=operation.content,
        extra=operation.fields,
    )
    if operation.filename is None:
        filename = free_filename(memory_filename(operation.name), draft.taken())
    else:
        filename = checked_memory(operation.filename)
        _demand_free(draft, filename)
    data = _guard(filename, None, data, policy)
    draft.write(filename, data)
    title, hook = _told(operation.name, policy), _told(operation.description, policy)
    draft.list_file(filename, title=title, hook=hook)
    return filename


def _update(operation: Update, draft: Draft, bases: Mapping[str, bytes], policy: WritePolicy | None) -> str:
    filename = checked_memory(operation.filename)
    document = draft.document(filename)
    current = document.encode(document.text)
    start = _start_of(filename, operation.expected, current, bases)
    data = start
    own = {"name": operation.name, "description": operation.description, "type": operation.type}
    for key, value in {**own, **operation.fields}.items():
        if value is not None:
            data = edit_field(parse_document(data, filename=filename), key, value)
    if operation.content is not None:
        data = edit_body(parse_document(data, filename=filename), operation.content)
    data = _merge(start, data, current, filename=filename)
    data = _guard(filename, current, data, policy and policy.with_loss(allowed=operation.allow_loss))
    draft.write(filename, data)
    name, description = (text and _told(text, policy) for text in (operation.name, operation.description))
    _follow_in_index(draft, filename, document, name=name, description=description)
    return filename


def _rewrite(operation: Rewrite, draft: Draft, bases: Mapping[str, bytes], policy: WritePolicy | None) -> str:
    filename = checked_file(operation.filename)
    current = draft.read(filename)
    data = operation.data
    if operation.expected is not None:
        if current is None:
            raise Conflict(filename, expected=operation.expected, current=None)
        data = _merge(_start_of(filename, operation.expected, current, bases), data, current, filename=filename)
    data = _guard(filename, current, data, policy and policy.with_loss(allowed=operation.allow_loss))
    put_file(draft, filename, data)
    return filename


def put_file(draft: Draft, filename: str, data: bytes) -> None:
    """Let a file hold ``data``; its line in MEMORY.md follows, and is made when the file is new."""
    if filename == INDEX_FILENAME:
        draft.write(filename, data)
        return
    new = parse_document(data, filename=filename)
    if draft.is_taken(filename):
        old = draft.document(filename)
        draft.write(filename, data)
        _follow_in_index(draft, filename, old, name=new.name or None, description=new.description)
        return
    draft.write(filename, data)
    if draft.entry(filename) is None:
        title = new.name or PurePosixPath(filename).stem
        draft.index_text = add_entry(draft.index_text, title=title, filename=filename, hook=new.description)


def _forget(operation: Forget, draft: Draft, stamp: str) -> str:
    filename = checked_memory(operation.filename)
    if operation.expected is not None:
        current = draft.read(filename)
        if current is None or version_of(current) != operation.expected:
            raise Conflict(filename, expected=operation.expected, current=current)
    trashed = f"{TRASH}/{stamp}/{filename}"
    _demand_there(draft, filename)
    draft.move(filename, trashed)
    draft.index_text = drop_entry(draft.index_text, filename)
    return trashed


def _rename(operation: Rename, draft: Draft) -> str:
    filename, new_filename = checked_memory(operation.filename), checked_memory(operation.new_filename)
    _demand_there(draft, filename)
    _demand_free(draft, new_filename)
    draft.move(filename, new_filename)
    draft.index_text = change_entry(draft.index_text, filename, new_filename=new_filename)
    return new_filename


def _guard(filename: str, before: bytes | None, after: bytes, policy: WritePolicy | None) -> bytes:
    """Return what may be written instead of ``after``; that is ``after`` unless a secret has to be left out."""
    if policy is None:
        return after
    data = without_new_secrets(filename, before, after) if policy.secrets == "redact" else after
    refuse_objections(filename, before, data, policy=policy)
    return data


def _told(text: str, policy: WritePolicy | None) -> str:
    """Return what the index may say of a name or description."""
    return redact(text) if policy is not None and policy.secrets == "redact" else text


def _demand_free(draft: Draft, filename: str) -> None:
    if draft.is_taken(filename):
        try:
            current = draft.read(filename)
        except BackendUnavailable:
            current = None
        raise Conflict(filename, expected="absent", current=current)


def _demand_there(draft: Draft, filename: str) -> None:
    if draft.read(filename) is None:
        raise MemoryNotFound(f"there is no memory {filename!r}; list the memories to see their file names")


def _start_of(filename: str, expected: str | None, current: bytes, bases: Mapping[str, bytes]) -> bytes:
    """Return the bytes that a change was made from: what is there, or an older version that is still known."""
    if expected is None or version_of(current) == expected:
        return current
    if expected not in bases:
        raise Conflict(filename, expected=expected, current=current)
    return bases[expected]


def _merge(base: bytes, ours: bytes, theirs: bytes, *, filename: str) -> bytes:
    """Return ``theirs`` with what turned ``base`` into ``ours``; that is ``ours`` when nobody else changed anything."""
    data = merge_files(base, ours, theirs, filename=filename).data
    if data is None:
        raise Conflict(filename, expected=version_of(base), current=theirs)
    return data


def _follow_in_index(draft: Draft, filename: str, old: Document, *, name: str | None, description: str | None) -> None:
    """Let a file's line follow its new name and description; None: that one stays.

    A title or hook that a person worded otherwise than the file did is theirs and stays.
    """
    entry = draft.entry(filename)
    if entry is None:
        return
    draft.index_text = change_entry(
        draft.index_text,
        filename,
        title=name if entry.title == old.name else None,
        hook=description if is_own_hook(entry, old.description) else None,
    )
