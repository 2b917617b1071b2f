"""The fit of the simulator's constants: it recovers known constants, and reports its error."""

from __future__ import annotations

import pytest

from headway.simulator.engine_model.fit import CalibrationError, Point, fit


def test_exact_measurements_give_the_constants_back() -> None:
    """29 ms a step, 1.06 a sequence, 0.7 a prompt token, 4 of overhead."""
    between = [Point(number, 0.029 + 0.00106 * number) for number in (1, 2, 4, 8, 32)]
    first = [Point(tokens, 0.033 + 0.0007 * tokens) for tokens in (16, 64, 512)]
    fitted = fit(between, first)
    assert fitted.base_s == pytest.approx(0.029)
    assert fitted.seat_s == pytest.approx(0.00106)
    assert fitted.prefill_s == pytest.approx(0.0007)
    assert fitted.overhead_s == pytest.approx(0.004)
    assert fitted.inter_token_error_ratio == pytest.approx(0.0, abs=1e-9)
    assert fitted.flags() == "--step-ms 29 --seat-ms 1.06 --prefill-ms 0.7"


def test_the_error_says_how_far_the_measurements_lie_from_the_line() -> None:
    """10 % up and 10 % down at each place: about 10 %."""
    between = [Point(number, 0.03 * factor) for number in (1, 32) for factor in (0.9, 1.1)]
    first = [Point(16, 0.05), Point(512, 0.4)]
    assert fit(between, first).inter_token_error_ratio == pytest.approx(0.1, rel=0.05)


def test_noise_never_makes_a_constant_negative() -> None:
    """Tokens that come faster together, first tokens that cost nothing alone."""
    fitted = fit([Point(1, 0.03), Point(8, 0.02)], [Point(10, 0.001), Point(100, 0.5)])
    assert fitted.seat_s == 0.0
    assert fitted.base_s > 0
    assert fitted.prefill_s > 0
    assert fitted.base_s + fitted.overhead_s >= -1e-12
    assert "--seat-ms 0 " in fitted.flags()


@pytest.mark.parametrize(
    ("between", "first", "needed"),
    [
        ([], [Point(1, 1.0), Point(2, 1.0)], "concurrencies"),
        ([Point(1, 0.1), Point(1, 0.2)], [Point(1, 1.0), Point(2, 1.0)], "concurrencies"),
        ([Point(1, 0.1), Point(2, 0.2)], [Point(16, 1.0)], "lengths"),
    ],
)
def test_too_little_is_refused_by_name(between: list[Point], first: list[Point], needed: str) -> None:
    """Two different points of each series at least."""
    with pytest.raises(CalibrationError, match=needed):
        fit(between, first)
