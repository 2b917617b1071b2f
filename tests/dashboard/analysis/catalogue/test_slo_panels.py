"""Objectives, goodput and the error budget, from a ring of scrapes."""

from __future__ import annotations

import pytest

from headway_dashboard.analysis.catalogue import slo_panels
from headway_dashboard.analysis.catalogue.slo_panels import (
    BOTH_PANEL,
    BURN_PANEL,
    GOODPUT,
    attainment,
    burn,
    held_words,
)
from headway_dashboard.analysis.catalogue.thresholds import TARGET_RATIO
from headway_dashboard.analysis.queries.model import Grid
from headway_dashboard.sources.exposition import SampleKey
from headway_dashboard.sources.ring import Ring

STEP_S = 10.0


def key(what: str, class_name: str, objective: str = "both") -> SampleKey:
    """A counter of the objectives."""
    return f"headway_objective_{what}_total", (("class", class_name), ("objective", objective))


@pytest.fixture
def ring() -> Ring:
    """Twenty minutes: batch misses one of ten, realtime none until the last five minutes, and then one of twenty."""
    found = Ring(keep_s=3600.0, stale_s=3 * STEP_S)
    met = 0.0
    for turn in range(121):
        met += 10.0 if turn <= 90 else 9.5
        found.add(
            turn * STEP_S,
            {
                key("judged", "batch"): 10.0 * turn,
                key("met", "batch"): 9.0 * turn,
                key("judged", "realtime"): 10.0 * (turn + 1),
                key("met", "realtime"): met,
                key("judged", "realtime", "inter_token"): 1.0 * turn,
                key("met", "realtime", "inter_token"): 1.0 * turn,
            }.items(),
        )
    return found


ON = Grid(900.0, 1200.0, STEP_S, 40.0)


def test_attainment_is_what_met_its_objectives(ring: Ring) -> None:
    """By class and by objective; a class that states none has no line."""
    assert ring.evaluate(attainment("both"), ON).latest("batch") == pytest.approx(0.9)
    assert ring.evaluate(attainment("both"), ON).latest("realtime") == pytest.approx(0.95)
    assert ring.evaluate(attainment("inter_token"), ON).lines.keys() == {("realtime",)}
    assert ring.evaluate(attainment("first_token"), ON).lines == {}


def test_goodput_counts_what_met_everything(ring: Ring) -> None:
    """Requests a second."""
    assert ring.evaluate(GOODPUT, ON).latest("batch") == pytest.approx(0.9)


def test_the_budget_burns_by_its_own_look_back(ring: Ring) -> None:
    """Ten times as fast where one of ten misses a target of 99 %; the hour is calmer than the five minutes."""
    short, long = (ring.evaluate(burn(window_s), ON) for window_s in (slo_panels.SHORT_S, slo_panels.LONG_S))
    assert short.latest("batch") == pytest.approx(10.0)
    assert long.latest("batch") == pytest.approx(10.0)
    assert short.latest("realtime") == pytest.approx(5.0)
    assert long.latest("realtime") == pytest.approx(1.25)


def test_the_target_is_told() -> None:
    """On the panels, and drawn as a line."""
    assert "99" in BURN_PANEL.title
    assert "99" in BOTH_PANEL.caption
    assert [bound.value for bound in BOTH_PANEL.bounds] == [TARGET_RATIO] == [0.99]


@pytest.mark.parametrize(("held_s", "said"), [(1800.0, "30 min"), (3600.0, ""), (86_400.0, "")])
def test_a_source_that_holds_less_says_so(held_s: float, said: str) -> None:
    """A look back of an hour over half an hour of figures is half an hour."""
    words = held_words(held_s).replace("\u00a0", " ")
    assert said in words
    assert bool(words) == bool(said)
