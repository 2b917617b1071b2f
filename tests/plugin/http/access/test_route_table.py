"""The table of routes: what is in it, how a path is found, and what an operator may change."""

from __future__ import annotations

import pytest

from headway.api import routes as admin
from headway.errors import HeadwayError
from headway.http.access.route_table import RouteTable, known_routes
from headway.openai.routes import Route, RouteAccess

TABLE = RouteTable.from_environment({})


def access_of(path: str, table: RouteTable = TABLE) -> RouteAccess | None:
    """The access of a path; None: closed."""
    route = table.find(path)
    return None if route is None else route.access


def test_every_path_has_one_access() -> None:
    """Else the order of the table would decide."""
    paths = [route.path for route in known_routes()]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize(
    ("path", "access"),
    [
        ("/health", "open"), ("/metrics", "open"), ("/ping", "open"), ("/version", "open"),
        ("/headway/healthz", "open"), ("/headway/readyz", "open"), ("/headway/front", "open"),
        ("/v1/completions", "inference"), ("/v1/messages", "inference"), ("/invocations", "inference"),
        ("/generative_scoring", "inference"), ("/tokenize", "inference"), ("/detokenize", "inference"),
        ("/load", "inference"), ("/docs", "inference"), ("/openapi.json", "inference"), ("/v1/models", "inference"),
        ("/v1/responses/resp_1", "inference"), ("/v1/responses/resp_1/cancel", "inference"),
        ("/v1/realtime", "inference"),
        ("/scale_elastic_ep", "operator"), ("/kv_event_sources", "operator"), ("/pause", "operator"),
        ("/sleep", "operator"), ("/abort_requests", "operator"), ("/collective_rpc", "operator"),
        ("/adapters/mine", "operator"), ("/v1/load_lora_adapter", "operator"), ("/start_profile", "operator"),
    ],
)  # fmt: skip
def test_routes_have_the_access_that_they_need(path: str, access: str) -> None:
    """Probes are open, what generates wants a key, what changes the server wants the operator."""
    assert access_of(path) == access


def test_every_route_of_the_admin_api_is_passed_to_its_own_handlers() -> None:
    """With any method: they answer 405 themselves. The probes want no token."""
    for route in admin.TABLE:
        found = TABLE.find(route.path)
        assert found is not None
        assert found.allows(route.method)
        assert found.access is (RouteAccess.OPEN if route.role is None else RouteAccess.ADMIN)


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/new", "/metricsx", "/metrics/x", "/health/", "/V1/completions", "/v1/responses", "/headway/v1",
     "/v1/responses/a/b", "/v1/responses/a/cancel/b", "/adapters/a/b", "/headway/v1/other"],
)  # fmt: skip
def test_a_path_that_is_not_in_the_table_is_closed(path: str) -> None:
    """Also one that begins like a known path, or has its letters in another case."""
    known = {"/v1/responses": RouteAccess.INFERENCE}
    assert access_of(path) == known.get(path)


def test_head_is_allowed_where_get_is() -> None:
    """And nowhere else; a route with any method has it too."""
    assert TABLE.find("/health").allows("HEAD")  # type: ignore[union-attr]
    assert not TABLE.find("/v1/completions").allows("HEAD")  # type: ignore[union-attr]
    assert not TABLE.find("/v1/completions").allows("DELETE")  # type: ignore[union-attr]
    assert Route("/x", None, RouteAccess.INFERENCE).allows("HEAD")


def test_an_opened_route_wants_an_inference_key() -> None:
    """A path or a template, with spaces around it, for every method."""
    table = RouteTable.from_environment({"HEADWAY_OPEN_ROUTES": " /v1/new , /v1/things/{file_id},"})
    for path in ("/v1/new", "/v1/things/f-1"):
        route = table.find(path)
        assert route is not None
        assert route.access is RouteAccess.INFERENCE
        assert route.allows("DELETE")
    assert access_of("/v1/things", table) is None


def test_a_closed_route_keeps_its_methods() -> None:
    """The route is no longer open."""
    table = RouteTable.from_environment({"HEADWAY_CLOSED_ROUTES": "/metrics,/version"})
    route = table.find("/metrics")
    assert route is not None
    assert route.access is RouteAccess.CLOSED
    assert not route.allows("POST")
    health = table.find("/health")
    assert health is not None
    assert health.access is RouteAccess.OPEN


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HEADWAY_OPEN_ROUTES", "v1/new", "a path such as /v1/new"),
        ("HEADWAY_OPEN_ROUTES", "/v1/../pause", "a path such as /v1/new"),
        ("HEADWAY_OPEN_ROUTES", "/v1//new", "a path such as /v1/new"),
        ("HEADWAY_OPEN_ROUTES", "/v1/%70ause", "a path such as /v1/new"),
        ("HEADWAY_OPEN_ROUTES", "/pause", "cannot be opened"),
        ("HEADWAY_OPEN_ROUTES", "/headway/v1/status", "cannot be opened"),
        ("HEADWAY_OPEN_ROUTES", ",".join(f"/new/{number}" for number in range(101)), "100 at most"),
        ("HEADWAY_CLOSED_ROUTES", "/v1/completions", "is no open route; the open routes are /headway/front"),
        ("HEADWAY_CLOSED_ROUTES", "/metric", "is no open route"),
    ],
)
def test_a_wrong_list_is_one_line_that_names_the_variable(variable: str, value: str, words: str) -> None:
    """An operator's route cannot be opened to inference keys."""
    with pytest.raises(HeadwayError) as caught:
        RouteTable.from_environment({variable: value})
    assert str(caught.value).startswith(f"{variable}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
