"""The straight line through measurements, by least squares of relative errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: seconds at a number of sequences, or of prompt tokens."""

    at: float
    seconds: float


def line(points: Sequence[Point], needed: str) -> tuple[float, float]:
    """Intercept and slope, neither below 0. Raises ValueError without two different points."""
    if len({point.at for point in points}) < 2:
        raise ValueError(f"not enough was measured: {needed} are needed")
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
