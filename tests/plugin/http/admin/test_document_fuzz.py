"""The admin API against its own OpenAPI document: whatever is sent, the answer is one that the document describes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest
import requests
import schemathesis
from admin_api import OPERATOR, VIEWER, admin_api, bearer
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks
from tiers import LONG
from virtual_time import new_loop

import headway
from headway.api import openapi, routes
from headway.api.routes import Role, Route

SCHEMA = schemathesis.openapi.from_dict(openapi.document(headway.__version__))
TOKENS = {Role.OPERATOR: OPERATOR, Role.VIEWER: VIEWER}
URL = "http://headway"
EXAMPLES = 200 if LONG else 5
pytestmark = pytest.mark.slow
#: A status, a type of content, a body or a header that the document does not describe is an error.
CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]


@contextmanager
def serving() -> Iterator[Callable[[requests.PreparedRequest, Role | None], httpx.Response]]:
    """Sends requests to one server, with a token of this role, on a loop of its own."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        opened = admin_api()
        client, _ = runner.run(opened.__aenter__())

        def send(asked: requests.PreparedRequest, role: Role | None) -> httpx.Response:
            sent = {name: value for name, value in asked.headers.items() if name.lower() != "authorization"}
            sent |= {} if role is None else bearer(TOKENS[role])
            return runner.run(_send(client, asked, {name: _bytes(value) for name, value in sent.items()}))

        yield send
        runner.run(opened.__aexit__(None, None, None))


async def _send(
    client: httpx.AsyncClient, asked: requests.PreparedRequest, headers: dict[str, bytes]
) -> httpx.Response:
    assert asked.method is not None
    assert asked.url is not None
    body = asked.body.encode() if isinstance(asked.body, str) else asked.body
    return await client.request(asked.method, asked.url, headers=headers, content=body)


def _bytes(value: str | bytes) -> bytes:
    return value.encode("latin-1") if isinstance(value, str) else value


@pytest.mark.parametrize("route", routes.TABLE, ids=lambda route: route.name)
def test_every_answer_is_as_the_document_says(route: Route) -> None:
    """To what the document allows and to what it does not, without a token and with either role."""
    operation = SCHEMA[route.path][route.method]
    allowed = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    with serving() as send:

        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
        @given(allowed | wrong)
        def check(case: schemathesis.Case) -> None:
            asked = requests.Request(**case.as_transport_kwargs(base_url=URL)).prepare()
            for role in (None, Role.VIEWER, Role.OPERATOR):
                answer = send(asked, role)
                case.validate_response(answer, checks=CHECKS)
                if route.role is not None and role is None:
                    assert answer.status_code == 401
                elif route.role is Role.OPERATOR and role is Role.VIEWER:
                    assert answer.status_code == 403

        check()
