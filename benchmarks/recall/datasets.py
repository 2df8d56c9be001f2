"""Data sets: memory files as bytes, and questions with the files that answer them."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from agentic_memory.document import render_document

DATA = Path(__file__).parent.parent / "data"


@dataclass(frozen=True, slots=True)
class Question:
    """One question. ``needed`` is empty when no memory answers it."""

    text: str
    needed: frozenset[str]
    kind: str
    language: str
    split: str


@dataclass(frozen=True, slots=True)
class Store:
    """One memory directory, oldest file first, and what is asked of it."""

    name: str
    files: dict[str, bytes]
    questions: tuple[Question, ...]


def load_own(data: Path = DATA) -> list[Store]:
    """Load the bilingual set that ships: one store, half of its questions for tuning."""
    files = dict(entry for name in ("memories.en.txt", "memories.zh.txt") for entry in _read_memories(data / name))
    # Which file is old and which is new must not follow the order they are listed in, English first.
    files = dict(sorted(files.items(), key=lambda entry: crc32(entry[0].encode())))
    questions = tuple(_read_questions(data / "questions.tsv"))
    if missing := {name for question in questions for name in question.needed} - files.keys():
        raise SystemExit(f"{data}/questions.tsv: no such memory: {', '.join(sorted(missing))}")
    return [Store("own", files, questions)]


def _read_memories(path: Path) -> Iterator[tuple[str, bytes]]:
    for entry in re.split(r"^@@ ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        head, _, body = entry.partition("\n")
        filename, kind, name, description = (field.strip() for field in head.split("|"))
        yield filename, render_document(name=name, description=description, type=kind, content=body.strip())


def _read_questions(path: Path) -> Iterator[Question]:
    for line in path.read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            language, kind, text, needed = line.split("\t")
            yield Question(text, frozenset(filter(None, needed.split(","))), kind, language, split_of(text))


def split_of(text: str) -> str:
    """Say whether a question is for tuning or for reporting: by its text, so that adding one moves no other."""
    return "dev" if crc32(text.encode()) % 2 else "test"


LOCOMO_KINDS = {1: "several sessions", 2: "time", 3: "inference", 4: "one session", 5: "adversarial"}
_TURN = re.compile(r"D(\d+):")


def load_locomo(path: Path) -> list[Store]:
    """Load LoCoMo's JSON: one store per conversation, one file per session. Nothing of it is ever written."""
    return [_locomo_store(number, sample) for number, sample in enumerate(json.loads(path.read_text("utf-8")))]


def _locomo_store(number: int, sample: dict[str, Any]) -> Store:
    talk = sample["conversation"]
    sessions = sorted(int(key[8:]) for key in talk if re.fullmatch(r"session_\d+", key))
    files = {
        f"session_{session}.md": render_document(
            name=f"Session {session}",
            description=f"Conversation at {talk[f'session_{session}_date_time']}",
            type="reference",
            content="\n\n".join(_turns(talk[f"session_{session}"])),
        )
        for session in sessions
    }
    questions = []
    for item in sample["qa"]:
        found = {f"session_{session}.md" for entry in item["evidence"] for session in _TURN.findall(entry)}
        if found:  # a few questions name no evidence at all
            kind = LOCOMO_KINDS[item["category"]]
            # Parameters were chosen on conversations 0 and 2 only; the others are the report.
            split = "dev" if number in {0, 2} else "test"
            questions.append(Question(item["question"], frozenset(found), kind, "en", split))
    return Store(f"locomo-{number}", files, tuple(questions))


def _turns(turns: Sequence[dict[str, Any]]) -> Iterator[str]:
    for turn in turns:
        caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
        yield f"{turn['speaker']}: {turn['text']}{caption}"
