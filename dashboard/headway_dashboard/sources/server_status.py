"""The server's own status, kept fresh by one thread for all visitors.

With a token the admin API is asked; without one, or while the server refuses it, the readiness probe, which needs none
and gives the reasons only. A refused token is tried again rarely, since the server writes every refusal into its audit
log. No request is sent while no page reads the status.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from headway.api import AdminError, RefusedError, RoleError, SwitchedOffError, TokenRefusedError
from headway.api.schema import AuditEntry
from headway_dashboard.analysis.server.status import NO_LADDER, Status, status_of
from headway_dashboard.server_client import admin_client

FIRST_WAIT_S = 1.0
_REFUSED_FOR_S = 300.0
_FORGET_S = 30.0
_CHANGES, _CHANGES_EVERY_S = 20, 5.0


class ServerStatusSource:
    """Polls one server's status. The thread starts with the first reading and ends with ``close`` or the process."""

    def __init__(
        self, url: str, token: str | None, *, interval_s: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = admin_client(url, token, lenient=True)
        self._may_ask_from_s = 0.0 if token else float("inf")
        self._interval_s = interval_s
        self._clock = clock
        self._status = Status()
        self._known_changes: tuple[AuditEntry, ...] | None = None
        self._changes_from_s = 0.0
        self._read_s = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._told = threading.Event()
        self._looked = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self, wait_s: float = FIRST_WAIT_S) -> Status:
        """The newest answer. Only the very first reading waits, a second at most, for the first one."""
        self.begin()
        self._told.wait(wait_s)
        self._told.set()
        return self._status

    def begin(self) -> None:
        """Ask from now on, without a wait."""
        with self._lock:
            self._read_s = self._clock()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="headway-status", daemon=True)
                self._thread.start()
        self._looked.set()

    def poll(self) -> None:
        """Poll once. Never raises: what the server does not report is unknown."""
        self._status = self._ask()
        self._told.set()

    def close(self) -> None:
        """Stop polling and wait for the thread."""
        self._stop.set()
        self._looked.set()
        if self._thread is not None:
            self._thread.join(10)
        self._client.close()

    def _ask(self) -> Status:
        try:
            if self._clock() >= self._may_ask_from_s:
                return self._whole()
        except (TokenRefusedError, RoleError, SwitchedOffError):
            self._may_ask_from_s = self._clock() + _REFUSED_FOR_S
        except AdminError:
            return Status()
        try:
            return Status(reasons=tuple(self._client.readiness().reasons))
        except AdminError:
            return Status()

    def _changes(self) -> tuple[AuditEntry, ...] | None:
        """The last commands; asked for more rarely, and None from a server that does not show them."""
        if self._clock() >= self._changes_from_s:
            self._changes_from_s = self._clock() + _CHANGES_EVERY_S
            try:
                self._known_changes = tuple(self._client.audit(_CHANGES))
            except AdminError:
                self._known_changes = None
        return self._known_changes

    def _whole(self) -> Status:
        """Status, ladder and preset. A server without the last two, of an older version, tells the first."""
        try:
            ladder = self._client.fallback()
        except SwitchedOffError:
            ladder = NO_LADDER
        status = self._client.status()
        try:
            settings = self._client.preset().settings
        except RefusedError:
            settings = None
        return replace(status_of(status, ladder, settings), changes=self._changes())

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._clock() - self._read_s > _FORGET_S:
                self._looked.clear()
                self._looked.wait(_FORGET_S)
                continue
            began_s = time.monotonic()
            self.poll()
            self._stop.wait(max(0.0, self._interval_s - (time.monotonic() - began_s)))
