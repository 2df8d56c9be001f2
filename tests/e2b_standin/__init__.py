"""A local stand-in for the E2B cloud, for the unmodified ``e2b`` SDK over real HTTP.

What is real: HTTP, the Connect streams, the files, the processes, the signals, the uids. Each sandbox is a tree of
processes in a mount and a PID namespace of its own, chrooted on a private root in which the host's programs are
mounted read-only, so that ``files.*`` and ``commands.run`` see one and the same tree.

What is not: the network (the sandbox shares the host's), resource limits, snapshots, volumes, file watching and
pseudo-terminals (``unimplemented``). A "full" pause stops every process with SIGSTOP and keeps it; a "filesystem" pause
ends them and keeps the files.

::

    SDK ── HTTP ──> __main__: front ─┬─ faults.py    what goes wrong, and when
                                     ├─ cloud.py     control plane: create, connect, pause, timeout, kill
                                     └─ edge.py      proxy by header E2b-Sandbox-Id
                                          │ unix socket
                                          v
                                     sandbox.py ──> envd.py in its namespaces (jail.py)
                                                      ├─ uploads.py   GET and POST /files
                                                      ├─ tree.py      filesystem.Filesystem
                                                      └─ programs.py  process.Process

``control.StandIn`` starts and stops it and sets its faults; it is the only module that tests import, and it needs
nothing but the standard library. The server runs with this folder's parent on ``PYTHONPATH``, as ``e2b_standin``.
"""
