"""An engine model played to its end, step by step."""

from __future__ import annotations

import math

from headway_simulator.engine_model.engine import Engine, Sequence, Steps


def played(engine: Engine, arrivals: list[tuple[float, Sequence]], most_steps: int = 1) -> list[tuple[float, Steps]]:
    """Everything the engine reports until it is idle, with the time of each report."""
    left, reports = list(arrivals), []
    while left or engine.ends_s < math.inf:
        next_s = left[0][0] if left else math.inf
        if engine.ends_s <= next_s:
            steps = engine.finish(next_s, most_steps)
            now_s = engine.ends_s
            reports.append((now_s, steps))
            engine.begin(now_s)
            continue
        while left and left[0][0] == next_s:
            engine.submit(left.pop(0)[1])
        if engine.ends_s == math.inf:
            engine.begin(next_s)
    return reports


def ends(reports: list[tuple[float, Steps]]) -> dict[int, float]:
    """When each sequence ended."""
    return {one.id: now_s for now_s, steps in reports for one in steps.ended}
