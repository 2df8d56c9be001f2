"""The shell protocol keeps every promise, on three shells and two userlands, with raw and with text answers."""

from typing import ClassVar

import pytest
from shell_place import find_shell, subprocess_place

from agentic_memory.testing import BackendContract, LinkContract, WritingContract

MANY = 2_000


class ShellPlace:
    """What the contracts here share."""

    shell: ClassVar[str]
    text_only: ClassVar[bool] = False
    many: ClassVar = MANY

    @pytest.fixture
    async def place(self, tmp_path):
        if not find_shell(self.shell)[0]:
            pytest.skip(f"there is no {self.shell} on this machine")
        return subprocess_place(self.shell, tmp_path, text_only=self.text_only)


class TestDash(ShellPlace, BackendContract):
    shell: ClassVar = "dash"


class TestBusyBoxWithTextAnswers(ShellPlace, BackendContract):
    shell: ClassVar = "busybox"
    text_only: ClassVar = True


class TestBash(ShellPlace, WritingContract, LinkContract):
    shell: ClassVar = "bash"
