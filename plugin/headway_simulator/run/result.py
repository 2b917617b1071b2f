"""The raw record of a run: every visit, the desk's ledger, the engine's steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from headway_policies import Ledger
from headway_simulator.engine_model.engine import EngineModel, Steps
from headway_simulator.run.visit import Visit

_MAX_MOMENTS = 600


class Moment(NamedTuple):
    """The state at one instant, for charts; ``tokens`` is what had been generated until then."""

    at_s: float
    waiting: int
    running: int
    limit: int
    kv_usage_ratio: float
    tokens: int = 0


@dataclass(slots=True)
class Result:
    """The record of one run. ``batches`` has, for each number of decoding sequences, (steps, seconds). Of
    ``prefix_queried_tokens`` of prompts the engine found ``prefix_hit_tokens`` in its prefix cache.

    ``policy_failures`` names the custom policies that raised an error, with the error: an order is replaced by a
    built-in one for good, a limit by the preset's number until it proposes again. Empty when none failed.
    ``recalls`` counts the requests that made room for a more urgent one.
    """

    model: EngineModel
    visits: list[Visit]
    ledger: Ledger
    ended_s: float = 0.0
    steps: int = 0
    busy_s: float = 0.0
    running_steps: int = 0
    prefill_tokens: int = 0
    made_tokens: int = 0
    preemptions: int = 0
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0
    batches: dict[int, tuple[int, float]] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)
    policy_failures: str = ""
    recalls: int = 0
    next_moment_s: float = 0.0
    _gap_s: float = 0.05

    def note(self, moment: Moment) -> None:
        """Keep a point for the charts; when there are too many, every second one goes and the gap doubles."""
        self.moments.append(moment)
        if len(self.moments) > _MAX_MOMENTS:
            del self.moments[::2]
            self._gap_s *= 2
        self.next_moment_s = moment.at_s + self._gap_s

    def tokens_per_s(self, from_s: float, until_s: float) -> float:
        """The tokens generated a second between two times, as exactly as the moments lie."""
        inside = [moment for moment in self.moments if from_s <= moment.at_s <= until_s]
        if len(inside) < 2:
            return 0.0
        first, last = inside[0], inside[-1]
        return (last.tokens - first.tokens) / (last.at_s - first.at_s)

    def count(self, steps: Steps) -> None:
        """Book a stretch of steps."""
        seconds = steps.count * steps.step_s
        self.steps += steps.count
        self.busy_s += seconds
        self.running_steps += steps.count * steps.running
        self.prefill_tokens += steps.prefill_tokens
        self.made_tokens += steps.count * steps.decoding + len(steps.first)
        self.preemptions += steps.preemptions
        self.prefix_queried_tokens += steps.prefix_queried_tokens
        self.prefix_hit_tokens += steps.prefix_hit_tokens
        count, total_s = self.batches.get(steps.decoding, (0, 0.0))
        self.batches[steps.decoding] = (count + steps.count, total_s + seconds)

    @property
    def mean_batch(self) -> float:
        """The mean number of running sequences in a step."""
        return self.running_steps / self.steps if self.steps else 0.0

    @property
    def utilisation_ratio(self) -> float:
        """The share of the time in which the engine was at work."""
        return self.busy_s / self.ended_s if self.ended_s else 0.0
