"""The time-outs that a client may set in headers, Headway's and those of other products."""

from __future__ import annotations

import pytest

from headway.api_errors import BadRequest
from headway.http.inference.timeouts import FIRST_TOKEN, QUEUE, STALL, TOTAL, asked_timeouts
from headway_policies.request.ticket import NO_TIMEOUTS, Timeouts

READINGS = [
    ("x-request-timeout-seconds", "20", "total_s", 20.0),
    ("x-request-timeout-seconds", " 2.5 ", "total_s", 2.5),
    ("x-litellm-timeout", "30", "total_s", 30.0),
    ("x-envoy-upstream-rq-timeout-ms", "1500", "total_s", 1.5),
    ("grpc-timeout", "20S", "total_s", 20.0),
    ("grpc-timeout", "500m", "total_s", 0.5),
    ("grpc-timeout", "2M", "total_s", 120.0),
    ("grpc-timeout", "1H", "total_s", 3600.0),
    ("grpc-timeout", "250u", "total_s", 0.00025),
    ("x-headway-queue-timeout-seconds", "4", "queue_s", 4.0),
    ("x-llm-d-inference-ttl", "1m30s", "queue_s", 90.0),
    ("x-llm-d-inference-ttl", "500ms", "queue_s", 0.5),
    ("x-llm-d-inference-ttl", "1.5h", "queue_s", 5400.0),
    ("x-headway-first-token-timeout-seconds", "3", "first_token_s", 3.0),
    ("x-llm-d-slo-ttft-ms", "800", "first_token_s", 0.8),
    ("x-slo-ttft-ms", "800", "first_token_s", 0.8),
    ("x-headway-stall-timeout-seconds", "7", "stall_s", 7.0),
]


@pytest.mark.parametrize(("header", "value", "stage", "expected_s"), READINGS)
def test_each_header_bounds_its_stage(header: str, value: str, stage: str, expected_s: float) -> None:
    """One header sets one stage, in seconds, and leaves the others alone."""
    found = asked_timeouts({header: value}, streams=True)
    assert {name: getattr(found, name) for name in Timeouts.__slots__ if getattr(found, name) is not None} == {
        stage: pytest.approx(expected_s)
    }


def test_every_header_is_tried_here() -> None:
    """No header of the tables is without a reading."""
    assert {name for readers in (QUEUE, FIRST_TOKEN, STALL, TOTAL) for name, _ in readers} == {
        header for header, *_ in READINGS
    }


@pytest.mark.parametrize("value", ["", "soon", "-1", "0", "nan", "inf", "1e999", "5S5S", "1m 30s", "m", "0s", "²"])
@pytest.mark.parametrize("header", sorted({header for header, *_ in READINGS}))
def test_a_value_that_is_no_time_is_refused_by_name(header: str, value: str) -> None:
    """400 with the name of the header, for every header that is not sent by default."""
    with pytest.raises(BadRequest, match=f"^{header}: ") as caught:
        asked_timeouts({header: value}, streams=False)
    assert (caught.value.status, caught.value.code) == (400, "bad_timeout")


def test_of_several_the_smallest_holds() -> None:
    """A proxy and a client may both set a deadline: the earlier one counts."""
    headers = {"x-request-timeout-seconds": "30", "grpc-timeout": "20S", "x-litellm-timeout": "25"}
    assert asked_timeouts(headers, streams=False).total_s == 20.0
    assert asked_timeouts(headers | {"x-request-timeout-seconds": "10"}, streams=False).total_s == 10.0


@pytest.mark.parametrize(
    ("streams", "headers", "expected"),
    [
        (False, {}, Timeouts(total_s=600.0)),
        (True, {}, Timeouts(first_token_s=600.0)),
        (False, {"x-request-timeout-seconds": "900"}, Timeouts(total_s=900.0)),
        (True, {"x-slo-ttft-ms": "900000"}, Timeouts(first_token_s=900.0)),
    ],
    ids=["a whole answer", "a stream", "a total of its own", "a first token of its own"],
)
def test_what_an_sdk_sends_by_default_is_the_weakest(
    streams: bool, headers: dict[str, str], expected: Timeouts
) -> None:
    """The header bounds the silence a client bears, and only where the client has named nothing itself."""
    assert asked_timeouts(headers | {"x-stainless-read-timeout": "600"}, streams=streams) == expected


@pytest.mark.parametrize("value", ["None", "", "-5", "nan"])
def test_the_default_headers_of_an_sdk_refuse_no_request(value: str) -> None:
    """A value that is none is as if it had not been sent."""
    assert asked_timeouts({"x-stainless-read-timeout": value}, streams=False) is NO_TIMEOUTS
