"""An answer of a server's admin API, kept fresh by one thread for all visitors while pages read it."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from headway.api import AdminClient

FIRST_WAIT_S = 1.0
#: A token that was refused is not sent again for so long.
REFUSED_FOR_S = 300.0
_FORGET_S = 30.0
Answer = TypeVar("Answer")


class Polled(ABC, Generic[Answer]):
    """Asks again and again, through a client that it owns.

    The thread starts with the first reading and ends with ``close`` or the process. No request is sent while no page
    reads. ``clock`` is for what is kept for a while.
    """

    def __init__(
        self, client: AdminClient, unknown: Answer, interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._newest = self._unknown = unknown
        self._interval_s = interval_s
        self._clock = clock
        self._read_s = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._told = threading.Event()
        self._looked = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self, wait_s: float = FIRST_WAIT_S) -> Answer:
        """The newest answer. The first reading, and the first one after a while, wait for one, a second at most."""
        self.begin()
        self._told.wait(wait_s)
        self._told.set()
        return self._newest

    def begin(self) -> None:
        """Ask from now on, without a wait."""
        with self._lock:
            if self._thread is not None and self._rests():
                self._told.clear()
                self._newest = self._unknown
            self._read_s = self._clock()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name=f"headway {type(self).__name__}", daemon=True)
                self._thread.start()
        self._looked.set()

    def poll(self) -> None:
        """Poll once. Never raises: what the server does not report is unknown."""
        self._newest = self._ask()
        self._told.set()

    def close(self) -> None:
        """Stop polling and wait for the thread."""
        self._stop.set()
        self._looked.set()
        if self._thread is not None:
            self._thread.join(10)
        self._client.close()

    @abstractmethod
    def _ask(self) -> Answer:
        """Ask the server. Never raises."""

    def _run(self) -> None:
        while not self._stop.is_set():
            self._looked.clear()  # before the question: a reader that comes after it is noticed
            if self._rests():
                self._looked.wait(_FORGET_S)
                continue
            began_s = time.monotonic()
            self.poll()
            self._stop.wait(max(0.0, self._interval_s - (time.monotonic() - began_s)))

    def _rests(self) -> bool:
        """Whether no page has read for a while."""
        return self._clock() - self._read_s > max(_FORGET_S, 2 * self._interval_s)
