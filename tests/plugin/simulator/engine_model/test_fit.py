"""The fit of the simulator's constants: it recovers known constants, and reports its error."""

from __future__ import annotations

import pytest

from headway.simulator.engine_model.fit import CalibrationError, Point, doubts, fit


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


LINE = [Point(number, 0.03 + 0.001 * number) for number in (1, 8, 32)]
SCATTERED = [Point(number, seconds) for number, seconds in ((1, 0.03), (8, 0.12), (16, 0.04), (32, 0.11))]


@pytest.mark.parametrize(
    ("between", "first", "expected"),
    [
        pytest.param(LINE, LINE, [], id="good"),
        pytest.param(SCATTERED, LINE, ["poor fit of the time between tokens"], id="between tokens"),
        pytest.param(LINE, SCATTERED, ["poor fit of the time to first token"], id="first tokens"),
        pytest.param(SCATTERED, SCATTERED, ["poor fit of the time between", "poor fit of the time to"], id="both"),
        pytest.param(LINE[:2], LINE, ["the fit of the time between tokens cannot be judged"], id="two points"),
    ],
)
def test_a_fit_that_may_not_be_trusted_is_said_with_advice(
    between: list[Point], first: list[Point], expected: list[str]
) -> None:
    """A mean error beyond the bound, or too few points to have one; each in one line that says what to do."""
    found = doubts(fit(between, first), between, first)
    assert [one.startswith(words) for one, words in zip(found, expected, strict=True)] == [True] * len(expected)
    assert all("--within 120" in one and "\n" not in one for one in found)


def test_an_error_within_the_bound_is_no_doubt() -> None:
    """10 % up and down: noise of a busy machine, not another shape."""
    between = [Point(number, 0.03 * factor) for number in (1, 8, 32) for factor in (0.9, 1.1)]
    assert doubts(fit(between, LINE), between, LINE) == []
