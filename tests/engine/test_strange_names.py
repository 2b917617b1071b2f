"""Names that clients make up, on the real server: no series of their own, and no answer that is another one's."""

from __future__ import annotations

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from random import Random

import requests
from engine_parts import resident_bytes
from running_server import RunningServer

LONG = bool(os.environ.get("HEADWAY_LONG_TESTS"))
NAMES, IDS = (100_000, 10_000) if LONG else (600, 80)
CLIENTS = 8
MORE_BYTES = 5 * 1024 * 1024
#: Statuses and methods that had not been seen before the names came.
MORE_SERIES = 40
HOSTILE_IDS = ("same", "a b", "ü", "x" * 300, "00000000-0000-0000-0000-000000000000", "cmpl-1", "-", '{"a": 1}')


def strange(server: RunningServer, number: int) -> int:
    """The status of a request that names what is not there; every part of it is new."""
    name = f"{secrets.token_hex(8)}-{number}"
    kind = number % 4
    headers = {
        "x-headway-tenant": f"tenant-{name}",
        "x-headway-class": f"class-{name}" if kind == 0 else "normal",
        "x-request-id": name,
        f"x-{name}": name,
        "user-agent": name,
    }
    path = (f"/v1/{name}", "/v1/completions", f"/{name}/metrics", "/v1/chat/completions")[kind]
    content = {"model": f"model-{name}", "user": name, "prompt": "a", "max_tokens": 1, name: name}
    return requests.request(
        f"M{name[:6]}".upper() if kind == 2 else "POST",
        f"{server.url}{path}?{name}={name}",
        headers=headers,
        json=content,
        timeout=60,
    ).status_code


def test_names_of_strangers_become_no_series(server: RunningServer) -> None:
    """Tenants, classes, models, users, ids, headers, methods and paths that nobody has used before."""
    with ThreadPoolExecutor(CLIENTS) as clients:

        def send(numbers: range) -> set[int]:
            return set(clients.map(lambda number: strange(server, number), numbers))

        first = NAMES // 10
        statuses = send(range(first))
        before, bytes_before = len(server.scrape().samples), resident_bytes(server)
        statuses |= send(range(first, NAMES))
    assert all(400 <= status < 500 for status in statuses)
    assert len(server.scrape().samples) <= before + MORE_SERIES
    if LONG:
        assert resident_bytes(server) - bytes_before <= MORE_BYTES
    answer = requests.get(f"{server.url}/v1/models", timeout=60)
    assert answer.status_code == 200


def test_requests_with_the_same_id_get_their_own_answers(server: RunningServer) -> None:
    """Each answer repeats the prompt of its own request, whatever its id."""
    random = Random(7)

    def own_answer(number: int) -> bool:
        nonce = secrets.token_hex(8)
        identity = HOSTILE_IDS[random.randrange(len(HOSTILE_IDS))].encode()
        content = {"model": "tiny", "prompt": nonce, "max_tokens": 2, "echo": True, "ignore_eos": True}
        answer = requests.post(
            f"{server.url}/v1/completions",
            json=content,
            headers={"x-request-id": identity, "x-headway-class": "batch"},
            timeout=300,
        )
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["choices"][0]["text"].startswith(nonce))

    with ThreadPoolExecutor(CLIENTS) as clients:
        assert all(clients.map(own_answer, range(IDS)))
