"""The caps of one request: what exceeds one is refused by name, and nothing else is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from cost_growth import cost_s
from small_presets import small_preset

from headway.api_errors import BadRequest
from headway.http.access.identity import Identity
from headway.http.inference.request_caps import (
    MAX_ALLOWED_TOKENS,
    MAX_ITEMS,
    MAX_LISTED,
    MAX_REPEATED_TIMES,
    MAX_REPEATED_TOKENS,
    MAX_SCHEMA_DEPTH,
    MAX_STOP_BYTES,
    MAX_TRANSFER_BYTES,
    USUAL_CAPS,
    WHOLE_VOCABULARY,
    caps_from_environment,
    check_caps,
    lowered,
)
from headway.http.inference.request_info import read_request_info
from headway.http.inference.request_rules import RequestRules
from headway.openai.asked import read_asked
from headway.openai.routes import route_at
from headway_policies.entitlement import Entitlement, RequestCaps

NO_CAPS = RequestCaps()
CAPS = RequestCaps(
    output_tokens=100, sequences=4, prompts=5, logprobs=10, stops=3, logit_bias=2, grammar_bytes=300, tools=2
)
#: The same with room for a schema that is deep.
ROOMY = replace(CAPS, grammar_bytes=10_000)


def check(body: Any, caps: RequestCaps = CAPS, tenant_caps: RequestCaps = NO_CAPS) -> None:
    """Check a body."""
    whole = body if isinstance(body, bytes) else json.dumps(body).encode()
    check_caps(read_asked(route_at("/v1/completions"), whole), lowered(caps, tenant_caps))


def refusal(body: Any, caps: RequestCaps = CAPS, tenant_caps: RequestCaps = NO_CAPS) -> BadRequest:
    """The refusal of a body."""
    with pytest.raises(BadRequest) as caught:
        check(body, caps, tenant_caps)
    return caught.value


def nested(levels: int) -> Any:
    """An object so many levels deep, of objects and lists in turn."""
    value: Any = {} if levels % 2 else []
    for _ in range(levels - 1):
        value = [value] if isinstance(value, dict) else {"a": value}
    return value


OVER: dict[str, tuple[dict[str, Any], str]] = {
    "n": ({"n": 5}, "n"),
    "n as a text": ({"n": "5"}, "n"),
    "n with a fraction": ({"n": 4.5}, "n"),
    "n of 2^63": ({"n": 2**63}, "n"),
    "best_of": ({"n": 1, "best_of": 5}, "best_of"),
    "max_tokens": ({"max_tokens": 101}, "max_tokens"),
    "max_completion_tokens": ({"max_tokens": 1, "max_completion_tokens": 101}, "max_completion_tokens"),
    "max_output_tokens": ({"max_output_tokens": 10**300}, "max_output_tokens"),
    "logprobs": ({"logprobs": 11}, "logprobs"),
    "logprobs of all tokens": ({"prompt_logprobs": -1}, "prompt_logprobs"),
    "top_logprobs": ({"logprobs": True, "top_logprobs": 11}, "top_logprobs"),
    "logprob_token_ids": ({"logprob_token_ids": list(range(11))}, "logprob_token_ids"),
    "stop": ({"stop": ["a", "b", "c", "d"]}, "stop"),
    "stop_sequences": ({"stop_sequences": ["a,", "b", "c", "d"]}, "stop_sequences"),
    "stop_token_ids": ({"stop_token_ids": [1, 2, 3, 4]}, "stop_token_ids"),
    "bad_words": ({"bad_words": ["a", "b", "c", "d"]}, "bad_words"),
    "logit_bias": ({"logit_bias": {"1": 1, "2": 1, "3": 1}}, "logit_bias"),
    "tools": ({"tools": [{"type": "function"}] * 3}, "tools"),
    "prompts": ({"prompt": ["a"] * 6}, "prompt"),
    "prompts of ids": ({"prompt": [[1]] * 6}, "prompt"),
    "tensors": ({"prompt_embeds": ["AA"] * 6}, "prompt_embeds"),
    "conversations": ({"messages": [[{"role": "user"}]] * 6}, "messages"),
    "input": ({"input": ["a"] * 6}, "input"),
    "documents": ({"documents": [{"text": "a"}] * 6}, "documents"),
    "questions": ({"questions": {str(number): {} for number in range(6)}}, "questions"),
    "inside sampling_params": ({"sampling_params": {"n": 5}}, "sampling_params.n"),
    "schema inside sampling_params": (
        {"sampling_params": {"structured_outputs": {"json": nested(MAX_SCHEMA_DEPTH)}}},
        "sampling_params.structured_outputs",
    ),
    "depth": ({"response_format": {"schema": nested(MAX_SCHEMA_DEPTH + 1)}}, "response_format"),
}


@pytest.mark.parametrize(
    ("path", "name"),
    [("/v1/chat/completions", "documents"), ("/cohere/v2/chat", "documents"), ("/v1/decisions", "images")],
)
def test_parts_of_one_prompt_are_not_several(path: str, name: str) -> None:
    """Such as the documents that a chat is about."""
    body = json.dumps({name: [{"text": "a"}] * 200}).encode()
    check_caps(read_asked(route_at(path), body), CAPS)


@pytest.mark.parametrize("case", OVER)
def test_what_exceeds_a_cap_is_refused_by_name(case: str) -> None:
    """400, the parameter named in the message and apart, in one short line."""
    body, param = OVER[case]
    refused = refusal(body, ROOMY)
    assert (refused.status, refused.param) == (400, param)
    assert refused.code in ("parameter_too_large", "schema_too_deep")
    assert refused.message.startswith(f"{param}: at most ")
    assert len(refused.message) < 120


@pytest.mark.parametrize("case", OVER)
def test_without_caps_numbers_and_lists_are_the_engines_matter(case: str) -> None:
    """Only the depth of a schema is bounded for everybody."""
    if OVER[case][1] in ("response_format", "sampling_params.structured_outputs"):
        assert refusal(OVER[case][0], NO_CAPS).code == "schema_too_deep"
    else:
        check(OVER[case][0], NO_CAPS)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": {"schema": "x" * 300}}, "response_format"),
        ({"structured_outputs": {"regex": "a" * 300}}, "structured_outputs"),
        ({"text": {"format": {"schema": "x" * 300}}}, "text"),
        ({"output_config": {"format": {"schema": "x" * 300}}}, "output_config"),
        ({"stop": ["x" * MAX_STOP_BYTES]}, "stop"),
        ({"stop": "x" * MAX_STOP_BYTES}, "stop"),
        ({"bad_words": ["x" * MAX_STOP_BYTES]}, "bad_words"),
        ({"kv_transfer_params": {"ids": "x" * MAX_TRANSFER_BYTES}}, "kv_transfer_params"),
        ({"ec_transfer_params": {"ids": "x" * MAX_TRANSFER_BYTES}}, "ec_transfer_params"),
    ],
)
def test_too_many_bytes_are_413(body: dict[str, Any], param: str) -> None:
    """The parameter is named, and how many bytes it may have."""
    refused = refusal(body)
    assert (refused.status, refused.code, refused.param) == (413, "parameter_too_long", param)


AT_THE_CAP: dict[str, Any] = {
    "n": 4,
    "best_of": 4,
    "max_tokens": 100,
    "logprobs": 10,
    "stop": ["a,a,a,a", "b", "c"],
    "logit_bias": {"1": 1, "2": 1},
    "tools": [{"name": "a", "parameters": {"a": {"b": {"c": 1}}}}, {"name": "b"}],
    "prompt": ["a", "b", "c", "d", "e"],
    "messages": [{"role": "user", "content": "a"}] * 100,
    "input": [{"role": "user"}] * 100,
    "response_format": {"type": "json_object"},
    "text": "a text of any length " * 100,
    "sampling_params": {"n": 4, "max_tokens": 100},
}


BEYOND: dict[str, tuple[dict[str, Any], str]] = {
    "allowed tokens": ({"allowed_token_ids": [1] * (MAX_ALLOWED_TOKENS + 1)}, "allowed_token_ids"),
    "repetition": (
        {"repetition_detection": {"max_pattern_size": MAX_REPEATED_TOKENS + 1, "min_count": 2}},
        "repetition_detection.max_pattern_size",
    ),
    "many repetitions": (
        {"repetition_detection": {"max_pattern_size": 2, "min_count": MAX_REPEATED_TIMES + 1}},
        "repetition_detection.min_count",
    ),
    "a whole vocabulary for several answers": ({"n": 2, "logprobs": -1}, "logprobs"),
    "repetition as a text": (
        {"repetition_detection": {"max_pattern_size": str(MAX_REPEATED_TOKENS + 1)}},
        "repetition_detection.max_pattern_size",
    ),
    "repetition inside sampling_params": (
        {"sampling_params": {"repetition_detection": {"max_pattern_size": 10**9}}},
        "sampling_params.repetition_detection.max_pattern_size",
    ),
    "items of a conversation": ({"input": [{"role": "user", "content": "x"}] * (MAX_ITEMS + 1)}, "input"),
    "alternatives": ({"n": 64, "logprobs": 33}, "logprobs"),
    "alternatives of a chat": ({"best_of": 64, "logprobs": True, "top_logprobs": 33}, "top_logprobs"),
    "alternatives by id": ({"n": 32, "logprob_token_ids": list(range(65))}, "logprob_token_ids"),
}


@pytest.mark.parametrize("case", BEYOND)
def test_what_costs_the_engine_too_much_has_a_bound_for_everybody(case: str) -> None:
    """400 with the parameter's name, with and without caps; what is at the bound passes."""
    body, param = BEYOND[case]
    for caps in (NO_CAPS, USUAL_CAPS):
        refused = refusal(body, caps)
        assert (refused.status, refused.code, refused.param) == (400, "parameter_too_large", param)


