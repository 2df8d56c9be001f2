"""A process that forks workers on demand, so that the imports are paid for once.

It reads one JSON object per line, ``{"do": name, "args": [...]}``, forks a child that runs the function of that name,
and answers with the child's process id. ``{"do": "wait", "args": [pid]}`` answers with the child's exit status and what
it returned. The children may be killed at any time.
"""

import asyncio
import json
import os
import stat
import sys
import traceback
from threading import Event

from agentic_memory.backends import ABSENT, ANY, LocalBackend, Move, Put, version_of
from agentic_memory.backends.local.locks import Patience
from agentic_memory.backends.local.transaction import Transaction
from agentic_memory.errors import AgenticMemoryError, Conflict


def count_up(path, times):
    """Add one to the number in a file, so many times, against others who do the same."""

    async def run():
        backend = LocalBackend()
        current = (await backend.fetch(path)).data
        for _ in range(times):
            while True:
                text = b"%d\n" % (int(current) + 1)
                try:
                    await backend.replace(path, text, expected=version_of(current))
                except Conflict as conflict:
                    current = conflict.current
                else:
                    current = text
                    break

    asyncio.run(run())


def write_for_ever(root, seed):
    """Change three files that belong together, again and again.

    The index and the file hold the same text, and its last word says in which folder the note lies.
    """
    places = {"a": f"{root}/a/note.md", "b": f"{root}/b/.trash/note.md"}
    number = 0
    while True:
        number += 1
        here = "a" if os.path.exists(places["a"]) else "b"
        there = "b" if here == "a" else "a"
        text = b"%s %08d %s\n" % (seed.encode(), number, there.encode()) * 400
        changes = [
            Put(f"{root}/index.md", text, ANY),
            Put(f"{root}/a/file.md", text, ANY),
            Move(places[here], places[there], ANY),
        ]
        Transaction(changes, root, Patience.of(10, Event())).run()


def as_nobody(root, calls):
    """Make calls as a user without privileges and return what came of each."""
    asyncio.run(LocalBackend().fetch("/no/such/file"))  # imports what is imported late, while it may still be read
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)

    async def run():
        backend, results = LocalBackend(), []
        for name, *args in calls:
            path = os.path.join(root, args[0]).rstrip("/")
            try:
                if name == "snapshot":
                    tree = await backend.snapshot(path)
                    found = {seen.path: seen.kind for seen in tree.obstacles}
                    results.append([[record.path for record in tree.files], found])
                elif name == "put":
                    await backend.transact([Put(os.path.join(root, each), b"new", ANY) for each in args])
                    results.append("done")
                elif name == "create":
                    await backend.replace(path, b"new", expected=ABSENT)
                    results.append(oct(stat.S_IMODE(os.stat(path).st_mode)))
                else:
                    results.append(repr(await getattr(backend, name)(path)))
            except AgenticMemoryError as exc:
                results.append(f"{type(exc).__name__}: {exc}")
        return results

    return asyncio.run(run())


def main():
    answers = {}
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "wait":
            (pid,) = order["args"]
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            with os.fdopen(answers.pop(pid), "rb") as pipe:
                said = pipe.read()
            print(json.dumps([status, json.loads(said) if said else None]), flush=True)
            continue
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                result = globals()[order["do"]](*order["args"])
                os.write(writer, json.dumps(result).encode())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os.close(writer)
        answers[pid] = reader
        print(pid, flush=True)


main()
