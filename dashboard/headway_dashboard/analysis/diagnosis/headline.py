"""The headline of the Overview page: how bad it is, what limits the server, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headway.api import schema
from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.diagnosis.facts import facts_of
from headway_dashboard.analysis.diagnosis.since import SEVERITY
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.server import tile_notes
from headway_dashboard.analysis.server.condition import State
from headway_dashboard.analysis.server.engine_steps import without_dead_steps
from headway_dashboard.analysis.server.instances import by_instance, reading_of_one
from headway_dashboard.analysis.server.newest_values import condition_of
from headway_dashboard.analysis.server.status import Status
from headway_policies.diagnosis import Bottleneck, Diagnosis, Remedy, Severity, diagnose

TITLE = "Headway"

#: The questions whose answers the headline needs.
EXPRESSIONS: tuple[Expression, ...] = (
    *panels.FACTS,
    *panels.FACTS_BY_CLASS,
    *panels.HEAD,
    *panels.CLASS_TABLE,
    *tile_notes.STATED,
    panels.ERRORS_BY_CAUSE,
    engine_panels.DEATHS_BY_CAUSE,
    SEVERITY,
)


@dataclass(frozen=True, slots=True)
class Headline:
    """The limit of the server, and its troubles, a sentence each.

    ``severity`` is None where it is not known, ``remedy`` where nothing would help.
    """

    severity: Severity | None
    statement: str
    symptoms: tuple[str, ...] = ()
    remedy: Remedy | None = None

    @property
    def lead(self) -> str:
        """The first sentence: which class is hit and how badly, else the statement."""
        return self.symptoms[0] if self.symptoms else self.statement

    @property
    def more(self) -> tuple[str, ...]:
        """The troubles after the first."""
        return self.symptoms[1:]

    @property
    def why(self) -> str:
        """The statement, where it does not lead."""
        return self.statement if self.symptoms else ""

    @property
    def sentence(self) -> str:
        """The whole headline in one paragraph."""
        return " ".join((*self.symptoms, self.statement))


def headline_of(reading: SourceReading, state: State, status: Status) -> Headline:
    """The diagnosis of the newest figures; while they are old, what is known in its place.

    Of several servers, whose figures by server the reading holds, it is that of the worst.
    """
    each = {} if state in (State.DOWN, State.CONNECTING, State.STALE) else _of_each(reading, status)
    if each:
        return worst(each)
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


def by_server() -> tuple[Expression, ...]:
    """The expressions that a reading of several servers needs beside ``EXPRESSIONS``, for a diagnosis of each."""
    return tuple(by_instance(expression) for expression in EXPRESSIONS)


def worst(each: Mapping[str, Headline]) -> Headline:
    """The headline of the server that is worst off, with its name; after its first trouble how all do, and after its
    others what is wrong with another one.

    A remedy keeps no command: it would reach whichever server it is given to.
    """
    (name, found), *others = sorted(each.items(), key=lambda item: _rank(item[1]), reverse=True)
    words = ["unknown" if headline.severity is None else headline.severity.word for headline in each.values()]
    counted = ", ".join(f"{number} {word}" for word, number in Counter(sorted(words)).items())
    remedy = None if found.remedy is None else replace(found.remedy, command="")
    all_of_them = f"Of {len(each)} servers: {counted}."
    own = (f"{name}: {found.lead}", all_of_them, *found.more) if found.symptoms else (all_of_them,)
    troubled = [f"{other}: {headline.lead}" for other, headline in others if _rank(headline) >= Severity.DEGRADED]
    return Headline(found.severity, f"{name}: {found.statement}", (*own, *troubled), remedy)


def _rank(headline: Headline) -> int:
    return -1 if headline.severity is None else headline.severity


def _of_each(reading: SourceReading, status: Status) -> dict[str, Headline]:
    """The headline of each of several servers; none where the reading does not tell them apart."""
    if len(reading.instances) < 2 or by_instance(panels.READY) not in reading.series:
        return {}
    found = {}
    for name in reading.instances:
        alone = without_dead_steps(reading_of_one(reading, EXPRESSIONS, name))
        state = condition_of(alone, reading.end_s)
        found[name] = headline_of(alone, state.state, status.servers.get(name, Status()))
    return found


def tab_title(severity: Severity | None) -> str:
    """The title of the browser's tab: with the severity in front where it is worse than ok."""
    return f"{severity.word} · {TITLE}" if severity else TITLE


def _diagnosis(reading: SourceReading, status: Status) -> Diagnosis:
    """The server's own where it says it: it knows more, forecasts among it. Else one of the figures on this page."""
    own = None if status.diagnosis is None else _told(status.diagnosis)
    found = own or _by_figures(reading, status)
    if len(reading.instances) < 2:
        return found
    # a command is for one server, and its numbers would be those of all together
    return replace(found, remedies=tuple(replace(remedy, command="") for remedy in found.remedies))


def _by_figures(reading: SourceReading, status: Status) -> Diagnosis:
    """The diagnosis of the figures on this page, no better than the severity in the server's metrics."""
    found, told = diagnose(facts_of(reading, status)), reading[SEVERITY].latest()
    known = next((severity for severity in Severity if severity == told), Severity.OK)
    return replace(found, severity=max(found.severity, known))


def _told(own: schema.Diagnosis) -> Diagnosis | None:
    """The diagnosis that a server tells; None where a newer server says what this package does not know."""
    found = {severity.word: severity for severity in Severity}.get(own.severity)
    if found is None or own.bottleneck not in set(Bottleneck):
        return None
    remedies = tuple(Remedy(remedy.action, remedy.cost, remedy.command) for remedy in own.remedies)
    return Diagnosis(found, Bottleneck(own.bottleneck), own.statement, tuple(own.symptoms), remedies=remedies)


def _of(found: Diagnosis, also: str = "") -> Headline:
    return Headline(found.severity, found.statement + also, found.symptoms, next(iter(found.remedies), None))


def _without_traffic(found: Diagnosis) -> Headline:
    """A finding is of requests that came before: the sentence says that none come now."""
    return _of(found) if found.bottleneck is Bottleneck.NONE else _of(found, " No requests arrive now.")
