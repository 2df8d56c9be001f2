"""``filesystem.Filesystem``: listing, stat, removing, renaming, making directories."""

import datetime as dt
import grp
import json
import os
import pwd
import shutil
import stat
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import web

from e2b_standin.accounts import Account, BadPath, UnknownUser, account_of
from e2b_standin.wire import RpcError

Answer = dict[str, Any]
SPECIAL_BITS = ((stat.S_ISUID, "u"), (stat.S_ISGID, "g"), (stat.S_ISVTX, "t"))


def describe(path: str) -> Answer:
    """Return a file's EntryInfo. A link has its target's type; what is neither file nor directory has none."""
    own = os.lstat(path)
    entry: Answer = {
        "name": os.path.basename(path),
        "path": path,
        "mode": stat.S_IMODE(own.st_mode) & 0o777,
        "permissions": _permissions(own.st_mode),
        "owner": _name_of(pwd.getpwuid, own.st_uid),
        "group": _name_of(grp.getgrgid, own.st_gid),
        "modifiedTime": _timestamp(own.st_mtime_ns),
    }
    if own.st_size:
        entry["size"] = str(own.st_size)  # protojson: 64-bit numbers are strings, and zero is left out
    target = own
    if stat.S_ISLNK(own.st_mode):
        entry["symlinkTarget"] = os.path.realpath(path)
        try:
            target = os.stat(path)
        except OSError:
            return entry
    if stat.S_ISREG(target.st_mode):
        entry["type"] = "FILE_TYPE_FILE"
    elif stat.S_ISDIR(target.st_mode):
        entry["type"] = "FILE_TYPE_DIRECTORY"
    return entry


def _permissions(mode: int) -> str:
    kind = "L" if stat.S_ISLNK(mode) else "d" if stat.S_ISDIR(mode) else "p" if stat.S_ISFIFO(mode) else ""
    special = "".join(letter for bit, letter in SPECIAL_BITS if mode & bit)
    return (kind + special or "-") + stat.filemode(stat.S_IFREG | (mode & 0o777))[1:]


def _name_of(lookup: Callable[[int], Any], number: int) -> str:
    try:
        return str(lookup(number)[0])
    except KeyError:
        return str(number)


def _timestamp(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    moment = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _walk(folder: str, depth: int) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        yield path
        if depth > 1 and os.path.isdir(path) and not os.path.islink(path):
            yield from _walk(path, depth - 1)


def _list_dir(account: Account, wanted: Answer) -> Answer:
    path = account.resolve(wanted.get("path", ""))
    if not os.path.exists(path):
        raise RpcError("not_found", f"path not found: {path}")
    if not os.path.isdir(path):
        raise RpcError("invalid_argument", f"path is not a directory: {path}")
    return {"entries": [describe(entry) for entry in _walk(path, wanted.get("depth") or 1)]}


def _stat(account: Account, wanted: Answer) -> Answer:
    return {"entry": describe(account.resolve(wanted.get("path", "")))}


def _remove(account: Account, wanted: Answer) -> Answer:
    path = account.resolve(wanted.get("path", ""))
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    return {}


def _move(account: Account, wanted: Answer) -> Answer:
    source, target = (account.resolve(wanted.get(key, "")) for key in ("source", "destination"))
    os.lstat(source)
    account.make_dirs(os.path.dirname(target))
    if os.path.isdir(target):
        raise RpcError("internal", f"error renaming: rename {source} {target}: file exists")
    os.rename(source, target)
    return {"entry": describe(target)}


def _make_dir(account: Account, wanted: Answer) -> Answer:
    path = account.resolve(wanted.get("path", ""))
    if os.path.isdir(path):
        raise RpcError("already_exists", f"directory already exists: {path}")
    if os.path.exists(path):
        raise RpcError("invalid_argument", f"path already exists but it is not a directory: {path}")
    account.make_dirs(path)
    return {"entry": describe(path)}


METHODS: dict[str, Callable[[Account, Answer], Answer]] = {
    "ListDir": _list_dir,
    "Stat": _stat,
    "Remove": _remove,
    "Move": _move,
    "MakeDir": _make_dir,
}


async def call(request: web.Request) -> web.Response:
    """Answer one unary call."""
    method = METHODS.get(request.match_info["method"])
    if method is None:
        return RpcError("unimplemented", f"{request.path} is not part of this stand-in").as_response()
    try:
        return web.json_response(method(account_of(request), json.loads(await request.read() or b"{}")))
    except RpcError as error:
        return error.as_response()
    except UnknownUser as error:
        return RpcError("unauthenticated", str(error)).as_response()
    except BadPath as error:
        return RpcError("invalid_argument", str(error)).as_response()
    except FileNotFoundError as error:
        return RpcError("not_found", f"path not found: {error.filename}").as_response()
    except OSError as error:
        return RpcError("internal", f"{error.filename}: {error.strerror}".lower()).as_response()
