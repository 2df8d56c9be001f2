"""Checking and mending a memory as it was seen in one look."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from agentic_memory.backends import ABSENT, Obstacle
from agentic_memory.check import DEFAULT_INDEX_TOKENS, check_memory
from agentic_memory.document import Document
from agentic_memory.history.diffs import diff_versions
from agentic_memory.history.past import when_of
from agentic_memory.index import parse_index
from agentic_memory.mending import mend_document, mend_index
from agentic_memory.shelf import INDEX_FILENAME, Snapshot
from agentic_memory.values import Problem, Repair

_LABELS: Final = ("now", "repaired")


def check_snapshot(snapshot: Snapshot) -> list[Problem]:
    """List everything in it that a person should look at. CPU-bound, 4 s for 10,000 files; safe in any thread."""
    documents = {name: document for name, (_, document) in snapshot.documents.items()}
    return [*_check(snapshot, documents, _index_text(snapshot)), *snapshot.place_problems]


def repair_snapshot(snapshot: Snapshot, *, may_drop: bool) -> Repair:
    """Return what can be mended of it, not applied. CPU-bound; safe in any thread.

    Args:
        snapshot: What was seen.
        may_drop: Whether what is taken out of the index can be brought back, so that entries without a file may go.
    """
    before = {name: document for name, (_, document) in snapshot.documents.items()}
    after = {name: mend_document(document, filename=name) for name, document in before.items()}
    changes = {name: document.encode(document.text) for name, document in after.items() if document is not before[name]}
    index = snapshot.index_document
    old_text = new_text = _index_text(snapshot)
    if not isinstance(snapshot.index_record, Obstacle) and index.encoding != "binary":
        mended = mend_index(
            index.text, after, other_paths=_others(snapshot), max_tokens=DEFAULT_INDEX_TOKENS, may_drop=may_drop
        )
        if mended != index.text:
            new_text = mended
            changes[INDEX_FILENAME] = index.encode(mended)
    problems = _check(snapshot, before, old_text)
    left = _check(snapshot, after, new_text) if changes else problems
    return Repair(
        changes=changes,
        diff="".join(_diffs(snapshot, changes)),
        mended=tuple(_gone(problems, left)),
        left=(*left, *snapshot.place_problems),
    )


def _check(snapshot: Snapshot, documents: Mapping[str, Document], index_text: str | None) -> list[Problem]:
    return check_memory(
        documents=documents,
        index=None if index_text is None else parse_index(index_text),
        other_paths=_others(snapshot),
        written={name: when_of(record.mtime_ns).date() for name, (record, _) in snapshot.documents.items()},
    )


def _index_text(snapshot: Snapshot) -> str | None:
    return None if snapshot.index_record is ABSENT else snapshot.index_document.text


def _others(snapshot: Snapshot) -> set[str]:
    others = {record.path for record in snapshot.tree.files} | {item.path for item in snapshot.tree.obstacles}
    return others - {INDEX_FILENAME, *snapshot.documents, *snapshot.unnameable}


def _diffs(snapshot: Snapshot, changes: Mapping[str, bytes]) -> Iterator[str]:
    for name, data in changes.items():
        document = snapshot.index_document if name == INDEX_FILENAME else snapshot.documents[name][1]
        yield diff_versions(document.encode(document.text), data, filename=name, labels=_LABELS)


def _gone(before: Iterable[Problem], after: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of ``before`` that are not among ``after``; their lines may have moved."""
    left = Counter((problem.code, problem.file) for problem in after)
    for problem in before:
        key = (problem.code, problem.file)
        if left[key]:
            left[key] -= 1
        else:
            yield problem
