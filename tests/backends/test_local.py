"""LocalBackend keeps every promise of the seam on a real file system."""

from typing import ClassVar

import pytest

from agentic_memory.testing import BackendContract


class TestLocalBackend(BackendContract):
    lacks: ClassVar = {}

    @pytest.fixture
    async def place(self, local_place):
        return local_place
