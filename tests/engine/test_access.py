"""A real server with a keys file: every route, in odd forms and for each kind of caller, and no class above a key's."""

from __future__ import annotations

import http.client
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
from generation_requests import ROUTES, body
from running_server import wait_until
from strict_server import VIEWER_TOKEN, StrictServer

from headway.http.access.route_table import known_routes
from headway.keys import add_key, revoke_key
from headway.openai.routes import WEBSOCKET, Route, RouteAccess

pytestmark = pytest.mark.engine

LOWEST = "batch"
#: Every way in which a client may ask for a class, or for a priority of the engine.
SMUGGLED: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "the class": ({"x-headway-class": "realtime"}, {}),
    "the class in capitals": ({"X-HEADWAY-CLASS": "realtime"}, {}),
    "a tier": ({}, {"service_tier": "priority"}),
    "a priority": ({}, {"priority": -(2**31)}),
    "vLLM's header": ({"x-vllm-priority": "-5", "x-priority": "0", "x-request-priority": "0"}, {}),
    "a proxy's headers": ({"x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1", "x-headway-tenant": "top"}, {}),
}


def post(strict: StrictServer, route: str, content: Any, key: str | None, **headers: str) -> requests.Response:
    """Send a JSON body with a key."""
    authorization = {} if key is None else {"authorization": f"Bearer {key}"}
    return requests.post(f"{strict.server.url}{route}", json=content, headers=authorization | headers, timeout=120)


