"""Pages in states of the server: whole, with the words of the state, and without an invented number.

Every page in every state is the long form. In the short form each state has the Overview; Control has those in which it
may or may not be used, and each other page has one.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import streamlit as st
from app_pages import class_rows, clear_settings, opened, plain, texts
from silent_server import silent_server
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN, VIEWER_TOKEN, StubServer
from tiers import LONG

from headway_dashboard import server_client
from headway_dashboard.analysis.server import condition
from headway_dashboard.analysis.units import MISSING
from headway_dashboard.deep_links import PATHS
from headway_dashboard.sources import scrape
from headway_policies import Reason

pytestmark = pytest.mark.slow

OPERATOR = {"HEADWAY_ADMIN_TOKEN": OPERATOR_TOKEN}
PAGES = ("", *(path for path in PATHS if path != "overview"))
#: How Python, JSON and JavaScript write what is no number.
NO_NUMBER = re.compile(r"\b(?:nan|NaN|None|inf|Infinity|NaT|null|undefined)\b")
#: Nothing changes by these: what a preset would change, the way out of a fixed time, and the figures as a file.
HARMLESS = ("compare-", "back_to_live", "csv-", "audit_csv")


@dataclass(frozen=True, slots=True)
class State:
    """A state of the server as a visitor meets it.

    ``words`` stand above every page. ``begin`` and ``then`` change the stub before and after it was first seen.
    ``tiles`` are what some tiles show where a number is missing. ``reads`` is why nothing may be pressed, empty where
    an operator may.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=lambda: OPERATOR)
    first: str = "Live"
    begin: Callable[[StubServer], object] = lambda stub: None
    then: Callable[[StubServer], object] = lambda stub: None
    tiles: Mapping[str, str] = field(default_factory=dict)
    notes: frozenset[str] | None = None
    rows: Mapping[str, str] = field(default_factory=dict)
    reads: str = ""


def moving(stub: StubServer, load: float = 2.0) -> None:
    """Requests come, wait and end."""
    stub.world.load, stub.moving = load, True


def overloaded(stub: StubServer) -> None:
    """Three times what the seats serve, and refusals for two reasons."""
    stub.world.ends_per_s = {Reason.DEADLINE_INFEASIBLE: 4.0, Reason.CLASS_QUEUE_FULL: 1.0}
    moving(stub, 6.0)


def hang(stub: StubServer) -> None:
    """No answer within the time that a dashboard waits."""
    stub.delay_s = 1.0


def restarting(stub: StubServer) -> None:
    """The engine has died; six requests were with it, and two wait."""
    world = stub.world
    stub.moving = False
    world.in_flight["normal"], world.queued["normal"] = 6, 2
    world.state, world.ready, world.restart_step, world.restart_attempts = "restarting", False, "starting another", 2
    world.deaths["crash"] += 1


STATES: dict[str, State] = {
    "live": State(("Live", "balanced", "direct scrape"), begin=moving),
    "no traffic": State(
        ("No traffic", ":green-badge[ok]"),
        first="No traffic",
        tiles={"TTFT p95": "no traffic", "Error share": "no traffic", "Batch size": "idle", "Requests": "0 /s"},
        rows={"Objectives met": MISSING, "No answer": MISSING, "Budget left": MISSING},
    ),
    "overload": State(("Live", ":red-badge[overloaded]"), begin=overloaded),
    "stale": State(
        ("Stale", "No new figures: no answer in time"),
        begin=moving,
        then=hang,
        notes=frozenset({"last known"}),
        reads="did not answer in time",
    ),
    "down": State(
        ("Down for", ":red-badge[down]"),
        begin=moving,
        then=StubServer.stop,
        notes=frozenset({"last known"}),
        reads="not reachable",
    ),
    "restarting": State(
        (":red-badge[down]", "Not ready", "Attempt 2 of 3: starting another"),
        begin=moving,
        then=restarting,
        tiles={"Batch size": "engine down", "Output tokens": "engine down", "TTFT p95": "engine down"},
        rows={"Running": "engine down"},
    ),
    "slow Prometheus": State(
        ("Live", "Prometheus does not answer in time: showing the direct scrape instead."), begin=moving
    ),
    "viewer": State(
        ("Live", "balanced"), {"HEADWAY_VIEWER_TOKEN": VIEWER_TOKEN}, begin=moving, reads="a viewer's token"
    ),
}


@dataclass(frozen=True, slots=True)
class Entered:
    """A state that the shared sources have seen; every page of it is opened beside the same server."""

    state: State
    stub: StubServer


WITH_CONTROL = {"live", *(name for name, state in STATES.items() if state.reads)}
OTHERS = [page for page in PAGES if page not in ("", "control")]
PAIRS = [
    (state, path)
    for at, state in enumerate(STATES)
    for path in (PAGES if LONG else ("", *["control"] * (state in WITH_CONTROL), *OTHERS[at : at + 1]))
]


