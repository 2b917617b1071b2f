"""The contract of the admin API: what a real server answers is what the models, the routes and the document say."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from engines import installed
from pydantic import BaseModel
from recorded_traffic import MODEL, recording
from starlette.applications import Starlette
from starlette.routing import Route as ServedRoute
from virtual_time import on_virtual_time

import headway
from headway.api import openapi, routes, schema
from headway.api.routes import Role, Route
from headway.engine.fake import FakeEngine, FakeParams
from headway.forecast.figures import merged
from headway.forecast.replay import drawn, recorded, replay
from headway.http.admin import handlers as admin
from headway.http.admin.tokens import Tokens
from headway.operator import Control, EngineParts
from headway.supervision import Supervisor
from headway.usage import UsageLog, UsageStore
from headway_policies import Preset, bundled_presets, preset

TOKENS = {Role.OPERATOR: "operator-token-0123456789-0123456789", Role.VIEWER: "viewer-token-0123456789-0123456789ab"}
BODIES: dict[str, dict[str, Any]] = {
    "switch": {
        "name": "latency",
        "reason": "rush hour",
        "actor": "anna",
        "revert_after_s": 60,
        "revert_if": ["normal.ttft_p95_s > 2 for 30 s"],
    },
    "keep": {},
    "order_limit": {"seats": 12, "expires_s": 30, "reason": "a trial", "actor": "anna"},
    "order_fallback": {"rung": "pause"},
    "recycle": {},
    "forecast": {"presets": ["latency"]},
    "undo": {"revision": 1},
    "pause": {"reason": "the disk is moved", "actor": "anna", "expires_s": 30},
    "resume": {},
    "drain": {},
    "warmup": {},
    "silence": {"alert": "HeadwayQueueLong", "expires_s": 600, "actor": "anna"},
}
EVERY_ROUTE = pytest.mark.parametrize("route", routes.TABLE, ids=lambda route: route.name)


async def _forecast(presets: Sequence[Preset], *_: float) -> schema.Forecast:
    """What another process would compute."""
    span_s = 120.0
    figures = [replay(drawn(recorded(recording(0.5)), 0), span_s, preset, MODEL, 0) for preset in presets]
    found = [merged(one.name, [figure]) for one, figure in zip(presets, figures, strict=True)]
    engine = schema.EngineEstimate(
        base_s=0.01, sequence_s=1e-4, prompt_token_s=1e-5, kv_tokens=MODEL.kv_tokens, error_ratio=0.03
    )
    return schema.Forecast(current="balanced", span_s=span_s, requests=500, seeds=1, engine=engine, presets=found)


async def _never() -> None:
    """Replace no engine."""
    raise AssertionError("a request runs, so the engine is not empty")


async def _warm(batch_size: int) -> str:
    """A warm-up that succeeds at once."""
    return ""


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[httpx.AsyncClient, Control, EngineParts]]:
    """A client of the admin API of a supervised engine with one running request and one entry in its audit log."""
    engine = FakeEngine()
    balanced = bundled_presets()["balanced"]
    folder = tempfile.TemporaryDirectory()
    usage = UsageLog(UsageStore(Path(folder.name) / "usage.db"))
    usage.store.check()
    control, parts = installed(
        engine,
        balanced,
        supervise=lambda one: Supervisor(one.gateway),
        replace=_never,
        warm_beside_traffic=_warm,
        usage=usage,
    )
    vars(control.forecasts)["of"] = _forecast
    control.order_fallback("pause", caller=headway.Caller("anna"))
    control.order_fallback(None, caller=headway.Caller("anna"))
    tokens = Tokens({token: role for role, token in TOKENS.items()})
    stream = engine.generate("text", FakeParams(50), "r")
    await anext(stream)
    transport = httpx.ASGITransport(app=Starlette(routes=admin.routes(lambda: control, tokens)))
    async with httpx.AsyncClient(transport=transport, base_url="http://headway") as client:
        yield client, control, parts
    await stream.aclose()
    usage.close()
    folder.cleanup()


async def ask(client: httpx.AsyncClient, route: Route, role: Role | None) -> httpx.Response:
    """Send what the route takes, with a token of this role."""
    headers = {} if role is None else {"Authorization": f"Bearer {TOKENS[role]}"}
    if route.command is None:
        return await client.request(route.method, route.path, headers=headers)
    return await client.request(route.method, route.path, headers={**headers, "If-Match": "*"}, json=BODIES[route.name])


def unknown_keys(value: object, where: str = "") -> Iterator[str]:
    """The keys of a model, and of all inside it, that its class does not have."""
    if isinstance(value, BaseModel):
        yield from (f"{where}.{key}" for key in value.model_extra or {})
        for name in type(value).model_fields:
            yield from unknown_keys(getattr(value, name), f"{where}.{name}")
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from unknown_keys(one, f"{where}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from unknown_keys(one, f"{where}[]")


def exactly(model: type[BaseModel], content: bytes) -> None:
    """The JSON is one of this model: every field is there in its own type, and no other."""
    read = model.model_validate_json(content, strict=True)
    assert list(unknown_keys(read)) == []
    assert read.model_dump(mode="json") == json.loads(content)


@EVERY_ROUTE
@on_virtual_time
async def test_every_answer_is_exactly_its_model(route: Route) -> None:
    """From a server with a supervisor, with the status and the ETag that the table names."""
    async with serving() as (client, *_):
        if route in (routes.TRIAL, routes.KEEP):
            await ask(client, routes.SWITCH, Role.OPERATOR)
        if route is routes.RESUME:
            await ask(client, routes.PAUSE, Role.OPERATOR)
        answer = await ask(client, route, route.role)
        assert answer.status_code == route.status
        assert answer.headers["content-type"].partition(";")[0] == route.media
        assert ("etag" in answer.headers) == route.versioned
        if route is routes.TRACE:
            assert answer.text.splitlines()[1] == "0.000000,1,,normal,,1,50"
        elif route.answer is None:
            assert answer.json() == openapi.document(headway.__version__)
        else:
            exactly(route.answer, answer.content)


@on_virtual_time
async def test_a_recycle_that_begins_is_exactly_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """202, with the seats that are still taken."""
    async with serving() as (client, *_):
        monkeypatch.setattr(Control, "recycle", lambda *_: None)
        answer = await ask(client, routes.RECYCLE, Role.OPERATOR)
        assert (answer.status_code, answer.json()) == (202, {"accepted": True, "seats_taken": 1})
        exactly(schema.RecycleAccepted, answer.content)


@pytest.mark.parametrize("route", [routes.PAUSE, routes.DRAIN], ids=lambda route: route.name)
@on_virtual_time
async def test_a_server_that_an_operator_has_stopped_answers_the_same_model(route: Route) -> None:
    """With the cause, the age, the author and the reason of the order."""
    async with serving() as (client, *_):
        await ask(client, route, Role.OPERATOR)
        status = await ask(client, routes.STATUS, Role.VIEWER)
        exactly(schema.Status, status.content)
        assert (status.json()["holds"], status.json()["stopped"]["state"]) == (["operator"], status.json()["state"])


@on_virtual_time
async def test_a_server_that_is_not_ready_answers_the_same_model() -> None:
    """With the second status of the table."""
    async with serving() as (client, _, parts):
        parts.warmup.report.state = "running"
        answer = await ask(client, routes.READYZ, None)
        assert answer.status_code == routes.READYZ.otherwise
        exactly(schema.Readiness, answer.content)


@EVERY_ROUTE
@on_virtual_time
async def test_every_route_needs_the_role_of_the_table(route: Route) -> None:
    """401 without a token and 403 for a viewer's order, each a problem document; a probe answers all."""
    async with serving() as (client, *_):
        answer = await ask(client, route, None)
        assert answer.status_code == (route.status if route.role is None else 401)
        refused = [answer] if route.role is not None else []
        viewed = await ask(client, route, Role.VIEWER)
        assert viewed.status_code == (403 if route.role is Role.OPERATOR else route.status)
        for one in [*refused, viewed]:
            if one.status_code >= 400:
                assert one.status_code in route.refusals
                assert one.headers["content-type"] == "application/problem+json"
                assert list(unknown_keys(schema.Problem.model_validate_json(one.content, strict=True))) == []


