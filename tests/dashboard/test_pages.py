"""Both pages, as a visitor gets them, in every state of the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN, VIEWER_TOKEN, StubServer

from headway_dashboard.server import SCRIPT
from headway_dashboard.sources import scrape

Open = Callable[..., AppTest]
VARIABLES = ("HEADWAY_URL", "HEADWAY_PROMETHEUS_URL", "HEADWAY_ADMIN_TOKEN", "HEADWAY_VIEWER_TOKEN")
PAGE = """
from headway_dashboard.shared import watched
from headway_dashboard.views import {page}
{page}.show(*watched())
"""


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open a page of a dashboard that watches ``url``."""
    for name in (*VARIABLES, "HEADWAY_ADMIN_TOKEN_FILE", "HEADWAY_VIEWER_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADWAY_REFRESH_S", "0.5")

    def visit(page: str, url: str, **environment: str) -> AppTest:
        monkeypatch.setenv("HEADWAY_URL", url)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return AppTest.from_string(PAGE.format(page=page), default_timeout=60).run()

    yield visit
    st.cache_resource.clear()


def words(app: AppTest) -> str:
    """All the text of a page."""
    assert not app.exception
    kinds = (app.markdown, app.caption, app.info, app.warning, app.error, app.success)
    return "\n".join(str(one.value) for kind in kinds for one in kind)


def tiles(app: AppTest) -> dict[str, str]:
    """The tiles by label."""
    return {one.label: str(one.value) for one in app.metric}


def again_until(app: AppTest, word: str, timeout_s: float = 60.0) -> str:
    """Refresh the page until it says a word."""
    ends_s = time.monotonic() + timeout_s
    while word not in (text := words(app.run())):
        assert time.monotonic() < ends_s, f"{word!r} never came:\n{text}"
        time.sleep(0.1)
    return text


