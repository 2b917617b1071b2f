"""Hostile bytes against the real server: each request is refused, and costs no more than its bound."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain

import psutil
import pytest
import raw_http
import requests
from engine_parts import resident_bytes
from generation_requests import body
from running_server import RunningServer

MB = 1_000_000
CHAT = "/v1/chat/completions"
JSON = "content-type: application/json\r\n"
TEXT = "content-type: text/plain\r\n"
CHUNKED = "transfer-encoding: chunked\r\n"


def answer(server: RunningServer, head: str, parts: Iterable[bytes] = ()) -> int:
    """The status that a raw request is answered with; 0 when the connection is closed without an answer."""
    return raw_http.status(server.port, chain([f"{head}\r\n".encode()], parts))


def post(path: str, fields: str) -> str:
    """The head of a POST."""
    return f"POST {path} HTTP/1.1\r\nhost: x\r\n{fields}"


def chunks(total_bytes: int) -> Iterator[bytes]:
    """A chunked body without an end."""
    piece = b"%x\r\n" % MB + b"a" * MB + b"\r\n"
    return (piece for _ in range(total_bytes // MB))


def cpu_s(server: RunningServer) -> float:
    """What the API server has used so far."""
    assert server.process is not None
    times = psutil.Process(server.process.pid).cpu_times()
    return float(times.user + times.system)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (post(CHAT, JSON + "content-length: 2\r\nx-llm-d-inference-ttl: " + "1" * 30_000 + "\r\n"), 400),
        (post(CHAT, JSON + "content-length: 2\r\nx-a: " + "1" * 40_000 + "\r\n"), 431),
        ("GET /health HTTP/1.1\r\nhost: x\r\nx-a: " + "1" * 40_000 + "\r\n", 431),
        ("OPTIONS /v1/models HTTP/1.1\r\nhost: x\r\n" + "x-a: b\r\n" * 9_000, 431),
        ("GET /health?" + "a" * 9_000 + " HTTP/1.1\r\nhost: x\r\n", 414),
        (post(CHAT, JSON + "content-length: 1000000000000\r\n"), 413),
    ],
    ids=["time-out", "POST", "GET", "OPTIONS", "target", "declared"],
)
def test_a_head_over_a_bound_is_refused(server: RunningServer, head: str, status: int) -> None:
    """Under the real uvicorn, for every method; the server serves on."""
    assert answer(server, head, [b"{}"] if status == 400 else []) == status
    assert requests.get(f"{server.url}/headway/healthz", timeout=20).status_code == 200


@pytest.mark.parametrize("kind", [TEXT, JSON], ids=["text", "JSON"])
@pytest.mark.parametrize("path", ["/tokenize", CHAT])
def test_a_body_without_end_is_refused_and_not_kept(server: RunningServer, path: str, kind: str) -> None:
    """Of every content type: memory grows by a body at most, and some copies of it."""
    before_bytes = resident_bytes(server)
    status = answer(server, post(path, kind + CHUNKED), chunks(300 * MB))
    assert status in (400, 413)
    assert resident_bytes(server) - before_bytes <= 128 * MB


@pytest.mark.parametrize("unit", [b"{},", b"[", b'"a",', b"1,", b'{"a":', b"{\0}\0,\0"], ids=repr)
def test_a_body_of_structure_is_refused_unparsed(server: RunningServer, unit: bytes) -> None:
    """Refused with the bound that was exceeded, after the first part of the body."""
    content = b'{"messages":[' + unit * (16 * MB // len(unit))
    reply = requests.post(server.url + CHAT, data=content, headers={"content-type": "application/json"}, timeout=60)
    assert reply.status_code == 400
    assert reply.json()["error"]["code"] == "body_too_complex"


@pytest.mark.parametrize("path", ["/v1/responses", "/invocations"])
def test_wrong_elements_cost_vllm_no_more_than_right_ones(server: RunningServer, path: str) -> None:
    """A list of wrong elements is refused at its first; in plain vLLM it costs a hundred times as much."""
    used_s = []
    for one in ({"role": "user", "content": "a"}, {}):
        before_s = cpu_s(server)
        asked = {"model": "tiny", "input": [one] * 1000, "max_output_tokens": 1}
        assert requests.post(server.url + path, json=asked, timeout=120).status_code < 500
        used_s.append(cpu_s(server) - before_s)
    right_s, wrong_s = used_s
    assert wrong_s <= 4 * max(right_s, 0.1)


def test_what_is_usual_passes(server: RunningServer) -> None:
    """A prompt full of braces and a list of ids are counted in tokens, by vLLM, and not in braces by Headway."""
    usual = body("/v1/completions", 2)
    assert requests.post(f"{server.url}/v1/completions", json=usual, timeout=60).status_code == 200
    for prompt in ("{[,]}" * 100_000, [101] * 500_000):
        reply = requests.post(f"{server.url}/v1/completions", json={**usual, "prompt": prompt}, timeout=60)
        assert reply.status_code == 400
        assert "context length" in json.dumps(reply.json())
