"""A dummy server with child processes of every kind: it prints the name and pid of each, then waits to be killed.

``python child_processes.py FILE``: the parent watch is on, and removes FILE when the server ends. Without FILE: off.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import Any

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
GRANDCHILD = (
    "import os, subprocess, time; pid = subprocess.Popen({sleep}).pid; "
    "os.write(1, f'{name} {{pid}}\\n'.encode()); time.sleep(600)"
)
OUTER = "from headway.vllm_adapter.process.parent_watch import watch_this_process; watch_this_process(); "
IGNORES_SIGTERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
FORKS = "import os, time; pid = os.fork(); pid and os.write(1, f'forked by a child {pid}\\n'.encode()); time.sleep(600)"
TITLE = "import setproctitle, time; setproctitle.setproctitle('VLLM::EngineCore'); time.sleep(600)"


def reported(name: str, pid: int) -> int:
    """Print the name and pid of a process, in one write: several processes print to the same pipe."""
    os.write(1, f"{name} {pid}\n".encode())
    return pid


def started(name: str, code: str | None = None, **options: Any) -> int:
    """Start a separate program."""
    return reported(name, subprocess.Popen(SLEEP if code is None else [sys.executable, "-c", code], **options).pid)


def sleep_as(name: str) -> None:
    """Report the current process and sleep: once it reports, it needs nothing more of its parent."""
    reported(name, os.getpid())
    time.sleep(600)


def main() -> None:
    """Start one child process of each kind."""
    if sys.argv[1:]:
        from headway.vllm_adapter.process import parent_watch  # here: no child of another kind needs it

        parent_watch.watch_this_process()
        parent_watch.watch_this_process()
        parent_watch.remove_at_the_end(sys.argv[1])
    started("a program")
    started("in a session of its own", start_new_session=True)
    started("deaf to signals", IGNORES_SIGTERM)
    started("with another title", TITLE)
    started("a parent", GRANDCHILD.format(name="a grandchild", sleep=SLEEP))
    started("a parent that forks", FORKS)
    started("a server", OUTER + GRANDCHILD.format(name="below a server", sleep=SLEEP))
    os.kill(started("stopped"), signal.SIGSTOP)
    multiprocessing.get_context("spawn").Process(target=sleep_as, args=("spawned",)).start()
    reported("only forked", os.fork() or time.sleep(600) or 0)
    time.sleep(600)


if __name__ == "__main__":
    main()