def refresh_until(app: AppTest, holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Refresh the page until a condition holds."""
    ends_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < ends_s, f"the page never got there:\n{words(app)}\n{tiles(app)}"
        time.sleep(0.1)
        app.run()


def test_the_whole_app_opens_on_the_overview(visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script that Streamlit runs, with its navigation: the overview comes first."""
    monkeypatch.setenv("HEADWAY_URL", stub.url)
    app = AppTest.from_file(str(SCRIPT), default_timeout=60).run()
    assert len(app.metric) == 8


def test_overview_live(visit: Open, stub: StubServer) -> None:
    """Live: the badge, a verdict, all eight tiles with numbers, six charts and the class table."""
    stub.moving, stub.world.load = True, 3.0
    app = visit("overview", stub.url)
    text = again_until(app, "Live")
    again_until(app, "seats taken")
    assert "balanced" in text
    assert "CPU backend - no GPU" in text
    assert len(app.metric) == 8
    refresh_until(app, lambda: "—" not in tiles(app).values())
    assert list(app.table[0].value["Class"]) == ["realtime", "normal", "batch"]


def test_overview_with_a_gpu(visit: Open) -> None:
    """With GPU figures the panel is the GPU's."""
    with StubServer(gpu=True, moving=True) as stub:
        app = visit("overview", stub.url)
        assert "**GPU memory**" in again_until(app, "Live")
        assert tiles(app)["GPU memory"].replace("\u00a0", " ") == "71.3 GiB / 79.6 GiB"


def test_overview_no_traffic(visit: Open, stub: StubServer) -> None:
    """No traffic is a word, not a zero: nothing invents an error share or a latency."""
    app = visit("overview", stub.url)
    again_until(app, "No traffic")
    assert tiles(app)["TTFT p95"] == "no traffic"
    assert tiles(app)["Error share"] == "no traffic"
    assert tiles(app)["Requests"].startswith("0")


def test_overview_down_from_the_start(visit: Open, nobody: str) -> None:
    """Down: said in red, and every tile is a dash, not a zero."""
    app = visit("overview", nobody)
    again_until(app, "Not reached since this page started")
    assert set(tiles(app).values()) == {"—"}


def test_overview_goes_down_and_comes_back(visit: Open) -> None:
    """The last known values stay, with their age, until the server is back."""
    with StubServer(moving=True) as stub:
        app = visit("overview", stub.url)
        again_until(app, "Live")
        again_until(app, "seats taken")
        port = int(stub.url.rsplit(":", 1)[1])
    again_until(app, "Down since")
    assert tiles(app)["Waiting"] != "—"
    assert "last known values" in app.error[0].value
    with StubServer(moving=True, port=port):
        again_until(app, "Live")


def test_overview_stale(visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs makes the numbers stale, which is not down."""
    monkeypatch.setattr(scrape, "READ_TIMEOUT_S", 0.2)
    stub.moving = True
    app = visit("overview", stub.url)
    again_until(app, "Live")
    stub.delay_s = 1.0
    text = again_until(app, "No new numbers")
    assert "Stale" in text
    assert "Down" not in text


def test_overview_not_ready(visit: Open, stub: StubServer) -> None:
    """Without a token: a server that takes no traffic says why, and one whose engine died that another is coming."""
    stub.world.ready = False
    app = visit("overview", stub.url)
    assert "Not ready" in again_until(app, "takes no traffic")
    stub.world.standing, stub.world.trying = "restarting", "starting another engine"
    stub.world.deaths["crash"] = 2
    assert "nobody waits for it" in again_until(app, "Death number 2 since the server started: starting another engine")


def test_class_filter_and_range(visit: Open, stub: StubServer) -> None:
    """The controls stand outside the live part and change what it shows."""
    stub.moving = True
    app = visit("overview", stub.url)
    again_until(app, "Live")
    app.run()
    stub.moving = False
    stub.world.queued.update({"batch": 7, "normal": 3})
    groups = {group.label: group for group in app.button_group}
    groups["Classes"].set_value(["batch"])
    groups["Range"].set_value("15 min")
    again_until(app, "Live")
    refresh_until(app, lambda: tiles(app)["Waiting"] == str(stub.world.queued["batch"]))


def press(app: AppTest, label: str) -> AppTest:
    """Press the first button with this label that can be pressed."""
    return next(one for one in app.button if one.label == label and not one.disabled).click().run()


def apply_button(app: AppTest) -> bool:
    """Whether the apply button can be pressed."""
    return not next(one for one in app.button if one.label.startswith("Apply")).disabled


def test_control_applies_a_preset(visit: Open, stub: StubServer) -> None:
    """Compare, see the difference, give a reason, apply; the log has it, and the card moves."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    press(app, "Compare")
    difference = app.table[0].value
    assert list(difference["Setting"]) == ["batching.seats", "batching.window\\_ms"]
    assert list(difference["Now"]) == ["32", "50"]
    assert list(difference["After"]) == ["8", "10"]
    assert stub.world.preset == "balanced"
    app.text_input(key="reason").set_value("rush hour")
    app.text_input(key="actor").set_value("anna")
    press(app, "Apply latency")
    assert stub.world.preset == "latency"
    assert "revision 2" in app.success[0].value.replace("\\", "")
    log = app.dataframe[0].value.iloc[0]
    assert (log["Who"], log["After"], log["Reason"], log["Result"]) == ("anna", "latency", "rush hour", "applied")


def test_control_refuses_on_an_old_view(visit: Open, stub: StubServer) -> None:
    """Somebody switched meanwhile: nothing is applied, and the page says so and shows the new state."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    press(app, "Compare")
    stub.world.switch("throughput", {"actor": "ben", "role": "operator", "address": "-"}, "")
    press(app, "Apply latency")
    assert stub.world.preset == "throughput"
    assert "changed the preset meanwhile" in app.warning[0].value
    assert list(app.table[0].value["Now"]) == ["64", "100"]


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "HEADWAY_ADMIN_TOKEN"),
        ({"HEADWAY_VIEWER_TOKEN": VIEWER_TOKEN}, "viewer's token"),
        ({"HEADWAY_ADMIN_TOKEN": "x" * 40}, "does not know this token"),
    ],
    ids=["no token", "viewer", "wrong token"],
)
def test_control_read_only(visit: Open, stub: StubServer, environment: dict[str, str], sentence: str) -> None:
    """Without the right to change, the page shows everything else and says what to set."""
    app = visit("control", stub.url, **environment)
    assert sentence in app.info[0].value
    press(app, "Compare")
    assert not apply_button(app)
    assert ("PUT", "/headway/v1/preset") not in stub.requests


def test_control_learns_that_its_token_only_reads(visit: Open, stub: StubServer) -> None:
    """A viewer's token given as the operator's: refused once by the server, then not offered again."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=VIEWER_TOKEN)
    press(app, "Compare")
    press(app, "Apply latency")
    assert stub.world.preset == "balanced"
    assert "only read" in app.info[0].value
    assert not apply_button(app)


def test_control_when_the_server_refuses(visit: Open, stub: StubServer) -> None:
    """The server's own sentence, in red; nothing has changed."""
    stub.forced["PUT", "/headway/v1/preset"] = (422, {"detail": "that preset has no seats."})
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    press(app, "Compare")
    press(app, "Apply latency")
    assert "that preset has no seats" in app.error[0].value.replace("\\", "")


@pytest.mark.parametrize("state", ["no traffic", "live"])
def test_control_shows_what_runs_now(visit: Open, stub: StubServer, state: str) -> None:
    """The live line above the cards has limit, ceiling, seats and queue."""
    stub.moving = state == "live"
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    text = again_until(app, "Live" if stub.moving else "No traffic")
    assert "limit **32**" in text
    assert "ceiling **64**" in text


def test_control_down(visit: Open, nobody: str) -> None:
    """A server that is away leaves a page with one sentence, not a trace."""
    app = visit("control", nobody, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    assert "not reachable" in words(app)


def test_control_stale(visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that hangs: the page stays usable and says that its numbers are old."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    refresh_until(app, lambda: "limit **—**" not in words(app))  # else it was never reached, and is down
    monkeypatch.setattr(scrape, "READ_TIMEOUT_S", 0.2)
    monkeypatch.setattr("headway_dashboard.admin.TIMEOUT_S", (0.2, 0.3))
    stub.delay_s = 1.0
    assert "did not answer in time" in again_until(app, "No new numbers")


def test_the_token_is_nowhere_on_a_page(visit: Open, stub: StubServer) -> None:
    """Neither in the text, nor in the state, nor in the address."""
    app = visit("control", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    press(app, "Compare")
    sent = repr(app.main) + repr(app.session_state) + repr(app.query_params)
    assert OPERATOR_TOKEN not in sent
