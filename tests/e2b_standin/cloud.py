"""The control plane: which sandboxes there are, in which state, and until when."""

import asyncio
import secrets
import urllib.parse
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from e2b_standin.sandbox import Sandbox

DEFAULT_TIMEOUT_S = 15
PAGE_LIMIT = 100


@dataclass(slots=True)
class Lease:
    """A sandbox and what the control plane knows of it."""

    sandbox: Sandbox
    template: str
    metadata: dict[str, str]
    auto_pause: bool
    auto_pause_keeps_memory: bool
    started: datetime
    ends: datetime
    state: str = "running"
    timer: asyncio.TimerHandle | None = None


class Cloud:
    """All sandboxes of this stand-in."""

    def __init__(self, folder: Path, *, envd_version: str) -> None:
        self._folder = folder
        self._envd_version = envd_version
        self._leases: dict[str, Lease] = {}
        self._created: dict[str, asyncio.Task[Lease]] = {}
        self._expiries: set[asyncio.Task[None]] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return the control plane's part of the HTTP interface."""
        one = "/sandboxes/{id}"
        return [
            web.post("/v2/sandboxes", self._create),
            web.get("/v2/sandboxes", self._list),
            web.get(one, self._info),
            web.delete(one, self._delete),
            web.post(f"/v2{one}/connect", self._connect),
            web.post(f"{one}/pause", self._pause),
            web.post(f"{one}/timeout", self._timeout),
        ]

    def running(self, sandbox_id: str) -> Sandbox | None:
        """Return the sandbox if it is there and neither paused nor gone."""
        lease = self._leases.get(sandbox_id)
        return lease.sandbox if lease and lease.state == "running" else None

    async def change(self, sandbox_id: str, state: str) -> None:
        """Kill, pause or expire a sandbox; nothing happens to one that is gone."""
        lease = self._leases.get(sandbox_id)
        if lease is None:
            return
        if state == "pause" or (state == "expire" and lease.auto_pause):
            await self._suspend(lease, keep_memory=state == "pause" or lease.auto_pause_keeps_memory)
        else:
            await self._kill(lease)

    async def close(self) -> None:
        """Kill all sandboxes."""
        for lease in list(self._leases.values()):
            await self._kill(lease)

    # ------------------------------------------------------------------ lifecycle

    async def _start(self, wanted: dict[str, Any]) -> Lease:
        sandbox_id = "i" + secrets.token_hex(8)
        sandbox = Sandbox(self._folder / sandbox_id, environment=wanted.get("envVars") or {})
        await sandbox.start()
        now = datetime.now(UTC)
        lease = Lease(
            sandbox=sandbox,
            template=wanted.get("templateID", "base"),
            metadata=wanted.get("metadata") or {},
            auto_pause=bool(wanted.get("autoPause")),
            auto_pause_keeps_memory=wanted.get("autoPauseMemory", True),
            started=now,
            ends=now,
        )
        self._leases[sandbox_id] = lease
        self._extend(lease, wanted.get("timeout", DEFAULT_TIMEOUT_S))
        return lease

    def _extend(self, lease: Lease, seconds: float) -> None:
        lease.ends = datetime.now(UTC) + timedelta(seconds=seconds)
        if lease.timer is not None:
            lease.timer.cancel()
        lease.timer = asyncio.get_running_loop().call_later(seconds, self._expire, lease.sandbox.id)

    def _expire(self, sandbox_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self.change(sandbox_id, "expire"))
        self._expiries.add(task)
        task.add_done_callback(self._expiries.discard)

    async def _suspend(self, lease: Lease, *, keep_memory: bool) -> None:
        lease.state = "paused"
        if lease.timer is not None:
            lease.timer.cancel()
        await (lease.sandbox.freeze() if keep_memory else lease.sandbox.stop())

    async def _kill(self, lease: Lease) -> None:
        self._leases.pop(lease.sandbox.id, None)
        if lease.timer is not None:
            lease.timer.cancel()
        await lease.sandbox.destroy()

    # ------------------------------------------------------------------ HTTP

    async def _create(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        key = request.headers.get("Idempotency-Key") or secrets.token_hex(8)
        # The same key means the same sandbox, also while the first request is still being worked on.
        task = self._created.setdefault(key, asyncio.ensure_future(self._start(wanted)))
        return web.json_response(self._card(await asyncio.shield(task)), status=201)

    async def _connect(self, request: web.Request) -> web.Response:
        lease = self._leases.get(request.match_info["id"])
        if lease is None:
            return _missing(request)
        wanted = await request.json()
        resumed = lease.state == "paused"
        if resumed:
            if wanted.get("memory") is False:
                await lease.sandbox.stop()
            await lease.sandbox.thaw()
            lease.state = "running"
        seconds = wanted.get("timeout", DEFAULT_TIMEOUT_S)
        if resumed or datetime.now(UTC) + timedelta(seconds=seconds) > lease.ends:
            self._extend(lease, seconds)
        return web.json_response(self._card(lease), status=201 if resumed else 200)

    async def _delete(self, request: web.Request) -> web.Response:
        lease = self._leases.get(request.match_info["id"])
        if lease is None:
            return _missing(request)
        await self._kill(lease)
        return web.Response(status=204)

    async def _pause(self, request: web.Request) -> web.Response:
        lease = self._leases.get(request.match_info["id"])
        if lease is None:
            return _missing(request)
        if lease.state == "paused":
            return web.json_response({"code": 409, "message": "the sandbox is already paused"}, status=409)
        wanted = await request.json() if request.can_read_body else {}
        await self._suspend(lease, keep_memory=wanted.get("memory", True))
        return web.Response(status=204)

    async def _timeout(self, request: web.Request) -> web.Response:
        lease = self._leases.get(request.match_info["id"])
        if lease is None:
            return _missing(request)
        self._extend(lease, (await request.json())["timeout"])
        return web.Response(status=204)

    async def _info(self, request: web.Request) -> web.Response:
        lease = self._leases.get(request.match_info["id"])
        return web.json_response(self._details(lease)) if lease else _missing(request)

    async def _list(self, request: web.Request) -> web.Response:
        metadata = dict(urllib.parse.parse_qsl(request.query.get("metadata", "")))
        wanted = {urllib.parse.unquote(key): urllib.parse.unquote(value) for key, value in metadata.items()}
        states = {state for word in request.query.getall("state", []) for state in word.split(",")}
        chosen = [
            lease
            for lease in self._leases.values()
            if wanted.items() <= lease.metadata.items() and (not states or lease.state in states)
        ]
        begin = int(request.query.get("nextToken") or 0)
        end = begin + int(request.query.get("limit") or PAGE_LIMIT)
        headers = {"x-next-token": str(end)} if end < len(chosen) else {}
        return web.json_response([self._details(lease) for lease in chosen[begin:end]], headers=headers)

    def _card(self, lease: Lease) -> dict[str, Any]:
        return {
            "clientID": "standin",
            "domain": None,
            "envdAccessToken": lease.sandbox.token,
            "envdVersion": self._envd_version,
            "sandboxID": lease.sandbox.id,
            "templateID": lease.template,
        }

    def _details(self, lease: Lease) -> dict[str, Any]:
        return self._card(lease) | {
            "cpuCount": 2,
            "diskSizeMB": 1024,
            "endAt": lease.ends.isoformat(),
            "memoryMB": 512,
            "metadata": lease.metadata,
            "startedAt": lease.started.isoformat(),
            "state": lease.state,
        }


def _missing(request: web.Request) -> web.Response:
    sandbox_id = request.match_info["id"]
    return web.json_response({"code": 404, "message": f"sandbox {sandbox_id} not found"}, status=404)
