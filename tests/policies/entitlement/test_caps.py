"""The caps of a request: of two sets the lower ones hold."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from headway_policies.entitlement import RequestCaps

NAMES = [one.name for one in fields(RequestCaps)]
CAPS = st.builds(RequestCaps, **{name: st.none() | st.integers(0, 9) for name in NAMES})


@given(CAPS, CAPS)
def test_each_cap_is_the_lower_of_two(first: RequestCaps, second: RequestCaps) -> None:
    """None is no cap, so it lowers none; the order does not matter."""
    lowered = first.lowered_by(second)
    assert lowered == second.lowered_by(first)
    for name in NAMES:
        given_caps = [cap for cap in (getattr(first, name), getattr(second, name)) if cap is not None]
        assert getattr(lowered, name) == min(given_caps, default=None)


@given(CAPS)
def test_no_caps_lower_nothing(caps: RequestCaps) -> None:
    """The default has none."""
    assert caps.lowered_by(RequestCaps()) == caps
