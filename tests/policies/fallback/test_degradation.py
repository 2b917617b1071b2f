"""Degradation of a request on a rung: only as its class allows, and never more than it asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_presets import balanced_without_fallback, small_preset, terms

from headway_policies.fallback.degradation import (
    bypasses,
    capped_tokens,
    diverts,
    pauses,
    queue_age_s,
    sheds,
)
from headway_policies.fallback.rungs import RUNG_TRIGGERS, Fallback, Rung
from headway_policies.preset import lint, usable_rungs
from headway_policies.request.ticket import Ticket

ALL = frozenset(RUNG_TRIGGERS)
WILLING = terms(1, fallback_max_tokens=64, may_bypass=True, sheddable=True, may_divert=True)
UNWILLING = terms(1)


def ticket(max_tokens: int | None = None, seats: int = 1) -> Ticket:
    """A ticket that asks for so many tokens."""
    return Ticket(1, "batch", 0.0, seats=seats, max_tokens=max_tokens)


CAPS: dict[str, tuple[int | None, int | None]] = {
    "longer": (65, 64),
    "just as long": (64, None),
    "shorter": (3, None),
    "not said": (None, 64),
}


@pytest.mark.parametrize(("asked", "expected"), CAPS.values(), ids=CAPS)
def test_answers_are_cut_to_the_cap_and_never_made_longer(asked: int | None, expected: int | None) -> None:
    """None leaves what was asked for."""
    assert capped_tokens(ticket(asked), WILLING, {Rung.CAP}) == expected


@given(
    asked=st.none() | st.integers(1, 10**7), cap=st.integers(1, 10**7), in_force=st.frozensets(st.sampled_from(Rung))
)
def test_no_request_gets_more_than_it_asked_for(asked: int | None, cap: int, in_force: frozenset[Rung]) -> None:
    """Whatever is in force, the cap is below what was asked, and there is none off the rung."""
    capped = capped_tokens(ticket(asked), terms(1, fallback_max_tokens=cap), in_force)
    assert capped is None or (capped == cap and (asked is None or capped < asked) and Rung.CAP in in_force)


@pytest.mark.parametrize("rung", RUNG_TRIGGERS, ids=lambda rung: rung.word)
def test_each_rung_degrades_one_thing_where_the_class_allows_it(rung: Rung) -> None:
    """Exactly one of the five decisions changes with a rung, and none for a class that allows nothing."""
    for willing in (True, False):
        of = WILLING if willing else UNWILLING
        found = {
            Rung.CAP: capped_tokens(ticket(), of, {rung}) is not None,
            Rung.BYPASS: bypasses(ticket(), of, {rung}, free_seats=1),
            Rung.SHED: sheds(of, {rung}),
            Rung.DIVERT: diverts(of, {rung}),
        }
        assert [one for one, changed in found.items() if changed] == ([rung] if willing and rung in found else [])
        assert pauses({rung}) == (rung is Rung.PAUSE)


def test_the_bypass_has_a_few_seats_and_no_more() -> None:
    """A ticket goes beside the batch only if all its sequences fit."""
    assert bypasses(ticket(seats=2), WILLING, ALL, free_seats=2)
    assert not bypasses(ticket(seats=3), WILLING, ALL, free_seats=2)
    assert not bypasses(ticket(), WILLING, ALL, free_seats=0)


USABLE: dict[str, tuple[str, bool, set[Rung]]] = {
    "nothing allowed": ("", True, set()),
    "a cap": ("classes.batch.fallback_max_tokens = 64", True, {Rung.CAP}),
    "shedding": ("classes.batch.sheddable = true", True, {Rung.SHED}),
    "diverting": ("classes.batch.may_divert = true", True, {Rung.DIVERT}),
    "diverting without a model": ("classes.batch.may_divert = true", False, set()),
    "pausing": ("fallback.pause_on_errors = true", True, {Rung.PAUSE}),
    "a bypass": (
        'batching.strategy = "dynamic"\nclasses.batch.may_bypass = true\nfallback.bypass_seats = 2',
        True,
        {Rung.BYPASS},
    ),
    "a bypass without seats": ('batching.strategy = "dynamic"\nclasses.batch.may_bypass = true', True, set()),
    "a bypass of no batch": ("classes.batch.may_bypass = true\nfallback.bypass_seats = 2", True, set()),
}


@pytest.mark.parametrize(("text", "fallback_model", "expected"), USABLE.values(), ids=USABLE)
def test_a_rung_is_usable_where_it_changes_anything(text: str, fallback_model: bool, expected: set[Rung]) -> None:
    """A rung that no class allows, or without means, is left out of the ladder."""
    assert usable_rungs(balanced_without_fallback(text), fallback_model=fallback_model) == expected


def test_sheddable_classes_do_not_count_as_queue_age() -> None:
    """The queue's age is that of the others; of all where all may be shed; 0 where none waits."""
    waits_s = {"realtime": 2.0, "batch": 900.0, "gone": 50.0}
    classes = {"realtime": terms(3), "normal": terms(2), "batch": terms(1, sheddable=True)}
    assert queue_age_s(waits_s, classes) == 2.0
    assert queue_age_s(waits_s, {"batch": classes["batch"]}) == 900.0
    assert queue_age_s({}, classes) == 0.0


CAUTIONS: dict[str, tuple[str, list[str]]] = {
    "a bypass under continuous": (
        "fallback.bypass_seats = 2",
        ["fallback.bypass_seats: no effect: under continuous"],
    ),
    "a trigger for nothing": ("fallback.queue_age_s = 5", ["fallback.queue_age_s: no effect: no rung is allowed"]),
    "an engine that nothing replaces": ("fallback.engine_down = true", ["fallback.engine_down: no effect"]),
    "a trigger that has a rung": ("fallback.kv_usage_ratio = 0.9\nclasses.batch.sheddable = true", []),
    "a pause for errors that are not counted": (
        "fallback.pause_on_errors = true",
        ["fallback.pause_on_errors: no effect: fallback.error_ratio is not set"],
    ),
    "errors that pause": ("fallback = { error_ratio = 0.5, pause_on_errors = true }", []),
}


@pytest.mark.parametrize(("text", "expected"), CAUTIONS.values(), ids=CAUTIONS)
def test_a_fallback_without_effect_gives_a_warning(text: str, expected: list[str]) -> None:
    """Each caution names its key, and what is missing."""
    found = lint(balanced_without_fallback(text))
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize("wrong", [{"error_ratio": 1.5}, {"leave_ratio": 0}, {"bypass_seats": -1}, {"queue_age_s": 0}])
def test_a_threshold_out_of_range_is_refused(wrong: dict[str, Any]) -> None:
    """Nothing is clipped in silence."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Fallback(**wrong)


def test_a_preset_without_fallback_loses_nothing() -> None:
    """The default of every class allows nothing."""
    assert usable_rungs(small_preset(), fallback_model=True) == frozenset()
