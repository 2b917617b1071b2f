"""The sweep over seats: throughput against the time between tokens, and the knee of that curve.

Reading the weights costs a step the same for one sequence as for many, so throughput first grows almost with the seats
and the time between tokens hardly at all; beyond the knee it is the other way round. Each point is a closed batch under
``continuous``. The preset that it proposes has the most seats whose 95th percentile of inter-token time keeps the
objective, on whichever side of the knee they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.report.summary import summarise
from headway_simulator.run.shell import simulate
from headway_simulator.studies.knee import knee_of
from headway_simulator.studies.strategies import plain
from headway_simulator.traffic.workload import Workload

SEATS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)
_REQUESTS_A_SEAT = 12


@dataclass(frozen=True, slots=True)
class Point:
    """A number of seats: output tokens a second, as a multiple of one seat, and the time between tokens."""

    seats: int
    tokens_per_s: float
    speedup: float
    inter_token_p50_s: float
    inter_token_p95_s: float

    def added_ms(self, alone: Point) -> float:
        """The time by which a token takes longer than with one seat."""
        return (self.inter_token_p50_s - alone.inter_token_p50_s) * 1000


def sweep(workload: Workload, model: EngineModel, slo: Slo, seed: int, seats: Iterable[int] = SEATS) -> list[Point]:
    """The points of all numbers of seats that the engine has."""
    points: list[Point] = []
    for number in (count for count in seats if count <= model.max_num_seqs):
        closed = replace(workload, closed=_REQUESTS_A_SEAT * number)
        requests = closed.requests(0.0, seed, model=model, slo=slo)
        summary = summarise("", simulate(requests, plain("continuous", number), model), slo)
        between = summary.all.inter_token
        alone_per_s = points[0].tokens_per_s if points else summary.tokens_per_s
        points.append(
            Point(
                number,
                summary.tokens_per_s,
                summary.tokens_per_s / alone_per_s if alone_per_s else 0.0,
                between.p50_s or 0.0,
                between.p95_s or 0.0,
            )
        )
    return points


def knee(points: Sequence[Point]) -> Point | None:
    """The knee of throughput over the time between tokens (``studies/knee``); None where the curve has none."""
    place = knee_of([point.inter_token_p95_s for point in points], [point.tokens_per_s for point in points])
    return None if place is None else points[place]


def most_within(points: Sequence[Point], slo: Slo) -> Point | None:
    """The largest number of seats that keeps the objective; None if no number does."""
    kept = (point for point in points if point.tokens_per_s and point.inter_token_p95_s <= slo.inter_token_s)
    return max(kept, key=_seats, default=None)


def _seats(point: Point) -> int:
    return point.seats
