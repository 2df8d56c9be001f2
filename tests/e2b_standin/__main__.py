"""The stand-in's server. Usage: ``python -m e2b_standin [--envd-version V] [--max-seconds N]``.

It prints one line of JSON with its URL, serves on a free port of 127.0.0.1, and ends when its standard input does,
when it is terminated, or after ``--max-seconds``.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from e2b_standin.cloud import Cloud
from e2b_standin.edge import Edge, hang_up
from e2b_standin.faults import Fault, Faults

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CONTROL = "/_standin"
MAX_API_BYTES = 16 * 1024 * 1024


class Front:
    """Everything that answers on the stand-in's port."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._faults = Faults()
        self._calls: list[str] = []

    def make_app(self) -> web.Application:
        """Return the application."""
        edge = Edge(self._cloud)
        app = web.Application(middlewares=[self._strike, self._check_key], client_max_size=MAX_API_BYTES)
        app.add_routes(
            [
                web.post(f"{CONTROL}/faults", self._add_fault),
                web.delete(f"{CONTROL}/faults", self._clear_faults),
                web.get(f"{CONTROL}/calls", self._report_calls),
                web.post(f"{CONTROL}/sandboxes/{{id}}/{{state}}", self._change_sandbox),
                *self._cloud.routes(),
                web.route("*", r"/{path:(health|files|filesystem\..*|process\..*)}", edge.forward),
            ]
        )
        return app

    @web.middleware
    async def _strike(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith(CONTROL):
            return await handler(request)
        self._calls.append(f"{request.method} {request.path}")
        fault = self._faults.take(request.method, request.path)
        request["fault"] = fault
        await asyncio.sleep(fault.delay)
        strikes = bool(fault.status or fault.drop)
        if strikes and not fault.after:
            await self._change(request, fault)
            return _answer(request, fault)
        if fault.state and not fault.after and fault.cut_reply is None:
            await self._change(request, fault)
        reply = await handler(request)
        if not fault.after:
            return reply
        await self._change(request, fault)
        return _answer(request, fault) if strikes else reply

    async def _change(self, request: web.Request, fault: Fault) -> None:
        if fault.state:
            await self._cloud.change(request.headers.get("E2b-Sandbox-Id", ""), fault.state)

    @web.middleware
    async def _check_key(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if "sandboxes" in request.path and CONTROL not in request.path and not request.headers.get("X-API-Key"):
            return web.json_response({"code": 401, "message": "authentication required: give an API key"}, status=401)
        return await handler(request)

    async def _add_fault(self, request: web.Request) -> web.Response:
        self._faults.add(Fault(**await request.json()))
        return web.Response(status=204)

    async def _clear_faults(self, _request: web.Request) -> web.Response:
        return web.json_response(self._faults.clear())

    async def _report_calls(self, _request: web.Request) -> web.Response:
        calls, self._calls = self._calls, []
        return web.json_response(calls)

    async def _change_sandbox(self, request: web.Request) -> web.Response:
        await self._cloud.change(request.match_info["id"], request.match_info["state"])
        return web.Response(status=204)


def _answer(request: web.Request, fault: Fault) -> web.Response:
    if fault.drop:
        return hang_up(request)
    kind = "application/json" if fault.body.startswith("{") else "text/plain"
    return web.Response(status=fault.status, text=fault.body, headers={"Content-Type": kind, **fault.headers})


async def serve(*, envd_version: str, max_seconds: float) -> None:
    """Serve until it is time to stop, then kill every sandbox and remove what they left."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), stop.set)
    for kind in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(kind, stop.set)
    folder = Path(tempfile.mkdtemp(prefix="e2b-"))  # short: the path of a unix socket has a limit of 108 bytes
    cloud = Cloud(folder, envd_version=envd_version)
    runner = web.AppRunner(Front(cloud).make_app(), access_log=None, shutdown_timeout=1)
    try:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        print(json.dumps({"url": f"http://{host}:{port}"}), flush=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max_seconds):
                await stop.wait()
    finally:
        await cloud.close()
        await runner.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser(prog="e2b_standin", description=__doc__)
    parser.add_argument("--envd-version", default="0.6.13")
    parser.add_argument("--max-seconds", type=float, default=900)
    arguments = parser.parse_args()
    asyncio.run(serve(envd_version=arguments.envd_version, max_seconds=arguments.max_seconds))


if __name__ == "__main__":
    main()
