"""The server that is tuned: its metrics, and limits that it ends by itself when the tuner is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headway.api import AdminClient, StaleError
from headway_tools.console import FailedError, fetch_metrics
from headway_tools.load.scrape import Counts, read

#: How long a command holds beyond the time that its step needs.
GRACE_S = 20.0
_DRAIN_WITHIN_S = 60.0
_POLL_S = 0.5
_RENEW_EVERY_S = 5.0
_REASON = "headway tune"


class OvertakenError(FailedError):
    """Another client has changed the preset; the present preset stays."""


@dataclass(slots=True)
class Live:
    """A server under the preset that was in force at the beginning, with its ``settings`` and ``current`` seats."""

    client: AdminClient
    name: str
    source: str
    settings: Mapping[str, object]
    revision: int
    current: int
    ceiling: int
    actor: str | None = None
    sleep: Callable[[float], None] = time.sleep
    now_s: Callable[[], float] = time.monotonic
    asked: tuple[int, float | None] | None = field(default=None, init=False)

    @classmethod
    def of(cls, client: AdminClient, actor: str | None = None) -> Live:
        """The server behind a client. Raises AdminError; FailedError where a limit is set for a time already."""
        status, preset, presets = client.status(), client.preset(), client.presets()
        in_force = status.limit.ordered
        if in_force is not None and in_force.left_s is not None:
            raise FailedError(f"{client.url}: a limit is set there already, for another {in_force.left_s:.0f} s")
        source = next((known.source for known in presets.presets if known.name == preset.name), "given")
        settings, limit = preset.settings, status.limit
        fixed = settings.get("limit.policy", "fixed") == "fixed"
        current = int(str(settings["batching.seats"])) if fixed else limit.live
        return cls(
            client, preset.name, source, settings, preset.revision, min(current, limit.ceiling), limit.ceiling, actor
        )

    def counts(self) -> Counts:
        """The counts of a scrape. Raises ServerUnreachableError, TokenError."""
        return fetch_metrics(self.client.url, read, self.client.token)

    def set_limit(self, seats: int, window_ms: float | None, for_s: float) -> None:
        """Put the preset on so many seats, for a time after which the server goes back by itself."""
        self.asked = seats, window_ms  # before the answer, which may never come
        self._change(seats, window_ms, min(for_s + GRACE_S, 3600.0))

    def drained(self, seats: int, window_ms: float | None, for_s: float) -> None:
        """Wait until no more than ``seats`` are taken, or a minute, and renew the command for ``for_s`` meanwhile."""
        until_s, renewed_s = self.now_s() + _DRAIN_WITHIN_S, self.now_s()
        while self.client.status().seats_taken > seats and self.now_s() < until_s:
            self.sleep(_POLL_S)
            if self.now_s() - renewed_s >= _RENEW_EVERY_S:
                self.set_limit(seats, window_ms, for_s)
                renewed_s = self.now_s()
        self.set_limit(seats, window_ms, for_s)

    def check(self) -> None:
        """Raise OvertakenError where another client has changed the preset, or the command has expired."""
        if self.client.preset().revision != self.revision:
            raise OvertakenError(self._overtaken())

    def restore(self) -> bool:
        """End the commands of this run; False where another client has changed the limit meanwhile."""
        if self.asked is None:
            return True
        try:
            self._change(None, None, None)
        except OvertakenError:
            if not self._restored_anew():
                return False
        self.asked = None
        return True

    def _restored_anew(self) -> bool:
        """End the last command where it is in force, though its answer with the revision was never read; True also
        where it has expired, and what was in force before is so again: a limit of another client, perhaps.
        """
        preset, in_force = self.client.preset(), self.client.status().limit.ordered
        self.revision = preset.revision
        if preset.name != self.name:
            return False
        if in_force is None or in_force.left_s is None:
            return preset.settings == self.settings
        if (in_force.seats, in_force.window_ms) != self.asked:
            return False
        self._change(None, None, None)
        return True

    def keep(self, seats: int, window_ms: float | None) -> None:
        """Put the preset on so many seats until the next switch."""
        self._change(seats, window_ms, None)

    def _change(self, seats: int | None, window_ms: float | None, expires_s: float | None) -> None:
        try:
            done = self.client.order_limit(
                seats,
                revision=self.revision,
                window_ms=window_ms,
                expires_s=expires_s,
                reason=_REASON,
                actor=self.actor,
            )
        except StaleError:
            raise OvertakenError(self._overtaken()) from None
        self.revision = done.revision

    def _overtaken(self) -> str:
        now = self.client.preset()
        return (
            f"the preset was changed meanwhile: {now.name} is in force (revision {now.revision}), and is left as it is"
        )
