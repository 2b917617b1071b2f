"""When a grammar compiles for too long: by its age, and by whether others wait for it."""

from __future__ import annotations

import pytest

from headway_policies import Progress, Recovery, compilations_stuck, slow_compilation_s

TERMS = Recovery(hang_after_s=10.0, slow_step_after_s=60.0)


@pytest.mark.parametrize(("age_s", "named_s"), [(0.0, 0.0), (10.0, 0.0), (10.1, 10.1), (3600.0, 3600.0)])
def test_it_is_named_after_the_time_of_a_hang(age_s: float, named_s: float) -> None:
    """With its age."""
    assert slow_compilation_s(age_s, TERMS) == named_s


@pytest.mark.parametrize(("held_s", "stuck"), [((0.0, 0.0), False), ((60.0, 60.0), False), ((0.0, 60.1), True)])
def test_one_engine_whose_grammars_wait_is_enough(held_s: tuple[float, ...], stuck: bool) -> None:
    """However long they compile: it counts that others wait."""
    reports = [
        Progress(engine, beats=1, works=0, compiling_s=9e9, compilations_held_s=held)
        for engine, held in enumerate(held_s)
    ]
    assert compilations_stuck(reports, TERMS) is stuck


def test_it_is_never_stuck_before_it_would_be_named() -> None:
    """Where a slow step has no time of its own."""
    terms = Recovery(hang_after_s=10.0, slow_step_after_s=1.0)
    waits = [Progress(1, beats=1, works=0, compiling_s=9.0, compilations_held_s=9.0)]
    assert not compilations_stuck(waits, terms)
