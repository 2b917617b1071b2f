"""Silences of alerts: the alert, the end, the author and the reason, kept by the server for every dashboard.

A silence hides no figure and stops no notification of Alertmanager: dashboards list the alert apart until its end. A
restart of the server ends all of them.
"""

from __future__ import annotations

import time

from headway.admission import Gate
from headway.api.schema import Silence
from headway.audit import Audit, Caller, plain
from headway.errors import CommandConflictError
from headway.utc_text import utc_text
from headway_policies.units import duration

#: Silences at one time, of different alerts.
MAX_SILENCES = 64
_ACTION = "silence_alert"


class Silences:
    """The silences of one server. Call it on the event loop's thread only."""

    def __init__(self, gate: Gate, audit: Audit) -> None:
        self._gate, self._audit = gate, audit
        self._known: dict[str, tuple[float, Silence]] = {}  # with the end on the gate's clock

    def silence(self, alert: str, for_s: float, caller: Caller, reason: str = "") -> None:
        """Silence an alert for so many seconds from now; a second silence of the alert replaces the first.

        Raises CommandConflictError where ``MAX_SILENCES`` other alerts are silent.
        """
        if len({silence.alert for silence in self.active()} | {alert}) > MAX_SILENCES:
            why = f"{MAX_SILENCES} alerts are silent already: end one of these silences first"
            self._audit.command(caller, _ACTION, self._gate.desk, reason, f"refused: {why}")
            raise CommandConflictError(why)
        ends_s, since_s = self._gate.now_s() + for_s, time.time()
        self._known[alert] = (
            ends_s,
            Silence(
                alert=alert,
                since=utc_text(since_s),
                ends=utc_text(since_s + for_s),
                actor=plain(caller.actor),
                reason=plain(reason),
            ),
        )
        self._audit.command(caller, _ACTION, self._gate.desk, reason, f"applied: {alert}, for {duration(for_s)}")

    def end(self, alert: str, caller: Caller, reason: str = "") -> None:
        """End the silence of an alert. Nothing changes, and nothing is recorded, where there is none."""
        if any(silence.alert == alert for silence in self.active()):
            del self._known[alert]
            self._audit.command(caller, _ACTION, self._gate.desk, reason, f"applied: {alert} is silent no longer")

    def active(self) -> list[Silence]:
        """The silences that have not ended, in the order of their ends."""
        now_s = self._gate.now_s()
        self._known = {alert: known for alert, known in self._known.items() if known[0] > now_s}
        return [silence for _, silence in sorted(self._known.values(), key=lambda known: known[0])]
