"""The tools: the ``headway`` command and what it needs to talk to a server, to try one out, and to load one.

A server (``headway``) never imports a tool. ``headway serve`` and ``headway route`` are commands that start a server.

    cli       one module for each command
    console   what the commands share: connection, table, bar, exit codes, the checks before a start
    doctor    the checks of ``headway doctor``
    demo      a server, a dashboard and sample traffic
    load      clients with an open or a closed loop, and their figures
    tuning    the search for the seats that suit a running server
    sharing   the seats of one machine, between several servers
"""
