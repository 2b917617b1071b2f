"""Streamlit's scripts and styles, as the browser gets them."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient
from streamlit.web.server.starlette.starlette_static_routes import create_streamlit_static_assets_routes

from headway_dashboard.packed_assets import PackedAssets

GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture
def client() -> TestClient:
    """Streamlit's own files behind the middleware."""
    routes = create_streamlit_static_assets_routes("")
    return TestClient(Starlette(routes=routes, middleware=[Middleware(PackedAssets)]))


@pytest.fixture
def names(client: TestClient) -> list[str]:
    """The addresses of the first script and the first style of the page."""
    page = client.get("/").text
    return [page.partition(f'{kind}="./')[2].partition('"')[0] for kind in ("src", 'stylesheet" crossorigin href')]


@pytest.mark.parametrize("prefix", ["", "/behind/a/proxy"])
def test_scripts_and_styles_come_compressed(client: TestClient, names: list[str], prefix: str) -> None:
    """The same content in a third of the bytes, which the browser may keep; every time."""
    for name in [*names, names[0]]:
        plain = client.get(f"/{name}", headers={"Accept-Encoding": "identity"})
        packed = client.get(f"{prefix}/{name}", headers=GZIP)
        assert packed.content == plain.content
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(plain.content) / 2
        assert packed.headers["content-type"].split(";")[0].split("/")[1] in ("javascript", "css")
        assert packed.headers["vary"] == "Accept-Encoding"
        assert "immutable" in packed.headers["cache-control"]
        assert plain.headers.get("content-encoding") is None


def test_other_requests_go_through(client: TestClient, names: list[str]) -> None:
    """The page, what is not there, what leads out of the folder, a part of a file, and another method."""
    assert "content-encoding" not in client.get("/", headers=GZIP).headers
    for path in ("/static/js/none.js", "/static/../../setup.py", "/static/js/..%2f..%2findex.html"):
        assert client.get(path, headers=GZIP).headers.get("content-encoding") is None
    part = client.get(f"/{names[0]}", headers={**GZIP, "Range": "bytes=0-9"})
    assert (part.status_code, len(part.content)) == (206, 10)
    assert client.post(f"/{names[0]}", headers=GZIP).status_code == 405
