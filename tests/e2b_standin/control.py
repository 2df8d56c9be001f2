"""How tests start the stand-in, point the SDK at it and make things go wrong."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Self

STOP_SECONDS = 10


def why_unavailable() -> str:
    """Say why the stand-in cannot run here; empty when it can."""
    if not sys.platform.startswith("linux"):
        return "the E2B stand-in needs Linux: each sandbox is a process tree in namespaces of its own"
    missing = [name for name in ("setpriv", "unshare", "bash") if shutil.which(name) is None]
    if missing:
        return f"the E2B stand-in needs {' and '.join(missing)}"
    flags = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    probe = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", *flags, "true"], capture_output=True, text=True, check=False
    )
    return f"the E2B stand-in may not make namespaces here: {probe.stderr.strip()}" if probe.returncode else ""


class StandIn:
    """A running stand-in. Use it as a context manager."""

    def __init__(self, *, envd_version: str = "0.6.13", max_seconds: float = 900) -> None:
        folder = Path(__file__).resolve().parent
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", folder.name, f"--envd-version={envd_version}", f"--max-seconds={max_seconds}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder.parent), os.environ.get("PYTHONPATH", "")])},
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the E2B stand-in did not start: exit code {self._process.wait()}")
        self.url: str = json.loads(line)["url"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the server with all its sandboxes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make the SDK talk to this server."""
        return {"E2B_API_KEY": "local", "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}

    @property
    def options(self) -> dict[str, str]:
        """The same as arguments, for tests that talk to the cloud beside it."""
        return {"api_key": "local", "api_url": self.url, "sandbox_url": self.url}

    async def fault(self, route: str, **fields: Any) -> None:
        """Make something go wrong; ``fields`` are those of ``faults.Fault``, ``route`` is like ``"POST /files"``."""
        await self._ask("POST", "/faults", {"route": route, **fields})

    async def clear(self) -> int:
        """Let nothing more go wrong; return how many faults had not struck."""
        return int(await self._ask("DELETE", "/faults"))

    async def calls(self) -> list[str]:
        """Return the requests since the last time that this was asked, as ``"METHOD /path"``."""
        return list(await self._ask("GET", "/calls"))

    async def change(self, sandbox_id: str, state: str) -> None:
        """``kill``, ``pause`` or ``expire`` a sandbox behind the SDK's back."""
        await self._ask("POST", f"/sandboxes/{sandbox_id}/{state}")

    async def _ask(self, method: str, path: str, message: object = None) -> Any:
        return await asyncio.to_thread(self._request, method, path, message)

    def _request(self, method: str, path: str, message: object) -> Any:
        request = urllib.request.Request(
            f"{self.url}/_standin{path}", method=method, data=json.dumps(message).encode() if message else None
        )
        with urllib.request.urlopen(request, timeout=STOP_SECONDS) as answer:
            return json.loads(answer.read() or b"null")
