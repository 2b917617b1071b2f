"""The fixed time that a paused page shows, from the texts of an address and back."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.view import Span, View, view_of
from headway_dashboard.analysis.window import (
    FROM,
    LONGEST_S,
    SHORTEST_S,
    TO,
    Window,
    before_now,
    missing_words,
    window_between,
    window_of,
)

INSTANTS = st.floats(allow_nan=True, allow_infinity=True)
#: 2023-11-14 22:13:20 UTC.
START_S = 1_700_000_000


@given(st.integers(0, 9_999_900_000), st.integers(SHORTEST_S, LONGEST_S))
def test_a_link_restores_exactly_its_window(start_s: int, length_s: int) -> None:
    """The address gives the same two ends again."""
    window = Window(start_s, min(start_s + length_s, 9_999_999_999))
    if window.range_s >= SHORTEST_S:
        assert window_of([window.texts[FROM]], [window.texts[TO]]) == window


@given(INSTANTS, INSTANTS)
def test_a_dragged_time_is_inside_its_window(start_s: float, end_s: float) -> None:
    """Whole seconds around both ends, long enough for a chart; or none, whatever a browser sends."""
    window = window_between(start_s, end_s)
    if window is None:
        assert not 0 <= start_s < end_s < 10**10 or end_s - start_s > LONGEST_S - 2
    else:
        assert window.start_s <= start_s < end_s <= window.end_s
        assert SHORTEST_S <= window.range_s <= LONGEST_S
        assert window.range_s <= max(end_s - start_s + 2, SHORTEST_S)


@given(st.lists(st.text()), st.lists(st.text()))
def test_no_text_is_an_error(starts: list[str], ends: list[str]) -> None:
    """Only two numbers of seconds are a window."""
    window = window_of(starts, ends)
    assert window is None or (starts[0].isdecimal() and ends[0].isdecimal())


@pytest.mark.parametrize(
    ("start", "end"),
    [("", ""), ("100", ""), ("200", "100"), ("100", "105"), ("-5", "100"), ("1e3", "2e3"), ("1_0", "99"), ("٣٠", "٩٩"),
     ("0", str(LONGEST_S + 1)), (" 100", "200"), ("100", "99999999999")],
)  # fmt: skip
def test_what_is_no_window_is_ignored(start: str, end: str) -> None:
    """Backwards, too short, too long, or not written in seconds."""
    assert window_of([start], [end]) is None


def test_a_window_takes_the_place_of_the_range() -> None:
    """The whole view: its length, and its end; without one the range moves on."""
    chosen = {"range": ["15m"], FROM: [str(START_S)], TO: [str(START_S + 120)]}
    assert view_of(chosen, (), 1800.0) == View(120.0, end_s=START_S + 120.0)
    assert view_of(chosen, (), 1800.0).span == Span(120.0, START_S + 120.0)
    assert view_of({"range": ["15m"], FROM: ["x"]}, (), 1800.0).span.live


def test_both_ends_are_on_the_clock_of_the_reader() -> None:
    """The day of the second one only where it is another."""
    east = timezone(timedelta(hours=2))
    assert Window(START_S, START_S + 300).words(UTC) == "2023-11-14 22:13:20 to 22:18:20"
    assert Window(START_S, START_S + 300).words(east) == "2023-11-15 00:13:20 to 00:18:20"
    assert Window(START_S, START_S + 7200).words(UTC) == "2023-11-14 22:13:20 to 2023-11-15 00:13:20"


@given(st.floats(START_S, START_S + 1e6), st.floats(300, 86_400))
def test_the_last_seconds_are_of_the_range(now_s: float, range_s: float) -> None:
    """Up to this very second, and not shorter than the range."""
    window = before_now(now_s, range_s)
    assert now_s - 1 < window.end_s <= now_s
    assert 0 <= window.range_s - range_s < 1


@pytest.mark.parametrize(
    ("window", "begins"),
    [
        (Window(9000, 9500), ""),
        (Window(7000, 8100), "This time is over"),
        (Window(8000, 9000), "The beginning of this time is over"),
        (Window(10_000, 10_300), "This time has not come yet"),
        (Window(9900, 10_300), ""),
    ],
    ids=["held", "gone", "partly gone", "future", "partly future"],
)
def test_a_time_that_the_source_does_not_hold_says_so(window: Window, begins: str) -> None:
    """At 10,000 s, with a memory of half an hour."""
    text = missing_words(window, 10_000.0, 1800.0)
    assert text.startswith(begins)
    assert bool(text) == bool(begins)
