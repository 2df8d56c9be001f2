"""Play cases as a user without privileges: ``as_nobody.py DIRECTORY CALL...``, calls by their place in the list.

It prints the cells as JSON, by the call's name.
"""

import asyncio
import json
import os
import sys
from importlib import resources
from pathlib import Path

from agentic_memory import prompts
from faults.case import play_case
from faults.conversation import calls_to_strike
from faults.test_local import DENIED, LocalPlace


async def main(disk: Path, numbers: list[int]) -> dict[str, str]:
    """Play the cases, each in a directory of its own."""
    calls = [calls_to_strike(local=True)[number] for number in numbers]
    return {call.name: await play_case(LocalPlace(disk), DENIED, call) for call in calls}


def read_ahead() -> None:
    """Read what is read late, imports and prompts: the installation may be closed to the user it becomes."""
    calls_to_strike(local=True)
    for prompt in resources.files(prompts).iterdir():
        if prompt.name.endswith(".md"):
            prompts.load_prompt(prompt.name.removesuffix(".md"))


if __name__ == "__main__":
    read_ahead()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    print(json.dumps(asyncio.run(main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]]))))
