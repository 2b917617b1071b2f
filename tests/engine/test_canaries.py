"""What clients send and the model writes is in no log line, metric, status or audit line, at the lowest log level.

The server prints all that vLLM can print: DEBUG, requests, outputs, responses, tracebacks and uvicorn's trace. Every
text of a request has a canary in it, and the model is made to write some.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from dashboard_process import dashboard_process
from engine_parts import long_form
from generation_requests import ROUTES, body
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from real_browser import chromium
from running_server import wait_until
from strict_server import StrictServer

from headway_dashboard.deep_links import PATHS

#: What is there once a page is drawn, where that is no chart.
DRAWN = {
    "control": "text=Operator actions",
    "fleet": "text=One server is watched",
    "latency": "text=Burn of the error budget",
}
READ = ("status", "desk", "audit?limit=500", "traffic", "traffic/trace", "fallback", "presets")


class Canaries:
    """Texts that are nowhere else. ``planted`` are all of them."""

    def __init__(self) -> None:
        self.planted: list[str] = []

    def __call__(self, place: str) -> str:
        """A new one, for this place."""
        text = f"canary-{place}-{secrets.token_hex(6)}"
        self.planted.append(text)
        return text

    def found_in(self, text: str) -> list[str]:
        """The canaries of a text."""
        return [one for one in self.planted if one in text]


class Loud:
    """A server that prints all it can, and a client that sends canaries only."""

    def __init__(self, strict: StrictServer) -> None:
        self.server, self.traces, self.key = strict.server, strict.traces, strict.api_key
        self.canary = Canaries()
        self.canary.planted += [strict.api_key, strict.server.token, *strict.keys.values()]
        self.ready_at = len(self.server.log())

    def headers(self) -> dict[str, str]:
        """With the right key; the id is not one that a log line may have."""
        return {
            "authorization": f"Bearer {self.key}",
            "x-api-key": self.key,
            "cookie": f"session={self.canary('cookie')}",
            "x-something": self.canary("header"),
            "x-request-id": f"{self.canary('id')} with blanks",
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        }

    def post(self, route: str, content: Any, **headers: str) -> requests.Response:
        """Send a JSON body, or bytes as they are."""
        sent = {"data": content} if isinstance(content, bytes) else {"json": content}
        return requests.post(
            f"{self.server.url}{route}?token={self.canary('query')}",
            headers={"content-type": "application/json", **self.headers(), **headers},
            timeout=120,
            **sent,
        )

    def lines(self) -> list[dict[str, Any]]:
        """The log since the server was ready. Fails for a line that is no JSON object."""
        text = self.server.log()[self.ready_at :]
        whole = text[: text.rfind("\n") + 1]  # the last line may be on its way
        return [json.loads(line) for line in whole.splitlines()]


@pytest.fixture(scope="module")
def loud(strict: StrictServer) -> Loud:
    """The server with keys, under a preset of two seats."""
    strict.server.use("tight")
    return Loud(strict)


def tool(name: str, argument: str) -> dict[str, Any]:
    """The schema of a tool whose argument can only be this."""
    schema = {"type": "object", "properties": {"a": {"const": argument}}, "required": ["a"]}
    return {"name": name, "description": name, "parameters": schema}


def valid(canary: Canaries, route: str, *, stream: bool) -> dict[str, Any]:
    """A request with a canary in each text; the answer to a completion or a chat must have one, too."""
    asked = body(route, 64, stream=stream, prompt=canary("prompt"))
    output = canary("output")
    if route == "/v1/completions":
        return asked | {"structured_outputs": {"choice": [output]}, "echo": True, "user": canary("user")}
    if route == "/v1/chat/completions":
        asked["messages"].insert(0, {"role": "system", "content": canary("system")})
        tools = [{"type": "function", "function": tool(canary("tool"), canary("argument"))}]
        return asked | {"tools": tools, "tool_choice": "none", "structured_outputs": {"choice": [output]}}
    if route == "/v1/messages":
        function = tool(canary("tool"), output)
        function["input_schema"] = function.pop("parameters")
        return asked | {"system": canary("system"), "tools": [function], "tool_choice": {"type": "auto"}}
    return asked | {"instructions": canary("instructions"), "metadata": {"a": canary("metadata")}}


def invalid(canary: Canaries, route: str) -> Iterator[dict[str, Any] | bytes]:
    """Requests that are refused for what is in them, by each part of vLLM that refuses some."""
    good = body(route, 4, prompt=canary("prompt"))
    limit = next(name for name in ("max_tokens", "max_output_tokens") if name in good)
    yield b'{"model": "' + canary("cut-off").encode()
    yield json.dumps(canary("no-object")).encode()
    yield good | {limit: canary("number")}
    yield good | {"model": canary("model")}
    yield good | {"temperature": {canary("key-of-object"): 1}}
    yield good | {canary("unknown-field"): canary("unknown-value")}
    yield good | {"stop": [canary("stop")] * 2, limit: -1}
    yield good | {"messages": [{"role": canary("role"), "content": canary("content")}], "input": 1, "prompt": {"a": 1}}
    yield good | {"structured_outputs": {"regex": f"({canary('regex')}"}}
    yield good | {"tools": [{"type": "function", "function": {"name": canary("name"), "parameters": canary("schema")}}]}
    yield good | {"tools": [{"name": canary("name"), "input_schema": 1}], "tool_choice": {"type": "tool", "name": 1}}
    long = f"{canary('long')} " * 600
    if "messages" in good:
        yield good | {"messages": [{"role": "user", "content": long}]}
    else:
        yield good | {("input" if "input" in good else "prompt"): long}


def assert_silent(loud: Loud) -> None:
    """No canary is in anything that an operator reads."""
    admin = [loud.server.admin("GET", path).text for path in READ]
    metrics = requests.get(f"{loud.server.url}/metrics", headers=loud.headers(), timeout=20).text
    assert "headway_arrivals_total" in metrics
    traces = [body.decode("utf-8", "replace") for body in loud.traces.bodies]
    for text in (loud.server.log(), metrics, *admin, *traces):
        assert loud.canary.found_in(text) == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("route", ROUTES)
def test_a_served_request_is_in_no_line(loud: Loud, route: str, stream: bool) -> None:
    """The answer has the canary that the model had to write; the log has a line about the request."""
    asked = valid(loud.canary, route, stream=stream)
    answer = loud.post(route, asked)
    assert answer.status_code == 200, answer.text
    if route.endswith("completions"):
        assert any("canary-output" in one for one in loud.canary.found_in("".join(texts_of(answer))))
    given = answer.headers["x-request-id"]
    wait_until(lambda: any(line.get("request_id") == given for line in loud.lines()), "the log is about it")
    assert_silent(loud)


def texts_of(answer: requests.Response) -> Iterator[str]:
    """All texts of an answer or of its events, the pieces of a stream put together."""

    def texts(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                yield from texts(one)

    if not answer.headers["content-type"].startswith("text/event-stream"):
        yield from texts(answer.json())
        return
    events = [line[len("data: ") :] for line in answer.text.splitlines() if line.startswith("data: {")]
    for event in map(json.loads, events):
        for choice in event.get("choices", ()):
            yield choice.get("text") or ""
            yield (choice.get("delta") or {}).get("content") or ""


@pytest.mark.parametrize("route", ROUTES)
def test_an_invalid_request_is_in_no_line(loud: Loud, route: str) -> None:
    """Whoever refuses it, and however it is refused."""
    statuses = [loud.post(route, content).status_code for content in invalid(loud.canary, route)]
    assert sum(400 <= status < 500 for status in statuses) >= 5, statuses
    assert_silent(loud)


@pytest.mark.parametrize("path", ["/tokenize", "/v1/messages/count_tokens", "/invocations", "/nowhere"])
def test_other_routes_print_no_body(loud: Loud, path: str) -> None:
    """Other routes are vLLM's as well, or nobody's."""
    short = {"model": "tiny", "max_tokens": 4}
    loud.post(path, short | {"prompt": loud.canary("prompt")})
    loud.post(path, short | {"messages": [{"role": "user", "content": loud.canary("content")}]})
    loud.post(path, short | {"model": loud.canary("model"), "prompt": [loud.canary("list")]})
    assert_silent(loud)


def test_a_wrong_key_is_in_no_line(loud: Loud) -> None:
    """In any of the places where clients put one, and at the admin API."""
    wrong = loud.canary("wrong-key")
    for headers in ({"authorization": f"Bearer {wrong}"}, {"authorization": wrong, "x-api-key": wrong}):
        answer = requests.post(
            f"{loud.server.url}/v1/completions", json=body("/v1/completions", 1), headers=headers, timeout=60
        )
        assert answer.status_code in (401, 403)
        requests.get(f"{loud.server.url}/headway/v1/status", headers=headers, timeout=20)
    assert_silent(loud)


def test_a_refused_request_is_one_line_without_content(loud: Loud) -> None:
    """While it waits it is in the desk's dump; refused for the load it is no traceback, on no route."""
    start = len(loud.lines())
    asked = [(route, valid(loud.canary, route, stream=stream)) for route in ROUTES for stream in (False, True)]
    assert loud.server.admin("POST", "pause", json={"reason": "a test"}).status_code == 200
    try:
        with ThreadPoolExecutor(len(asked)) as pool:
            answers = [pool.submit(loud.post, *one) for one in asked]
            wait_until(lambda: loud.server.status()["queued"], "a request waits")
            assert_silent(loud)
            statuses = {answer.result().status_code for answer in answers}
    finally:
        loud.server.admin("POST", "resume", json={"reason": "a test"})
    assert statuses == {429, 503}
    lines = loud.lines()[start:]
    assert [line for line in lines if "exception" in line] == []
    refusals = [line for line in lines if line["message"].startswith("Error in create_messages")]
    assert {refusal["level"] for refusal in refusals} == {"INFO"}
    assert all("queue" in refusal["message"] for refusal in refusals)
    assert len(refusals) <= 2
    assert_silent(loud)


