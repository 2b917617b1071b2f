"""The application that the installed vLLM builds, with all of its routes that need no engine, behind the route guard.

Options that switch further routes on are given where the release has them.

In a fork: vLLM registers metrics and changes loggers when it builds one.
"""

from __future__ import annotations

import asyncio
import json
import re
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from forked import in_a_fork

from headway.api.routes import Role
from headway.http.access import Access, ApiKeys, RouteGuard, RouteTable
from headway.http.admin.tokens import Tokens
from headway.vllm_adapter.launch import _ARGUMENTS, _SERVERS, _find
from headway.vllm_adapter.vllm_routes import running_routes
from headway_policies import bundled_presets
from headway_policies.entitlement import Entitlement

pytestmark = pytest.mark.slow

OPERATOR, TENANT, OF_VLLM = "o" * 32, "hw-tenant", "sk-of-vllm"
KEYS = {"open": None, "inference": TENANT, "operator": OPERATOR, None: None}
OPTIONS = {"--enable-tokenizer-info-endpoint", "--enable-offline-docs", "--enable-scale-out"}
SWITCHES = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_PLUGINS": ""}


class Ring:
    """The keys of one tenant."""

    def entitlement_of(self, authorization: str | None, x_api_key: str | None, now_s: float) -> Any:
        """The id and the rights of the tenant's key."""
        known = TENANT in (x_api_key, (authorization or "").removeprefix("Bearer "))
        return ("acme-1", Entitlement("acme")) if known else None


def application(table: RouteTable) -> tuple[Any, RouteGuard]:
    """vLLM's application, and the guard around it."""
    parser = _find(_ARGUMENTS, "make_arg_parser")(_find(("vllm.utils.argparse_utils",), "FlexibleArgumentParser")())
    words = ["--model", "m", "--api-key", OF_VLLM, *OPTIONS & parser._option_string_actions.keys()]
    build_app = _find(("vllm.entrypoints.launchers.app", *_SERVERS), "build_app")
    app = build_app(parser.parse_args(words), ("generate", "transcription", "realtime"))
    tokens, preset = Tokens({OPERATOR: Role.OPERATOR}), bundled_presets()["balanced"]
    keys: Any = SimpleNamespace(ring=Ring())
    access = Access(table, tokens.role, True, lambda: preset, keys=keys, api_keys=ApiKeys([OF_VLLM]))
    return app, RouteGuard(app.build_middleware_stack(), access)


async def asked() -> list[tuple[str | None, str, str, int]]:
    """Access, route, holder and status of a request to each route, without a key and with the one it wants."""
    table = RouteTable.from_environment({})
    app, guard = application(table)

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        await guard(scope | {"app": app}, receive, send)

    found: list[tuple[str | None, str, str, int]] = []
    transport = httpx.ASGITransport(guarded, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        for route in running_routes(app, table):
            path, key = re.sub(r"{\w+}", "x", route.path), KEYS[route.access]
            for method in route.methods - {"WEBSOCKET", "MOUNT"}:
                for holder, headers in (("nobody", {}), (key and "holder", {"authorization": f"Bearer {key}"})):
                    if holder:
                        answer = await client.request(method, path, headers=headers)
                        found.append((route.access, f"{method} {path}", holder, answer.status_code))
            if "WEBSOCKET" in route.methods or "MOUNT" in route.methods:
                found.append((route.access, str(route), "listed", 0))
    return found


@pytest.fixture(scope="module")
def answers(root_levels: None) -> list[tuple[str | None, str, str, int]]:
    """Access, route, holder and status of each request."""
    pytest.importorskip("vllm.v1.engine.async_llm")
    _find(_SERVERS, "run_server")  # it is imported here, for all files that share this process
    found: list[Any] = json.loads(in_a_fork(lambda: json.dumps(asyncio.run(asked())), SWITCHES))
    return [tuple(row) for row in found]


def test_every_route_of_the_running_vllm_is_known(answers: list[tuple[str | None, str, str, int]]) -> None:
    """Routes of its development mode are known as well."""
    assert [route for access, route, _, _ in answers if access is None] == []
    assert {access for access, *_ in answers} == {"open", "inference", "operator"}
    assert len({route for _, route, _, _ in answers}) > 50


def test_without_a_key_only_open_routes_are_reached(answers: list[tuple[str | None, str, str, int]]) -> None:
    """Also those which vLLM's own check leaves open."""
    statuses = {(access, status == 401) for access, _, holder, status in answers if holder == "nobody"}
    assert statuses == {("open", False), ("inference", True), ("operator", True)}


def test_keys_and_tokens_pass_vllms_own_check(answers: list[tuple[str | None, str, str, int]]) -> None:
    """A tenant's key on inference routes, the operator's token on its own; vLLM knows neither."""
    held = {(access, status in (401, 404)) for access, _, holder, status in answers if holder == "holder"}
    assert held == {("inference", False), ("operator", False)}
