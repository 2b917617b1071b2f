"""Streamlit's scripts and styles, compressed for the browser.

Streamlit serves them as they are, 4.2 MB for the first visit. Here each is compressed once, when it is first asked for.
"""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
from importlib import resources
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_FOLDER = "/static/"
_KINDS = ("js", "css")
#: Every name has a hash of its content, so that a browser may keep it.
_HEADERS = {
    "Content-Encoding": "gzip",
    "Vary": "Accept-Encoding",
    "Cache-Control": "public, immutable, max-age=31536000",
}


class PackedAssets:
    """Answers for the scripts and styles that there are; every other request goes through.

    A request for a part of a file, or from a client that does not accept gzip, goes through as well.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        folder = Path(str(resources.files("streamlit") / "static" / "static"))
        self._files = {f"{kind}/{path.name}": path for kind in _KINDS for path in (folder / kind).glob(f"*.{kind}")}
        self._packed: dict[str, bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        name = _asked(scope)
        if name not in self._files:
            await self._app(scope, receive, send)
            return
        if name not in self._packed:
            self._packed[name] = await asyncio.to_thread(_packed, self._files[name])
        kind, _ = mimetypes.guess_type(name)
        await Response(self._packed[name], media_type=kind, headers=_HEADERS)(scope, receive, send)


def _asked(scope: Scope) -> str:
    """The name of the asset that may be sent compressed; empty where nothing may."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return ""
    headers = Headers(scope=scope)
    if "range" in headers or "gzip" not in headers.get("accept-encoding", ""):
        return ""
    return str(scope["path"]).rpartition(_FOLDER)[2]


def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)
