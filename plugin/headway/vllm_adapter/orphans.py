"""No engine outlives its server.

vLLM's EngineCore and workers go on, with the GPU's memory in their hands, when their parent is killed. In each process
that was started by another one, a thread waits for the parent's end, and ends the process with it. Waiting on the
parent's sentinel needs no polling. ``PR_SET_PDEATHSIG`` would do the same for a parent *thread*, which is not meant: an
engine that is replaced is started from a thread that may end.

Known weak spot: a stopped process (SIGSTOP) ends when it goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def end_with_parent() -> None:
    """Start the watch, once, in a process that multiprocessing started."""
    parent = multiprocessing.parent_process()
    if parent is None or any(one.name == _NAME for one in threading.enumerate()):
        return
    threading.Thread(target=_wait_and_end, args=(parent,), name=_NAME, daemon=True).start()


_NAME = "headway-parent-watch"


def _wait_and_end(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)