def test_every_line_is_a_json_object(loud: Loud) -> None:
    """Of Headway, vLLM and uvicorn, from the API server and from EngineCore; those about a request have its trace."""
    loud.server.use("balanced")
    answer = loud.post("/v1/completions", body("/v1/completions", 2))
    given = answer.headers["x-request-id"]
    wait_until(lambda: any("EngineCore" in line["message"] for line in loud.lines()), "EngineCore has printed a line")
    lines = loud.lines()
    for line in lines:
        assert {"time", "level", "logger", "message"} <= line.keys()
    tops = {line["logger"].partition(".")[0] for line in lines}
    assert {"headway", "vllm", "uvicorn"} <= tops
    about = [line for line in lines if line.get("request_id") == given]
    assert {one["trace_id"] for one in about} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    assert "uvicorn.access" in {one["logger"] for one in about}


def test_the_wait_in_the_queue_is_a_span_beside_vllms_own(loud: Loud) -> None:
    """Both come over OTLP with the client's trace, below the client's span; ours says what became of the request."""
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    parent = f"00-{trace_id}-{span_id}-01"
    route = "/v1/completions"
    assert loud.post(route, valid(loud.canary, route, stream=False), traceparent=parent).status_code == 200

    def spans(name: str) -> list[Span]:
        return [one for one in loud.traces.spans(name) if one.trace_id.hex() == trace_id]

    wait_until(lambda: spans("headway.queue") and spans("llm_request"), "both spans have come")
    (ours,), (theirs,) = spans("headway.queue"), spans("llm_request")
    assert ours.parent_span_id.hex() == theirs.parent_span_id.hex() == span_id
    attributes = {attribute.key: attribute.value.string_value for attribute in ours.attributes}
    assert attributes["headway.outcome"] == "dispatched"
    assert attributes["headway.preset"] == loud.server.status()["preset"]["name"]
    assert ours.start_time_unix_nano <= ours.end_time_unix_nano <= theirs.end_time_unix_nano
    assert_silent(loud)


