"""Fuzz with atheris, which watches which lines an input reaches and keeps those that reach new ones."""

import argparse
import multiprocessing
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

try:
    import atheris
except ImportError:
    sys.exit("atheris is not installed; scripts/fuzz installs it")

with atheris.instrument_imports(include=["agentic_memory", "fuzz.targets"]):
    from fuzz.corpus import corpus
    from fuzz.targets import TARGETS


def main() -> None:
    """Share the inputs among the targets and run those side by side; exit 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"which: {', '.join(TARGETS)}; all when none is given"
    )
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the same inputs again for the same seed (default: 1)")
    parser.add_argument("--found", type=Path, default=Path("fuzz-findings"), help="where inputs that fail are put")
    arguments = parser.parse_args()
    unknown = set(arguments.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    chosen = arguments.targets or list(TARGETS)
    arguments.found.mkdir(parents=True, exist_ok=True)
    share = -(-arguments.inputs // len(chosen))
    with tempfile.TemporaryDirectory() as folder:
        processes = {}
        for name in chosen:
            place = Path(folder, name)
            place.mkdir()
            for number, data in enumerate(corpus()):
                (place / str(number)).write_bytes(data)
            processes[name] = multiprocessing.Process(
                target=_fuzz, args=(name, share, arguments.seed, place, arguments.found.resolve())
            )
        for process in processes.values():
            process.start()
        for process in processes.values():
            process.join()
    failed = [name for name, process in processes.items() if process.exitcode]
    print(f"{share * len(chosen):,} inputs, {len(chosen)} targets; failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


def _fuzz(name: str, inputs: int, seed: int, place: Path, found: Path) -> None:
    target = TARGETS[name]

    def run(data: bytes) -> None:
        try:
            target(data)
        except BaseException:
            (found / f"{name}-{sha256(data).hexdigest()[:12]}").write_bytes(data)
            raise

    options = [f"-runs={inputs}", f"-seed={seed}", "-max_len=4096", "-verbosity=0"]
    atheris.Setup([f"fuzz {name}", str(place), *options], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
