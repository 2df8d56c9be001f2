"""What goes wrong on demand. A fault waits for requests to a route and is used up by them."""

import re
from dataclasses import dataclass, field


@dataclass(slots=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        route: Pattern that the whole of ``"METHOD /path"`` must match.
        times: For how many requests; skip lets so many pass first.
        delay: Seconds before anything happens.
        status: Answer so, with ``body`` and ``headers``, in the sandbox's place.
        drop: Close the connection without an answer.
        after: ``status``, ``drop`` and ``state`` come after the work was done, not in its place.
        cut_request: Pass on so many bytes of the request's body, then close both connections.
        cut_reply: Pass on so many bytes of the reply's body, then close the connection.
        state: What becomes of the sandbox: ``kill``, ``pause`` or ``expire``; with ``cut_reply``, at the cut.
    """

    route: str
    times: int = 1
    skip: int = 0
    delay: float = 0
    status: int = 0
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    after: bool = False
    cut_request: int | None = None
    cut_reply: int | None = None
    state: str = ""


NO_FAULT = Fault("")


class Faults:
    """The faults that wait."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Let ``fault`` wait for its requests, after those that were added before."""
        re.compile(fault.route)
        self._waiting.append(fault)

    def clear(self) -> int:
        """Forget all faults and return how many were still waiting."""
        waiting = len(self._waiting)
        self._waiting.clear()
        return waiting

    def take(self, method: str, path: str) -> Fault:
        """Return the fault that strikes this request, counting it down."""
        for fault in self._waiting:
            if not re.fullmatch(fault.route, f"{method} {path}"):
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.times -= 1
            if fault.times <= 0:
                self._waiting.remove(fault)
            return fault
        return NO_FAULT
