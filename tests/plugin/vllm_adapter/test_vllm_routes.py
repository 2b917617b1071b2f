"""The routes of a running application, and the table compared with the source of the vLLM that is installed."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.routing import Mount
from vllm_source import VllmSource, found_source

from headway.http.access import RouteTable
from headway.openai.routes import WEBSOCKET, RouteAccess
from headway.vllm_adapter.vllm_routes import log_routes, running_routes

LOGGER = "headway.vllm_adapter.vllm_routes"
TABLE = RouteTable.from_environment({})
_VERBS = {"get", "post", "put", "patch", "delete", "websocket"}
#: Applications of their own, which no plugin is loaded into.
_OTHER_APPLICATIONS = ("dp_supervisor.py", "preload.py")


async def handler() -> None:
    """Nothing."""


def application(*routes: tuple[str, str]) -> FastAPI:
    """An application with these routes (method, path) beside FastAPI's own."""
    app = FastAPI()
    for method, path in routes:
        if method == WEBSOCKET:
            app.add_api_websocket_route(path, handler)
        else:
            app.add_api_route(path, handler, methods=[method])
    return app


def test_each_route_has_the_access_of_the_table() -> None:
    """FastAPI's own pages among them."""
    app = application(("POST", "/v1/completions"), ("GET", "/health"), (WEBSOCKET, "/v1/realtime"), ("POST", "/pause"))
    found = {str(route): route.access for route in running_routes(app, TABLE)}
    assert found == {
        "GET /docs": "inference", "GET /docs/oauth2-redirect": "inference", "GET /openapi.json": "inference",
        "GET /redoc": "inference", "POST /v1/completions": "inference", "GET /health": "open",
        "WEBSOCKET /v1/realtime": "inference", "POST /pause": "operator",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/new"), ("DELETE", "/v1/responses/{response_id}"), (WEBSOCKET, "/v1/talk"), ("GET", "/v1/{x}/{y}")],
)
def test_a_route_or_a_method_that_the_table_lacks_is_closed(method: str, path: str) -> None:
    """A known path with a new method as well."""
    closed = [route for route in running_routes(application((method, path)), TABLE) if route.access is None]
    assert [str(route) for route in closed] == [f"{method} {path}"]


def test_mounted_applications_are_routes_too() -> None:
    """The one of the metrics is known, and so are the files of vLLM's pages without a network."""
    app = FastAPI(openapi_url=None)
    app.routes.extend([Mount("/metrics", handler), Mount("/static", handler), Mount("/other", handler)])
    assert {route.path: route.access for route in running_routes(app, TABLE)} == {
        "/metrics": RouteAccess.OPEN, "/static": RouteAccess.INFERENCE, "/other": None,
    }  # fmt: skip


def test_included_routers_are_looked_into() -> None:
    """FastAPI from 0.137 on keeps them whole; earlier ones copy their routes."""
    router = APIRouter()
    router.add_api_route("/v1/new", handler, methods=["POST"])
    kept: Any = SimpleNamespace(routes=[SimpleNamespace(original_router=router)])
    assert [str(route) for route in running_routes(kept, TABLE)] == ["POST /v1/new"]
    app = FastAPI(openapi_url=None)
    app.include_router(router)
    assert [str(route) for route in running_routes(app, TABLE)] == ["POST /v1/new"]


def test_the_start_names_open_and_unknown_routes(caplog: pytest.LogCaptureFixture) -> None:
    """One line each; the warning has the variable to set, ready to be copied."""
    caplog.set_level(logging.INFO, LOGGER)
    log_routes(application(("GET", "/health"), ("POST", "/v1/new"), ("GET", "/v1/less/{id}")), TABLE)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "routes that need no key: /health"),
        (
            "WARNING",
            "this vLLM has routes that Headway does not know, and keeps them closed: GET /v1/less/{id}, POST /v1/new; "
            "to open them to inference keys set HEADWAY_OPEN_ROUTES=/v1/less/{id},/v1/new",
        ),
    ]
    opened = RouteTable.from_environment({"HEADWAY_OPEN_ROUTES": "/v1/less/{id},/v1/new"})
    caplog.clear()
    log_routes(application(("POST", "/v1/new"), ("GET", "/v1/less/{id}")), opened)
    assert [record.getMessage() for record in caplog.records] == ["routes that need no key: none"]


@pytest.mark.parametrize(
    ("level", "told"), [(logging.INFO, ["other"]), (logging.DEBUG, ["Available routes are:", "Route: /x", "other"])]
)
def test_vllms_own_list_of_routes_is_left_out(
    level: int, told: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Sixty lines; every other line of vLLM stays, and at level DEBUG the list does."""
    monkeypatch.setattr(logging.getLogger("vllm"), "handlers", [caplog.handler])
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", False)
    monkeypatch.setattr(caplog.handler, "filters", [])
    caplog.set_level(level, "vllm")
    log_routes(application(), TABLE)
    for words in (("Available routes are:",), ("Route: %s", "/x"), ("other",)):
        logging.getLogger("vllm.entrypoints.launchers.launcher").info(*words)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("vllm")] == told


def source_routes(source: VllmSource) -> Iterator[tuple[str, str]]:
    """Method and path of every route that a module of vLLM's entrypoints defines with a literal path."""
    for file in sorted((source.package / "entrypoints").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if file.name in _OTHER_APPLICATIONS or not ("router" in text or "@app." in text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                path = node.args[0]
                if isinstance(path, ast.Constant) and str(path.value).startswith("/"):
                    yield from ((method, str(path.value)) for method in _methods(node))


def _methods(call: ast.Call) -> list[str]:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr in _VERBS:
        return [call.func.attr.upper()]
    if call.func.attr != "add_api_route":
        return []
    return [method for word in call.keywords if word.arg == "methods" for method in ast.literal_eval(word.value)]


def test_every_route_of_the_installed_vllm_is_in_the_table() -> None:
    """Its development mode and all its flags included: what is missing would be closed to its clients."""
    source = found_source()
    if source is None:
        pytest.skip("vLLM is not installed")
    routes = set(source_routes(source))
    assert len(routes) > 50
    unknown = []
    for method, path in sorted(routes):
        found = TABLE.find("/".join("x" if part.startswith("{") else part for part in path.split("/")))
        if found is None or not found.allows(method):
            unknown.append(f"{method} {path}")
    assert unknown == []
