"""Look at the files of a memory on this machine, as any program would."""

from pathlib import Path


def read_files(root: Path) -> dict[str, bytes]:
    """Return every file below ``root`` by its path there; none when there is no such directory."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
