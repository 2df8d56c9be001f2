"""The cases in an E2B sandbox."""

import pytest

from losses.cases import Losses

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b


class TestE2B(Losses):
    @pytest.fixture
    def place(self, contract_place):
        return contract_place
