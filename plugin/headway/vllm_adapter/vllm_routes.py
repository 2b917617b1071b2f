"""The routes of the running application, compared with the table of the route guard.

A route that a new vLLM brings is in no table: it is closed, and named in the log at the start. The guard does not
depend on this list: a route that the list lacks is closed all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from headway.http.access import RouteTable
from headway.http.access.route_table import OPEN_ROUTES
from headway.openai.routes import WEBSOCKET, RouteAccess

log = logging.getLogger(__name__)

#: Answered for any route, and never listed by itself.
_IMPLIED = frozenset({"HEAD", "OPTIONS"})
_MOUNT = "MOUNT"
#: How the lines of vLLM's own list begin.
_LISTED = ("Available routes are", "Route: ")


@dataclass(frozen=True, slots=True)
class RunningRoute:
    """A route of the application, its methods, and its access; None: the route is closed."""

    path: str
    methods: frozenset[str]
    access: RouteAccess | None

    def __str__(self) -> str:
        return f"{'/'.join(sorted(self.methods))} {self.path}"


def running_routes(app: Any, table: RouteTable) -> list[RunningRoute]:
    """Every route of this application with its access by the table, sorted by path."""
    found = [
        RunningRoute(path, methods, access)
        for path, methods in _paths(app.routes)
        for access, methods in _by_access(path, methods, table)
    ]
    return sorted(set(found), key=lambda route: (route.path, sorted(route.methods)))


def log_routes(app: Any, table: RouteTable) -> None:
    """Log the open routes in one line, and warn where routes are closed because they are not known.

    vLLM's own list, a line for each of its sixty routes, is left out unless its logger is at level DEBUG.
    """
    theirs = logging.getLogger("vllm")
    for handler in [] if theirs.isEnabledFor(logging.DEBUG) else theirs.handlers:
        handler.addFilter(_is_no_route)
    routes = running_routes(app, table)
    opened = dict.fromkeys(route.path for route in routes if route.access is RouteAccess.OPEN)
    log.info("routes that need no key: %s", ", ".join(opened) or "none")
    unknown = [route for route in routes if route.access is None]
    if unknown:
        paths = ",".join(dict.fromkeys(route.path for route in unknown))
        log.warning(
            "this vLLM has routes that Headway does not know, and keeps them closed: %s; to open them to inference "
            "keys set %s=%s", ", ".join(map(str, unknown)), OPEN_ROUTES, paths,
        )  # fmt: skip


def _is_no_route(record: logging.LogRecord) -> bool:
    """Whether a record is not of vLLM's own list of routes, whose module has other names in other releases."""
    return not (record.name.startswith("vllm.entrypoints") and str(record.msg).startswith(_LISTED))


def _by_access(
    path: str, methods: frozenset[str], table: RouteTable
) -> Iterator[tuple[RouteAccess | None, frozenset[str]]]:
    """The methods of a path, divided by their access."""
    known = table.find(_example(path))
    if known is None and _MOUNT in methods:
        known = table.find(f"{path}/x")
    if known is None:
        yield None, methods
        return
    allowed = frozenset(method for method in methods if method == _MOUNT or known.allows(method))
    if allowed:
        yield known.access, allowed
    if methods - allowed:
        yield None, methods - allowed


def _example(path: str) -> str:
    """A path that this template matches."""
    return "/".join("x" if segment.startswith("{") else segment for segment in path.split("/"))


def _paths(routes: Iterable[Any]) -> Iterator[tuple[str, frozenset[str]]]:
    """The path and the methods of each route; FastAPI from 0.137 on keeps included routers whole."""
    for route in routes:
        path = getattr(route, "path", None)
        router = getattr(route, "original_router", None)
        if path is None and router is not None:
            yield from _paths(router.routes)
        elif path is not None:
            yield str(path), _methods(route)


def _methods(route: Any) -> frozenset[str]:
    methods = getattr(route, "methods", None)
    if methods:
        return frozenset(methods) - _IMPLIED or frozenset(methods)
    return frozenset({_MOUNT if hasattr(route, "routes") else WEBSOCKET})
