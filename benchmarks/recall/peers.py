"""Peers in an environment of their own: their packages do not agree with AgentScope's."""

import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from contenders import Select
from datasets import Store

Figures = dict[str, float]
PROGRAM = Path(__file__).with_name("peer_programs.py")
PEERS = {
    "rank-bm25": "rank-bm25",
    "bm25s": "bm25s",
    "tantivy": "tantivy",
    "ReMe, keywords": "reme",
    "Mem0, local encoder": "mem0",
}


def peers_of(python: Path) -> dict[str, Callable[[Store], Select]]:
    """Return the peers, run by ``python`` of an environment with ``requirements-peers.txt``."""
    return {label: partial(_start, python, peer) for label, peer in PEERS.items()}


def measure_peer(
    python: Path, peer: str, files: dict[str, str], questions: list[str], edits: dict[str, str]
) -> Figures:
    """Return what building, searching and editing cost a peer."""
    figures: Figures = _speak_to(python, peer)({"peer": peer, "files": files, "questions": questions, "edits": edits})
    return figures


def _start(python: Path, peer: str, store: Store) -> Select:
    ask = _speak_to(python, peer)
    ask({"peer": peer, "files": {name: data.decode() for name, data in store.files.items()}})
    return ask


def _speak_to(python: Path, peer: str) -> Callable[[object], Any]:
    complaints = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - as long as the process; a pipe that nobody reads would fill up
    process = subprocess.Popen(
        [python, PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, encoding="utf-8"
    )

    def ask(message: object) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            complaints.seek(0)
            raise SystemExit(f"{peer}: {complaints.read()}")
        return json.loads(answer)

    return ask
