"""Six agents, two people and accidents on one memory; exit 1 if anything was lost."""

import argparse
import sys
import tempfile
from contextlib import closing
from functools import partial

import docker
from docker_place import IMAGES, new_workdir

from chaos.account import Account
from chaos.places import ContainerPlace, LocalPlace
from chaos.run import run_chaos

# An out-of-memory killer might: every process but those that hold the container up.
# Not the process that keeps the container up, whatever number it got.
_KILL = """for p in /proc/[0-9]*; do
    p=${p#/proc/}; read -r name 2>/dev/null </proc/$p/comm
    [ $p -gt 1 ] && [ $p != $$ ] && [ "$name" != sleep ] && kill -9 $p
done"""


def main() -> None:
    """Run as the arguments say."""
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("place", choices=["local", "docker"], nargs="?", default="local")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.place == "local":
        account = run_locally(arguments.seconds, seed=arguments.seed)
    else:
        with closing(docker.from_env()) as client:
            account = run_in_container(client, arguments.seconds, seed=arguments.seed)
    print(account.render())
    sys.exit(not account.is_clean)


def run_locally(seconds: float, *, seed: int) -> Account:
    """Run in a fresh directory of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        return run_chaos(LocalPlace(f"{folder}/Memory"), seconds=seconds, seed=seed)


def run_in_container(client: docker.DockerClient, seconds: float, *, seed: int) -> Account:
    """Run in a container of its own, where the processes at work are killed too."""
    container = client.containers.run(
        IMAGES["debian"], ["sleep", str(int(seconds) + 600)], detach=True, network_mode="none", init=True
    )
    try:
        place = ContainerPlace(f"{new_workdir(container)}/Memory", container.id)
        accident = partial(container.exec_run, ["sh", "-c", _KILL])
        return run_chaos(place, seconds=seconds, seed=seed, accident=accident)
    finally:
        container.remove(force=True, v=True)


if __name__ == "__main__":
    main()
