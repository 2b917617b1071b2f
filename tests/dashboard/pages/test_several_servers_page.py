"""The dashboard of several servers: one of them down, one of them chosen, and one of them changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
from stub_server import OPERATOR_TOKEN, StubServer

from headway_dashboard.analysis.server.instances import instance_name
from headway_dashboard.server import SCRIPT

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]
VARIABLES = ("HEADWAY_PROMETHEUS_URL", "HEADWAY_ADMIN_TOKEN", "HEADWAY_VIEWER_TOKEN", "HEADWAY_DASHBOARD_DEMO")


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Open a page of a dashboard that watches these servers."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HEADWAY_REFRESH_S", "0.5")

    def visit(*urls: str, path: str = "", instance: str = "", token: str = "") -> AppTest:
        monkeypatch.setenv("HEADWAY_URL", ",".join(urls))
        if token:
            monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", token)
        app = AppTest.from_file(str(SCRIPT), default_timeout=60)
        if instance:
            app.query_params["instance"] = instance
        app._page_hash = calc_hash(path)
        return app.run()

    yield visit
    st.cache_resource.clear()


@pytest.fixture
def other() -> Iterator[StubServer]:
    """A second server."""
    with StubServer(moving=True) as server:
        yield server


def words(app: AppTest) -> str:
    """All the text of a page."""
    assert not app.exception
    kinds = (app.markdown, app.caption, app.info, app.warning, app.error, app.success, app.code)
    return "\n".join(str(one.value) for kind in kinds for one in kind).replace("\\", "")


def refresh_until(app: AppTest, holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Refresh the page until a condition holds."""
    ends_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < ends_s, f"the page never got there:\n{words(app)}"
        time.sleep(0.1)
        app.run()


def tile(app: AppTest, label: str) -> str:
    """The value of a tile."""
    return next(str(one.value) for one in app.metric if one.label == label)


def test_one_of_two_down_is_said_and_the_rest_goes_on(visit: Open, stub: StubServer, nobody: str) -> None:
    """Live, with the figures of the one that answers, and which one does not."""
    stub.moving = True
    app = visit(stub.url, nobody)
    refresh_until(app, lambda: "1 of 2 servers does not answer." in words(app) and "Live" in words(app))
    assert f"{instance_name(nobody)} (nothing answers at this address)" in words(app)
    assert f"2 servers: {stub.url}, {nobody}" in words(app)
    refresh_until(app, lambda: tile(app, "Batch size").endswith("/ 32"))
    assert "HeadwayDown" not in words(app)


def test_the_diagnosis_is_of_the_server_that_is_worst_off(visit: Open, stub: StubServer, other: StubServer) -> None:
    """A full server beside an idle one: it is named, with its own figures."""
    stub.moving, stub.world.load, other.world.load = True, 9.0, 0.0
    app = visit(stub.url, other.url)
    refresh_until(app, lambda: f"overloaded] {instance_name(stub.url)}: " in words(app))
    assert "32 of 32 seats taken" in words(app)
    assert "Of 2 servers: " in words(app)


def test_the_servers_stand_beside_each_other(visit: Open, stub: StubServer, other: StubServer, nobody: str) -> None:
    """One row each, with another preset marked, and the one that does not answer apart."""
    stub.moving = True
    other.world.switch("latency", {}, "")
    app = visit(stub.url, other.url, nobody, path="server")
    refresh_until(app, lambda: len(app.table) >= 2 and "No answer: 1 of 3" in words(app))
    refresh_until(app, lambda: list(app.table[0].value["State"]) == ["Live", "Live"])
    rows = app.table[0].value
    assert list(rows["Server"]) == [instance_name(one).replace(":", "\\:") for one in (stub.url, other.url)]
    assert all("≠" in one for one in rows["Preset"])
    assert "three times the other server's" in words(app)


def test_one_server_can_be_looked_at(visit: Open, stub: StubServer, other: StubServer) -> None:
    """By the address of the page; the others are then not mentioned."""
    stub.moving = True
    other.world.switch("latency", {}, "")
    app = visit(stub.url, other.url, instance=instance_name(other.url))
    refresh_until(app, lambda: tile(app, "Batch size").endswith("/ 8"))
    assert "latency" in words(app)
    assert "2 servers" not in words(app)
    choice = next(one for one in app.selectbox if one.label == "Server")
    assert choice.value == instance_name(other.url)
    app.query_params.pop("instance")  # as a browser does: the default does not stand in the address
    choice.set_value("all").run()
    refresh_until(app, lambda: "2 servers" in words(app))


@pytest.mark.parametrize("text", ["nobody:1", "<script>alert(1)</script>", ""])
def test_a_server_that_is_none_is_ignored(visit: Open, stub: StubServer, other: StubServer, text: str) -> None:
    """An old link opens all servers."""
    app = visit(stub.url, other.url, instance=text)
    assert "2 servers" in words(app)
    assert "script" not in words(app)


def test_with_one_server_there_is_nothing_to_choose(visit: Open, stub: StubServer) -> None:
    """No choice in the bar, and no table."""
    app = visit(stub.url, path="server")
    assert [one.label for one in app.selectbox] == []
    assert "**Servers**" not in words(app)


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
