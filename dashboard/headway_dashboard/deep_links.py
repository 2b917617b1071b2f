"""The HTML of a page that is opened by its own address, such as ``/latency``.

Streamlit's front end has to find its server. From ``/latency`` it first tries ``/latency/_stcore/health`` and
``/latency/_stcore/host-config``, as if the server lived there, and after their 404 the parent. An answer there would be
wrong: the front end would take ``/latency`` for the base of all addresses. ``window.__streamlit.BACKEND_BASE_URL``
tells the base, so that nothing is guessed; it is relative to the page, and holds behind a proxy's prefix as well.
"""

from __future__ import annotations

from importlib import resources

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

#: The paths of all pages.
PATHS = ("overview", "fleet", "requests", "tenants", "engine", "latency", "control", "server")
#: Streamlit knows its first page by the empty path alone, and says that this one does not exist.
FIRST = PATHS[0]

_HEAD = "<head>"
_BASE = '<script>window.__streamlit = { BACKEND_BASE_URL: new URL(".", window.location.href).href };</script>'


def page_routes() -> list[Route]:
    """The routes of the pages."""
    return [Route(f"/{path}", _first if path == FIRST else _page) for path in PATHS]


async def _first(request: Request) -> Response:
    """The first page at the address where Streamlit has it, with the choices of the link; relative, for a prefix."""
    return RedirectResponse(f"./?{request.url.query}" if request.url.query else "./")


async def _page(request: Request) -> Response:
    """Streamlit's own page, with its base told. A page without the expected tag is served as it is."""
    html = (resources.files("streamlit") / "static" / "index.html").read_text(encoding="utf-8")
    return HTMLResponse(html.replace(_HEAD, f"{_HEAD}{_BASE}", 1), headers={"Cache-Control": "no-cache"})
