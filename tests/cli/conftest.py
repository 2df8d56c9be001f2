"""Run the command line in this process, as a shell would."""

from dataclasses import dataclass

import pytest

from agentic_memory.cli import main
from agentic_memory.models import CHOICE_VARIABLE, PROVIDERS


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """No key of whoever runs the tests, and one width for everybody."""
    for provider in PROVIDERS:
        monkeypatch.delenv(provider.variable, raising=False)
        monkeypatch.delenv(provider.base_url_variable or "-", raising=False)
    for name in (CHOICE_VARIABLE, "VISUAL", "EDITOR", "AGENTIC_MEMORY_DEBUG", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def memory(tmp_path):
    """Three memories and an index, as a person may have left them."""
    directory = tmp_path / "Memory"
    (directory / "team").mkdir(parents=True)
    (directory / "user_profile.md").write_text(
        "---\nname: Profile\ndescription: Who the user is\ntype: user\nmood: calm\n---\n\nLives in Hangzhou.\n"
    )
    (directory / "team" / "deploy.md").write_bytes(
        b"---\r\nname: Deploy\r\ndescription: How to deploy\r\ntype: project\r\n---\r\n\r\nRun make deploy.\r\n"
    )
    (directory / "饮食.md").write_text("---\nname: 饮食\ndescription: 吃什么\ntype: user\n---\n\n对花生过敏。\n")
    (directory / "MEMORY.md").write_text(
        "# Mine\n\n- [Profile](user_profile.md) — Who the user is\n- [Deploy](team/deploy.md) — How to deploy\n"
        "- [饮食](饮食.md) — 吃什么\n"
    )
    return directory
