"""The protection of an application: ids, bounds and the route guard, outside of everything that reads a request.

RequestIds      an id of its own, and the trace it belongs to
RequestLimits   bytes and time
RouteGuard      the route, and the tenant by its key
BatchRoutes     answers the routes of files and batches itself
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import REGISTRY
from starlette.types import ASGIApp

from headway.api_server.settings import Settings
from headway.batches import BatchRoutes
from headway.http import Bounds, Budget, RequestLimits
from headway.http.access import Access, ApiKeys, RouteGuard
from headway.operator.metrics import HttpCollector
from headway.tracing import RequestIds
from headway_policies import Preset


def protected(
    application: ASGIApp,
    settings: Settings,
    bounds: Bounds,
    preset: Callable[[], Preset],
    retries_ended: Mapping[str, int],
    truncated: Mapping[str, int],
    api_keys: Iterable[str] = (),
) -> ASGIApp:
    """The application behind its protection, and the metrics of HTTP: what is refused here, and the two counts.

    ``preset`` gives the preset in force, ``api_keys`` are inference keys beside those of the keys file.
    """
    access = Access(
        settings.route_table,
        settings.tokens.role,
        bool(settings.tokens),
        preset,
        keys=settings.keys_file,
        api_keys=ApiKeys(list(api_keys)),
        proxies=settings.proxies,
    )
    guarded = RouteGuard(BatchRoutes(application, settings.batches), access)
    REGISTRY.register(HttpCollector(guarded.refused, retries_ended, truncated))
    return RequestIds(RequestLimits(guarded, bounds, Budget(bounds.max_bodies_bytes)))
