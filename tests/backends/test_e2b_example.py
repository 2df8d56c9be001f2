"""The E2B example runs as it stands, here against the stand-in."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

pytest_plugins = ["e2b_place"]
pytestmark = pytest.mark.e2b

EXAMPLE = Path(__file__).parents[2] / "examples" / "e2b_workspace.py"


async def run_example(**environment: str) -> tuple[int | None, str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("E2B_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(EXAMPLE)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=inherited | {"AGENTIC_MEMORY_MODEL": "offline"} | environment,
    )
    output, errors = await process.communicate()
    return process.returncode, output.decode(), errors.decode()


async def test_the_example_reads_its_memory_back_from_a_second_session(standin):
    code, output, errors = await run_example(**standin.environment)
    assert code == 0, errors
    answer, files = output.split("Do you remember", 1)[1].split("/home/user/workspace/Memory/MEMORY.md")
    assert "Hangzhou" in answer
    assert "Hangzhou" in files
    assert "Chinese" in files


async def test_without_a_key_the_example_says_what_it_needs():
    code, _, errors = await run_example()
    assert code == 2
    assert "E2B_API_KEY" in errors
