"""The proxy in front of the sandboxes: it finds the sandbox by header, and answers itself when there is none."""

import asyncio
from collections.abc import AsyncIterator

from aiohttp import ClientError, ClientTimeout, web

from e2b_standin.cloud import Cloud
from e2b_standin.faults import NO_FAULT, Fault
from e2b_standin.sandbox import Sandbox

ENVD_PORT = "49983"
HOP_HEADERS = frozenset({"connection", "host", "keep-alive", "transfer-encoding", "upgrade"})


def hang_up(request: web.Request) -> web.Response:
    """Break the client's connection; the answer that aiohttp wants goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


class Edge:
    """Forwards what is addressed to a sandbox, and cuts it where a fault says so."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    async def forward(self, request: web.Request) -> web.StreamResponse:
        """Pass the request on and the reply back."""
        sandbox_id = request.headers.get("E2b-Sandbox-Id", "")
        sandbox = self._cloud.running(sandbox_id)
        if sandbox is None:
            return _not_found(sandbox_id)
        if request.headers.get("E2b-Sandbox-Port", ENVD_PORT) != ENVD_PORT:
            message = {"sandboxId": sandbox_id, "message": "The sandbox is running but port is not open", "code": 502}
            return web.json_response(message, status=502)
        transport = request.transport
        if transport is None:
            return web.Response()
        sandbox.in_flight.add(transport)
        try:
            return await self._relay(request, sandbox, request.get("fault", NO_FAULT))
        except (ClientError, ConnectionError):
            return _not_found(sandbox_id) if self._cloud.running(sandbox_id) is None else hang_up(request)
        finally:
            sandbox.in_flight.discard(transport)

    async def _relay(self, request: web.Request, sandbox: Sandbox, fault: Fault) -> web.StreamResponse:
        async with sandbox.session.request(
            request.method,
            f"http://envd{request.path_qs}",
            headers={name: value for name, value in request.headers.items() if name.lower() not in HOP_HEADERS},
            data=_body(request, fault.cut_request) if request.body_exists else None,
            skip_auto_headers=("Accept-Encoding", "User-Agent"),
            timeout=ClientTimeout(total=None),
        ) as answer:
            headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_HEADERS}
            if fault.after:  # the work must be done before the fault comes, whatever the client hears of it
                return web.Response(status=answer.status, headers=headers, body=await answer.read())
            reply = web.StreamResponse(status=answer.status, headers=headers)
            await reply.prepare(request)
            left = fault.cut_reply
            async for chunk in answer.content.iter_any():
                if left is not None and len(chunk) >= left:
                    await reply.write(chunk[:left])
                    await self._cut(request, sandbox, fault)
                    return reply
                left = None if left is None else left - len(chunk)
                await reply.write(chunk)
            await reply.write_eof()
            return reply

    async def _cut(self, request: web.Request, sandbox: Sandbox, fault: Fault) -> None:
        await asyncio.sleep(0.05)  # what was passed on shall arrive: an aborted connection drops what is unsent
        if fault.state:
            await self._cloud.change(sandbox.id, fault.state)
        hang_up(request)


async def _body(request: web.Request, limit: int | None) -> AsyncIterator[bytes]:
    async for chunk in request.content.iter_any():
        if limit is not None and len(chunk) >= limit:
            yield chunk[:limit]
            await asyncio.sleep(0.05)
            raise ConnectionResetError("cut on demand")
        limit = None if limit is None else limit - len(chunk)
        yield chunk


def _not_found(sandbox_id: str) -> web.Response:
    message = {"sandboxId": sandbox_id, "message": "The sandbox was not found", "code": 502}
    return web.json_response(message, status=502)
