"""watch, as a real process: problems come and go as files change under it."""

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading

import pytest

GOOD = "---\nname: C\ndescription: When merging\ntype: user\n---\n"
BAD = GOOD.replace("When merging", "Rule: never")
PATIENCE_SECONDS = 30


class Watcher:
    def __init__(self, workdir, *, without_extra: bool = False) -> None:
        start = "import sys; sys.modules['watchfiles'] = None; " if without_extra else ""
        code = f"{start}from agentic_memory.cli import main; main(['watch'])"
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            cwd=workdir,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Where the tests run in the background of a script, Ctrl-C is ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no threads matter yet
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self.seen: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def wait_for(self, part: str) -> str:
        while True:
            line = self._lines.get(timeout=PATIENCE_SECONDS)
            self.seen.append(line)
            if part in line:
                return line

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self.process.stdout.close()
        return code


@pytest.fixture
def watch(memory):
    started = []

    def start(**arguments):
        started.append(Watcher(memory.parent, **arguments))
        return started[-1]

    yield start
    for watcher in started:
        if watcher.process.poll() is None:
            watcher.process.kill()
            watcher.process.wait()


@pytest.mark.parametrize("without_extra", [False, True])
def test_problems_are_told_when_they_come_and_when_they_go(watch, memory, without_extra):
    (memory / "MEMORY.md").write_text((memory / "MEMORY.md").read_text() + "- [C](c.md) — When merging\n")
    (memory / "c.md").write_text(GOOD)
    watcher = watch(without_extra=without_extra)
    watcher.wait_for("watching")
    (memory / "c.md").write_text(BAD)
    assert watcher.wait_for("frontmatter-not-yaml").startswith("c.md:3: warning: ")
    (memory / "c.md").write_text(GOOD)
    assert watcher.wait_for("gone").startswith("c.md: gone: the frontmatter is not YAML")
    assert watcher.stop() == 0
    assert not any("Traceback" in line for line in watcher.seen)
    assert sum("not YAML" in line for line in watcher.seen) == 2, "only what is new and what is gone"
    assert any('pip install "agentic-memory[watch]"' in line for line in watcher.seen) == without_extra


def test_a_directory_may_be_made_later_and_go_away_and_come_back(watch, memory):
    kept = memory.parent / "kept"
    os.rename(memory, kept)
    watcher = watch()
    watcher.wait_for("is not there; waiting for it")
    shutil.copytree(kept, memory)
    watcher.wait_for("nothing to mend")
    shutil.rmtree(memory)
    watcher.wait_for("is not there; waiting for it")
    os.rename(kept, memory)
    watcher.wait_for("watching")
    assert not any("gone" in line for line in watcher.seen), "what cannot be seen is not gone"
    (memory / "c.md").write_text(BAD)
    watcher.wait_for("not-in-index")
    assert watcher.stop() == 0
    assert not (memory / ".history").exists()