@pytest.fixture(scope="module")
def entered(request: pytest.FixtureRequest) -> Iterator[Entered]:
    """A server in one of the states."""
    state = STATES[request.param]
    with pytest.MonkeyPatch.context() as patch, StubServer() as stub, silent_server() as hole:
        clear_settings(patch)
        patch.setenv("HEADWAY_URL", stub.url)
        if request.param == "slow Prometheus":
            patch.setenv("HEADWAY_PROMETHEUS_URL", hole)
        for name, text in state.environment.items():
            patch.setenv(name, text)
        state.begin(stub)
        opened_until("", state.first)
        if request.param == "stale":
            patch.setattr(scrape, "READ_TIMEOUT_S", 0.2)
            patch.setattr(server_client, "TIMEOUT_S", (0.2, 0.3))
            patch.setattr(condition, "_SILENT_UNTIL_DOWN_S", float("inf"))
        state.then(stub)
        yield Entered(state, stub)
        st.cache_resource.clear()


def opened_until(path: str, *words: str) -> AppTest:
    """A visit that is refreshed until all these words are there."""
    app, ends_s = opened(path), time.monotonic() + 60
    while any(word not in (text := "\n".join(texts(app))) for word in words):
        assert time.monotonic() < ends_s, f"{words} never came:\n{text}"
        time.sleep(0.3)
        app.run()
    return app


def figures(app: AppTest) -> dict[str, dict[str, Any]]:
    """The charts of a page, as they are sent to the browser, by their names in it."""
    sent = {one.key: json.loads(one.proto.json) for one in app.get("bidi_component")}
    return {key: data["figure"] for key, data in sent.items() if "figure" in data}


@pytest.mark.parametrize(
    ("entered", "path"), PAIRS, indirect=["entered"], ids=[f"{state}-{path or 'overview'}" for state, path in PAIRS]
)
def test_a_page_in_a_state(entered: Entered, path: str) -> None:
    """No exception, the words of the state, no number that is none, no zero for what is missing, no forbidden press."""
    state = entered.state
    app = opened_until(path, *state.words)
    app.run()  # what the first drawing had to wait for
    assert [one for one in texts(app) if NO_NUMBER.search(one)] == []
    assert_missing_is_named(app, state, path)
    assert_gaps(figures(app))
    assert_rights(app, state, path)
    if path == "control" and state.reads:
        assert state.reads in "\n".join(texts(app))
    if "HEADWAY_VIEWER_TOKEN" in state.environment:
        assert {method for method, _ in entered.stub.requests} == {"GET"}


def assert_missing_is_named(app: AppTest, state: State, path: str) -> None:
    """What is missing is a word or a dash in tiles and in the class table; a value of the past says so."""
    shown = {one.label: plain(one.value) for one in app.metric}
    if path == "":
        assert len(shown) == 8
        assert {label: shown[label] for label in state.tiles} == state.tiles
        table = class_rows(app)
        assert {title: {row[title] for row in table} for title in state.rows} == {
            title: {text} for title, text in state.rows.items()
        }
    if state.notes is not None:
        old = {one.delta for one in app.metric if shown[one.label] != MISSING and one.label not in ("Warm-up",)}
        assert old <= state.notes
    if path == "server" and state.notes is not None:
        assert shown["Engine"] == MISSING


def assert_gaps(drawn: Mapping[str, dict[str, Any]]) -> None:
    """A chart begins with a gap where nothing was measured yet, never with a zero; no point is infinite."""
    for name, figure in drawn.items():
        points = [point for trace in figure["traces"] for point in trace.get("y", ()) if isinstance(point, float)]
        assert all(abs(point) < float("inf") for point in points), name
        early = [trace["name"] for trace in figure["traces"] if begins_too_early(trace, figure["times_ms"])]
        assert early == [], name


def begins_too_early(trace: Mapping[str, Any], times_ms: Sequence[int]) -> bool:
    """Whether a line over the time has a value from before the first scrape; a bound is no measurement."""
    y = trace.get("y", ())
    bound = trace.get("line", {}).get("dash") == "dash" and {*y} == {y[0]} != {0.0}
    return len(y) == len(times_ms) and y[0] is not None and not bound


def assert_rights(app: AppTest, state: State, path: str) -> None:
    """Without the right to change, nothing can be pressed or chosen but what only shows; an operator can apply."""
    free = {str(one.key) for one in app.button if not one.disabled and not str(one.key).startswith(HARMLESS)}
    if path != "control":
        assert free == set()
        return
    orders = {one.label: one.disabled for one in app.button_group if one.label in ("Set it to", "Limit", "Dispatch")}
    typed = [one.disabled for one in app.text_input if one.key != "audit_search"]
    assert len(orders) == 3
    assert len(typed) >= 6
    if state.reads:
        assert free == set()
        assert all((*orders.values(), *typed))
    else:
        assert {"recycle_go_0", "warmup_go_0"} <= free
        assert not any((*orders.values(), *typed))
