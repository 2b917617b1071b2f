"""The headline: the diagnosis in every state of the server, with what is wrong, and of several servers the worst."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from headline_readings import TOLD, WELL, Answers, is_favourable, reading

from headway.api import schema
from headway.api.schema import EngineStatus
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.diagnosis.headline import Headline, headline_of, tab_title
from headway_dashboard.analysis.diagnosis.since import SEVERITY
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Labels, Point
from headway_dashboard.analysis.server import newest_values, tile_notes
from headway_dashboard.analysis.server.condition import State
from headway_dashboard.analysis.server.instances import by_instance
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.sources import Health, SourceReading
from headway_policies.diagnosis import Remedy, Severity

IDLE: Answers = {
    **WELL, panels.SEATS: 0, panels.ARRIVALS: 0, panels.IN_FLIGHT: 0, panels.ERROR_SHARE: None,
    panels.TTFT[0.95]: None, panels.IN_FLIGHT_BY_CLASS: {("normal",): 0}, panels.ARRIVALS_BY_CLASS: {("normal",): 0},
    panels.TTFT_P95_BY_CLASS: {("normal",): None}, panels.ERROR_SHARE_BY_CLASS: {("normal",): None},
}  # fmt: skip
WAITING: Answers = {panels.QUEUED: 3, panels.OLDEST: 12.0, panels.READY: 0}


def headline_now(answers: Answers, status: Status) -> Headline:
    """The headline in the state that the figures themselves give."""
    found = reading(answers)
    return headline_of(found, newest_values.condition_of(found, 1002.0).state, status)


# ---------------------------------------------------------------------- the server's own diagnosis

OWN = schema.Diagnosis(
    severity="overloaded",
    bottleneck="seats",
    statement="Limited by the seats of this preset: 32 of 32 seats taken, 41 waiting.",
    remedies=[
        schema.Remedy(action="the preset throughput", cost="longer steps", command="headway preset use throughput")
    ],
)


@pytest.mark.parametrize("state", [State.LIVE, State.NOT_READY])
def test_the_servers_own_diagnosis_comes_first(state: State) -> None:
    """The server knows what no metric says: forecasts, and the time between tokens of a class."""
    found = headline_of(reading(WELL), state, replace(TOLD, diagnosis=OWN))
    assert (found.severity, found.sentence) == (Severity.OVERLOADED, OWN.statement)
    assert found.remedy == Remedy("the preset throughput", "longer steps", "headway preset use throughput")


@pytest.mark.parametrize("change", [{"severity": "catastrophic"}, {"bottleneck": "network"}])
def test_what_a_newer_server_says_is_not_guessed_at(change: dict[str, str]) -> None:
    """A word that this package does not know: then the figures decide."""
    status = replace(TOLD, diagnosis=OWN.model_copy(update=change))
    assert headline_of(reading(WELL), State.LIVE, status).severity is Severity.OK


def test_old_figures_are_not_covered_up_by_it() -> None:
    """The state of the page counts before it."""
    status = replace(TOLD, diagnosis=OWN)
    assert headline_of(reading(WELL), State.STALE, status).severity is None
    assert headline_of(reading(WELL), State.DOWN, status).severity is Severity.DOWN


# ---------------------------------------------------------------------- what is wrong is said


def test_a_server_that_does_well_is_told_so() -> None:
    """Else the tests below would prove nothing; without a token the objectives are missing, and nothing is praised."""
    found = headline_now(WELL, TOLD)
    assert found.sentence.startswith("Far below capacity: 5 of 32 seats taken, no request waits.")
    assert (found.severity, found.remedy) == (Severity.OK, None)
    untold = headline_now(WELL, Status())
    assert untold.severity is Severity.WATCH
    assert untold.sentence.endswith("Not known: objectives of normal.")


def test_late_first_tokens_are_not_called_room() -> None:
    """46 s to the first token while seats are free is within the time-out of a minute, and far beyond the objective."""
    found = headline_now({**WELL, panels.TTFT_P95_BY_CLASS: {("normal",): 46.0}}, TOLD)
    assert found.severity is Severity.DEGRADED
    assert found.sentence.startswith("First tokens of class normal come too late: 46 s (p95), its objective is 2 s.")
    assert not is_favourable(found)


@pytest.mark.parametrize(
    "wrong",
    [
        {panels.ERROR_SHARE: 0.005, panels.ERROR_SHARE_BY_CLASS: {("normal",): 0.5}},
        {
            panels.ERROR_SHARE: 0.02,
            panels.ERRORS_BY_CAUSE: {("", "failed"): 0.4, ("", "rejected_invalid"): 0.4, ("queue_full", ""): 0.2},
        },
    ],
    ids=["of one class", "of several causes"],
)
def test_errors_are_not_called_room(wrong: Answers) -> None:
    """Errors of one class alone, or of causes that are at most 1 % each: after them comes the load, and no praise."""
    found = headline_now({**WELL, **wrong}, TOLD)
    assert "end without an answer" in found.sentence
    assert not is_favourable(found), found.sentence


@pytest.mark.parametrize(
    ("engine_state", "status", "sentence"),
    [
        ("restarting",
         replace(TOLD, engine=EngineStatus(state="restarting"), reasons=("the engine is being replaced",)),
         "The engine is being replaced, 3 waiting, the oldest for 12 s."),
        ("restarting", Status(), "The engine is being replaced, 3 waiting, the oldest for 12 s."),
        ("lost", replace(TOLD, engine=EngineStatus(state="lost"), reasons=("the engine is not running",)),
         "The engine is gone, 3 waiting, the oldest for 12 s."),
        ("lost", Status(reasons=("the engine is not running",)),
         "No request is dispatched: the engine is not running, 3 waiting, the oldest for 12 s."),
        ("silent", Status(), "The engine does not respond, 3 waiting, the oldest for 12 s."),
        ("up", Status(reasons=("warm-up running",)),
         "No request is dispatched: warm-up running, 3 waiting, the oldest for 12 s."),
        ("up", replace(TOLD, reasons=("draining",), admission="draining"),
         "No request is dispatched: draining, 3 waiting, the oldest for 12 s."),
        ("up", Status(), "No request is dispatched: the server is not ready, 3 waiting, the oldest for 12 s."),
    ],
    ids=[
        "restarting", "restarting, no token", "lost", "lost, no token", "silent", "warming up", "draining", "no reason",
    ],
)  # fmt: skip
def test_a_server_that_takes_no_traffic_says_why_and_how_many_wait(
    engine_state: str, status: Status, sentence: str
) -> None:
    """During a restart, and while the engine is gone or does not respond, with a token and without."""
    found = headline_now({**WELL, **WAITING, panels.ENGINE_STATE: {(engine_state,): 1}}, status)
    assert found.sentence == sentence
    assert found.severity is (Severity.WATCH if status.admission == "draining" else Severity.DOWN)


def test_a_best_remedy_comes_with_its_cost_and_command() -> None:
    """The first of the diagnosis: what would help most."""
    full = {**WELL, panels.SEATS: 32, panels.QUEUED: 41, panels.OLDEST: 3.2}
    found = headline_now(full, TOLD)
    assert found.sentence == (
        "Limited by the seats of this preset: 32 of 32 seats taken, 41 waiting, the oldest for 3.2 s."
    )
    assert found.remedy is not None
    assert found.remedy.cost
    assert found.remedy.command == "headway preset forecast"


# ---------------------------------------------------------------------- the states


@pytest.mark.parametrize(
    ("state", "severity", "words"),
    [
        (State.DOWN, Severity.DOWN, "cannot be reached"),
        (State.STALE, None, "Old figures allow no diagnosis."),
        (State.CONNECTING, None, "Connecting to the server."),
    ],
)
def test_old_figures_are_not_diagnosed(state: State, severity: Severity | None, words: str) -> None:
    """Whatever they were."""
    found = headline_of(reading(WELL), state, TOLD)
    assert words in found.sentence
    assert (found.severity, found.remedy) == (severity, None)


def test_an_idle_server_is_well() -> None:
    """Nothing is measured because nothing happens, with a token and without: no reason to watch it."""
    for status in (TOLD, Status()):
        found = headline_now(IDLE, status)
        assert found == Headline(Severity.OK, "Idle: 0 of 32 seats taken, no request waits.")


def test_an_idle_server_still_names_its_errors() -> None:
    """No request arrives any more, but earlier ones were refused: the sentence says that, and not that the server is
    idle."""
    causes = {("queue_timeout", ""): 1.0}
    assert (
        headline_now({**IDLE, panels.ERROR_SHARE: 0.01, panels.ERRORS_BY_CAUSE: causes}, TOLD).severity is Severity.OK
    )
    found = headline_now({**IDLE, panels.ERROR_SHARE: 1.0, panels.ERRORS_BY_CAUSE: causes}, TOLD)
    assert found.sentence.startswith("100 % of requests end without an answer; main cause: timed out waiting. ")
    assert found.sentence.endswith(" No requests arrive now.")
    assert not is_favourable(found)


@pytest.mark.parametrize("severity", [None, *Severity])
def test_the_tab_names_what_is_worse_than_ok(severity: Severity | None) -> None:
    """First, because a narrow tab shows the first letters only."""
    well = severity in (None, Severity.OK)
    assert tab_title(severity) == ("Headway" if well or severity is None else f"{severity.word} · Headway")


@pytest.mark.parametrize(
    ("told", "severity"), [(3, Severity.OVERLOADED), (0, Severity.DEGRADED), (9, Severity.DEGRADED)]
)
def test_without_a_status_the_metrics_tell_severity_and_objectives(told: float, severity: Severity) -> None:
    """A dashboard without a token contradicts neither the tiles nor the server, which knows more."""
    objectives = {tile_notes.OBJECTIVE: {("normal",): 0.05}, SEVERITY: told}
    found = headline_of(reading({**WELL, **objectives}), State.LIVE, Status())
    assert found.severity is severity
    assert found.symptoms == ("First tokens of class normal come too late: 100 ms (p95), its objective is 50 ms.",)


# ---------------------------------------------------------------------- several servers


def of_servers(answers: Mapping[str, Answers], away: tuple[str, ...] = ()) -> SourceReading:
    """One reading of several servers, with their figures apart."""
    apart: dict[Expression, dict[Labels, Point]] = {}
    for name, found in answers.items():
        for one, points in found.items():
            of_one = points if isinstance(points, Mapping) else {(): points}
            lines = apart.setdefault(by_instance(one), {})
            lines |= {(name, *labels): point for labels, point in of_one.items()}
    healths = dict.fromkeys(answers, Health(1002.0)) | dict.fromkeys(away, Health(900.0, 9, "refused", "gone", 902.0))
    return replace(reading({**WELL, **apart}), instances=healths)


FULL: Answers = {**WELL, panels.SEATS: 32, panels.QUEUED: 41, panels.OLDEST: 3.2}


def test_of_several_servers_the_worst_is_diagnosed() -> None:
    """A full server beside an empty one is not half full: its own figures are judged, and it is named."""
    status = Status(servers=dict.fromkeys(("a:1", "b:1", "c:1"), TOLD))
    found = headline_of(of_servers({"a:1": WELL, "b:1": FULL, "c:1": WELL}), State.LIVE, status)
    assert found.statement.startswith("b:1: Limited by the seats")
    assert "32 of 32 seats taken" in found.statement
    assert found.symptoms == ("Of 3 servers: 2 ok, 1 watch.",)
    assert found.remedy is not None
    assert found.remedy.command == ""


def test_a_server_that_does_not_answer_is_the_worst_of_several() -> None:
    """It is counted as down however well the others do, and their troubles are named after it."""
    failing = {**WELL, panels.ERROR_SHARE: 0.3, panels.ERRORS_BY_CAUSE: {("", "failed"): 1.0}}
    status = Status(servers=dict.fromkeys(("a:1", "b:1"), TOLD))
    found = headline_of(of_servers({"a:1": WELL, "b:1": failing}, ("d:1",)), State.LIVE, status)
    assert found.severity is Severity.DOWN
    assert found.statement.startswith("d:1: The server cannot be reached")
    assert found.symptoms[0] == "Of 3 servers: 1 degraded, 1 down, 1 ok."
    assert found.symptoms[1].startswith("b:1: 30 % of requests end without an answer")
    assert len(found.symptoms) == 2


def test_a_server_with_old_figures_is_counted_as_unknown() -> None:
    """It is neither well nor down."""
    together = of_servers({"a:1": WELL, "b:1": WELL})
    old = replace(together, instances={"a:1": Health(1002.0), "b:1": Health(980.0)})
    found = headline_of(old, State.LIVE, Status(servers=dict.fromkeys(("a:1", "b:1"), TOLD)))
    assert (found.severity, found.symptoms) == (Severity.OK, ("Of 2 servers: 1 ok, 1 unknown.",))


def test_each_server_has_its_own_status() -> None:
    """The status of a server is not said of another."""
    servers = {"a:1": replace(TOLD, diagnosis=OWN), "b:1": TOLD}
    found = headline_of(of_servers({"a:1": WELL, "b:1": WELL}), State.LIVE, Status(servers=servers))
    assert found.statement == f"a:1: {OWN.statement}"
    assert found.symptoms == ("Of 2 servers: 1 ok, 1 overloaded.",)


def test_of_several_servers_the_troubles_of_the_worst_are_named_as_its_own() -> None:
    """The first is read beside figures of all servers; how all of them do stands second, where it is still seen."""
    servers = {"a:1": replace(TOLD, diagnosis=OWN.model_copy(update={"symptoms": ["One.", "Two."]})), "b:1": TOLD}
    found = headline_of(of_servers({"a:1": WELL, "b:1": WELL}), State.LIVE, Status(servers=servers))
    assert found.symptoms == ("a:1: One.", "Of 2 servers: 1 ok, 1 overloaded.", "Two.")


def test_without_figures_by_server_a_command_is_left_out() -> None:
    """Its numbers would be those of all servers together."""
    together = replace(reading(FULL), instances={"a:1": Health(1002.0), "b:1": Health(1002.0)})
    found = headline_of(together, State.LIVE, TOLD)
    assert found.severity is not None
    assert found.remedy is not None
    assert found.remedy.command == ""
