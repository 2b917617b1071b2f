"""The server's own status, kept fresh by one thread for all visitors.

With a token the admin API is asked; without one, or while the server refuses it, the readiness probe, which needs none
and gives the reasons only. A refused token is tried again rarely, since the server writes every refusal into its audit
log.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from headway.api import AdminError, RefusedError, RoleError, SwitchedOffError, TokenRefusedError
from headway.api.schema import AuditEntry
from headway_dashboard.analysis.server.status import NO_LADDER, Status, status_of
from headway_dashboard.server_client import admin_client
from headway_dashboard.sources.polled import REFUSED_FOR_S, Polled

_CHANGES, _CHANGES_EVERY_S = 20, 5.0


class ServerStatusSource(Polled[Status]):
    """Polls one server's status."""

    def __init__(
        self, url: str, token: str | None, *, interval_s: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(admin_client(url, token, lenient=True), Status(), interval_s, clock)
        self._may_ask_from_s = 0.0 if token else float("inf")
        self._known_changes: tuple[AuditEntry, ...] | None = None
        self._changes_from_s = 0.0

    def _ask(self) -> Status:
        try:
            if self._clock() >= self._may_ask_from_s:
                return self._whole()
        except (TokenRefusedError, RoleError, SwitchedOffError):
            self._may_ask_from_s = self._clock() + REFUSED_FOR_S
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
