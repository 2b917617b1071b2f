"""The ``traceparent`` header, by the rules of the standard."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.tracing.current_request import MAX_BYTES, TraceParent, parse_trace_parent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def test_a_right_value_is_read() -> None:
    """Both ids and the flags."""
    assert parse_trace_parent(f"00-{TRACE}-{SPAN}-01".encode()) == TraceParent(TRACE, SPAN, 1)


def test_a_later_version_may_have_more_fields() -> None:
    """Its first four fields mean the same."""
    assert parse_trace_parent(f"cc-{TRACE}-{SPAN}-ff-more-to-come".encode()) == TraceParent(TRACE, SPAN, 255)


@pytest.mark.parametrize(
    "value",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-zz",
        f"cc-{TRACE}-{SPAN}-01-{'a' * MAX_BYTES}",
        f"cc-{TRACE}-{SPAN}-01 more",
    ],
)
def test_a_wrong_value_is_none(value: str) -> None:
    """Each breaks one rule."""
    assert parse_trace_parent(value.encode()) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_none(value: bytes) -> None:
    """No error; and what is read is written in the value."""
    found = parse_trace_parent(value)
    assert found is None or value[3:52] == f"{found.trace_id}-{found.span_id}".encode()
