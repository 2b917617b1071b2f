"""The chart that keeps its zoom: what it makes of the time that a browser sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.window import Window
from headway_dashboard.components.live_plot import _window

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def test_a_dragged_time_is_a_window() -> None:
    """In milliseconds, as JavaScript has it."""
    assert _window([1_700_000_000_500.0, 1_700_000_060_200.0]) == Window(1_700_000_000, 1_700_000_061)


@given(JSON)
def test_a_browser_may_send_anything(chosen: object) -> None:
    """A text that is no time is no window, and no error."""
    window = _window(chosen)
    assert window is None or window.end_s > window.start_s


@pytest.mark.parametrize(
    "chosen", [None, [], [1], [2e12, 1e12], ["1", "2"], [True, 5e12], [float("nan"), 1e12], {"0": 1}]
)
def test_what_is_no_time_is_ignored(chosen: object) -> None:
    """Too few, backwards, text, or no numbers."""
    assert _window(chosen) is None
