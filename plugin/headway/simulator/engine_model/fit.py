"""The constants of the model for a measured server: two straight lines, each by least squares of relative errors.

    time between tokens  =  base + seat * sequences running together
    time to first token  =  overhead + base + prefill * prompt tokens        one request alone

The overhead (HTTP, tokenising, scheduling) is measured with the second line and is no part of the model. The error is
the mean of |measured - fitted| / measured, for each line. A slope below zero is noise: it is taken for 0. Known weak
spot: attention makes long prompts cost more a token than short ones, which no straight line shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import HeadwayError

#: A mean error beyond this is a poor fit; 1 % and 6 % were seen on an engine that nothing else used.
POOR_RATIO = 0.15
_MIN_POINTS = 3


class CalibrationError(HeadwayError):
    """The measurements do not allow a fit. Its text is one line."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: seconds at a number of sequences, or of prompt tokens."""

    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Fit:
    """The fitted constants, in seconds, and how far the measurements lie from them."""

    base_s: float
    seat_s: float
    prefill_s: float
    overhead_s: float
    inter_token_error_ratio: float
    first_token_error_ratio: float

    def flags(self) -> str:
        """The options of ``headway simulate``."""
        return (
            f"--step-ms {_rounded(self.base_s)} --seat-ms {_rounded(self.seat_s)} "
            f"--prefill-ms {_rounded(self.prefill_s)}"
        )


def doubts(fitted: Fit, inter_token: Sequence[Point], first_token: Sequence[Point]) -> list[str]:
    """Why the constants may not be trusted, each in one line with what to do; empty for a good fit."""
    found = []
    for what, error_ratio, points, cause in (
        (
            "the time between tokens",
            fitted.inter_token_error_ratio,
            inter_token,
            "other traffic on the server or its machine, or a preset with fewer seats than the 32 requests that run",
        ),
        (
            "the time to first token",
            fitted.first_token_error_ratio,
            first_token,
            "other traffic, a prefix cache that holds the prompts, or prompts too long for a straight line",
        ),
    ):
        if error_ratio > POOR_RATIO:
            found.append(
                f"poor fit of {what}: mean error {error_ratio:.0%}, more than {POOR_RATIO:.0%}; likely causes: "
                f"{cause}; measure again without them and longer (--within 120), and rely on no simulation until then"
            )
        elif len({point.at for point in points}) < _MIN_POINTS:
            found.append(
                f"the fit of {what} cannot be judged: a line through two points has no error; measure longer "
                "(--within 120)"
            )
    return found


def fit(inter_token: Sequence[Point], first_token: Sequence[Point]) -> Fit:
    """The constants from both series. Raises CalibrationError where a series has not two different points."""
    base_s, seat_s = line(inter_token, "inter-token times at two or more concurrencies")
    probation_s, prefill_s = line(first_token, "first-token times of prompts of two or more lengths")
    return Fit(
        base_s,
        seat_s,
        prefill_s,
        probation_s - base_s,
        _error_ratio(inter_token, base_s, seat_s),
        _error_ratio(first_token, probation_s, prefill_s),
    )


def line(points: Sequence[Point], needed: str) -> tuple[float, float]:
    """Intercept and slope of the line of least relative squares; neither is below 0. Raises CalibrationError."""
    if len({point.at for point in points}) < 2:
        raise CalibrationError(f"not enough was measured: {needed} are needed")
    weights = [1 / max(point.seconds, 1e-6) ** 2 for point in points]
    total = sum(weights)
    mean_at = sum(weight * point.at for weight, point in zip(weights, points, strict=True)) / total
    mean_s = sum(weight * point.seconds for weight, point in zip(weights, points, strict=True)) / total
    spread = sum(weight * (point.at - mean_at) ** 2 for weight, point in zip(weights, points, strict=True))
    common = sum(
        weight * (point.at - mean_at) * (point.seconds - mean_s) for weight, point in zip(weights, points, strict=True)
    )
    slope = min(max(common / spread, 0.0), mean_s / mean_at)
    return mean_s - slope * mean_at, slope


def _error_ratio(points: Sequence[Point], intercept_s: float, slope_s: float) -> float:
    wrong = [abs(point.seconds - intercept_s - slope_s * point.at) / max(point.seconds, 1e-9) for point in points]
    return sum(wrong) / len(wrong)


def _rounded(seconds: float) -> str:
    """Milliseconds to three significant digits."""
    return f"{seconds * 1000:.3g}"
