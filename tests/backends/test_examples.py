"""The local and the Docker example run as they stand; the E2B one has a module of its own."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

pytest_plugins = ["docker_fixtures"]

EXAMPLES = Path(__file__).parents[2] / "examples"


async def run_example(name: str, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(EXAMPLES / name), *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "AGENTIC_MEMORY_MODEL": "offline"},
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


def check_recall(output: str) -> None:
    answer = output.split("Do you remember", 1)[1]
    assert "Hangzhou" in answer.split("/Memory/MEMORY.md", 1)[0]
    assert "Hangzhou" in answer.split("/Memory/MEMORY.md", 1)[1], "the files are shown, and say so"


async def test_the_local_example_recalls_with_a_new_agent(tmp_path):
    check_recall(await run_example("local_memory.py", str(tmp_path)))
    assert (tmp_path / "Memory" / "MEMORY.md").read_text(encoding="utf-8").count("\n") == 2


@pytest.mark.docker
async def test_the_docker_example_recalls_after_the_container_was_restarted(busybox):
    check_recall(await run_example("docker_workspace.py", busybox.image.tags[0]))