def status(strict: StrictServer, method: str, target: str, headers: dict[str, str]) -> int:
    """The status of a request whose target is sent as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", strict.server.port, timeout=60)
    try:
        connection.putrequest(method, target, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", "0")
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture(scope="module")
def guarded(strict: StrictServer) -> StrictServer:
    """The server with keys, under the preset balanced."""
    strict.server.use("balanced")
    return strict


def example(route: Route) -> str:
    """A path of this route."""
    return "/".join("x" if segment.startswith("{") else segment for segment in route.path.split("/"))


def classes_served(guarded: StrictServer) -> dict[str, float]:
    """The requests that arrived so far, by class."""
    samples = guarded.server.scrape().samples
    return {one.labels["class"]: one.value for one in samples if one.name == "headway_arrivals_total"}


def test_every_route_wants_what_the_table_says(guarded: StrictServer) -> None:
    """Without a key only open routes answer; a key opens no route of operators; a viewer changes nothing."""
    wrong: list[tuple[str, str, str, int]] = []
    callers = {"nobody": None, "tenant": guarded.keys["top"], "viewer": VIEWER_TOKEN}
    for route in known_routes():
        if route.access in (RouteAccess.OPEN, RouteAccess.ADMIN):
            continue
        for method in sorted((route.methods or {"GET"}) - {WEBSOCKET}):
            for name, key in callers.items():
                if (route.access, name) in ((RouteAccess.INFERENCE, "tenant"), (RouteAccess.OPERATOR, "tenant")):
                    continue
                headers = {} if key is None else {"Authorization": f"Bearer {key}"}
                if (route.access, name) == (RouteAccess.INFERENCE, "viewer"):
                    continue  # a wrong key: few of them are allowed in a minute
                found = status(guarded, method, example(route), headers)
                wanted = (403,) if name == "viewer" else (401,)
                if found not in wanted:
                    wrong.append((method, route.path, name, found))
    assert wrong == []
    scrape = guarded.server.scrape()
    assert scrape("headway_route_refusals_total", reason="no_key") > 0
    assert scrape("headway_route_refusals_total", reason="role") > 0
    assert {one.labels["class"] for one in scrape.samples if one.name == "headway_retry_budget_refusals_total"} == set(
        classes_served(guarded)
    )


@pytest.mark.parametrize(
    "target",
    [
        "//v1/models", "/v1//models", "/v1/models/", "/v1/./models", "/v1/../v1/models", "/%76%31/models",
        "/v1%2fmodels", "/V1/models", "/v1/models%00", "/v1\\models", "/v1/models;a=b", "/metrics/../v1/models",
        "/health/../pause",
    ],
)  # fmt: skip
def test_an_odd_form_of_a_path_reaches_nothing(guarded: StrictServer, target: str) -> None:
    """Neither without a key nor with one, whatever host is named."""
    key = {"Authorization": f"Bearer {guarded.keys['top']}"}
    for headers in ({}, key, key | {"Host": "127.0.0.1/health"}, {"Host": "/health?"}):
        assert status(guarded, "GET", target, headers) in (400, 401, 404)


@pytest.mark.parametrize("way", SMUGGLED)
@pytest.mark.parametrize("route", ROUTES)
def test_nobody_gets_a_class_above_the_entitled_one(guarded: StrictServer, route: str, way: str) -> None:
    """The answer says which class was used, and the ledger agrees."""
    headers, fields = SMUGGLED[way]
    before = classes_served(guarded)
    answer = post(guarded, route, body(route, 2) | fields, guarded.keys["low"], **headers)
    if answer.status_code != 400:  # vLLM's own word for a field that this route does not take
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-headway-class"] == LOWEST
    assert {name for name, count in classes_served(guarded).items() if count > before.get(name, 0)} <= {LOWEST}


def test_a_key_works_soon_after_it_was_made_and_no_longer_after_it_was_revoked(guarded: StrictServer) -> None:
    """Without a restart; the log says when the file was read again."""
    asked, urgent = body("/v1/completions", 1), {"x-headway-class": "realtime"}
    read = guarded.server.log().count("read again")
    made = add_key(guarded.keys_file, "top", now=datetime.now(UTC), key_id="later")
    wait_until(lambda: guarded.server.log().count("read again") == read + 1, "the key is known")
    answer = post(guarded, "/v1/completions", asked, made.text, **urgent)
    assert (answer.status_code, answer.headers["x-headway-class"]) == (200, "realtime")
    revoke_key(guarded.keys_file, "later")
    wait_until(lambda: guarded.server.log().count("read again") == read + 2, "the key is revoked")
    assert post(guarded, "/v1/completions", asked, made.text).status_code == 401


def test_a_rate_is_refused_with_the_headers_of_what_is_left(guarded: StrictServer) -> None:
    """Three requests a minute: the fourth has to wait."""
    asked = body("/v1/completions", 1)
    answers = [post(guarded, "/v1/completions", asked, guarded.keys["slow"]) for _ in range(4)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    assert answers[0].headers["x-ratelimit-limit-requests"] == "3"
    assert answers[-1].json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 20


def test_what_a_request_may_ask_for_is_bounded_before_it_is_tokenised(guarded: StrictServer) -> None:
    """The engine has seen none of them."""
    bombs: list[dict[str, Any]] = [
        {"n": 10**6},
        {"n": 2**63},
        {"best_of": 10**9},
        {"logprobs": 10**6},
        {"stop": ["x"] * 10**4},
        {"logit_bias": {str(number): 1 for number in range(10**4)}},
        {"prompt": ["x"] * 10**4},
        {"structured_outputs": {"json": json.loads('{"items":' * 90 + "{}" + "}" * 90)}},
    ]
    before = guarded.server.scrape()("vllm:request_success_total")
    for bomb in bombs:
        answer = post(guarded, "/v1/completions", body("/v1/completions", 1) | bomb, guarded.keys["top"])
        assert answer.status_code in (400, 413), bomb.keys()
        assert answer.json()["error"]["code"]
    assert guarded.server.scrape()("vllm:request_success_total") == before


def test_a_balancer_that_reads_vllms_metrics_sees_the_queue(guarded: StrictServer) -> None:
    """With HEADWAY_VLLM_WAITING, whatever the reason is; the engine itself still has nothing waiting."""
    server = guarded.server
    server.settle()
    assert server.scrape()("vllm:num_requests_waiting") == 0
    assert server.admin("POST", "pause", json={"reason": "test"}).status_code == 200
    try:
        with ThreadPoolExecutor(3) as clients:
            content = body("/v1/completions", 4)
            answers = [clients.submit(post, guarded, "/v1/completions", content, guarded.keys["top"]) for _ in range(3)]
            try:
                wait_until(lambda: server.status()["queued"] == 3, "all three wait")
                scrape = server.scrape()
            finally:
                server.admin("POST", "resume", json={})
            assert [answer.result().status_code for answer in answers] == [200] * 3
    finally:
        server.admin("POST", "resume", json={})
    assert scrape("vllm:num_requests_waiting") == 3 == scrape("headway_queue_depth")
    assert scrape("vllm:num_requests_waiting_by_reason", reason="capacity") == 3
    assert scrape("headway_engine_waiting") == 0
    server.settle()
    assert server.scrape()("vllm:num_requests_waiting") == 0
