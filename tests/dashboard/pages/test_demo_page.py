"""The demo as a visitor sees it: no server, every page named as simulated, and nothing that can be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

from headway_dashboard.analysis.demo_words import DEMO_CONTROL, DEMO_SOURCE, DEMO_WORDS
from headway_dashboard.deep_links import PATHS
from headway_dashboard.server import SCRIPT

pytestmark = pytest.mark.slow


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], AppTest]]:
    """Open a page of the demo, although a server and a token are named as well."""
    monkeypatch.setenv("HEADWAY_DASHBOARD_DEMO", "1")
    monkeypatch.setenv("HEADWAY_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", "t" * 40)

    def visit(path: str) -> AppTest:
        app = AppTest.from_file(str(SCRIPT), default_timeout=60)
        app._page_hash = calc_hash(path)
        return app.run()

    yield visit
    st.cache_resource.clear()


def words(app: AppTest) -> str:
    """All the text of a page."""
    assert not app.exception
    kinds = (app.markdown, app.caption, app.info, app.warning, app.error, app.success)
    return "\n".join(str(one.value) for kind in kinds for one in kind).replace("\\", "")


@pytest.mark.parametrize("path", ["", *(one for one in PATHS if one != "overview")])
def test_every_page_says_that_it_is_a_demo(visit: Callable[[str], AppTest], path: str) -> None:
    """A banner, the badge of the source, and the place of the address."""
    app = visit(path)
    assert DEMO_WORDS in [str(one.value).replace("\\", "") for one in app.info]
    assert DEMO_SOURCE in words(app)
    assert "127.0.0.1:1" not in "\n".join(str(one.value) for one in app.caption)


def test_the_overview_has_figures(visit: Callable[[str], AppTest]) -> None:
    """All tiles and classes, from the same expressions as with a server."""
    app = visit("")
    assert len(app.metric) == 8
    assert "—" not in {str(one.value) for one in app.metric if one.label not in ("TTFT p95", "Error share")}
    assert list(app.table[0].value["Class"]) == ["realtime", "normal", "batch"]


def test_control_shows_everything_and_changes_nothing(visit: Callable[[str], AppTest]) -> None:
    """Cards and differences are there; every button that would send something is off."""
    app = visit("control")
    assert DEMO_CONTROL in words(app)
    card = next(one for one in app.button if one.key == "compare-serial")
    card.click().run()
    assert "→ serial" in words(app)
    assert list(app.table[0].value.columns)[:3] == ["Setting", "Now", "After"]
    harmless = ("compare-", "back_to_live")
    assert all(one.disabled for one in app.button if not str(one.key).startswith(harmless))
