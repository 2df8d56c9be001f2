"""The Connect protocol as E2B speaks it: JSON only, no compression, five bytes before every streamed message."""

import json
import struct
from typing import Any, Self

from aiohttp import web

LAST_FRAME = 2

HTTP_STATUS = {
    "already_exists": 409,
    "deadline_exceeded": 504,
    "failed_precondition": 400,
    "internal": 500,
    "invalid_argument": 400,
    "not_found": 404,
    "permission_denied": 403,
    "unauthenticated": 401,
    "unavailable": 503,
    "unimplemented": 501,
}


class RpcError(Exception):
    """An answer other than success; ``code`` is one of Connect's words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def as_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"code": self.code, "message": self.message}

    def as_response(self) -> web.Response:
        """Return the answer of a unary call: here ``code`` is a word, in the files API it is a number."""
        return web.json_response(self.as_dict(), status=HTTP_STATUS.get(self.code, 500))


def frame(message: dict[str, Any], *, flags: int = 0) -> bytes:
    """Return one streamed message."""
    payload = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


def last_frame(error: RpcError | None = None) -> bytes:
    """Return the frame that ends a stream; a stream's HTTP status is 200 even when it fails."""
    return frame({"error": error.as_dict()} if error else {}, flags=LAST_FRAME)


def unframe(body: bytes) -> dict[str, Any]:
    """Return the one message of a server stream's request."""
    if len(body) < 5:
        raise RpcError("invalid_argument", "the request holds no envelope")
    _, size = struct.unpack(">BI", body[:5])
    if len(body) < 5 + size:
        raise RpcError("invalid_argument", "the request's envelope is cut")
    message: dict[str, Any] = json.loads(body[5 : 5 + size] or b"{}")
    return message


class Stream:
    """A server stream that is being answered."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse(headers={"Content-Type": "application/connect+json"})

    async def __aenter__(self) -> Self:
        await self._response.prepare(self._request)
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> bool:
        if isinstance(error, ConnectionError):
            return True  # the client is gone; what it started goes on
        if error is not None and not isinstance(error, RpcError):
            return False
        await self._response.write(last_frame(error))
        return True

    @property
    def response(self) -> web.StreamResponse:
        """What the handler must return."""
        return self._response

    async def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        await self._response.write(frame(message))
