"""The dashboard of several servers: one of them down, one of them chosen, and one of them changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from app_pages import opened, refresh_until, tiles, words
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN, StubServer
from tiers import long_form

from headway_dashboard.analysis.server.instances import instance_name
from headway_dashboard.pages import page_reading

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]
SAME = long_form("the other takes the same way")


@pytest.fixture
def visit(watching: Callable[..., None]) -> Open:
    """Open a page of a dashboard that watches these servers."""

    def visit(*urls: str, path: str = "", instance: str = "", token: str = "") -> AppTest:
        watching(*urls, **({"HEADWAY_ADMIN_TOKEN": token} if token else {}))
        return opened(path, {"instance": instance} if instance else None)

    return visit


@pytest.fixture
def other() -> Iterator[StubServer]:
    """A second server."""
    with StubServer(moving=True) as server:
        yield server


def test_one_of_two_down_is_said_and_the_rest_goes_on(visit: Open, stub: StubServer, nobody: str) -> None:
    """Live, with the figures of the one that answers, and which one does not."""
    stub.moving = True
    app = visit(stub.url, nobody)
    refresh_until(app, lambda: "1 of 2 servers does not answer." in words(app) and "Live" in words(app))
    assert f"{instance_name(nobody)} (nothing answers at this address)" in words(app)
    assert f"2 servers: {stub.url}, {nobody}" in words(app)
    refresh_until(app, lambda: tiles(app)["Batch size"].endswith("/ 32"))
    assert "HeadwayDown" not in words(app)


def test_the_diagnosis_is_of_the_server_that_is_worst_off(visit: Open, stub: StubServer, other: StubServer) -> None:
    """A full server beside an idle one: it is named, with its own figures."""
    stub.moving, stub.world.load, other.world.load = True, 9.0, 0.0
    app = visit(stub.url, other.url)
    refresh_until(app, lambda: f"overloaded] {instance_name(stub.url)}: " in words(app))
    assert "32 of 32 seats taken" in words(app)
    assert "Of 2 servers: " in words(app)


def fleet_table(app: AppTest) -> dict[str, dict[str, str]]:
    """The rows of the page Fleet by server, that of all under an empty name, as they are sent to the browser."""
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component")]
    table = next((one for one in sent if "headings" in one), {"headings": [], "rows": [], "total": []})
    titles = [one["title"] for one in table["headings"]]
    rows = {one["key"]: one["cells"] for one in table["rows"]} | {"": table["total"]}
    return {name: dict(zip(titles, [one["text"] for one in cells], strict=False)) for name, cells in rows.items()}


def charts(app: AppTest) -> dict[str, dict[str, Any]]:
    """The charts of a page by the ids of their panels, as they are sent to the browser."""
    sent = {one.key: json.loads(one.proto.json) for one in app.get("bidi_component")}
    return {key.removeprefix("plot-"): one["figure"] for key, one in sent.items() if "figure" in one}


def known_for_s(app: AppTest) -> float:
    """For how long the chart of ready servers has points."""
    chart = charts(app).get("fleet-ready", {"traces": [], "times_ms": []})
    points = [
        at
        for one in chart["traces"]
        for at, point in zip(chart["times_ms"], one["y"], strict=True)
        if point is not None
    ]
    return (max(points) - min(points)) / 1000 if points else 0.0


def test_the_servers_stand_beside_each_other(visit: Open, stub: StubServer, other: StubServer, nobody: str) -> None:
    """One row each, with another preset marked, the one that does not answer without figures, and all together."""
    stub.moving = True
    stub.world.load = 9.0
    other.world.switch("latency", {}, "")
    first, second, third = (instance_name(one) for one in (stub.url, other.url, nobody))
    app = visit(stub.url, other.url, nobody, path="fleet")
    refresh_until(app, lambda: fleet_table(app)[""].get("State") == "2 of 3 answer")
    refresh_until(app, lambda: fleet_table(app)[first]["Waiting"].startswith("▲"))
    refresh_until(app, lambda: fleet_table(app)[third]["State"] == "Down")
    rows = fleet_table(app)
    assert list(rows) == [first, second, third, ""]
    assert [rows[one]["State"] for one in (first, second)] == ["Live", "Live"]
    assert all("≠" in rows[one]["Preset"] for one in (first, second))
    assert {text for title, text in rows[third].items() if title not in ("Server", "State", "Since")} == {"—"}
    assert all(rows[one]["Since"] != "—" for one in (first, second, third))
    assert rows[""]["Seats"].endswith(" / 40")
    assert "three times the other server's" in words(app)


def test_imbalance_and_merged_quantiles_are_drawn(visit: Open, stub: StubServer, other: StubServer) -> None:
    """All queues are on one of two servers: twice the mean. The merged quantile is no larger than that of the worst."""
    stub.moving, stub.world.load, other.world.load = True, 9.0, 0.3
    app = visit(stub.url, other.url, path="fleet")
    refresh_until(app, lambda: f"Waiting requests: imbalance 2.00; most on {instance_name(stub.url)}" in words(app))
    refresh_until(app, lambda: "fleet-first-token" in charts(app) and "the worst." in words(app))
    drawn = charts(app)
    waiting = next(one for one in drawn["fleet-imbalance"]["traces"] if one["name"] == "waiting")
    assert waiting["y"][-1] == 2
    quantiles = {one["name"]: one["y"][-1] for one in drawn["fleet-first-token"]["traces"]}
    assert 0 < quantiles["p95 of all"] <= quantiles["p95 of the worst server"]
    assert "Imbalance is the largest value on a server divided by the mean" in words(app)


def test_a_restart_and_a_server_that_is_gone_are_events(
    visit: Open, stub: StubServer, other: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the table of events, and as marks on the charts of every page."""
    monkeypatch.setattr(page_reading, "EVENTS_S", 300.0)  # five minutes have an instant more often than each 2 s
    stub.moving = True
    app = visit(stub.url, other.url, path="fleet")
    refresh_until(app, lambda: fleet_table(app)[""].get("State") == "2 of 2 answer")
    assert "There were none" in words(app)
    refresh_until(app, lambda: known_for_s(app) > 4)
    stub.world.started_s += 100
    other.stop()
    refresh_until(app, lambda: len(app.table) > 0 and {"gone", "restarted"} <= {*app.table[-1].value["Event"]})
    rows = app.table[-1].value
    told = {event: name.replace("\\", "") for name, event in zip(rows["Server"], rows["Event"], strict=True)}
    assert told == {"gone": instance_name(other.url), "restarted": instance_name(stub.url)}
    overview = visit(stub.url, other.url)
    refresh_until(overview, lambda: "ttft" in charts(overview))
    assert f"Server {instance_name(stub.url)}: restarted" in charts(overview)["ttft"]["summary"]


