"""Pages that are opened by their own addresses."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit.web.server.starlette.starlette_static_routes import create_streamlit_static_assets_routes

from headway_dashboard.deep_links import FIRST, PATHS
from headway_dashboard.server import routes


@pytest.fixture
def client() -> TestClient:
    """The routes of the dashboard before those of Streamlit, as the process has them."""
    return TestClient(Starlette(routes=[*routes(), *create_streamlit_static_assets_routes("")]))


@pytest.mark.parametrize("path", [path for path in PATHS if path != FIRST])
def test_a_deep_link_tells_the_base_of_the_server(client: TestClient, path: str) -> None:
    """The front end need not guess: without the base it would ask for ``_stcore`` below the page and get a 404."""
    answer = client.get(f"/{path}?range=15m")
    assert answer.status_code == 200
    told = 'window.__streamlit = { BACKEND_BASE_URL: new URL(".", window.location.href).href }'
    assert told in answer.text
    assert answer.text.index(told) < answer.text.index('<script type="module"')
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(("query", "target"), [("", "./"), ("?range=15m&classes=batch", "./?range=15m&classes=batch")])
def test_the_first_page_has_the_address_that_streamlit_knows(client: TestClient, query: str, target: str) -> None:
    """Else its front end says that the page does not exist. The choices of the link stay."""
    answer = client.get(f"/{FIRST}{query}", follow_redirects=False)
    assert answer.status_code == 307
    assert answer.headers["location"] == target


def test_the_page_is_streamlits_own(client: TestClient) -> None:
    """Nothing else of it is changed."""
    script = '<script>window.__streamlit = { BACKEND_BASE_URL: new URL(".", window.location.href).href };</script>'
    assert client.get("/latency").text.replace(script, "") == client.get("/").text


def test_no_page_answers_for_the_server(client: TestClient) -> None:
    """An answer below a page would make the front end take the page for the base of all addresses."""
    assert client.get("/latency/_stcore/health").status_code == 404
    assert client.get("/latency/_stcore/host-config").status_code == 404
