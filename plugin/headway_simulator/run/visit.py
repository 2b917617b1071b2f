"""The client's own log of one request, kept apart from the desk's ledger: the two must agree."""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies import Outcome, Reason
from headway_simulator.engine_model.engine import Sequence
from headway_simulator.traffic.workload import Request


@dataclass(slots=True, eq=False)
class Visit:
    """An attempt of a request: when each stage was reached (None: never), and its one end.

    ``class_name`` is the class that served it. A client that was refused may retry: ``attempt`` counts from 0.
    """

    id: int
    request: Request
    attempt: int
    class_name: str
    arrived_s: float
    dispatched_s: float | None = None
    first_s: float | None = None
    ended_s: float | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    made_tokens: int = 0
    most_tokens: int | None = None
    batch: int = 0
    sequence: Sequence | None = None

    @property
    def ttft_s(self) -> float | None:
        """The time from the arrival to the first token."""
        return None if self.first_s is None else self.first_s - self.arrived_s

    @property
    def wait_s(self) -> float | None:
        """The time from the arrival to the dispatch."""
        return None if self.dispatched_s is None else self.dispatched_s - self.arrived_s

    @property
    def inter_token_s(self) -> float | None:
        """The mean time between two of its tokens; None where there were not two, or it did not complete."""
        if self.outcome is not Outcome.COMPLETED or self.made_tokens < 2:
            return None
        assert self.first_s is not None
        assert self.ended_s is not None
        return (self.ended_s - self.first_s) / (self.made_tokens - 1)

    def within(self, ttft_s: float, inter_token_s: float) -> bool:
        """Whether the visit was served to its end within both objectives."""
        if self.outcome is not Outcome.COMPLETED or self.first_s is None or self.first_s - self.arrived_s > ttft_s:
            return False
        between_s = self.inter_token_s
        return between_s is None or between_s <= inter_token_s