def test_the_fleet_is_of_all_servers_whichever_is_chosen(visit: Open, stub: StubServer, other: StubServer) -> None:
    """The page says so."""
    app = visit(stub.url, other.url, path="fleet", instance=instance_name(other.url))
    refresh_until(app, lambda: fleet_table(app)[""].get("State") == "2 of 2 answer")
    assert f"all servers, although {instance_name(other.url)} is chosen" in words(app)


def test_one_server_can_be_looked_at(visit: Open, stub: StubServer, other: StubServer) -> None:
    """By the address of the page; the others are then not mentioned."""
    stub.moving = True
    other.world.switch("latency", {}, "")
    app = visit(stub.url, other.url, instance=instance_name(other.url))
    refresh_until(app, lambda: tiles(app)["Batch size"].endswith("/ 8"))
    assert "latency" in words(app)
    assert "2 servers" not in words(app)
    choice = next(one for one in app.selectbox if one.label == "Server")
    assert choice.value == instance_name(other.url)
    app.query_params.pop("instance")  # as a browser does: the default does not stand in the address
    choice.set_value("all").run()
    refresh_until(app, lambda: "2 servers" in words(app))


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", *(pytest.param(text, marks=SAME) for text in ("nobody:1", ""))]
)
def test_a_server_that_is_none_is_ignored(visit: Open, stub: StubServer, other: StubServer, text: str) -> None:
    """An old link opens all servers."""
    app = visit(stub.url, other.url, instance=text)
    assert "2 servers" in words(app)
    assert "script" not in words(app)


def test_with_one_server_there_is_nothing_to_choose(visit: Open, stub: StubServer) -> None:
    """No choice in the bar, and the page that compares servers says how to watch several."""
    app = visit(stub.url, path="fleet")
    assert [one.label for one in app.selectbox] == []
    assert "One server is watched." in words(app)
    assert "headway dashboard --url" in words(app)
    assert app.get("bidi_component") == []


def test_control_changes_one_server_and_says_which(visit: Open, stub: StubServer, other: StubServer) -> None:
    """The first unless another is chosen; what is applied reaches that one alone."""
    app = visit(stub.url, other.url, path="control", token=OPERATOR_TOKEN)
    assert f"changes {instance_name(stub.url)} alone, one of 2 servers" in words(app)
    choice = next(one for one in app.selectbox if one.label == "Server to change")
    choice.set_value(instance_name(other.url)).run()
    assert f"changes {instance_name(other.url)} alone" in words(app)
    next(one for one in app.button if one.key == "compare-latency").click().run()
    next(one for one in app.text_input if one.label.startswith("Reason")).set_value("a test")
    next(one for one in app.button if one.label.startswith("Apply")).click().run()
    refresh_until(app, lambda: other.world.preset == "latency")
    assert stub.world.preset == "balanced"