@long_form("the tests above look at all that the dashboard reads: the metrics and the admin API")
def test_nothing_that_reaches_a_browser_has_a_canary(loud: Loud, tmp_path: Path) -> None:
    """Every page of a dashboard that knows the operator's token: its text, what it loads, and what its socket gets."""
    for route in ROUTES:
        assert loud.post(route, valid(loud.canary, route, stream=False)).status_code == 200
        assert loud.post(route, next(invalid(loud.canary, route))).status_code == 400
    received: list[str | bytes] = []
    token = {"HEADWAY_ADMIN_TOKEN": loud.server.token}
    with dashboard_process(loud.server.url, tmp_path / "dashboard.log", **token) as dashboard, chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: received.append(frame)))
        for path in PATHS:
            page.goto(f"{dashboard.url}/{path}", wait_until="domcontentloaded")
            page.locator(DRAWN.get(path, ".js-plotly-plot .main-svg")).first.wait_for()
            received.append(page.content())
        page.close()
    whole = "".join(one if isinstance(one, str) else one.decode("utf-8", "replace") for one in received)
    assert loud.server.status()["preset"]["name"] in whole
    for text in (whole, (tmp_path / "dashboard.log").read_text(encoding="utf-8", errors="replace")):
        assert loud.canary.found_in(text) == []
