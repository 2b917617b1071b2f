"""The end of a start that is interrupted: SIGTERM or Ctrl-C while the engine loads, or during the warm-up.

vLLM raises KeyboardInterrupt for SIGTERM until its server listens, and then waits for EngineCore to end by itself, as
long as ``--shutdown-timeout`` says; but EngineCore only notes the signal while it loads its model. Ctrl-C is not even
noticed before the engine is ready, for it cancels a task that is not waiting. At that time there is nothing to finish:
here both raise KeyboardInterrupt, and what has not ended within seconds is killed.

The handlers are installed when the engine is about to be started, after vLLM's own; a server that listens replaces
them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

import psutil

from headway.vllm_adapter.process.parent_watch import is_killer

#: Exit codes: stopped as ordered, and by Ctrl-C (128 + SIGINT, as shells count).
TERMINATED = 0
INTERRUPTED = 130

_ENGINE_GRACE_S = 2.0
_OWN_GRACE_S = 4.0


class InterruptibleStart:
    """A start that a signal ends soon: this process, and the engine that it starts. Only a launcher arms it."""

    def __init__(self) -> None:
        self.armed = False
        self._ending = False

    def listen(self) -> None:
        """Install the handlers, for the first engine only: its replacement starts in another thread."""
        if self.armed and threading.current_thread() is threading.main_thread():
            self.armed = False
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._interrupt)

    def _interrupt(self, number: int, _frame: FrameType | None) -> None:
        if not self._ending:
            self._ending = True
            code = TERMINATED if number == signal.SIGTERM else INTERRUPTED
            threading.Thread(target=_end, args=[code], name="headway-interrupted-start", daemon=True).start()
        raise KeyboardInterrupt(*(["terminated"] if number == signal.SIGTERM else []))


def _end(code: int) -> None:
    """Kill the engine's processes, then this one, where they do not end by themselves."""
    time.sleep(_ENGINE_GRACE_S)
    with suppress(psutil.Error):  # whatever cannot be looked at: this process ends
        for process in psutil.Process().children(recursive=True):
            if not is_killer(process):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
    time.sleep(_OWN_GRACE_S)
    sys.stderr.flush()
    os._exit(code)


#: The start of this process.
interruptible = InterruptibleStart()
