"""What ships as programs, run as programs."""

import os
import pty
import subprocess
import sys
from pathlib import Path

from agentic_memory.models import CHOICE_VARIABLE

CHECKOUT = Path(__file__).parents[2]
OFFLINE = {CHOICE_VARIABLE: "offline", "AGENTIC_MEMORY_DEMO_PYTHON": sys.executable}


def execute(*command, **options):
    options.setdefault("env", {**os.environ, **OFFLINE})
    return subprocess.run([*map(str, command)], capture_output=True, encoding="utf-8", check=False, **options)


def test_the_demo_recalls_in_a_second_process_and_shows_the_files(tmp_path):
    workdir = tmp_path / ".hidden" / "a place 记忆"
    ran = execute(CHECKOUT / "scripts" / "demo", workdir)
    assert ran.returncode == 0, ran.stderr
    assert "From memory:" in ran.stdout
    assert str(workdir / "Memory" / "location.md") in ran.stdout
    assert ran.stdout.rstrip().endswith("recalled")


def test_the_demo_fails_when_nothing_is_recalled(tmp_path):
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\nmkdir -p Memory\necho nothing\n")
    silent.chmod(0o755)
    (tmp_path / "w" / "Memory").mkdir(parents=True)
    env = {**os.environ, "AGENTIC_MEMORY_DEMO_PYTHON": str(silent)}
    ran = execute(CHECKOUT / "scripts" / "demo", tmp_path / "w", cwd=tmp_path, env=env)
    assert ran.returncode == 1
    assert "did not recall Hangzhou" in ran.stderr


def test_the_local_example_runs_as_it_stands(tmp_path):
    ran = execute(sys.executable, "-P", CHECKOUT / "examples" / "local_memory.py", tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "user_location.md: I live in Hangzhou" in ran.stdout
    assert (tmp_path / "Memory" / "MEMORY.md").exists()


def test_colours_and_headings_are_for_terminals_only(tmp_path):
    (tmp_path / "Memory").mkdir()
    (tmp_path / "Memory" / "a.md").write_text('---\nname: "A\\e[2J"\ndescription: d\ntype: user\n---\n\n\x1b[2Jtext\n')
    command = [sys.executable, "-P", "-m", "agentic_memory.cli", "list", "-C", str(tmp_path)]
    assert "\x1b" not in execute(*command).stdout
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    for name in ("NO_COLOR", "CI"):
        env.pop(name, None)
    done = subprocess.run(command, stdout=theirs, env=env, check=False)
    os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        out = terminal.read1().decode()
    assert done.returncode == 0
    assert "\x1b[" in out
    assert "description" in out
    assert "\x1b[2J" not in out


def test_help_and_wrong_use_do_not_wait_for_agentscope():
    code = (
        "import sys\nfrom agentic_memory.cli import main\n"
        "try: main(['chat', '--help'])\nexcept SystemExit: pass\n"
        "assert 'agentscope' not in sys.modules, 'agentscope was imported'\n"
    )
    ran = execute(sys.executable, "-P", "-c", code)
    assert ran.returncode == 0, ran.stderr


def test_a_reader_that_goes_away_gets_no_complaint(tmp_path):
    (tmp_path / "Memory").mkdir()
    for number in range(300):
        (tmp_path / "Memory" / f"m{number}.md").write_text(f"---\nname: {'x' * 400}\ndescription: d\n---\n")
    command = f"'{sys.executable}' -P -m agentic_memory.cli list -C '{tmp_path}' | head -1"
    ran = execute("bash", "-c", command)
    assert ran.stdout.startswith("m0.md\t")
    assert ran.stderr == ""
