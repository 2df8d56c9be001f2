"""The conformance kit: what every ``Backend`` has to show before a memory may rest on it.

Give it one fixture, and every promise of ``agentic_memory.backends.base`` is put to the test at your place::

    from typing import ClassVar
    import pytest
    from agentic_memory.testing import BackendContract, Place

    class TestMyBackend(BackendContract):
        lacks: ClassVar = {"owners": "the service runs everything as one user"}

        @pytest.fixture
        async def place(self, tmp_path):
            backend = MyBackend(...)
            yield Place(backend=backend, root="/data/memory", outside="/data/other", run=my_shell)
            await backend.aclose()

``root`` and ``outside`` are absolute paths in the backend's own terms, fresh for every test; neither exists yet, and the
directory above them does. ``run`` takes a POSIX ``sh`` script, runs it at the place and returns what it printed; it is
how a test does things "by hand" (symlinks, FIFOs, modes). Without it the tests that need it are skipped and say so.
What your place cannot do is declared in ``lacks``, one reason per capability; a skip shows the reason. The tests are
coroutines: run them with pytest-asyncio (``asyncio_mode = "auto"``) and install ``agentic-memory[test]``.

The groups live in modules of their own and can be used alone: ``ReadingContract``, ``WritingContract``,
``NamingContract``, ``LinkContract``, ``RaceContract``.
"""

import pytest

pytest.register_assert_rewrite(
    "agentic_memory.contract_links",
    "agentic_memory.contract_naming",
    "agentic_memory.contract_races",
    "agentic_memory.contract_reading",
    "agentic_memory.contract_writing",
)

from agentic_memory.contract_links import LinkContract  # noqa: E402 - asserts are rewritten on import
from agentic_memory.contract_naming import NamingContract  # noqa: E402
from agentic_memory.contract_place import CAPABILITIES, Place  # noqa: E402
from agentic_memory.contract_races import RaceContract  # noqa: E402
from agentic_memory.contract_reading import ReadingContract  # noqa: E402
from agentic_memory.contract_writing import WritingContract  # noqa: E402

__all__ = [
    "CAPABILITIES",
    "BackendContract",
    "LinkContract",
    "NamingContract",
    "Place",
    "RaceContract",
    "ReadingContract",
    "WritingContract",
]


class BackendContract(ReadingContract, WritingContract, NamingContract, LinkContract, RaceContract):
    """Every promise of a backend, as tests. Subclass it and give it the fixture ``place``."""
