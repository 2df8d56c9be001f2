"""Six agents, two people and accidents on one memory; exit 1 if anything was lost."""

import argparse
import random
import sys
import tempfile

from chaos.places import ContainerPlace, LocalPlace
from chaos.run import run_chaos


def main() -> None:
    """Run as the arguments say."""
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    parser.add_argument("place", choices=["local", "docker"], nargs="?", default="local")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.place == "local":
        with tempfile.TemporaryDirectory() as folder:
            account = run_chaos(LocalPlace(f"{folder}/Memory"), seconds=arguments.seconds, seed=arguments.seed)
    else:
        account = _in_container(arguments.seconds, arguments.seed)
    print(account.render())
    sys.exit(not account.is_clean)


def _in_container(seconds: float, seed: int):
    import docker
    from docker_place import IMAGES, new_workdir

    client = docker.from_env()
    container = client.containers.run(
        IMAGES["debian"], ["sleep", str(int(seconds) + 600)], detach=True, network_mode="none", init=True
    )
    try:
        workdir = new_workdir(container)
        place = ContainerPlace(f"{workdir}/Memory", container.id)
        return run_chaos(place, seconds=seconds, seed=seed, accident=lambda chance: _strike(container, chance))
    finally:
        container.remove(force=True, v=True)
        client.close()


def _strike(container, chance: random.Random) -> None:
    """Stop the container for a moment, or kill every shell that runs in it."""
    if chance.random() < 0.5:
        container.pause()
        container.unpause()
    else:
        container.exec_run(
            ["sh", "-c", "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p -gt 7 ] && [ $p != $$ ] && kill -9 $p; done"]
        )


if __name__ == "__main__":
    main()
