"""The shell protocol keeps every promise, on three shells and two userlands, with raw and with text answers."""

from typing import ClassVar

import pytest
from shell_place import SHELLS, find_shell, subprocess_place

from agentic_memory.testing import BackendContract


class TestShellBackend(BackendContract):
    many: ClassVar = 2_000

    @pytest.fixture(params=[*SHELLS, "dash-text"])
    async def place(self, request, tmp_path):
        shell, _, text = request.param.partition("-")
        if not find_shell(shell)[0]:
            pytest.skip(f"there is no {shell} on this machine")
        yield subprocess_place(shell, tmp_path, text_only=bool(text))
