"""The demo as a visitor sees it: no server, every page named as simulated, and nothing that can be changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import streamlit as st
from app_pages import opened, words
from streamlit.testing.v1 import AppTest

from headway_dashboard.analysis.demo_words import DEMO_CONTROL, DEMO_SOURCE, DEMO_WORDS
from headway_dashboard.deep_links import PATHS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def visit() -> Iterator[Callable[[str], AppTest]]:
    """Open a page of the demo, which goes on meanwhile, although a server and a token are named as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADWAY_DASHBOARD_DEMO", "1")
        patch.setenv("HEADWAY_URL", "http://127.0.0.1:1")
        patch.setenv("HEADWAY_ADMIN_TOKEN", "t" * 40)
        yield opened
        st.cache_resource.clear()


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
