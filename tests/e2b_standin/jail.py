"""The root a sandbox lives in: its own directories, the host's programs read-only, its own /proc and /dev."""

import ctypes
import os
from pathlib import Path

PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "etc/alternatives")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
OWN_FOLDERS = ("dev/shm", "etc", "home/user", "opt", "proc", "root", "run", "srv", "tmp", "var/tmp")
USER_ID = 1000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND = 32, 4096

_libc = ctypes.CDLL(None, use_errno=True)


def furnish(root: Path) -> None:
    """Make the directories and accounts of a new sandbox. Called once, outside the namespaces."""
    # Without root one id can be mapped into a user namespace, so there "user" is another name for root.
    uid = USER_ID if os.getuid() == 0 else 0
    for folder in OWN_FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for folder in ("tmp", "var/tmp"):
        (root / folder).chmod(0o1777)
    (root / "root").chmod(0o700)
    if uid:
        os.chown(root / "home/user", uid, uid)
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/bash\n"
        f"user:x:{uid}:{uid}:user:/home/user:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\nuser:x:{uid}:\nnogroup:x:65534:\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    for name in ("ld.so.cache", "ld.so.conf"):
        source = Path("/etc") / name
        if source.exists():
            (root / "etc" / name).write_bytes(source.read_bytes())


def enter(root: Path) -> None:
    """Mount what the root shows and make it the root of this process, which must be in namespaces of its own."""
    for name in PROGRAMS:
        _show_programs(Path("/") / name, root / name)
    _mount("proc", root / "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    _mount("tmpfs", root / "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV)
    for name in DEVICES:
        if Path("/dev", name).exists():
            (root / "dev" / name).touch()
            _mount(f"/dev/{name}", root / "dev" / name, None, MS_BIND)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        link = root / "dev" / name
        if not link.is_symlink():
            link.symlink_to(f"/proc/self/fd{target}")
    os.chroot(root)
    os.chdir("/")


def _show_programs(source: Path, target: Path) -> None:
    if source.is_symlink():  # a merged /usr
        if not target.is_symlink():
            target.symlink_to(source.readlink())
    elif source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        _mount(str(source), target, None, MS_BIND)
        # A bind mount is writable until it is mounted again, and a user namespace may not drop the flags it got.
        kept = os.statvfs(source).f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC)
        _mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | kept)


def _mount(source: str, target: Path, kind: str | None, flags: int) -> None:
    arguments = (source.encode(), os.fsencode(target), kind.encode() if kind else None)
    if _libc.mount(*arguments, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"mount {source} on {target}")
