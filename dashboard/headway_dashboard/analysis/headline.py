"""The headline of the Overview page: how bad it is, what limits the server, and what would help."""

from __future__ import annotations

from dataclasses import dataclass

from headway.api import schema
from headway_dashboard.analysis.condition import State
from headway_dashboard.analysis.diagnosis_facts import facts_of
from headway_dashboard.analysis.reading import Reading
from headway_dashboard.analysis.status import Status
from headway_policies.diagnosis import Bottleneck, Diagnosis, Remedy, Severity, diagnose

TITLE = "Headway"


@dataclass(frozen=True, slots=True)
class Headline:
    """What limits the server, and what is wrong, a sentence each.

    ``severity`` is None where it is not known, ``remedy`` where nothing would help.
    """

    severity: Severity | None
    statement: str
    symptoms: tuple[str, ...] = ()
    remedy: Remedy | None = None

    @property
    def sentence(self) -> str:
        """All of it in one paragraph."""
        return " ".join((*self.symptoms, self.statement))


def headline_of(reading: Reading, state: State, status: Status) -> Headline:
    """The diagnosis of the newest figures; while they are old, what is known in its place."""
    match state:
        case State.DOWN:
            text = "The server cannot be reached: check its log, and the address this dashboard was started with."
            return Headline(Severity.DOWN, text)
        case State.CONNECTING:
            return Headline(None, "Connecting to the server.")
        case State.STALE:
            return Headline(None, "Old figures allow no diagnosis.")
        case State.NO_TRAFFIC:
            return _without_traffic(_diagnosis(reading, status))
        case State.LIVE | State.NOT_READY:
            return _of(_diagnosis(reading, status))


def tab_title(severity: Severity | None) -> str:
    """The title of the browser's tab: with the severity in front where it is worse than ok."""
    return f"{severity.word} · {TITLE}" if severity else TITLE


def _diagnosis(reading: Reading, status: Status) -> Diagnosis:
    """The server's own where it says it: it knows more, forecasts among it. Else one of the figures on this page."""
    own = None if status.diagnosis is None else _told(status.diagnosis)
    return own or diagnose(facts_of(reading, status))


def _told(own: schema.Diagnosis) -> Diagnosis | None:
    """None where a newer server says what this package does not know."""
    found = {one.word: one for one in Severity}.get(own.severity)
    if found is None or own.bottleneck not in set(Bottleneck):
        return None
    remedies = tuple(Remedy(one.action, one.cost, one.command) for one in own.remedies)
    return Diagnosis(found, Bottleneck(own.bottleneck), own.statement, tuple(own.symptoms), remedies=remedies)


def _of(found: Diagnosis, also: str = "") -> Headline:
    return Headline(found.severity, found.statement + also, found.symptoms, next(iter(found.remedies), None))


def _without_traffic(found: Diagnosis) -> Headline:
    """A finding is of requests that came before: the sentence says that none come now."""
    return _of(found) if found.bottleneck is Bottleneck.NONE else _of(found, " No requests arrive now.")
