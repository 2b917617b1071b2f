"""The path of a request as the router of the application will see it, where it has one spelling only.

Starlette routes by ``scope["path"]``, which the server has decoded, without the root path of the application. A path
that could be spelled in another way (percent-encoded, with empty or dot segments, with a trailing slash, not ASCII) is
the path of no known route, so that no two layers can read it differently. Neither the Host header nor
``request.url``, which Starlette makes from it, decides anything (CVE-2026-48710).
"""

from __future__ import annotations

from starlette.types import Scope

from headway.http.access.route_table import PLAIN_PATH


def plain_path(scope: Scope) -> str | None:
    """The path of the route, or None where the path is not plain."""
    path: str = scope["path"]
    raw: bytes | None = scope.get("raw_path")
    if PLAIN_PATH.fullmatch(path) is None or (raw is not None and raw != path.encode("ascii")):
        return None
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path