@on_virtual_time
async def test_a_wrong_order_is_a_problem_with_its_errors() -> None:
    """Each error of the body is one of the model."""
    async with serving() as (client, *_):
        headers = {"Authorization": f"Bearer {TOKENS[Role.OPERATOR]}", "If-Match": '"1"'}
        answer = await client.put(routes.SWITCH.path, headers=headers, json={"nonsense": 1})
        assert (answer.status_code, len(answer.json()["errors"])) == (422, 2)
        exactly(schema.Problem, answer.content)


def test_the_server_has_the_routes_of_the_table_and_no_others() -> None:
    """Made from it, each with one handler."""
    served = [one for one in admin.routes(_never, Tokens({})) if isinstance(one, ServedRoute)]
    assert [(one.path, (one.methods or set()) - {"HEAD"}) for one in served] == [
        (route.path, {route.method}) for route in routes.TABLE
    ]
    assert {*admin.HANDLERS, "healthz"} == {route.name for route in routes.TABLE}


def test_the_document_has_every_route_and_every_reference_leads_somewhere() -> None:
    """OpenAPI 3.1: an operation for each route, with its statuses; no dangling reference, no nameless schema."""
    document = openapi.document("1.2.3")
    assert (document["openapi"], document["info"]["version"]) == ("3.1.0", "1.2.3")
    operations = {one["operationId"]: one for path in document["paths"].values() for one in path.values()}
    assert operations.keys() == {route.name for route in routes.TABLE}
    for route in routes.TABLE:
        operation = document["paths"][route.path][route.method.lower()]
        statuses = {route.status, route.otherwise, *route.refusals} - {None}
        assert operation["responses"].keys() == {str(int(status)) for status in statuses}
        assert ("security" in operation, "requestBody" in operation) == (
            route.role is not None,
            route.command is not None,
        )
    assert set(_parameters(operations["audit"])) == {"limit", "kind"}
    schemas = document["components"]["schemas"]
    references = set(_references(document))
    assert references == {f"#/components/schemas/{name}" for name in schemas}
    assert "errors" not in schemas["Problem"]["required"]
    assert set(schemas["Switched"]["required"]) == {
        "name", "revision", "previous", "changes", "engine_limit_confirmed", "warnings", "trial",
    }  # fmt: skip


