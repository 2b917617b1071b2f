"""The timeline that explains the strategies: seven sequences on four seats, drawn from a run.

All seven wait at time 0, a step lasts one unit, and the lengths are such that seats refilled at once leave no gap.
``static`` starts a batch of exactly four, so the last three wait until ``FLUSH_STEPS`` for a fourth that does not come;
``dynamic`` sends them off as soon as the first batch has ended; ``continuous`` refills each seat at the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.run.shell import simulate
from headway_simulator.run.visit import Visit
from headway_simulator.studies.strategies import Strategy, plain
from headway_simulator.traffic.workload import Request

SEATS = 4
#: Output lengths of S1 to S7, in steps.
LENGTHS = (4, 8, 3, 6, 5, 4, 2)
STRATEGIES: tuple[Strategy, ...] = ("static", "dynamic", "continuous")
FLUSH_STEPS = 10
_MODEL = EngineModel(base_s=1.0, seat_s=0.0, prefill_s=0.0)


@dataclass(frozen=True, slots=True)
class Bar:
    """A sequence in a seat (counted from 1), from the beginning of a step to the end of one."""

    sequence: str
    seat: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The course of the seven requests under one strategy."""

    strategy: str
    bars: Sequence[Bar]

    @property
    def steps(self) -> int:
        """The number of steps until the last sequence has ended."""
        return max(bar.end for bar in self.bars)

    @property
    def idle_ratio(self) -> float:
        """The share of seat time in which a seat is empty, until the last one has ended."""
        return 1 - sum(bar.end - bar.begin for bar in self.bars) / (SEATS * self.steps)

    @property
    def words(self) -> str:
        """The strategy with its figures."""
        return f"{self.strategy}: {self.steps} steps, seats empty {self.idle_ratio:.0%} of the time"


def timelines() -> list[Timeline]:
    """The three strategies, one after the other."""
    return [Timeline(strategy, _bars(strategy)) for strategy in STRATEGIES]


def _bars(strategy: Strategy) -> list[Bar]:
    requests = [Request(0.0, "normal", 1, length, length) for length in LENGTHS]
    preset = plain(strategy, SEATS, window_ms=1000.0, flush_after_s=float(FLUSH_STEPS))
    return _seated(simulate(requests, preset, _MODEL).visits)


def _seated(visits: Sequence[Visit]) -> list[Bar]:
    """Each sequence takes the first seat that is free."""
    free_at_s = [0.0] * SEATS
    bars = []
    for visit in sorted(visits, key=lambda visit: (visit.dispatched_s, visit.id)):
        assert visit.dispatched_s is not None
        assert visit.ended_s is not None
        seat = next(place for place, free_s in enumerate(free_at_s) if free_s <= visit.dispatched_s)
        free_at_s[seat] = visit.ended_s
        bars.append(Bar(f"S{visit.id + 1}", seat + 1, round(visit.dispatched_s), round(visit.ended_s)))
    return bars
