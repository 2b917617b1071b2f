"""The frame above every page: one bar whose state is the address, the server, its severity and its alerts."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import streamlit as st
from app_pages import class_rows, go, opened, refresh_until, words
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN, StubServer
from tiers import LONG, long_form

from headway_dashboard import page
from headway_dashboard.analysis.queries.model import grid
from headway_dashboard.analysis.view import Span
from headway_dashboard.deep_links import PATHS
from headway_dashboard.pages import page_reading
from headway_dashboard.sources import Questions, ScrapeSource, SourceReading

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]
TITLES = {
    "overview": "Overview",
    "fleet": "Fleet",
    "requests": "Requests & priorities",
    "tenants": "Tenants",
    "latency": "Latency & SLO",
    "engine": "Batching & memory",
    "control": "Control",
    "server": "Server & diagnostics",
}
#: The frame is the same on every page: in the short form one of them, beside the Overview of most tests.
SOME = ["", "requests", "latency", "engine", "control", "server"] if LONG else ["requests"]
VISITED = [*SOME[1:], ""] if LONG else ["control", ""]
SAME = long_form("the others take the same way")
HOSTILE = ["<script>alert(1)</script>", "5m\x00", "é" * 500]
#: In the short form one address has them all; in the long form each stands everywhere.
FORGED = [HOSTILE, *([text] * 3 for text in (*HOSTILE, "9999h", "", "'; DROP TABLE") if LONG)]
NO_TIMES = ["<script>alert(1)</script>", *(pytest.param(text, marks=SAME) for text in ("-1", "9999h", "1e9"))]


@pytest.fixture
def visit(watching: Callable[..., None]) -> Open:
    """Open the whole dashboard of ``url``, as a visitor of an address does."""

    def visit(url: str, query: dict[str, object] | None = None, path: str = "", token: str = "") -> AppTest:
        watching(url, **({"HEADWAY_ADMIN_TOKEN": token} if token else {}))
        return opened(path, query)

    return visit


def bar(app: AppTest) -> dict[str, object]:
    """The values of the bar's controls, once the page has read which classes the server has."""

    def values() -> dict[str, object]:
        return {one.label: one.value for one in app.button_group if one.label in ("Range", "Classes", "Compare")}

    refresh_until(app, lambda: "Classes" in values())
    return values()


def choose(app: AppTest, label: str, value: object) -> AppTest:
    """Set one control of the bar, as a browser does: what is not the default is written into the address."""
    name, default = {"Range": ("range", "5m"), "Classes": ("classes", []), "Compare": ("compare", "off")}.get(
        label, ("", "")
    )
    if name:
        assert label in bar(app)
        app.query_params.pop(name, None)
        app.query_params |= {} if value == default else {name: value}
    return next(group for group in app.button_group if group.label == label).set_value(value).run()


def notes(app: AppTest) -> dict[str, str]:
    """The notes of the tiles, by label."""
    return {one.label: str(one.delta) for one in app.metric}


# ---------------------------------------------------------------------- the bar and the address


@pytest.mark.parametrize("path", SOME)
def test_a_link_restores_the_whole_bar(visit: Open, stub: StubServer, path: str) -> None:
    """In a fresh session, on every page."""
    app = visit(stub.url, {"range": "15m", "classes": ["normal", "batch"], "compare": "before"}, path)
    assert bar(app) == {"Range": "15m", "Classes": ["normal", "batch"], "Compare": "before"}
    assert app.query_params == {"range": "15m", "classes": ["normal", "batch"], "compare": "before"}


def test_the_bar_survives_page_changes_and_reloads(visit: Open, stub: StubServer) -> None:
    """A choice on one page holds on all others, and the address alone brings it back. No default stands in it."""
    app = visit(stub.url)
    assert app.query_params == {}
    choose(choose(app, "Range", "30m"), "Classes", ["realtime"])
    chosen = {"Range": "30m", "Classes": ["realtime"], "Compare": "off"}
    for path in VISITED:
        assert bar(go(app, path)) == chosen
        assert app.query_params == {"range": "30m", "classes": "realtime"}
    assert bar(visit(stub.url, dict(app.query_params), "requests")) == chosen


