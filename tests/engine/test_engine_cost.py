"""What a request lets the engine and vLLM's front end compute, on the real server: linear in its size, up to its bound.

Sizes double up to the bound of each parameter. The cost is the processor time of all processes of the server.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import psutil
import pytest
import requests
from engine_parts import long_form
from generation_requests import body
from running_server import RunningServer

from headway.http.inference.request_caps import MAX_ITEMS, MAX_LISTED, MAX_REPEATED_TOKENS, MAX_STOP_BYTES, USUAL_CAPS

CHAT, TEXT, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
EMPTY = {"type": "text", "text": ""}
TOKENS, SEQUENCES, AT_ONCE = 24, 8, 2
#: Of a size against that of half of it, where 2 is linear and 4 quadratic; a cost below that of two plain requests
#: counts as that.
MOST_GROWTH, TRIES = 3.0, 4


def stops(count: int) -> list[str]:
    """So many that never occur, of all bytes that stop strings may have."""
    return [f"{at:04d}".ljust(MAX_STOP_BYTES // count - 8, "~") for at in range(count)]


def tool(number: int) -> dict[str, Any]:
    """A function with ten parameters."""
    schema = {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(10)}}
    return {"type": "function", "function": {"name": f"f{number}", "parameters": schema}}


#: By parameter: the route, the largest size, and what is asked for at a size.
CASES: dict[str, tuple[str, int, Callable[[int], dict[str, Any]]]] = {
    "stop": (TEXT, 4, lambda size: {"stop": stops(size)}),
    "bad_words": (TEXT, 32, lambda size: {"bad_words": [f"q{at} w" for at in range(size)]}),
    "one bad word": (TEXT, MAX_STOP_BYTES - 8, lambda size: {"bad_words": ["z" * size]}),
    "stop_token_ids": (TEXT, USUAL_CAPS.stops or 0, lambda size: {"stop_token_ids": [*range(300, 300 + size)]}),
    "logit_bias": (TEXT, 512, lambda size: {"logit_bias": {str(at): 1 for at in range(size)}}),
    "allowed_token_ids": (TEXT, 131_072, lambda size: {"allowed_token_ids": [at % 500 for at in range(size)]}),
    "logprob_token_ids": (
        TEXT, USUAL_CAPS.logprobs or 0, lambda size: {"logprobs": 1, "logprob_token_ids": [*range(size)]}
    ),
    "repetition_detection": (
        TEXT,
        MAX_REPEATED_TOKENS,
        lambda size: {"repetition_detection": {"max_pattern_size": size, "min_count": 2}, "max_tokens": 200},
    ),
    "tools": (CHAT, USUAL_CAPS.tools or 0, lambda size: {"tools": [*map(tool, range(size))], "tool_choice": "none"}),
    "turns": (CHAT, 4096, lambda size: {"messages": [{"role": "user", "content": ""}] * size}),
    "parts": (CHAT, 4096, lambda size: {"messages": [{"role": "user", "content": [EMPTY] * size}]}),
    "items": (RESPONSES, MAX_ITEMS, lambda size: {"input": [{"role": "user", "content": ""}] * size}),
    "wrong items": (RESPONSES, MAX_ITEMS, lambda size: {"input": [{"type": "x"}] * size}),
}  # fmt: skip


def used_s(server: RunningServer) -> float:
    """The processor time of all processes of the server so far."""
    assert server.process is not None
    api = psutil.Process(server.process.pid)
    times = [one.cpu_times() for one in (api, *api.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def cost_s(server: RunningServer, route: str, more: dict[str, Any]) -> float:
    """Of a request with these parameters, sent twice."""
    wide = {"n": SEQUENCES} if route == TEXT else {}
    whole = body(route, TOKENS) | wide | more
    before_s = used_s(server)
    for _ in range(AT_ONCE):
        answer = requests.post(f"{server.url}{route}", json=whole, timeout=120)
        # a conversation may be longer than the model's context, which is known when it has been rendered
        assert answer.status_code == 200 or (route != TEXT and answer.status_code == 400), answer.text[:300]
    server.settle()
    return used_s(server) - before_s


@long_form("the bounds hold without an engine; what each costs changes with vLLM alone")
@pytest.mark.parametrize("name", CASES)
def test_the_cost_grows_no_faster_than_the_size(server: RunningServer, name: str) -> None:
    """Other load can only add to a measurement: the least of a few counts."""
    route, most, ask = CASES[name]
    plain_s = min(cost_s(server, route, {}) for _ in range(2))
    sizes, found = (most // 4, most // 2, most), dict[int, float]()
    for size in sizes:
        found[size] = max(2 * plain_s, cost_s(server, route, ask(size)))
    for half, size in pairwise(sizes):
        for _ in range(TRIES):
            if found[size] <= MOST_GROWTH * found[half]:
                break
            found[size] = min(found[size], max(2 * plain_s, cost_s(server, route, ask(size))))
        assert found[size] <= MOST_GROWTH * found[half], (name, plain_s, found)


def test_what_would_cost_too_much_at_each_token_is_refused(server: RunningServer) -> None:
    """By name; the alternatives that an unknown client may ask for are within their bound for all its answers."""
    assert (USUAL_CAPS.logprobs or 0) <= MAX_LISTED // SEQUENCES
    for more in (
        {"repetition_detection": {"max_pattern_size": 10**6, "min_count": 2}},
        {"allowed_token_ids": [1] * 600_000},
    ):
        answer = requests.post(f"{server.url}{TEXT}", json=body(TEXT, 4) | more, timeout=120)
        assert answer.status_code == 400
        assert "at most" in answer.json()["error"]["message"]
