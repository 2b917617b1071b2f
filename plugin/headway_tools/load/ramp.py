"""A ramp: the load on one server, raised step by step until its latency has turned.

Each step is an open loop of its own, which ends when each of its requests has ended: no step begins with the queue of
the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway_simulator.studies.knee import knee_of
from headway_tools.load.completions import Completions
from headway_tools.load.measured import Measured
from headway_tools.load.run import Load, Progress, offer, part_of

#: The steps, as multiples of the capacity.
LOADS = (0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5)
#: The latency has turned when it is so many times that of the first step.
TURNED = 10.0


@dataclass(frozen=True, slots=True)
class RampStep:
    """A step at ``load`` times the capacity, and its figures."""

    load: float
    rate_per_s: float
    measured: Measured

    @property
    def tokens_per_s(self) -> float:
        """Output tokens a second."""
        return self.measured.tokens_per_s

    @property
    def first_token_p95_s(self) -> float | None:
        """The 95th percentile of the first token over all classes; None where no request had one."""
        return self.measured.all.ttft.quantile(0.95)


async def ramp(
    server: Completions, full_per_s: float, load_at: Callable[[float], Load], progress: Progress
) -> list[RampStep]:
    """Raise the load in steps of the capacity ``full_per_s`` up to the one with which the latency has turned."""
    steps = list[RampStep]()
    for place, load in enumerate(LOADS):
        rate_per_s = load * full_per_s
        part = part_of(progress, place, len(LOADS))
        measured = await offer(server, load_at(rate_per_s), part, f"{load:g} of the capacity:")
        steps.append(RampStep(load, rate_per_s, measured))
        if turned(steps):
            break
    return steps


def turned(steps: Sequence[RampStep]) -> bool:
    """Whether the last step has the latency that ends a ramp, or none."""
    first_s, last_s = steps[0].first_token_p95_s, steps[-1].first_token_p95_s
    return first_s is None or last_s is None or last_s >= TURNED * first_s


def knee(steps: Sequence[RampStep]) -> RampStep | None:
    """The knee of tokens a second over the latency (``studies/knee``); None where the curve has none."""
    timed = [step for step in steps if step.first_token_p95_s is not None]
    place = knee_of([step.first_token_p95_s or 0.0 for step in timed], [step.tokens_per_s for step in timed])
    return None if place is None else timed[place]
