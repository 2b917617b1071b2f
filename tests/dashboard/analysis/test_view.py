"""The view that the bar chooses, from the texts of an address."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.view import RANGES_S, View, range_s_of, ranges, view_of

KNOWN = ("realtime", "normal", "batch")
HALF_HOUR_S = 1800.0


def test_an_address_gives_the_whole_view() -> None:
    """Range, classes and comparison; the classes in their usual order, whatever that of the address is."""
    chosen = {"range": ["15m"], "classes": ["batch", "realtime"], "compare": ["before"]}
    assert view_of(chosen, KNOWN, HALF_HOUR_S) == View(900.0, KNOWN, ("realtime", "batch"), before_change=True)


def test_an_empty_address_gives_the_default() -> None:
    """Five minutes of all classes, compared with nothing."""
    assert view_of({}, KNOWN, HALF_HOUR_S) == View(300.0, KNOWN)


def test_only_a_long_memory_offers_long_ranges() -> None:
    """A range that the source cannot fill is no choice, and counts as not given."""
    assert ranges(HALF_HOUR_S) == ("5m", "15m", "30m")
    assert ranges(0.0) == ("5m",)
    assert ranges(86_400.0) == tuple(RANGES_S)
    assert view_of({"range": ["6h"]}, KNOWN, HALF_HOUR_S).range_s == 300.0
    assert view_of({"range": ["6h"]}, KNOWN, 86_400.0).range_s == 21_600.0


def test_any_other_range_is_offered_where_it_is_asked_for() -> None:
    """A number of minutes, hours or days, up to what the source remembers and to a month; nothing else."""
    month_s = 30 * 86_400.0
    for text, range_s in (("10m", 600.0), ("90m", 5400.0), ("3d", 259_200.0), ("30d", month_s), ("7h", 25_200.0)):
        assert range_s_of(text) == range_s
        assert view_of({"range": [text]}, KNOWN, month_s).range_s == range_s
        assert ranges(month_s, [text])[-1] == text
    assert view_of({"range": ["3d"]}, KNOWN, HALF_HOUR_S).range_s == 300.0
    assert ranges(HALF_HOUR_S, ["3d", "10m", "5m"]) == ("5m", "15m", "30m", "10m")
    for text in ("", "0m", "99999d", "-3d", "3", "3 d", "3w", "1e3m", "\u0663d", "3d\n"):
        assert view_of({"range": [text]}, KNOWN, float("inf")).range_s == 300.0


@given(st.dictionaries(st.sampled_from(["range", "classes", "compare", "other"]), st.lists(st.text())))
def test_no_text_of_an_address_is_an_error(chosen: dict[str, list[str]]) -> None:
    """Whatever stands there, the view has a range that is offered and classes that exist."""
    view = view_of(chosen, KNOWN, HALF_HOUR_S)
    assert 60.0 <= view.range_s <= HALF_HOUR_S
    assert set(view.classes) <= set(KNOWN)
