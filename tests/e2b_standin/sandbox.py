"""One sandbox as the front sees it: a root on disk, a process tree in namespaces, a socket into it."""

import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import sys
from pathlib import Path

from aiohttp import ClientSession, UnixConnector

from e2b_standin import jail

BACKLOG = 128


class Sandbox:
    """A sandbox; its files outlive its processes until ``kill``."""

    def __init__(self, folder: Path, *, environment: dict[str, str]) -> None:
        self.id = folder.name
        self.token = secrets.token_hex(8)
        self.in_flight: set[asyncio.BaseTransport] = set()
        self._folder = folder
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._session: ClientSession | None = None

    @property
    def session(self) -> ClientSession:
        """HTTP into the sandbox."""
        if self._session is None:
            raise ConnectionError("the sandbox is not running")
        return self._session

    async def start(self) -> None:
        """Start the processes, on the files that are there or on a new root, and wait until they answer."""
        root, address = self._folder / "root", self._folder / "envd.sock"
        if not root.exists():
            jail.furnish(root)
        address.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(address))
        listener.listen(BACKLOG)
        with listener:
            self._process = await asyncio.create_subprocess_exec(
                *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"),
                *(() if os.getuid() == 0 else ("--user", "--map-root-user")),
                *(sys.executable, "-P", "-m", "e2b_standin.envd"),
                *(str(root), str(listener.fileno()), self.token, json.dumps(self._environment)),
                stdin=asyncio.subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )
        self._session = ClientSession(connector=UnixConnector(str(address)), auto_decompress=False)
        async with self._session.get("http://envd/health") as answer:
            answer.raise_for_status()

    async def freeze(self) -> None:
        """Stop every process where it is."""
        self._drop_connections()
        self._signal_all(signal.SIGSTOP)

    async def thaw(self) -> None:
        """Let every process go on, or start anew when there is none."""
        if self._process is None:
            await self.start()
        else:
            self._signal_all(signal.SIGCONT)

    async def stop(self) -> None:
        """End every process; the files stay."""
        self._drop_connections()
        if self._session is not None:
            await self._session.close()
        if self._process is not None:
            self._process.kill()  # the namespace's first process dies with it, and all the others with that one
            await self._process.wait()
        self._session = self._process = None

    async def destroy(self) -> None:
        """End every process and remove the files."""
        await self.stop()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _drop_connections(self) -> None:
        for transport in tuple(self.in_flight):
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()

    def _signal_all(self, kind: signal.Signals) -> None:
        if self._process is None:
            return
        first = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()[0]
        namespace = os.readlink(f"/proc/{first}/ns/pid")
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and os.readlink(entry / "ns/pid") == namespace:
                    os.kill(int(entry.name), kind)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
