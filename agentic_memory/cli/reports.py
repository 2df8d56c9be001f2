"""Problems in the forms that other programs take: SARIF 2.1.0 and GitHub's workflow commands."""

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from agentic_memory.cli.output import one_line
from agentic_memory.values import Problem

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

_SARIF_LEVELS: Final = MappingProxyType({"error": "error", "warning": "warning", "info": "note"})
_GITHUB_LEVELS: Final = MappingProxyType({"error": "error", "warning": "warning", "info": "notice"})
_ESCAPED: Final = re.compile("[%\r\n]")
_ESCAPED_IN_PROPERTY: Final = re.compile("[%\r\n:,]")


def as_sarif(problems: Sequence[Problem], *, root: str) -> dict[str, Any]:
    """Return a SARIF log of one run.

    Args:
        problems: What was found.
        root: The memory directory. Files are named relative to the working directory where it holds them, as code
            scanning wants it of a checkout.
    """
    rules: dict[str, dict[str, Any]] = {}
    for problem in problems:
        rules.setdefault(
            problem.code,
            {
                "id": problem.code,
                "shortDescription": {"text": problem.code.replace("-", " ")},
                "defaultConfiguration": {"level": _SARIF_LEVELS[problem.severity]},
            },
        )
    places = {code: at for at, code in enumerate(rules)}
    driver = {
        "name": "agentic-memory",
        "version": version("agentic-memory"),
        "rules": [*rules.values()],
    }
    results = [_as_result(problem, places[problem.code], root) for problem in problems]
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}],
    }


def _as_result(problem: Problem, rule: int, root: str) -> dict[str, Any]:
    path = _path_of(problem, root)
    uri = quote(path, safe="/", errors="surrogateescape")
    place: dict[str, Any] = {"artifactLocation": {"uri": f"file://{uri}" if path.startswith("/") else uri}}
    if problem.line is not None:
        place["region"] = {"startLine": problem.line}
    return {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": _SARIF_LEVELS[problem.severity],
        "message": {"text": one_line(f"{problem.message}; {problem.fix}")},
        "locations": [{"physicalLocation": place}],
    }


def as_github(problems: Iterable[Problem], *, root: str) -> list[str]:
    """Return a workflow command per problem, which a GitHub workflow shows at its line of the pull request."""
    lines: list[str] = []
    for problem in problems:
        properties = {"file": _path_of(problem, root), "line": problem.line, "title": problem.code}
        written = ",".join(
            f"{name}={_escape(str(value), _ESCAPED_IN_PROPERTY)}"
            for name, value in properties.items()
            if value is not None
        )
        message = _escape(one_line(f"{problem.message}; {problem.fix}"), _ESCAPED)
        lines.append(f"::{_GITHUB_LEVELS[problem.severity]} {written}::{message}")
    return lines


def _escape(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _path_of(problem: Problem, root: str) -> str:
    path = Path(root) / problem.file
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.as_posix()
