"""The shares of one machine's seats: who gets how many, how steadily, and what always holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.sharing import ModelLoad, PauseTerms, SeatShares, Share

IDLE = ModelLoad(demand_seats=0, most_seats=64)
BUSY = ModelLoad(demand_seats=40, most_seats=64)
LATE = replace(BUSY, late_ratio=0.6, urgent=True)
STEPS = st.lists(
    st.tuples(
        st.floats(0.1, 40.0),
        st.integers(4, 64),
        st.dictionaries(
            st.sampled_from("abcd"),
            st.builds(
                ModelLoad,
                demand_seats=st.integers(0, 200),
                most_seats=st.integers(1, 64),
                weight=st.sampled_from((0.1, 1.0, 5.0)),
                late_ratio=st.floats(0.0, 3.0),
                urgent=st.booleans(),
                may_pause=st.booleans(),
            ),
        ),
    ),
    max_size=20,
)


def seats(shares: dict[str, Share]) -> dict[str, int]:
    return {name: one.seats for name, one in shares.items()}


@pytest.mark.parametrize(
    ("loads", "given_seats"),
    [
        ({"a": BUSY, "b": BUSY}, {"a": 16, "b": 16}),
        ({"a": replace(BUSY, weight=3.0), "b": BUSY}, {"a": 24, "b": 8}),
        ({"a": BUSY, "b": IDLE}, {"a": 31, "b": 1}),
        ({"a": replace(BUSY, demand_seats=20), "b": replace(BUSY, demand_seats=4)}, {"a": 20, "b": 12}),
        ({"a": IDLE, "b": IDLE}, {"a": 16, "b": 16}),
        ({"a": LATE, "b": BUSY}, {"a": 31, "b": 1}),
        ({"a": replace(LATE, late_ratio=0.4), "b": BUSY}, {"a": 16, "b": 16}),
        ({"a": replace(LATE, urgent=False), "b": BUSY}, {"a": 16, "b": 16}),
        ({"a": LATE, "b": replace(LATE, weight=3.0)}, {"a": 8, "b": 24}),
        ({"a": replace(BUSY, most_seats=4), "b": BUSY}, {"a": 4, "b": 28}),
    ],
    ids=[
        "equal",
        "weights",
        "an idle model keeps one seat",
        "headroom is levelled",
        "both idle",
        "an urgent model that is late takes from the other",
        "one that is on time does not",
        "nor one that is not urgent",
        "two urgent ones share by weight",
        "the most of an engine",
    ],
)
def test_the_seats_follow_demand_and_weight(loads: dict[str, ModelLoad], given_seats: dict[str, int]) -> None:
    """Of 32 seats."""
    assert seats(SeatShares().update(loads, 32, 0.0)) == given_seats


def test_more_models_than_seats_are_refused() -> None:
    """Nobody would be the one without."""
    with pytest.raises(ValueError, match="2 models need a seat each, and there are 1"):
        SeatShares().update({"a": IDLE, "b": IDLE}, 1, 0.0)


@given(steps=STEPS)
def test_the_sum_never_passes_the_total_and_every_model_has_a_seat(
    steps: list[tuple[float, int, dict[str, ModelLoad]]],
) -> None:
    """Whatever comes, goes, grows and shrinks."""
    shares, now_s = SeatShares(), 0.0
    for pass_s, total, loads in steps:
        now_s += pass_s
        found = shares.update(loads, total, now_s)
        assert found.keys() == loads.keys()
        assert sum(one.seats for one in found.values()) <= total
        assert all(one.seats >= 1 for one in found.values())


@given(steps=STEPS)
def test_a_pause_ends_and_a_rest_follows(steps: list[tuple[float, int, dict[str, ModelLoad]]]) -> None:
    """Only what may be paused is, never longer than the bound, also where it is gone meanwhile; never a late one."""
    shares, now_s = SeatShares(pauses=PauseTerms(longest_s=30.0, rest_s=20.0)), 0.0
    began_s: dict[str, float] = {}
    ended_s: dict[str, float] = {}
    for pass_s, total, loads in steps:
        now_s += pass_s
        found = shares.update(loads, total, now_s)
        for name, one in found.items():
            if one.paused:
                assert loads[name].may_pause
                assert shares.late - {name}
                assert now_s - ended_s.pop(name, -20.0) >= 20.0
                assert now_s - began_s.setdefault(name, now_s) < 30.0
            elif name in began_s:
                del began_s[name]
                ended_s[name] = now_s


def test_the_demand_falls_slowly_and_rises_at_once() -> None:
    """Requests that end together do not move seats; new ones do, after the hold."""
    shares = SeatShares()
    assert seats(shares.update({"a": BUSY, "b": IDLE}, 32, 0.0)) == {"a": 31, "b": 1}
    assert seats(shares.update({"a": IDLE, "b": IDLE}, 32, 6.0)) == {"a": 31, "b": 1}
    assert seats(shares.update({"a": IDLE, "b": BUSY}, 32, 7.0)) == {"a": 16, "b": 16}
    assert seats(shares.update({"a": IDLE, "b": BUSY}, 32, 11.9)) == {"a": 16, "b": 16}
    assert seats(shares.update({"a": IDLE, "b": BUSY}, 32, 16.1)) == {"a": 1, "b": 31}


def test_small_changes_do_not_move_seats() -> None:
    """A demand that sways by a seat or two; a larger change does."""
    shares = SeatShares()
    first, swaying, larger = (
        {"a": replace(BUSY, demand_seats=number), "b": replace(BUSY, demand_seats=20)} for number in (40, 42, 44)
    )
    assert seats(shares.update(first, 64, 0.0)) == {"a": 40, "b": 24}
    assert seats(shares.update(swaying, 64, 20.0)) == {"a": 40, "b": 24}
    assert seats(shares.update(larger, 64, 40.0)) == {"a": 44, "b": 20}


def test_a_late_model_does_not_wait_for_the_hold_and_gives_back_after_a_calm() -> None:
    """Below a quarter of its objective for ten seconds; in between it stays late."""
    shares = SeatShares()
    on_time = replace(LATE, late_ratio=0.0)
    assert seats(shares.update({"a": on_time, "b": BUSY}, 32, 0.0)) == {"a": 16, "b": 16}
    assert seats(shares.update({"a": LATE, "b": BUSY}, 32, 1.0)) == {"a": 31, "b": 1}
    assert seats(shares.update({"a": replace(LATE, late_ratio=0.3), "b": BUSY}, 32, 20.0)) == {"a": 31, "b": 1}
    assert seats(shares.update({"a": on_time, "b": BUSY}, 32, 29.0)) == {"a": 31, "b": 1}
    assert seats(shares.update({"a": on_time, "b": BUSY}, 32, 30.0)) == {"a": 16, "b": 16}


def test_a_smaller_total_is_followed_at_once() -> None:
    """The sum of the shares would pass it."""
    shares = SeatShares()
    shares.update({"a": BUSY, "b": BUSY}, 32, 0.0)
    assert seats(shares.update({"a": BUSY, "b": BUSY}, 31, 0.1)) == {"a": 16, "b": 15}


def test_a_model_is_paused_while_another_peaks() -> None:
    """For 30 seconds at most, and not again for 30; one seat stays its own."""
    shares = SeatShares()
    loads = {"a": LATE, "b": replace(BUSY, may_pause=True)}
    found = [shares.update(loads, 32, float(at_s))["b"].paused for at_s in range(91)]
    assert found == [True] * 30 + [False] * 30 + [True] * 30 + [False]
    assert shares.update(loads, 32, 91.0)["b"] == Share(1)


def test_a_paused_model_has_one_seat_though_the_late_one_does_not_want_the_others() -> None:
    """The paused model could not use them."""
    loads = {"a": replace(LATE, demand_seats=4), "b": replace(BUSY, may_pause=True)}
    assert SeatShares().update(loads, 32, 0.0) == {"a": Share(31), "b": Share(1, paused=True)}


@pytest.mark.parametrize(("urgent", "paused"), [(True, True), (False, False)])
def test_a_model_is_paused_while_an_urgent_one_is_at_its_peak_of_memory(urgent: bool, paused: bool) -> None:
    """Also where nothing is late; one at its own peak is not paused, and an urgent model alone has that right."""
    peak = replace(BUSY, urgent=urgent, lacks_memory=True)
    other = replace(BUSY, may_pause=True)
    shares = SeatShares()
    found = shares.update({"a": peak, "b": other, "c": replace(peak, may_pause=True)}, 32, 0.0)
    assert [found[name].paused for name in "abc"] == [False, paused, False if urgent else paused]
    assert not shares.late
    assert not shares.update({"a": BUSY, "b": other, "c": BUSY}, 32, 1.0)["b"].paused


@pytest.mark.parametrize(
    ("usage_ratios", "paused"),
    [([0.5, 0.89], False), ([0.5, 0.91], True), ([0.91, 0.95], False), ([0.91, 0.96], True), ([0.95, 0.5, 0.91], True)],
    ids=["below", "nearly full", "as it began, nearly", "fuller than it began", "once it was not"],
)
def test_a_model_is_paused_while_the_memory_of_an_urgent_ones_processes_is_nearly_full(
    usage_ratios: list[float], paused: bool
) -> None:
    """Not where it is always so full: that is weights, and a pause frees none of them."""
    shares = SeatShares()
    for at_s, usage_ratio in enumerate(usage_ratios):
        loads = {"a": replace(BUSY, urgent=True, host_usage_ratio=usage_ratio), "b": replace(BUSY, may_pause=True)}
        found = shares.update(loads, 32, float(at_s))
    assert (found["a"].paused, found["b"].paused) == (False, paused)
    assert not SeatShares().update({**loads, "a": replace(loads["a"], urgent=False)}, 32, 0.0)["b"].paused
