"""An agent whose memory lives in a Docker container, and is read back from a second session of it.

Needs ``pip install "agentic-memory[docker]"`` and a Docker engine. Name an image that has ``sh`` (any Debian, Alpine or
BusyBox will do), or with ``--container`` a container that runs already, for one that AgentScope's ``DockerWorkspace``
made for example. Between the two sessions the container is stopped and started again. With no key for a model set, an
offline stand-in takes the model's place.
"""

import argparse
import asyncio
import os
import sys

from agentscope.agent import Agent
from agentscope.message import UserMsg
from agentscope.permission import AdditionalWorkingDirectory, PermissionContext, PermissionMode
from agentscope.state import AgentState
from agentscope.tool import Toolkit

from agentic_memory import AgenticMemoryMiddleware
from agentic_memory.backends import DockerBackend
from agentic_memory.models import model_from_environment
from agentic_memory.tools import Edit, Read, Write

WORKDIR = "/workspace"


def make_agent(backend: DockerBackend) -> Agent:
    """Return an agent that works in the container and may write there without asking."""
    allowed = AdditionalWorkingDirectory(path=WORKDIR, source="example")
    return Agent(
        name="Friday",
        system_prompt="You are a helpful assistant named Friday.",
        model=model_from_environment(os.environ),
        toolkit=Toolkit(tools=[Read(backend=backend), Write(backend=backend), Edit(backend=backend)]),
        middlewares=[AgenticMemoryMiddleware(workdir=WORKDIR, backend=backend)],
        state=AgentState(
            permission_context=PermissionContext(
                mode=PermissionMode.ACCEPT_EDITS, working_directories={WORKDIR: allowed}
            )
        ),
    )


async def ask(container: str, message: str) -> None:
    """Let a new agent answer over a new connection: only the files in the container connect one with the next."""
    async with DockerBackend(container, WORKDIR) as backend:
        reply = await make_agent(backend).reply(UserMsg("user", message))
    print(f"user: {message}\nFriday: {reply.get_text_content()}\n")


async def show_files(container: str) -> None:
    """Print the Markdown files that the agents left."""
    async with DockerBackend(container, WORKDIR) as backend:
        tree = await backend.snapshot(f"{WORKDIR}/Memory", suffix=".md")
    for record in tree.files:
        print(f"{tree.root}/{record.path}\n{(record.data or b'').decode()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("image", nargs="?", help="image to make a container of; it is removed at the end")
    parser.add_argument("--container", help="id or name of a running container, which stays")
    options = parser.parse_args()
    if not (options.image or options.container):
        parser.error("name an image, or a running container with --container")

    import docker
    from docker.errors import DockerException

    try:
        client = docker.from_env()
    except DockerException as exc:
        sys.exit(f"no Docker engine answers ({exc}); scripts/docker-engine start gives one")
    made = None
    if options.container:
        container = client.containers.get(options.container)
    else:
        made = container = client.containers.run(
            options.image, ["sleep", "3600"], detach=True, network_mode="none", init=True
        )
    identity = str(container.id)
    try:
        container.exec_run(["mkdir", "-p", WORKDIR])
        asyncio.run(ask(identity, "Remember that I live in Hangzhou and prefer concise Chinese answers."))
        if made is not None:
            made.stop(timeout=1)
            made.start()
        asyncio.run(ask(identity, "Do you remember my location and answer style preference?"))
        asyncio.run(show_files(identity))
    finally:
        if made is not None:
            made.remove(force=True)
        client.close()


if __name__ == "__main__":
    main()