def test_a_setting_is_what_a_preset_says_it_is() -> None:
    """The contract does not import the policies, and so names the type itself."""
    assert schema.Setting == preset.Setting


def test_the_contract_imports_without_the_rest() -> None:
    """With pydantic and requests alone: no other package of Headway, no web framework, no metrics, no engine."""
    blocked = {"vllm", "starlette", "prometheus_client", "psutil", "headway_policies", "headway_dashboard"}
    program = f"""
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(blocked)} or name in {_others()}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
import headway.api, headway.api.openapi
print(headway.api.Status.__name__, len(headway.api.openapi.document("1")["paths"]) > 9)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=os.environ)
    assert (done.returncode, done.stdout) == (0, "Status True\n"), done.stderr


def _others() -> list[str]:
    """Every module and package of the plugin but the contract."""
    names = sorted(info.name for info in pkgutil.iter_modules(headway.__path__, "headway."))
    return [name for name in names if name != "headway.api"]


@EVERY_ROUTE
def test_the_document_has_every_refusal_of_an_order(route: Route) -> None:
    """The document has the refusals before a handler is asked as well, with their headers."""
    operation = openapi.document("1")["paths"][route.path][route.method.lower()]
    given = {int(status) for status in operation["responses"]}
    if route.role is None:
        assert not given & {401, 403, 429}
        return
    assert given >= {401, 404, 414, 429}
    assert (403 in given) == (route.role is Role.OPERATOR)
    if route.command is not None:
        assert given >= {400, 403, 408, 413, 415, 422}
    if route.command is not None and route.versioned:
        assert given >= {412, 428}
    required = {
        (status, name)
        for status, response in operation["responses"].items()
        for name, one in response.get("headers", {}).items()
        if one["required"]
    }
    assert required >= {("401", "WWW-Authenticate"), ("429", "Retry-After")}
    assert (("412", "ETag") in required) == (412 in given)


def _parameters(operation: dict[str, Any]) -> list[str]:
    return [one["name"] for one in operation.get("parameters", [])]


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (one for key, one in value.items() if key == "$ref")
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


def _never() -> Control:
    raise AssertionError("not called")
