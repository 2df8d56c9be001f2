"""Who a request acts for, and what a path means to that account."""

import base64
import os
import pwd
from dataclasses import dataclass

from aiohttp import web

DEFAULT_USER = "user"


class UnknownUser(Exception):
    """There is no such account in the sandbox."""


class BadPath(Exception):
    """A path that cannot be resolved, such as another account's home."""


@dataclass(frozen=True, slots=True)
class Account:
    """One account of the sandbox."""

    name: str
    uid: int
    gid: int
    home: str

    def resolve(self, path: str) -> str:
        """Return ``path`` absolute; relative ones start at the account's home."""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:]
        elif path.startswith("~"):
            raise BadPath(f"cannot expand {path}: only the account's own home can be named by ~")
        return os.path.normpath(os.path.join(self.home, path))

    def own(self, path: str) -> None:
        """Give ``path`` to the account, as envd does with every file it writes."""
        os.chown(path, self.uid, self.gid)

    def make_dirs(self, path: str) -> None:
        """Make ``path`` and its missing parents, each owned by the account."""
        missing = []
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            os.mkdir(folder, 0o755)
            self.own(folder)


def find_account(name: str) -> Account:
    """Return the account called ``name``."""
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise UnknownUser(f"invalid username: '{name}'") from None
    return Account(name, entry.pw_uid, entry.pw_gid, entry.pw_dir)


def account_of(request: web.Request) -> Account:
    """Return the account a request names: by query in the files API, by Basic authorization in the RPCs."""
    name = request.query.get("username", "")
    scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
    if scheme == "Basic":
        name = base64.b64decode(credentials).decode().partition(":")[0]
    return find_account(name or DEFAULT_USER)
