"""The state of each class against its objectives."""

from __future__ import annotations

from readings import reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.server.class_states import _COUNTS, BUDGET, BURNS, MET, TOKENS, Cell, class_states
from headway_dashboard.analysis.server.objectives import ClassObjectives
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.units import MISSING

STATUS = Status(
    known=True, objectives={"realtime": ClassObjectives(0.5, inter_token_slo_s=0.1), "batch": ClassObjectives()}
)
CLASSES = ("realtime", "normal", "batch")


def row(answers: dict, name: str) -> dict[str, Cell]:  # type: ignore[type-arg]  # expressions and lines
    """The row of a class, with plain spaces."""
    found = {one["Class"].text: one for one in class_states(reading_of(answers), STATUS, CLASSES)}[name]
    return {title: Cell(cell.text.replace("\xa0", " "), cell.tone) for title, cell in found.items()}


def test_a_bound_that_is_passed_is_red_and_one_that_is_near_is_orange() -> None:
    """Each class against its own objectives, with numbers beside shares."""
    met, judged = _COUNTS.values()
    answers = {
        panels.TTFT_P95_BY_CLASS: {("realtime",): [0.6], ("batch",): [50.0]},
        panels.INTER_TOKEN_P95_BY_CLASS: {("realtime",): [0.09]},
        MET: {("realtime",): [0.8], ("batch",): [1.0]},
        met: {("realtime",): [8.0], ("batch",): [4.0]},
        judged: {("realtime",): [10.0], ("batch",): [4.0]},
        panels.ERROR_SHARE_BY_CLASS: {("realtime",): [0.2]},
        panels.ENDED_BY_CLASS: {("realtime",): [10.0]},
        panels.FAILED_BY_CLASS: {("realtime",): [2.0]},
        panels.QUEUED_BY_CLASS: {("realtime",): [3.0]},
        panels.OLDEST_BY_CLASS: {("realtime",): [0.2]},
        TOKENS: {("realtime",): [30.0], ("batch",): [90.0]},
        BUDGET: {("realtime",): [1.5], ("batch",): [0.9]},
    }
    realtime, batch = row(answers, "realtime"), row(answers, "batch")
    assert realtime["TTFT p95"] == Cell("600 ms / 500 ms", "red")
    assert realtime["Between tokens p95"] == Cell("90 ms / 100 ms", "orange")
    assert realtime["Objectives met"] == Cell("80 % (8 of 10)", "red")
    assert realtime["No answer"] == Cell("20 % (2 of 10)", "red")
    assert realtime["Waiting"] == Cell("3, oldest 200 ms")
    assert (realtime["Tokens"], realtime["Budget left"]) == (Cell("25 %"), Cell("0 %", "red"))
    assert batch["TTFT p95"] == Cell("50 s")
    assert batch["Objectives met"] == Cell("100 % (4 of 4)")
    assert batch["Budget left"] == Cell("10 %", "orange")


def test_a_budget_that_is_used_up_faster_than_it_comes_back_has_an_end() -> None:
    """At what is used up now; a slower use has none, nor has one that is used up."""
    answers = {
        BUDGET: {("realtime",): [0.5], ("normal",): [0.5], ("batch",): [1.0]},
        BURNS: {("realtime",): [10.0], ("normal",): [0.9], ("batch",): [10.0]},
    }
    assert row(answers, "realtime")["Budget left"].text == "50 %, ends in 3 min"
    assert row(answers, "normal")["Budget left"].text == "50 %"
    assert row(answers, "batch")["Budget left"].text == "0 %"


def test_what_is_not_known_is_a_dash_without_a_colour() -> None:
    """Nothing is judged that was not measured."""
    normal = row({}, "normal")
    assert {cell for title, cell in normal.items() if title != "Class"} == {Cell(MISSING)}


def test_nothing_is_computed_while_the_engine_is_away() -> None:
    """The figures of the half minute before are of another engine."""
    gone = {
        panels.ENGINE_STATE: {("up",): [0], ("lost",): [1]},
        panels.TTFT_P95_BY_CLASS: {("realtime",): [0.6]},
        TOKENS: {("realtime",): [30.0]},
    }
    found = row(gone, "realtime")
    assert found["TTFT p95"] == Cell("engine down / 500 ms")
    assert (found["Tokens"], found["Running"]) == (Cell("engine down"), Cell("engine down"))


def test_what_is_not_current_is_not_judged() -> None:
    """The last known values of a server that does not answer have no colour."""
    found = reading_of({panels.TTFT_P95_BY_CLASS: {("realtime",): [0.6]}})
    assert class_states(found, STATUS, CLASSES)[0]["TTFT p95"].tone == "red"
    (realtime, *_) = class_states(found, STATUS, CLASSES, current=False)
    assert {cell.tone for cell in realtime.values()} == {"off"}
