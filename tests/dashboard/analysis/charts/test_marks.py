"""The marks of the charts: their kinds, where they stand, and how many there may be."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from readings import END_S, reading_of

from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.catalogue.fleet_panels import STARTED_S, UP
from headway_dashboard.analysis.charts.marks import (
    LOOKS,
    MOST,
    inside,
    last_change_s,
    marks_of,
    merged,
    warmup_marks,
)
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.queries.model import Mark, MarkKind, Point, Series
from headway_dashboard.analysis.server import switches

KINDS: tuple[MarkKind, ...] = get_args(MarkKind)
LABELS = st.sampled_from(["latency", "engine lost"])
MARKS = st.lists(st.builds(Mark, st.floats(0, 1000), LABELS, st.sampled_from(KINDS)), max_size=60)
STEP_S = 5.0


def test_each_kind_has_a_look_of_its_own() -> None:
    """Told apart by sign and dash, so without colours too."""
    assert set(LOOKS) == set(KINDS)
    assert len({look.sign for look in LOOKS.values()}) == len(KINDS)
    assert len({look.dash for look in LOOKS.values()}) == len(KINDS)
    assert len({look.colour for look in LOOKS.values()}) == len(KINDS)


@given(MARKS, st.floats(1, 1000))
def test_marks_are_few_and_none_is_lost(marks: list[Mark], range_s: float) -> None:
    """Never more than the bound, each mark in one group, and each group at the time of its first mark."""
    shown = [mark for mark in marks if mark.time_s <= range_s]
    groups = merged(shown, range_s)
    assert len(groups) <= MOST
    assert sorted((mark for group in groups for mark in group.marks), key=str) == sorted(shown, key=str)
    assert [group.time_s for group in groups] == sorted({min(mark.time_s for mark in group.marks) for group in groups})


def test_a_group_looks_like_its_most_important_mark() -> None:
    """And says how many others it stands for; each is named in full."""
    marks = [Mark(10.0, "latency"), Mark(11.0, "engine lost", "engine"), Mark(12.0, "NotReady", "alert")]
    (server,) = merged([Mark(10.0, "latency"), Mark(11.0, "gone", "server", "a:1")], 300)
    assert (server.label, server.words) == ("■ gone +1", ("Preset: latency", "Server a:1: gone"))
    (group,) = merged(marks, 300)
    assert group.label == "▲ engine lost +2"
    assert group.look is LOOKS["engine"]
    assert group.words == ("Preset: latency", "Engine: engine lost", "Alert: NotReady")


def test_marks_far_apart_stay_apart() -> None:
    """A minute in five is not close."""
    assert [group.label for group in merged([Mark(0.0, "a"), Mark(60.0, "b")], 300.0)] == ["◆ a", "◆ b"]


def test_presets_engine_and_warmups_stand_in_their_order() -> None:
    """All kinds of one reading; of several servers a mark has the name."""
    history = reading_of(
        {
            by_instance(panels.READY): {("a:1",): [1, 1, 1, 1]},
            by_instance(UP): {("a:1",): [1, 1, 1, 1]},
            by_instance(STARTED_S): {("a:1",): [50, 50, 900, 900]},
            switches.PRESETS: {("a:1", "balanced", "1"): [1, 1, 1, 0], ("a:1", "latency", "2"): [0, 0, 0, 1]},
            switches.STATES: {("a:1", "up"): [1, 0, 1, 1], ("a:1", "restarting"): [0, 1, 0, 0]},
            engine_panels.WARMUP_S: {("batch",): [2.0, 2.0, 1.5, 1.5]},
        }
    )
    assert marks_of(history) == [
        Mark(END_S - 4, "engine restarting", "engine"),
        Mark(END_S - 2, "restarted", "server", "a:1"),
        Mark(END_S - 2, "warm-up ended", "warm-up"),
        Mark(END_S, "latency"),
    ]


def test_a_warmup_that_was_there_from_the_start_is_no_mark() -> None:
    """Only a duration that changes, or a stage that is new, is a warm-up; a gap between is none."""
    times_s = (0.0, 2.0, 4.0, 6.0, 8.0)
    one: list[Point] = [None, 3.0, None, 3.0, 3.0]
    two: list[Point] = [None, None, None, None, 1.0]
    lines: dict[tuple[str, ...], list[Point]] = {("one",): one, ("two",): two}
    assert warmup_marks(Series(times_s, lines)) == [Mark(8.0, "warm-up ended", "warm-up")]
    assert warmup_marks(Series((), {})) == []


def test_only_marks_of_the_time_that_is_shown_are_drawn() -> None:
    """Both ends included."""
    reading = reading_of({panels.READY: [1.0] * 3})
    marks = [Mark(END_S - 5, "old"), Mark(END_S - 4, "first"), Mark(END_S, "last"), Mark(END_S + 1, "later")]
    assert [mark.label for mark in inside(marks, reading)] == ["first", "last"]


def test_the_last_change_is_seen_or_told() -> None:
    """By its mark, else by the server's clock; a server that never changed tells 0."""
    told = Series((0.0, 1.0), {(): [900.0, 950.0]})
    assert last_change_s([Mark(5.0, "a"), Mark(7.0, "b"), Mark(9.0, "engine lost", "engine")], told) == 7.0
    assert last_change_s([], told) == 950.0
    assert last_change_s([], Series((0.0,), {(): [0.0]})) is None
    assert last_change_s([], Series((), {})) is None
