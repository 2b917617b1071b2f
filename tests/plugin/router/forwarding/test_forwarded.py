"""What of a request reaches an instance, and what of its response the client."""

from __future__ import annotations

import json

import pytest

from headway.openai.asked import read_asked
from headway.openai.routes import route_at
from headway.router.forwarding.forwarded import NOT_RETURNED, Forwarded, beyond_connection, request_headers
from headway.router.forwarding.usage import UsageReader
from headway_policies import Usage

#: More than a float holds.
HUGE = 10**400


def test_headers_of_the_client_and_of_its_connection_are_not_forwarded() -> None:
    """Keys, cookies, hops; what this server knows better replaces what the client says."""
    sent = [
        ("host", "a"), ("authorization", "Bearer k"), ("x-api-key", "k"), ("cookie", "c"), ("content-length", "1"),
        ("transfer-encoding", "chunked"), ("accept-encoding", "gzip"), ("x-forwarded-for", "1.2.3.4"),
        ("x-headway-class", "mine"), ("content-type", "application/json"), ("traceparent", "t"),
    ]  # fmt: skip
    found = request_headers(sent, (("x-headway-class", "batch"),))
    assert found == (("content-type", "application/json"), ("traceparent", "t"), ("x-headway-class", "batch"))


def test_what_the_connection_header_names_ends_with_the_connection() -> None:
    """In both directions, however it is written."""
    sent = [("Connection", "close, X-Own"), ("x-own", "1"), ("X-Kept", "2")]
    assert request_headers(sent, ()) == beyond_connection(sent) == (("x-kept", "2"),)


def test_headers_of_the_hop_are_not_returned() -> None:
    """Nor those that this server sets itself."""
    sent = [("Content-Type", "a"), ("Connection", "close"), ("X-Headway-Queue-Ms", "1"), ("Retry-After", "2")]
    assert beyond_connection(sent, NOT_RETURNED) == (("content-type", "a"), ("retry-after", "2"))


@pytest.mark.parametrize(
    ("target", "body", "expected"),
    [
        ("/v1/completions", {"max_tokens": 9}, {"max_tokens": 5}),
        ("/v1/chat/completions", {"max_completion_tokens": 9}, {"max_completion_tokens": 5}),
        ("/v1/chat/completions", {"prompt": "\u00e4"}, {"prompt": "\u00e4", "max_tokens": 5}),
        ("/v1/responses?x", {"input": 1}, {"input": 1, "max_output_tokens": 5}),
        ("/v1/completions", {"n_predict": 3}, {"max_tokens": 3}),
        ("/v1/completions", {"n_predict": 9}, {"max_tokens": 5}),
        ("/v1/completions", {"n_predict": -1}, {"max_tokens": 5}),
        ("/v1/completions", {"max_tokens": 9, "n_predict": 7}, {"max_tokens": 5}),
        ("/v1/completions", {"max_tokens": -1}, {"max_tokens": -1, "n_predict": 5}),
        ("/v1/completions", {"max_tokens": -1, "n_predict": -1}, {"max_tokens": -1, "n_predict": 5}),
        ("/v1/completions", {"max_tokens": -HUGE}, {"max_tokens": -HUGE, "n_predict": 5}),
        ("/v1/completions", {"n_predict": HUGE}, {"max_tokens": 5}),
        ("/v1/completions", {"n_predict": f"{HUGE}"}, {"max_tokens": 5}),
        ("/inference/v1/generate", {"sampling_params": {}}, {"sampling_params": {"max_tokens": 5}}),
        ("/inference/v1/generate", {"sampling_params": {"max_tokens": 9}}, {"sampling_params": {"max_tokens": 5}}),
        ("/inference/v1/generate", {"sampling_params": {"max_tokens": None}}, {"sampling_params": {"max_tokens": 5}}),
        ("/inference/v1/generate", {"max_tokens": 9}, {"max_tokens": 9}),
        ("/inference/v1/generate", {"sampling_params": 3}, {"sampling_params": 3}),
    ],
)
def test_a_lower_limit_is_written_into_the_body(target: str, body: object, expected: object) -> None:
    """Under the name that the request uses, and where its route reads it; llama.cpp reads ``n_predict`` first, and -1
    as no limit.
    """
    written = json.dumps(body).encode()
    request = Forwarded("POST", target, (), written, read_asked(route_at(target.partition("?")[0]), written))
    assert json.loads(request.at_most(5).body) == expected


@pytest.mark.parametrize("body", [b"", b"no json", b"[1]"])
def test_what_is_no_object_is_forwarded_as_it_came(body: bytes) -> None:
    """The instance answers it."""
    request = Forwarded("POST", "/v1/completions", (), body, read_asked(route_at("/v1/completions"), body))
    assert request.at_most(5) is request


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([b'{"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2}}'], Usage(7, 2)),
        ([b'{"usage": {"input_tokens": 7, "output_tokens": 2}}'], Usage(7, 2)),
        ([b'{"usage":{"prompt_to', b'kens":7,"completion_tokens":2}}'], Usage(7, 2)),
        ([b'{"usage":{"prompt_tokens":7,"total_tokens":7}}'], Usage(7, 0)),
        ([b"data: {}\n\n"] * 6 + [b"data: [DONE]\n\n"], Usage(4, 5)),
        (
            [b'data: {"usage":{"input_tokens":7}}\n\n', b"x" * 50_000, b'data: {"usage":{"output_tokens":3}}'],
            Usage(7, 3),
        ),
        ([b'data: {"timings":{"prompt_n":3,"predicted_n":2}}\n\n', b"data: [DONE]\n\n"], Usage(4, 2)),
        ([b'{"usage":{"prompt_tokens":0,"total_tokens":2,"completion_tokens":2}}'], Usage(4, 2)),
        ([b"a" * 100_000], None),
        ([], None),
    ],
)
def test_the_usage_is_read_beside_the_response(parts: list[bytes], expected: Usage | None) -> None:
    """From its end, however it is cut; a stream without it is counted."""
    reader = UsageReader(prompt_tokens=4)
    for part in parts:
        reader.add(part)
    assert reader.usage() == expected
