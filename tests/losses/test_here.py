"""The cases in memory and on the local disk."""

import pytest
from memory_place import in_memory_place

from losses.cases import Losses

pytest_plugins = ["local_place"]


class TestInMemory(Losses):
    @pytest.fixture
    def place(self):
        return in_memory_place()


class TestLocal(Losses):
    @pytest.fixture
    def place(self, local_place):
        return local_place
