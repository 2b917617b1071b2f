"""The table of routes in force: the known routes, with what the operator has opened and closed.

    HEADWAY_OPEN_ROUTES     paths, with commas, that a new vLLM has and the table lacks: they need an inference key
    HEADWAY_CLOSED_ROUTES   open paths, with commas, to close: they need a key, or a token of the admin API

Each is checked at the start: an operator's route cannot be opened, and only an open one can be closed.

Starlette routes by ``scope["path"]``, which the server has decoded, without the root path of the application. A path
that could be spelled in another way (percent-encoded, with empty or dot segments, with a trailing slash, not ASCII) is
the path of no known route, so that no two layers can read it differently. Neither the Host header nor
``request.url``, which Starlette makes from it, decides anything (CVE-2026-48710).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from starlette.types import Scope

from headway.api import routes as admin
from headway.errors import HeadwayError
from headway.openai.routes import BATCH_ROUTES, ROUTES, Route, RouteAccess
from headway.settings import Environment

OPEN_ROUTES: Final = Environment.open_routes.name
CLOSED_ROUTES: Final = Environment.closed_routes.name

_MAX_ROUTES = 100
#: A segment is unreserved characters of RFC 3986 and those of its sub-delimiters that name models and adapters.
_SEGMENT = r"[A-Za-z0-9_.~:@+=,-]++"
#: A path without any other spelling: no empty and no dot segments, nothing encoded.
_PLAIN_PATH: Final = re.compile(rf"(?:/(?!\.\.?(?:/|\Z)){_SEGMENT})++")
_TEMPLATE = re.compile(rf"(?:/(?!\.\.?(?:/|\Z))(?:{_SEGMENT}|\{{[a-z_]+\}}))+")


def plain_path(scope: Scope) -> str | None:
    """The path of a request as the router of the application will see it, or None where the path is not plain."""
    path: str = scope["path"]
    raw: bytes | None = scope.get("raw_path")
    if _PLAIN_PATH.fullmatch(path) is None or (raw is not None and raw != path.encode("ascii")):
        return None
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def known_routes() -> Iterator[Route]:
    """The routes of vLLM and of Headway, each path once."""
    yield from ROUTES
    yield from BATCH_ROUTES
    yield Route("/headway/front", frozenset({"GET"}), RouteAccess.OPEN)
    for path in dict.fromkeys(route.path for route in admin.TABLE):
        probe = all(route.role is None for route in admin.TABLE if route.path == path)
        yield Route(path, frozenset({"GET"}) if probe else None, RouteAccess.OPEN if probe else RouteAccess.ADMIN)


class RouteTable:
    """Routes by path. Looking one up costs the length of the path."""

    __slots__ = ("_exact", "_patterns")

    def __init__(self, routes: Iterable[Route]) -> None:
        self._exact: dict[str, Route] = {}
        self._patterns: dict[int, list[tuple[tuple[str | None, ...], Route]]] = {}
        for route in routes:
            self._add(route)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> RouteTable:
        """The known routes, changed as the environment says. Raises HeadwayError in one line."""
        found = Environment(environment)
        known = {route.path: route for route in known_routes()}
        for path in _checked(found.open_routes, OPEN_ROUTES):
            if path in known and known[path].access is not RouteAccess.INFERENCE:
                access = known[path].access
                raise HeadwayError(f"{OPEN_ROUTES}: {path} is a known route ({access}) and cannot be opened; remove it")
            known[path] = Route(path, None, RouteAccess.INFERENCE)
        for path in _checked(found.closed_routes, CLOSED_ROUTES):
            if path not in known or known[path].access is not RouteAccess.OPEN:
                choice = ", ".join(sorted(route.path for route in known.values() if route.access is RouteAccess.OPEN))
                raise HeadwayError(f"{CLOSED_ROUTES}: {path} is no open route; the open routes are {choice}")
            known[path] = replace(known[path], access=RouteAccess.CLOSED)
        return cls(known.values())

    def find(self, path: str) -> Route | None:
        """The route of a plain path, or None."""
        found = self._exact.get(path)
        if found is not None:
            return found
        segments = path.split("/")
        for pattern, route in self._patterns.get(len(segments), ()):
            if all(wanted is None or wanted == given for wanted, given in zip(pattern, segments, strict=True)):
                return route
        return None

    def _add(self, route: Route) -> None:
        if "{" not in route.path:
            self._exact[route.path] = route
            return
        pattern = tuple(None if segment.startswith("{") else segment for segment in route.path.split("/"))
        self._patterns.setdefault(len(pattern), []).append((pattern, route))


def _checked(paths: Sequence[str], variable: str) -> Sequence[str]:
    """The paths in a variable, each checked. Raises HeadwayError."""
    for path in paths:
        if not _TEMPLATE.fullmatch(path):
            raise HeadwayError(f"{variable}: a path such as /v1/new or /v1/new/{{id}} is needed, not {path[:40]!r}")
    if len(paths) > _MAX_ROUTES:
        raise HeadwayError(f"{variable}: {len(paths)} paths, and {_MAX_ROUTES} at most are possible; shorten the list")
    return paths
