"""Grammars on the real server: what would keep the engine compiling for hours is refused, and nobody waits for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from generation_requests import body
from running_server import RunningServer, wait_until
from tiers import long_form


def nested(times: int) -> dict[str, Any]:
    """Bounded repetitions in one another: a few bytes, and states by the product of all bounds."""
    return {"type": "string", "pattern": f"^(([a-z]{{1,{times}}}){{1,{times}}}){{1,{times}}}$"}


HOSTILE: dict[str, dict[str, Any]] = {
    "a response format": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": nested(20)}}
    },
    "many bounded texts": {
        "structured_outputs": {
            "json": {
                "type": "object",
                "properties": {f"p{at}": {"type": "string", "maxLength": 9000} for at in range(1500)},
            }
        }
    },
}
HONEST: list[dict[str, Any]] = [
    {"structured_outputs": {"json": {"type": "object", "properties": {"a": {"type": "string"}}}}},
    {"structured_outputs": {"json": {"type": "string", "maxLength": 20}}},
    {"structured_outputs": {"regex": "[a-z]{1,8}"}},
    {"structured_outputs": {"choice": ["yes", "no"]}},
    {"response_format": {"type": "json_object"}},
]


def asked(server: RunningServer, more: dict[str, Any]) -> requests.Response:
    """A completion of a few tokens with these parameters."""
    return requests.post(f"{server.url}/v1/completions", json=body("/v1/completions", 4) | more, timeout=120)


def refused_as_too_large(answer: requests.Response) -> bool:
    return answer.status_code == 400 and "to compile" in answer.json()["error"]["message"]


@long_form("tests/plugin/vllm_adapter/grammars has it with the real compiler, the tests below with a real server")
def test_grammars_that_take_too_much_are_refused_beside_others_that_do_not(server: RunningServer) -> None:
    """All hostile ones at once, the honest ones meanwhile and after; a second time the refusal is known."""
    before = server.scrape()
    with ThreadPoolExecutor(len(HOSTILE) + len(HONEST)) as threads:
        hostile = [threads.submit(asked, server, one) for one in HOSTILE.values()]
        honest = [threads.submit(asked, server, one) for one in HONEST]
        assert [one.result().status_code for one in honest] == [200] * len(HONEST)
        found = {name: one.result() for name, one in zip(HOSTILE, hostile, strict=True)}
    assert {name: one.text for name, one in found.items() if not refused_as_too_large(one)} == {}
    assert all(refused_as_too_large(asked(server, one)) for one in HOSTILE.values())
    for one in HONEST:
        assert asked(server, one).status_code == 200
    now = server.scrape()
    count = "headway_grammar_checks_total"
    assert now(count, result="too_large") - before(count, result="too_large") == len(HOSTILE)
    assert now(count, result="known") - before(count, result="known") >= len(HOSTILE)
    assert now("headway_grammars_compiling") == now(count, result="unchecked") == 0


@pytest.mark.parametrize("route", ["/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages"])
def test_what_the_engine_does_not_take_is_no_stream_with_200(server: RunningServer, route: str) -> None:
    """A grammar that takes too much, and a parameter that vLLM itself refuses: the same status as without a stream."""
    form = {"format": {"type": "json_schema", "name": "a", "schema": nested(18)}}
    hostile = {"/v1/responses": {"text": form}, "/v1/messages": {"output_config": form}}
    wrong: list[dict[str, Any]] = [hostile.get(route, {"structured_outputs": {"json": nested(18)}})]
    if "completions" in route:
        wrong.append({"logit_bias": {"99999999": 1}})
    for more in wrong:
        for stream in (False, True):
            whole = body(route, 4) | more | {"stream": stream}
            answer = requests.post(f"{server.url}{route}", json=whole, timeout=120)
            assert (answer.status_code, stream) == (400, stream), answer.text
            assert answer.json()["error"]["message"]
            assert "data:" not in answer.text


def test_ambiguous_grammars_are_refused_for_what_each_token_would_cost(server: RunningServer) -> None:
    """Such a grammar compiles at once, and would take the engine ever longer; one that is none passes beside them."""
    slow = {"grammar": 'root ::= s\ns ::= "a" | s s'}
    lists = [{"type": "array", "items": {"$ref": "#/$defs/s"}}] * 60
    deep = {"json": {"$defs": {"s": {"anyOf": [*lists, {"type": "string"}]}}, "$ref": "#/$defs/s"}}
    before = server.scrape()
    for one in (slow, deep, slow):
        answer = asked(server, {"structured_outputs": one})
        assert (answer.status_code, "at each token" in answer.text) == (400, True), answer.text
    assert asked(server, {"structured_outputs": {"grammar": 'root ::= "a" root "a" | "b"'}}).status_code == 200
    now = server.scrape()
    assert (
        now("headway_grammar_checks_total", result="too_slow")
        - before("headway_grammar_checks_total", result="too_slow")
        == 2
    )


def test_a_client_that_leaves_ends_the_compilation(server: RunningServer) -> None:
    """Nothing goes on for it, here or in the engine."""
    more = {"structured_outputs": {"json": nested(25)}}
    with pytest.raises(requests.Timeout):
        requests.post(f"{server.url}/v1/completions", json=body("/v1/completions", 4) | more, timeout=0.5)
    server.settle()
    wait_until(lambda: server.scrape()("headway_grammars_compiling") == 0, "the compilation ends")


def test_log_probabilities_of_a_whole_prompt_are_bounded(server: RunningServer) -> None:
    """By the tokens of the prompt times the alternatives of each, by either name."""
    prompt = list(range(10, 1010))
    for more in ({"prompt_logprobs": 20}, {"echo": True, "logprobs": 20}):
        answer = asked(server, {"prompt": prompt, **more})
        assert (answer.status_code, "20000 alternatives" in answer.text) == (400, True), answer.text
    assert asked(server, {"prompt": prompt, "echo": True, "logprobs": 1}).status_code == 200
