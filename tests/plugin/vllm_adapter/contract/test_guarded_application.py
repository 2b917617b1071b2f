"""The application that the installed vLLM builds, with all of its routes that need no engine, behind the route guard.

Options that switch further routes on are given where the release has them.

In an interpreter of its own: vLLM registers metrics and changes loggers when it builds one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow

OPERATOR, TENANT, OF_VLLM = "o" * 32, "hw-tenant", "sk-of-vllm"
SCRIPT = f"""
import asyncio, json, re
from types import SimpleNamespace
import httpx
from vllm.utils.argparse_utils import FlexibleArgumentParser
from headway.api.routes import Role
from headway.http.access import Access, ApiKeys, RouteGuard, RouteTable
from headway.http.admin.tokens import Tokens
from headway.vllm_adapter.launch import _ARGUMENTS, _SERVERS, _find
from headway.vllm_adapter.vllm_routes import running_routes
from headway_policies import bundled_presets
from headway_policies.entitlement import Entitlement

class Ring:
    def entitlement_of(self, authorization, x_api_key, now_s):
        known = "{TENANT}" in (x_api_key, (authorization or "").removeprefix("Bearer "))
        return ("acme-1", Entitlement("acme")) if known else None

parser = _find(_ARGUMENTS, "make_arg_parser")(FlexibleArgumentParser())
more = {{"--enable-tokenizer-info-endpoint", "--enable-offline-docs", "--enable-scale-out"}}
words = ["--model", "m", "--api-key", "{OF_VLLM}", *more & parser._option_string_actions.keys()]
build_app = _find(("vllm.entrypoints.launchers.app", *_SERVERS), "build_app")
app = build_app(parser.parse_args(words), ("generate", "transcription", "realtime"))
table, tokens = RouteTable.from_environment({{}}), Tokens({{"{OPERATOR}": Role.OPERATOR}})
preset = bundled_presets()["balanced"]
KEYS = {{"open": None, "inference": "{TENANT}", "operator": "{OPERATOR}", None: None}}
keys = SimpleNamespace(ring=Ring())
access = Access(table, tokens.role, True, lambda: preset, keys=keys, api_keys=ApiKeys(["{OF_VLLM}"]))
guard = RouteGuard(app.build_middleware_stack(), access)

async def main():
    async def application(scope, receive, send):
        await guard(scope | {{"app": app}}, receive, send)
    transport = httpx.ASGITransport(application, raise_app_exceptions=False)
    found = []
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        for route in running_routes(app, table):
            path = re.sub(r"{{\\w+}}", "x", route.path)
            for method in route.methods - {{"WEBSOCKET", "MOUNT"}}:
                for holder, key in (("nobody", None), (KEYS[route.access] and "holder", KEYS[route.access])):
                    headers = {{}} if key is None else {{"authorization": f"Bearer {{key}}"}}
                    answer = await client.request(method, path, headers=headers)
                    found.append((route.access, f"{{method}} {{path}}", holder, answer.status_code))
            if "WEBSOCKET" in route.methods or "MOUNT" in route.methods:
                found.append((route.access, str(route), "listed", 0))
    print(json.dumps(found))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def answers() -> list[tuple[str | None, str, str, int]]:
    """Access, route, holder and status of each request."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vLLM is not installed")
    switches = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_PLUGINS": ""}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | switches, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    whole: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return [tuple(row) for row in whole]


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
