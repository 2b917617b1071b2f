"""The demo: simulated figures through the same expressions, named as what they are."""

from __future__ import annotations

from itertools import chain

import pytest

from headway.operator.metrics import METRIC_NAMES
from headway_dashboard.analysis.catalogue import ALL_PANELS, panels
from headway_dashboard.analysis.demo_words import DEMO_SOURCE, DEMO_WORDS
from headway_dashboard.analysis.diagnosis import headline
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.analysis.server.condition import State
from headway_dashboard.analysis.server.last_changes import EXPRESSIONS as CHANGES
from headway_dashboard.analysis.server.last_changes import change_rows
from headway_dashboard.sources import DemoSource, DemoStatus, read
from headway_dashboard.sources.demo import script
from headway_dashboard.sources.demo.exposition import samples_of
from headway_dashboard.sources.demo.server import CLASSES, SimulatedServer
from headway_policies import Outcome
from headway_policies.diagnosis import Severity

#: A light load under the first preset, long before the next overload.
START_S = 1_800_000_000.0
#: What begins so is of a router or of a share.
OF_OTHERS = ("headway_instance_", "headway_share_", "headway_grammar")
_PARTS = ("_bucket", "_count", "_sum")


@pytest.fixture(scope="module")
def simulated() -> SimulatedServer:
    """Half an hour of the demo."""
    server = SimulatedServer(START_S)
    server.advance(START_S + 1800)
    return server


@pytest.fixture(scope="module")
def source() -> DemoSource:
    """The demo at one moment."""
    return DemoSource(clock=lambda: START_S)


def plain_name(name: str) -> str:
    """A sample's name without the part of a histogram."""
    return next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)


def test_every_metric_of_headway_is_simulated(simulated: SimulatedServer) -> None:
    """Of the table of all metrics none is left out, so that no panel is dead; and none is made up."""
    names = {plain_name(name) for (name, _), _ in samples_of(simulated)}
    of_one_server = {name for name in METRIC_NAMES if not name.startswith(OF_OTHERS)}
    assert {name for name in names if name.startswith("headway_")} == of_one_server


@pytest.mark.parametrize("page", ALL_PANELS)
def test_every_panel_has_something_to_show(source: DemoSource, page: str) -> None:
    """Through the same expressions as those of a real server."""
    wanted = tuple(chain.from_iterable(panel.expressions for panel in ALL_PANELS[page]))
    reading = read(source, wanted, 1800.0)
    assert [one.promql("1m") for one in wanted if reading[one].empty] == []


def test_it_is_never_mistaken_for_a_server(source: DemoSource) -> None:
    """The source and the note on every page say so."""
    reading = read(source, (), 300.0)
    assert reading.source == DEMO_SOURCE
    assert reading.note == DEMO_WORDS
    assert "simulated" in DEMO_SOURCE
    assert "no server" in DEMO_WORDS


def test_requests_are_neither_lost_nor_made_up(simulated: SimulatedServer) -> None:
    """As on a server: arrived = queued + in flight + outcomes."""
    for name in CLASSES:
        ended = sum(number for (of, _), number in simulated.outcomes.items() if of == name)
        assert simulated.arrived[name] == len(simulated.queued[name]) + simulated.running[name] + ended


def test_it_is_deterministic_and_its_counters_never_fall(simulated: SimulatedServer) -> None:
    """Two processes show the same; a rate has no false reset."""
    server, before = SimulatedServer(START_S), {}
    for at in range(60):
        server.advance(START_S + 30 * (at + 1))
        now = dict(samples_of(server))
        for key, value in before.items():
            if key[0].endswith(("_total", *_PARTS)):
                assert now[key] >= value, key
        before = now
    assert server.outcomes == simulated.outcomes
    assert server.arrived == simulated.arrived


def test_something_happens(simulated: SimulatedServer) -> None:
    """Half an hour has overloads, three presets, crashes, retries, refusals, and steps of the ladder."""
    assert simulated.outcomes["normal", Outcome.REJECTED_FULL] > 0
    assert simulated.deaths == 2
    assert sum(simulated.retries.values()) > 0
    assert simulated.rung_steps["cap", "queue_age"] > 0
    assert simulated.revision == 4


@pytest.mark.parametrize(
    ("later_s", "state", "severities"),
    [
        (60.0, State.LIVE, {Severity.OK}),
        (script.OVERLOAD_FROM_S + 55, State.LIVE, {Severity.WATCH, Severity.DEGRADED, Severity.OVERLOADED}),
        (script.CRASH_AT_S + 10, State.NOT_READY, {Severity.DOWN}),
    ],
    ids=["light load", "overload", "restart"],
)
def test_the_pages_judge_it_as_a_server(later_s: float, state: State, severities: set[Severity]) -> None:
    """The condition and the diagnosis come from the figures alone."""
    now_s = START_S + later_s
    demo = DemoSource(clock=lambda: now_s)
    reading = read(demo, headline.EXPRESSIONS, 300.0)
    assert newest_values.condition_of(reading, now_s).state is state
    assert headline.headline_of(reading, state, DemoStatus(demo).read()).severity in severities


def test_switches_and_restarts_are_among_the_last_changes(source: DemoSource) -> None:
    """They are marked on the charts as well, by the same expressions."""
    texts = {row["Change"] for row in change_rows(read(source, CHANGES, 1800.0))}
    assert {"Preset latency", "Engine being replaced", "Engine up"} <= texts


def test_it_goes_on_with_the_time_and_begins_again_after_a_long_pause() -> None:
    """A page that is left open over night costs no catching up."""
    now_s = START_S
    demo = DemoSource(clock=lambda: now_s)
    first = read(demo, (panels.ARRIVALS,), 300.0)
    now_s += 100
    later = read(demo, (panels.ARRIVALS,), 300.0)
    assert later.health.last_ok_s == START_S + 100
    assert later[panels.ARRIVALS].latest() is not None
    assert first.end_s + 100 == later.end_s
    now_s += 40_000
    assert read(demo, (panels.ARRIVALS,), 300.0)[panels.ARRIVALS].latest() is not None
    assert len(demo._ring) <= 1800 / 2 + 31
