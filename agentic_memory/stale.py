"""Changes that were thought out on one look at a memory, and must be thought out anew when it is another by then."""

from collections.abc import Callable

from agentic_memory.shelf import Snapshot


class Stale(Exception):
    """The memory is another than the one that was looked at."""


def unless_changed(planned: Snapshot) -> Callable[[Snapshot], None]:
    """Return a check for ``MemoryStore.apply`` that raises ``Stale`` unless the memory is the one ``planned`` shows."""

    def check(current: Snapshot) -> None:
        if current is not planned and _versions(current) != _versions(planned):
            raise Stale

    return check


def _versions(snapshot: Snapshot) -> dict[str, str]:
    return {record.path: record.version for record in snapshot.tree.files}
