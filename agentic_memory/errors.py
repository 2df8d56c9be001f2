"""Everything that can go wrong, as one tree.

::

    AgenticMemoryError
    ├── BackendUnavailable (OSError)      it cannot be told what is there, or it cannot be written
    ├── Conflict                          the file is not what the writer expected; nothing was written
    ├── InvalidMemory (ValueError)        what was to be stored is not a memory
    │   └── WriteRefused                  it would do harm: text would be lost, or a secret written down
    ├── MemoryNotFound (FileNotFoundError)  there is no memory of that name
    ├── MissingIdentity (ValueError)      a memory of one user, agent, project or session, and nobody said of which
    └── UnsafePath (ValueError)           a path that leaves the memory directory, or is no file

A malformed memory *file* is never an error: it is data with a list of problems.
"""

from collections.abc import Sequence

from agentic_memory.values import Objection


class AgenticMemoryError(Exception):
    """Base of every error this package raises."""


class BackendUnavailable(AgenticMemoryError, OSError):
    """The place where the bytes live cannot answer, or cannot write.

    It means "cannot tell", never "absent": whoever catches it must not go on as if the files were gone.
    """


class Conflict(AgenticMemoryError):
    """A precondition did not hold, so nothing was changed.

    Attributes:
        path: The file that was not as expected.
        expected: The version the writer had, or a word for the precondition ("absent").
        current: The bytes that are there now; None when there is no file.
    """

    def __init__(
        self,
        path: str,
        *,
        expected: str,
        current: bytes | None,
        advice: str = "read it again and repeat the change",
    ) -> None:
        state = "it is gone" if current is None else "it has other content"
        super().__init__(f"{path}: expected {expected[:12]}, but {state}; {advice}")
        self.path = path
        self.expected = expected
        self.current = current
        self._advice = advice

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the error picklable although its arguments are keywords."""
        return (_rebuild_conflict, (self.path, self.expected, self.current, self._advice))


def _rebuild_conflict(path: str, expected: str, current: bytes | None, advice: str) -> Conflict:
    return Conflict(path, expected=expected, current=current, advice=advice)


class InvalidMemory(AgenticMemoryError, ValueError):
    """What was to be stored is not a memory file that could be read back."""


class WriteRefused(InvalidMemory):
    """A guard objects to what was to be written, so nothing was.

    Attributes:
        filename: The file that was to be written.
        objections: What is wrong, in words that a model can act on; never empty.
    """

    def __init__(self, filename: str, objections: Sequence[Objection]) -> None:
        reasons = "; ".join(objection.message.rstrip(".") for objection in objections)
        super().__init__(f"{filename} was not written: {reasons}")
        self.filename = filename
        self.objections = tuple(objections)

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the error picklable although its message is made of its arguments."""
        return (WriteRefused, (self.filename, self.objections))


class MemoryNotFound(AgenticMemoryError, FileNotFoundError):
    """There is no memory of that name."""


class MissingIdentity(AgenticMemoryError, ValueError):
    """A memory is kept apart by an id that is not known. Nothing is read or written: there is no memory for nobody."""


class UnsafePath(AgenticMemoryError, ValueError):
    """A path that leaves the memory directory, holds a NUL, or names something that is not a file."""
