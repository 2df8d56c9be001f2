"""``process.Process``: real processes, and the streams that tell what becomes of them.

A process belongs to the sandbox, not to the request that started it: a client that goes away stops nothing. At the
deadline the started process alone is killed; its children live on and may hold the output open.
"""

import asyncio
import base64
import errno
import json
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from e2b_standin.accounts import Account, UnknownUser, account_of
from e2b_standin.wire import RpcError, Stream, unframe

OUTPUT_CHUNK_BYTES = 32 * 1024
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMED_OUT = RpcError("deadline_exceeded", "context deadline exceeded")

Message = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Program:
    """A running process and everybody who listens to it."""

    def __init__(self, config: Message, running: asyncio.subprocess.Process) -> None:
        self.config = config
        self.pid = running.pid
        self.running = running
        self.timed_out = False
        self._listeners: list[asyncio.Queue[Message | None]] = []
        self._watch = asyncio.create_task(self._follow())

    def listen(self) -> asyncio.Queue[Message | None]:
        """Return a queue of the events from now on; None ends it."""
        queue: asyncio.Queue[Message | None] = asyncio.Queue()
        self._listeners.append(queue)
        return queue

    def expire(self) -> None:
        """Kill the process, but nothing that it started, and end every stream with a deadline error."""
        if self.running.returncode is None:
            self.running.kill()
        self.timed_out = True
        self._tell(None)

    async def _follow(self) -> None:
        await asyncio.gather(self._pump("stdout", self.running.stdout), self._pump("stderr", self.running.stderr))
        self._tell({"event": {"end": _ending(await self.running.wait())}})
        self._tell(None)

    async def _pump(self, name: str, source: asyncio.StreamReader | None) -> None:
        while source is not None and (chunk := await source.read(OUTPUT_CHUNK_BYTES)):
            self._tell({"event": {"data": {name: base64.b64encode(chunk).decode()}}})

    def _tell(self, event: Message | None) -> None:
        for queue in self._listeners:
            queue.put_nowait(event)


def _ending(code: int) -> Message:
    if code < 0:
        status = f"signal: {signal.strsignal(-code) or -code}".lower()
        return {"exitCode": -1, "status": status, "error": status}
    status = f"exit status {code}"
    return {"exited": True, "status": status} | ({"exitCode": code, "error": status} if code else {})


class Programs:
    """The processes of one sandbox."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._programs: dict[int, Program] = {}

    async def start(self, request: web.Request) -> web.StreamResponse:
        """Start a process and stream what it does."""
        wanted = await request.read()
        async with Stream(request) as stream:
            program = await self._spawn(request, wanted)
            await _relay(program, stream)
        return stream.response

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """Stream what a process does from now on."""
        wanted = await request.read()
        async with Stream(request) as stream:
            await _relay(self._find(unframe(wanted)), stream)
        return stream.response

    async def _spawn(self, request: web.Request, body: bytes) -> Program:
        message = unframe(body)
        config = message.get("process", {})
        try:
            account = account_of(request)
        except UnknownUser as error:
            raise RpcError("unauthenticated", str(error)) from error
        cwd = account.resolve(config.get("cwd") or "")
        if not os.path.isdir(cwd):
            raise RpcError("invalid_argument", f"cwd '{cwd}' does not exist")
        running = await self._execute(config, account, cwd, with_stdin=message.get("stdin", True))
        program = Program(config, running)
        self._programs[program.pid] = program
        timeout = request.headers.get("Connect-Timeout-Ms")
        if timeout:
            asyncio.get_running_loop().call_later(int(timeout) / 1000, program.expire)
        return program

    async def _execute(
        self, config: Message, account: Account, cwd: str, *, with_stdin: bool
    ) -> asyncio.subprocess.Process:
        environment = {
            "HOME": account.home,
            "LOGNAME": account.name,
            "PATH": SEARCH_PATH,
            "USER": account.name,
            **self._environment,
            **config.get("envs", {}),
        }
        identity: dict[str, Any] = (
            {"user": account.uid, "group": account.gid, "extra_groups": []} if account.uid else {}
        )
        try:
            return await asyncio.create_subprocess_exec(
                config.get("cmd", ""),
                *config.get("args", []),
                cwd=cwd,
                env=environment,
                stdin=asyncio.subprocess.PIPE if with_stdin else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
                **identity,
            )
        except OSError as error:
            too_long = error.errno == errno.E2BIG
            raise RpcError("invalid_argument", "argument list too long" if too_long else str(error)) from error

    def _find(self, message: Message) -> Program:
        pid = message.get("process", {}).get("pid", 0)
        program = self._programs.get(pid)
        if program is None or program.running.returncode is not None:
            raise RpcError("not_found", f"process with pid {pid} not found")
        return program

    async def call(self, request: web.Request) -> web.Response:
        """Answer one unary call."""
        method = {
            "List": self._list,
            "SendInput": self._send_input,
            "CloseStdin": self._close_stdin,
            "SendSignal": self._send_signal,
        }.get(request.match_info["method"])
        try:
            if method is None:
                raise RpcError("unimplemented", f"{request.path} is not part of this stand-in")
            return web.json_response(await _called(method, json.loads(await request.read() or b"{}")))
        except RpcError as error:
            return error.as_response()

    async def _list(self, _message: Message) -> Message:
        alive = (program for program in self._programs.values() if program.running.returncode is None)
        return {"processes": [{"config": program.config, "pid": program.pid} for program in alive]}

    async def _send_input(self, message: Message) -> Message:
        stdin = self._find(message).running.stdin
        if stdin is None:
            raise RpcError("failed_precondition", "stdin of the process is not open")
        stdin.write(base64.b64decode(message.get("input", {}).get("stdin", "")))
        await stdin.drain()
        return {}

    async def _close_stdin(self, message: Message) -> Message:
        stdin = self._find(message).running.stdin
        if stdin is not None:
            stdin.close()
        return {}

    async def _send_signal(self, message: Message) -> Message:
        kinds = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM}
        kind = kinds.get(message.get("signal", ""))
        if kind is None:
            raise RpcError("invalid_argument", "no such signal")
        self._find(message).running.send_signal(kind)
        return {}


async def _called(method: Callable[[Message], Awaitable[Message]], message: Message) -> Message:
    try:
        return await method(message)
    except ConnectionError as error:
        raise RpcError("internal", f"error writing to stdin: {error}") from error


async def _relay(program: Program, stream: Stream) -> None:
    queue = program.listen()
    await stream.send({"event": {"start": {"pid": program.pid}}})
    while (event := await queue.get()) is not None:
        await stream.send(event)
    if program.timed_out:
        raise TIMED_OUT
