"""Requests that ask for far too much, on the real server: each is refused by name, and costs the engine nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from engine_parts import resident_bytes
from generation_requests import body
from running_server import RunningServer

MORE_BYTES = 20 * 1024 * 1024
MANY = 10**4
LARGEST = 2**63


def deep(levels: int) -> Any:
    """A schema of arrays in arrays."""
    return json.loads('{"type":"array","items":' * levels + "{}" + "}" * levels)


#: Parameters that both kinds of generation have.
COMMON: dict[str, dict[str, Any]] = {
    "n": {"n": 10**6},
    "n past 64 bits": {"n": LARGEST},
    "max_tokens": {"max_tokens": LARGEST},
    "prompt_logprobs": {"prompt_logprobs": 10**6},
    "stop": {"stop": ["x"] * MANY},
    "stop in bytes": {"stop": ["x" * 10**6]},
    "stop_token_ids": {"stop_token_ids": [LARGEST]},
    "bad_words": {"bad_words": ["x"] * MANY},
    "logit_bias": {"logit_bias": {str(number): 1 for number in range(MANY)}},
    "a deep schema": {"structured_outputs": {"json": deep(90)}},
    "a deeper one": {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": deep(90)}}},
    "a long choice": {"structured_outputs": {"choice": ["x" * 100] * MANY}},
    "a long grammar": {"structured_outputs": {"grammar": "root ::= " + '"a" | ' * MANY * 10 + '"b"'}},
    "a long regex": {"structured_outputs": {"regex": "(a|b)" * MANY * 10}},
    "transfer": {"kv_transfer_params": {"ids": "x" * 2 * 10**6}},
    "vllm_xargs": {"vllm_xargs": {"a": [[["x"] * MANY]]}},
}
BOMBS: dict[str, dict[str, dict[str, Any]]] = {
    "/v1/completions": {
        **COMMON,
        "best_of": {"best_of": 10**9},
        "logprobs": {"logprobs": 10**6},
        "prompts": {"prompt": ["x"] * MANY},
        "prompts of ids": {"prompt": [[1]] * MANY},
    },
    "/v1/chat/completions": {
        **COMMON,
        "top_logprobs": {"logprobs": True, "top_logprobs": 10**6},
        "tools": {"tools": [{"type": "function", "function": {"name": f"f{at}"}} for at in range(MANY)]},
        "max_completion_tokens": {"max_completion_tokens": LARGEST},
    },
}


def refused(server: RunningServer, route: str, name: str) -> requests.Response:
    """The answer to a small request with this in it."""
    answer = requests.post(f"{server.url}{route}", json=body(route, 1) | BOMBS[route][name], timeout=120)
    assert 400 <= answer.status_code < 500, (name, answer.text[:400])
    assert answer.json()["error"]["message"], name
    return answer


@pytest.mark.parametrize("route", BOMBS)
def test_what_asks_for_far_too_much_is_refused(server: RunningServer, route: str) -> None:
    """Before any of it reaches the engine, in an answer that does not repeat it; the server keeps none of it."""
    seen = server.scrape()("vllm:prompt_tokens_total")
    for name in BOMBS[route]:
        assert len(refused(server, route, name).content) < 4096, name
    before_bytes = resident_bytes(server)
    for name in list(BOMBS[route]) * 4:
        refused(server, route, name)
    assert resident_bytes(server) - before_bytes <= MORE_BYTES
    assert server.scrape()("vllm:prompt_tokens_total") == seen