def test_what_is_at_its_bound_passes() -> None:
    """For everybody."""
    check({"allowed_token_ids": [1] * MAX_ALLOWED_TOKENS}, USUAL_CAPS)
    check({"repetition_detection": {"max_pattern_size": MAX_REPEATED_TOKENS, "min_count": 9}}, USUAL_CAPS)
    check({"n": 64, "logprobs": MAX_LISTED // 64}, USUAL_CAPS)
    check({"n": 1, "logprobs": MAX_LISTED + 1}, NO_CAPS)
    check({"input": [{"role": "user", "content": "x"}] * MAX_ITEMS}, USUAL_CAPS)
    for wrong in (None, 1, "x", [], {}, {"max_pattern_size": None}):
        check({"repetition_detection": wrong}, USUAL_CAPS)


def test_what_is_at_its_cap_passes() -> None:
    """Every parameter at once; turns are no prompts, and a text is no schema."""
    check(AT_THE_CAP)


@pytest.mark.parametrize("value", [None, "many", "", [], {}, -1, -(2**63), 0, False, 0.5, [[[]]], {"a": {"b": 1}}])
@pytest.mark.parametrize(
    "name", ["n", "max_tokens", "stop", "logit_bias", "tools", "prompt", "response_format", "sampling_params"]
)
def test_a_wrong_type_is_left_to_vllm(name: str, value: object) -> None:
    """A wrong type is no refusal of a cap, and no error."""
    check({name: value})


@pytest.mark.parametrize("value", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"', b"-0", b"9" * 5000])
@pytest.mark.parametrize("name", [b"n", b"max_tokens", b"stop", b"logit_bias", b"prompt", b"sampling_params"])
def test_what_is_no_json_number_is_left_to_vllm(name: bytes, value: bytes) -> None:
    """Nothing is raised."""
    check(b'{"' + name + b'": ' + value + b"}")


@pytest.mark.parametrize("beside", [b"", b', "temperature": NaN', b', "user": "\\ud800"'])
def test_a_cap_holds_however_the_body_is_parsed(beside: bytes) -> None:
    """Also where only Python's parser takes the body."""
    for body, param in OVER.values():
        whole = json.dumps(body).encode()[:-1] + beside + b"}"
        assert refusal(whole, ROOMY).param == param


def test_a_schema_may_be_as_deep_as_allowed() -> None:
    """One level more is too deep; brackets in a text are no levels, and many on one level are not deep."""
    check({"response_format": nested(MAX_SCHEMA_DEPTH - 1)}, ROOMY)
    assert refusal({"response_format": {"a": nested(MAX_SCHEMA_DEPTH)}}, ROOMY).code == "schema_too_deep"
    check({"response_format": {"pattern": "{[" * 100}}, ROOMY)
    check({"response_format": {str(at): [] for at in range(100)}}, ROOMY)


def test_the_last_of_a_repeated_key_counts() -> None:
    """As in vLLM."""
    check(b'{"n": 100, "n": 1}')
    assert refusal(b'{"n": 1, "n": 100}').param == "n"


def test_the_lower_of_two_caps_holds() -> None:
    """A tenant's caps lower those of the server, and raise none."""
    tenants = RequestCaps(sequences=2, output_tokens=1000)
    assert refusal({"n": 3}, CAPS, tenants).message == "n: at most 2 is allowed here"
    assert refusal({"max_tokens": 101}, CAPS, tenants).message == "max_tokens: at most 100 is allowed here"
    check({"n": 2, "max_tokens": 100}, CAPS, tenants)
    assert refusal({"n": 3}, NO_CAPS, tenants).param == "n"


def test_a_cap_as_large_as_a_vocabulary_allows_all_log_probabilities() -> None:
    """An operator may allow -1."""
    check({"logprobs": -1}, RequestCaps(logprobs=WHOLE_VOCABULARY))


HONEST: dict[str, dict[str, Any]] = {
    "an agent": {
        "messages": [{"role": "user", "content": "x" * 200}] * 4000,
        "tools": [
            {"type": "function", "function": {"name": f"tool{at}", "parameters": {"type": "object"}}}
            for at in range(128)
        ],
        "max_tokens": 64_000,
        "stop": ["a", "b", "c", "d"],
        "priority": 0,
    },
    "embeddings": {"input": ["x" * 100] * 2048},
    "embeddings of ids": {"input": [list(range(500))] * 2048},
    "one prompt of ids": {"prompt": list(range(100_000))},
    "an evaluation": {"prompt": ["x" * 1000] * 512, "logprobs": 20, "max_tokens": 1, "n": 1},
    "alternatives": {"n": 64, "top_logprobs": 20, "logprobs": True},
    "a schema": {"response_format": {"json_schema": {"schema": {f"p{at}": {"type": "string"} for at in range(2000)}}}},
    "a reranker": {"query": "q", "documents": ["x" * 500] * 1000},
}


@pytest.mark.parametrize("case", HONEST)
def test_no_honest_client_meets_the_usual_caps(case: str) -> None:
    """The most that SDKs, agents and evaluations send passes."""
    check(HONEST[case], USUAL_CAPS)


BOMBS: dict[str, bytes] = {
    "stops": b'{"stop": [' + b'"a",' * 30_000 + b'"a"]}',
    "words": b'{"bad_words": [' + b'"a",' * 30_000 + b'"a"]}',
    "ids": b'{"stop_token_ids": [' + b"1," * 1_000_000 + b"1]}",
    "biases": b'{"logit_bias": {' + b",".join(b'"%d": 1' % at for at in range(30_000)) + b"}}",
    "prompts": b'{"prompt": [' + b'"a",' * 30_000 + b'"a"]}',
    "a long regex": b'{"structured_outputs": {"regex": "' + b"a" * 31_000_000 + b'"}}',
    "a long schema": b'{"response_format": {"a": "' + b"a" * 31_000_000 + b'"}}',
    "a long stop": b'{"stop": "' + b"a" * 31_000_000 + b'"}',
    "a deep schema": b'{"response_format": ' + b'{"a":' * 95 + b"1" + b"}" * 95 + b"}",
    "tools": b'{"tools": [' + b"{}," * 8_000 + b"{}]}",
    "n after a long prompt": b'{"prompt": "' + b"a" * 31_000_000 + b'", "n": 100000}',
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_bomb_is_refused_within_a_tenth_of_a_second(case: str) -> None:
    """Whatever its size: in processor time, and the best of some tries, since other load only adds to it."""
    body = BOMBS[case]

    def refuse() -> None:
        assert refusal(body, USUAL_CAPS).status in (400, 413)

    assert min(cost_s(refuse) for _ in range(5)) < 0.1


def test_each_cap_is_a_variable() -> None:
    """A cap that is set is in force."""
    names = ("OUTPUT_TOKENS", "SEQUENCES", "PROMPTS", "LOGPROBS", "STOPS", "LOGIT_BIAS", "GRAMMAR_BYTES", "TOOLS")
    found = caps_from_environment({f"HEADWAY_MAX_{name}": str(at) for at, name in enumerate(names, 1)})
    assert found == RequestCaps(1, 2, 3, 4, 5, 6, 7, 8)


@pytest.mark.parametrize(
    ("server", "tenant", "most"), [(None, None, None), (9, None, 9), (None, 7, 7), (9, 7, 7), (7, 9, 7)]
)
def test_the_cap_of_output_tokens_holds_where_the_body_names_none(
    server: int | None, tenant: int | None, most: int | None
) -> None:
    """The lower of the two goes on to the engine."""
    rules = RequestRules(caps=RequestCaps(output_tokens=server))
    identity = Identity(Entitlement("a", caps=RequestCaps(output_tokens=tenant)))
    context = read_request_info({}, route_at("/v1/completions"), b'{"prompt": "x"}', small_preset(), identity, rules)
    assert context.most_tokens == context.max_tokens == most


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        ({"prompt": ["a", "b"]}, True),
        ({"prompt": "a", "n": 2}, True),
        ({"prompt": [[1, 2], [3]], "n": 2}, False),
        ({"prompt": ["a", "b", "c"]}, False),
        ({"prompt": ["a", "b"], "best_of": "2"}, False),
    ],
)
def test_a_tenants_cap_of_sequences_is_of_the_whole_request(body: dict[str, Any], fits: bool) -> None:
    """Prompts and answers to each, however they are written; without a cap of its own the server's width bounds it.

    A larger cap of prompts is one of sequences: with one answer each they are as many.
    """
    asked = [{}, route_at("/v1/completions"), json.dumps(body).encode(), small_preset()]
    identity = Identity(Entitlement("a", caps=RequestCaps(sequences=2)))
    read_request_info(*asked)  # type: ignore[arg-type]
    if fits:
        read_request_info(*asked, identity)  # type: ignore[arg-type]
        return
    with pytest.raises(BadRequest, match="at most 2 are allowed in one request") as caught:
        read_request_info(*asked, identity)  # type: ignore[arg-type]
    assert (caught.value.status, caught.value.code) == (400, "parameter_too_large")
    wider = Identity(Entitlement("a", caps=RequestCaps(sequences=2, prompts=4)))
    read_request_info(*asked, wider)  # type: ignore[arg-type]
