"""``/files``: reading and writing whole files, with envd's rough edges kept.

A write truncates in place and follows symlinks, keeps the mode, takes the ownership, syncs nothing: a cut upload leaves
a cut file. Nothing is checked against the account's permissions, because envd runs as root.
"""

import errno
import os
import re
import stat
from collections.abc import AsyncIterator

from aiohttp import BodyPartReader, web

from e2b_standin.accounts import Account, BadPath, UnknownUser, account_of

CHUNK_BYTES = 64 * 1024
FILENAME = re.compile(r'filename="([^"]*)"')


def _refuse(status: int, message: str) -> web.Response:
    return web.json_response({"code": status, "message": message}, status=status)


async def read(request: web.Request) -> web.StreamResponse:
    """Send a file, gzipped when the client accepts it."""
    try:
        path = account_of(request).resolve(request.query.get("path", ""))
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            return _refuse(400, f"path '{path}' is not a regular file")
        file = open(path, "rb")  # noqa: SIM115 - closed below, after the answer has begun
    except UnknownUser as error:
        return _refuse(401, str(error))
    except BadPath as error:
        return _refuse(400, str(error))
    except FileNotFoundError:
        return _refuse(404, f"path '{path}' does not exist")
    except OSError as error:
        return _refuse(500, f"error opening '{path}': {error.strerror}")
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response.enable_compression(web.ContentCoding.gzip)
    else:
        response.content_length = found.st_size
    with file:
        await response.prepare(request)
        while chunk := file.read(CHUNK_BYTES):
            await response.write(chunk)
    await response.write_eof()
    return response


async def write(request: web.Request) -> web.Response:
    """Store the parts of a form, or the body as one file."""
    written: list[dict[str, str]] = []
    try:
        account = account_of(request)
        async for wanted, chunks in _parts(request):
            path = account.resolve(wanted)
            if any(entry["path"] == path for entry in written):
                return _refuse(400, f"you cannot upload multiple files to the same path '{path}'")
            await _store(path, chunks, account)
            written.append({"name": os.path.basename(path), "path": path, "type": "file"})
    except UnknownUser as error:
        return _refuse(401, str(error))
    except (BadPath, IsADirectoryError) as error:
        return _refuse(400, str(error))
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise
        return _refuse(507 if error.errno == errno.ENOSPC else 500, f"error writing file: {error.strerror}")
    return web.json_response(written)


async def _parts(request: web.Request) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
    if not request.content_type.startswith("multipart/"):
        yield request.query.get("path", ""), request.content.iter_chunked(CHUNK_BYTES)
        return
    async for part in await request.multipart():
        if isinstance(part, BodyPartReader) and part.name == "file":
            # The parsed filename has lost its directories; the raw one is what envd takes.
            raw = FILENAME.search(part.headers.get("Content-Disposition", ""))
            yield request.query.get("path") or (raw.group(1) if raw else ""), _chunks_of(part)


async def _chunks_of(part: BodyPartReader) -> AsyncIterator[bytes]:
    while chunk := await part.read_chunk(CHUNK_BYTES):
        yield chunk


async def _store(path: str, chunks: AsyncIterator[bytes], account: Account) -> None:
    if os.path.isdir(path):
        raise IsADirectoryError(f"path is a directory: {path}")
    account.make_dirs(os.path.dirname(path))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.fchown(descriptor, account.uid, account.gid)
        async for chunk in chunks:
            view = memoryview(chunk)
            while view:
                view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