@pytest.mark.parametrize("forged", FORGED, ids=ascii)
def test_a_value_that_is_no_choice_is_ignored(visit: Open, stub: StubServer, forged: list[str]) -> None:
    """An old link or a forged one opens the default view; nothing of it is shown."""
    app = visit(stub.url, dict(zip(("classes", "range", "compare"), forged, strict=True)))
    assert not app.exception
    assert bar(app) == {"Range": "5m", "Classes": [], "Compare": "off"}
    assert "script" not in words(app)


def test_long_ranges_are_offered_where_they_are_known(
    visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A direct scrape has half an hour; a source that says it knows a day gets the choice of it."""
    app = visit(stub.url, {"range": "24h"})
    assert bar(app)["Range"] == "5m"
    monkeypatch.setattr("headway_dashboard.sources.ScrapeSource.longest_range_s", 86_400.0, raising=False)
    assert bar(visit(stub.url, {"range": "24h"}))["Range"] == "24h"


def test_any_range_can_stand_in_the_address(visit: Open, stub: StubServer) -> None:
    """The range becomes one of the choices, and stays one while the visit lasts."""
    app = visit(stub.url, {"range": "10m"})
    assert bar(app)["Range"] == "10m"
    choose(app, "Range", "15m")
    assert bar(app)["Range"] == "15m"
    choose(app, "Range", "10m")
    assert bar(app)["Range"] == "10m"


def test_the_classes_stay_while_the_server_is_away(visit: Open) -> None:
    """A server that restarts does not clear what a visitor has chosen."""
    with StubServer(moving=True) as stub:
        app = visit(stub.url, {"classes": "batch"})
        assert bar(app)["Classes"] == ["batch"]
    refresh_until(app, lambda: "Down for" in words(app))
    assert bar(app)["Classes"] == ["batch"]
    assert app.query_params == {"classes": "batch"}


# ---------------------------------------------------------------------- a fixed time


def fixed(seconds_ago: float, length_s: int = 120) -> dict[str, object]:
    """The address of a time that ended so long ago."""
    end_s = int(time.time() - seconds_ago)
    return {"from": str(end_s - length_s), "to": str(end_s)}


def refresh_control(app: AppTest) -> object:
    """Live or paused."""
    return next(group.value for group in app.button_group if group.label == "Refresh")


def test_paused_stands_in_the_address_and_ends_with_one_button(visit: Open, stub: StubServer) -> None:
    """The range as it is then, on every page; back to live clears it."""
    app = visit(stub.url, {"range": "15m"})
    assert refresh_control(app) == "Live"
    choose(app, "Refresh", "Paused")
    address = dict(app.query_params)
    assert address["range"] == "15m"
    assert int(str(address["to"])) - int(str(address["from"])) == 900
    assert time.time() - int(str(address["to"])) < 60
    for path in VISITED:
        go(app, path)
        assert ":orange-badge[Paused]" in words(app)
        assert app.query_params == address
    app.button(key="back_to_live").click().run()
    assert app.query_params == {"range": "15m"}
    assert refresh_control(app) == "Live"
    assert "Paused" not in words(app)


def test_a_refresh_that_was_under_way_does_not_turn_the_time_back(visit: Open, stub: StubServer) -> None:
    """A refresh reports the controls of before the turn: neither a pause nor going back to live is undone by it."""
    app = visit(stub.url)
    live = app._tree.get_widget_states()
    choose(app, "Refresh", "Paused")
    address, paused = dict(app.query_params), app._tree.get_widget_states()
    app._run(live)
    assert app.query_params == address
    app.run()
    assert app.query_params == address
    app.button(key="back_to_live").click().run()
    app._run(paused)
    app.run()
    assert refresh_control(app) == "Live"
    assert app.query_params == {}


@pytest.mark.parametrize("path", SOME)
def test_a_link_restores_exactly_its_time(visit: Open, stub: StubServer, path: str) -> None:
    """In a fresh session: the same two seconds, in words and in the address."""
    address = fixed(60)
    app = visit(stub.url, address, path)
    assert app.query_params == address
    end = datetime.fromtimestamp(int(str(address["to"])), UTC)
    assert f"to {end:%H:%M:%S}** (UTC)" in words(app)
    assert refresh_control(app) == "Paused"


def test_a_fixed_time_is_what_the_sources_are_asked_for(
    visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charts end where the time ends, and the page does not refresh itself; the frame goes on."""
    asked: list[float | None] = []
    read = ScrapeSource.read

    def recording(self: ScrapeSource, questions: Questions) -> dict[Span, SourceReading]:
        asked.extend(span.end_s for span in questions)
        return read(self, questions)

    monkeypatch.setattr(ScrapeSource, "read", recording)
    repeated: list[object] = []
    fragment = st.fragment
    monkeypatch.setattr(
        st, "fragment", lambda *what, **how: (repeated.append(how["run_every"]), fragment(*what, **how))[1]
    )
    address = fixed(60)
    visit(stub.url, address)
    assert asked.count(float(str(address["to"]))) >= 3
    assert repeated == [0.5, None]


def test_another_range_ends_the_pause(visit: Open, stub: StubServer) -> None:
    """A range is of now."""
    app = visit(stub.url, fixed(60))
    choose(app, "Range", "15m")
    assert app.query_params == {"range": "15m"}
    assert refresh_control(app) == "Live"


def test_a_time_that_is_no_longer_held_says_so(visit: Open, stub: StubServer) -> None:
    """A direct scrape holds half an hour."""
    assert "This time is over" in words(visit(stub.url, fixed(7200)))


@pytest.mark.parametrize("text", NO_TIMES)
def test_a_time_that_is_none_is_ignored(visit: Open, stub: StubServer, text: str) -> None:
    """The page is live, and the address is cleared of it."""
    app = visit(stub.url, {"from": text, "to": "1700000000"})
    assert not app.exception
    assert refresh_control(app) == "Live"
    assert app.query_params == {}


def test_a_comparison_says_with_what(visit: Open, stub: StubServer) -> None:
    """The time before the last change of the preset, or that none is known."""
    stub.moving = True
    app = visit(stub.url, {"compare": "before"})
    refresh_until(app, lambda: "**Time to first token**\n" in words(app) or "Compare:" in words(app))
    stub.world.switch("latency", {"actor": "ben", "role": "operator", "address": "-"}, "")
    refresh_until(app, lambda: "before the last change of the preset." in words(app))


# ---------------------------------------------------------------------- a wall


def test_a_wall_has_nothing_to_press(visit: Open, stub: StubServer) -> None:
    """The diagnosis, eight tiles and four charts; no bar, no navigation, no button. Any other value is no wall."""
    stub.moving = True
    app = visit(stub.url, {"wall": "1", "range": "15m"})
    refresh_until(app, lambda: "badge[Live]" in words(app))
    assert len(app.metric) == 8
    assert not app.button_group
    assert not app.button
    assert not app.get("download_button")
    text = words(app)
    for title in ("Batch size against the limit", "Time to first token"):
        assert f"**{title}**" in text
    assert app.query_params == {"wall": "1", "range": "15m"}
    assert visit(stub.url, {"wall": "yes"}).button_group


def test_a_wall_hides_the_navigation(visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page, and no list of pages above it."""
    positions: list[tuple[int, str]] = []
    navigate = st.navigation
    monkeypatch.setattr(
        st,
        "navigation",
        lambda pages, position: (positions.append((len(pages), position)), navigate(pages, position=position))[1],
    )
    visit(stub.url, {"wall": "1"})
    visit(stub.url)
    assert positions == [(1, "hidden"), (8, "top")]


# ---------------------------------------------------------------------- the server, severity and alerts


@pytest.mark.parametrize("path", SOME)
def test_every_page_says_which_server_it_is(
    visit: Open, stub: StubServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Address, model, versions and uptime; severity as a word, a colour and in the tab; preset and source."""
    titles: list[str] = []
    configure = st.set_page_config
    monkeypatch.setattr(st, "set_page_config", lambda **how: (titles.append(how["page_title"]), configure(**how)))
    stub.moving, stub.world.load = True, 6.0
    app = visit(stub.url, path=path, token=OPERATOR_TOKEN)
    refresh_until(app, lambda: ":red-badge[overloaded]" in words(app))
    text = words(app)
    assert f"{stub.url} · model stub" in text
    assert "Headway 0.1.0 · cpu · up 1 min" in text
    assert ":primary-badge[balanced · revision 1]" in text
    assert "badge[direct scrape]" in text
    assert titles[-1] == "overloaded · Headway"


def test_an_alert_is_one_line_and_none_is_silence(visit: Open, stub: StubServer) -> None:
    """A condition of the rules that holds is named; when it is over the line is gone."""
    app = visit(stub.url)
    refresh_until(app, lambda: "No traffic" in words(app))
    assert "Alerts:" not in words(app)
    stub.world.ready = False
    refresh_until(app, lambda: ":red-badge[HeadwayNotReady] the server is up but not ready" in words(app))
    stub.world.ready = True
    refresh_until(app, lambda: "Alerts:" not in words(app))


# ---------------------------------------------------------------------- the Overview


def test_tiles_say_which_classes_they_are_of(visit: Open, stub: StubServer) -> None:
    """With a filter each tile is marked: of those classes, or of all where its metric knows none."""
    stub.moving = True
    app = visit(stub.url, {"classes": "realtime"})
    refresh_until(app, lambda: notes(app)["Waiting"].startswith("realtime only"))
    assert notes(app)["Requests"] == "realtime only"
    assert notes(app)["Output tokens"] == "all classes"
    refresh_until(choose(app, "Classes", []), lambda: "only" not in "".join(notes(app).values()))


def test_a_pressed_class_is_chosen_for_the_page(visit: Open, stub: StubServer) -> None:
    """As in the bar; the class that is shown alone already gives the page back to all."""
    stub.moving = True
    app = visit(stub.url)
    refresh_until(app, lambda: len(class_rows(app)) == 3)
    app.session_state["pressed_classes"] = ["batch"]
    refresh_until(app, lambda: notes(app)["Waiting"].startswith("batch only"))
    app.session_state["pressed_classes"] = []
    refresh_until(app, lambda: "only" not in "".join(notes(app).values()))


def test_the_last_changes_are_listed(visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch, and what the engine did, the newest first; without a token too. A change needs a point before it."""
    lately_s = 300.0  # as long as the default range: its instants are close together
    monkeypatch.setattr(page_reading, "EVENTS_S", lately_s)
    app, begun_s = visit(stub.url), time.time()
    refresh_until(app, lambda: "There were none in the time" in words(app))
    refresh_until(app, lambda: grid(time.time(), lately_s, 0.5).end_s > grid(begun_s, lately_s, 0.5).end_s)
    stub.world.switch("latency", {"actor": "ben", "role": "operator", "address": "-"}, "")
    refresh_until(app, lambda: len(app.table) == 1)
    assert list(app.table[0].value["Change"]) == ["Preset latency"]


# ---------------------------------------------------------------------- pages and style


def test_the_pages_stand_in_their_order(visit: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flat navigation, and a deep link for each page; what compares servers is no choice where there is one."""
    listed: list[Any] = []
    navigate = st.navigation
    monkeypatch.setattr(st, "navigation", lambda pages, **how: (listed.extend(pages), navigate(pages, **how))[1])
    visit(stub.url)
    assert [one.title for one in listed] == [*TITLES.values()]
    assert {one.url_path for one in listed} - {""} == set(PATHS) - {"overview"}
    assert [one.title for one in listed if one.visibility == "hidden"] == ["Fleet"]
    listed.clear()
    visit(f"{stub.url},{stub.url}/other")
    assert [one.title for one in listed if one.visibility == "visible"] == [*TITLES.values()]


def test_nothing_fades_while_a_page_refreshes() -> None:
    """Streamlit fades stale elements, headers of expanders, and tabs: each has its rule."""
    rule = page.STYLE.partition("{ opacity: 1 !important")[0]
    for part in ('stElementContainer"][data-stale="true"]', 'stExpander"] summary', 'stTabs"]', 'stTab"]'):
        assert part in rule
