"""Silences of alerts: the alert, the end, the author and the reason, kept by the server for every dashboard.

A silence hides no figure and stops no notification of Alertmanager: dashboards list the alert apart until its end. A
restart of the server ends all of them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from headway.admission import Gate
from headway.audit import Audit, Caller, plain
from headway.errors import CommandConflictError
from headway_policies.units import duration

#: Silences at one time, of different alerts.
MAX_SILENCES = 64
_ACTION = "silence_alert"


@dataclass(frozen=True, slots=True)
class AlertSilence:
    """The silence of an alert, from and until times of the wall clock; ``ends_s`` is one of the clock of the gate."""

    alert: str
    since_wall_s: float
    ends_wall_s: float
    ends_s: float
    actor: str
    reason: str


class Silences:
    """The silences of one server. Call it on the event loop's thread only."""

    def __init__(self, gate: Gate, audit: Audit) -> None:
        self._gate, self._audit = gate, audit
        self._known: dict[str, AlertSilence] = {}

    def silence(self, alert: str, for_s: float, caller: Caller, reason: str = "") -> None:
        """Silence an alert for so many seconds from now; a second silence of the alert replaces the first.

        Raises CommandConflictError where ``MAX_SILENCES`` other alerts are silent.
        """
        if len({silence.alert for silence in self.active()} | {alert}) > MAX_SILENCES:
            why = f"{MAX_SILENCES} alerts are silent already: end one of these silences first"
            self._audit.command(caller, _ACTION, self._gate.desk, reason, f"refused: {why}")
            raise CommandConflictError(why)
        ends_s, since_s = self._gate.now_s() + for_s, time.time()
        self._known[alert] = AlertSilence(alert, since_s, since_s + for_s, ends_s, plain(caller.actor), plain(reason))
        self._audit.command(caller, _ACTION, self._gate.desk, reason, f"applied: {alert}, for {duration(for_s)}")

    def end(self, alert: str, caller: Caller, reason: str = "") -> None:
        """End the silence of an alert. Nothing changes, and nothing is recorded, where there is none."""
        if any(silence.alert == alert for silence in self.active()):
            del self._known[alert]
            self._audit.command(caller, _ACTION, self._gate.desk, reason, f"applied: {alert} is silent no longer")

    def active(self) -> list[AlertSilence]:
        """The silences that have not ended, in the order of their ends."""
        now_s = self._gate.now_s()
        self._known = {alert: silence for alert, silence in self._known.items() if silence.ends_s > now_s}
        return sorted(self._known.values(), key=lambda silence: silence.ends_s)
