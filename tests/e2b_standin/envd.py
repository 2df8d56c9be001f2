"""What runs inside a sandbox: one process, the first of its PID namespace, answering on a socket it was given.

Usage: ``python -m e2b_standin.envd ROOT SOCKET_FD TOKEN ENVIRONMENT_JSON``. It ends when its standard input does.
"""

import asyncio
import concurrent.futures.thread
import encodings.idna
import json
import os
import socket
import sys
from pathlib import Path

from aiohttp import web

from e2b_standin import jail, programs, tree, uploads

USED_LATER = (concurrent.futures.thread, encodings.idna)  # inside the jail nothing more can be imported
MAX_RPC_BYTES = 16 * 1024 * 1024


def make_app(token: str, environment: dict[str, str]) -> web.Application:
    """Return the application that one sandbox answers with."""

    @web.middleware
    async def check_token(request: web.Request, handler: programs.Handler) -> web.StreamResponse:
        if request.path != "/health" and request.headers.get("X-Access-Token") != token:
            return web.json_response(
                {"code": 401, "message": "unauthorized access, please provide a valid access token"}, status=401
            )
        return await handler(request)

    async def health(_request: web.Request) -> web.Response:
        return web.Response(status=204)

    running = programs.Programs(environment)
    app = web.Application(middlewares=[check_token], client_max_size=MAX_RPC_BYTES)
    app.add_routes(
        [
            web.get("/health", health),
            web.get("/files", uploads.read),
            web.post("/files", uploads.write),
            web.post("/filesystem.Filesystem/{method}", tree.call),
            web.post("/process.Process/Start", running.start),
            web.post("/process.Process/Connect", running.connect),
            web.post("/process.Process/{method}", running.call),
        ]
    )
    return app


async def serve(listener: socket.socket, app: web.Application) -> None:
    """Serve until standard input ends, which it does when the front is gone."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), gone.set)
    await gone.wait()


def main() -> None:
    """Enter the jail and serve."""
    root, descriptor, token, environment = sys.argv[1:]
    listener = socket.socket(fileno=int(descriptor))
    listener.setblocking(False)
    os.set_inheritable(listener.fileno(), False)
    os.umask(0o022)
    jail.enter(Path(root))
    asyncio.run(serve(listener, make_app(token, json.loads(environment))))


if __name__ == "__main__":
    main()
