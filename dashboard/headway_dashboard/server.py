"""The web server around the pages: what it serves beside them, and with which options it runs."""

from __future__ import annotations

from functools import cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from headway_dashboard.deep_links import page_routes
from headway_dashboard.packed_assets import PackedAssets

#: The script that Streamlit runs for each visitor. It stands alone in its folder, because Streamlit puts that folder
#: on ``sys.path``.
SCRIPT = Path(__file__).parent / "entry" / "headway_page.py"

#: Compresses the scripts and styles of Streamlit.
PACKED = Middleware(PackedAssets)

_PLOTLY_PATH = "/assets/plotly.min.js"

#: ``.streamlit/config.toml`` beside ``dashboard/app.py`` says the same for ``streamlit run``; a test compares them.
OPTIONS: dict[str, Any] = {
    "server.headless": True,
    "server.address": "127.0.0.1",
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "theme.light.primaryColor": "#2f6fb2",
    "theme.light.borderColor": "#e3e6ea",
    "theme.dark.primaryColor": "#6cb0ee",
    "theme.dark.backgroundColor": "#14171c",
    "theme.dark.secondaryBackgroundColor": "#1d2129",
    "theme.dark.borderColor": "#2c323c",
    "theme.baseRadius": "8px",
    "theme.metricValueFontSize": "1.6rem",
}


@cache
def plotly_url() -> str:
    """The address of plotly.js for the browser, beside that of any page, also behind a prefix; the version in it lets
    the browser keep it for a year.
    """
    return f".{_PLOTLY_PATH}?v={metadata.version('plotly')}"


async def _plotly(request: Request) -> Response:
    path = str(resources.files("plotly") / "package_data" / "plotly.min.js")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return FileResponse(path, media_type="text/javascript", headers=headers)


async def _alive(request: Request) -> Response:
    return JSONResponse({"alive": True})


def routes() -> list[BaseRoute]:
    """plotly.js, below a ``server.baseUrlPath`` as well, a probe for supervisors, and the pages by their addresses."""
    below = Route("/{base:path}" + _PLOTLY_PATH, _plotly)
    return [Route(_PLOTLY_PATH, _plotly), below, Route("/healthz", _alive), *page_routes()]
