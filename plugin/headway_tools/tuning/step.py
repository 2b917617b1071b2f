"""The figures of one step of a sweep, and the objectives of the preset that it misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.api import Status
from headway_policies.request import relative
from headway_tools.load.scrape import Counts

#: Below this share of its seats, and with an empty queue, more seats would change nothing.
FILLED_RATIO = 0.7
#: Refusals of so much more of the arrivals than in another step are those of the step, and not of chance.
MORE_REFUSED_RATIO = 0.01
#: Limits that keep no time between tokens.
_KEEPING_NONE = ("fixed", "knee")


@dataclass(frozen=True, slots=True)
class Objectives:
    """The objectives of a preset: the time between tokens, and the first token by class. None, or no entry: nothing."""

    inter_token_s: float | None
    ttft_s: Mapping[str, float]

    @classmethod
    def of(cls, settings: Mapping[str, object], status: Status | None = None) -> Objectives:
        """The objectives in a preset's settings, on the engine of this status: without one only those that are numbers.

        A limit that no class states counts only where a policy follows it.
        """
        now = {} if status is None else {state.name: state.objectives for state in status.classes if state.objectives}
        stated = list[float | None]()
        ttft_s: dict[str, float] = {}
        for key, value in settings.items():
            section, _, rest = key.partition(".")
            name, _, term = rest.rpartition(".")
            found = now.get(name)
            if section == "classes" and term == "inter_token_slo_ms":
                stated.append(found.inter_token_s if isinstance(value, str) and found else _number(value, 0.001))
            elif section == "classes" and term == "ttft_slo_s":
                first_s = found.ttft_s if isinstance(value, str) and found else _number(value, 1.0)
                ttft_s |= {} if first_s is None else {name: first_s}
        if settings.get("limit.policy", "fixed") not in _KEEPING_NONE:
            stated.append(_followed_s(settings.get("limit.inter_token_slo_ms"), status))
        return cls(min((slo_s for slo_s in stated if slo_s is not None), default=None), ttft_s)


def _followed_s(stated: object, status: Status | None) -> float | None:
    """The objective that the limit follows, in seconds; None where it is relative to an engine that is not known."""
    if not isinstance(stated, str):
        return _number(stated, 0.001)
    alone = None if status is None else status.engine.unloaded
    return None if alone is None else relative(stated).of(1000 * alone.token_s) / 1000


def _number(value: object, unit_s: float) -> float | None:
    return float(value) * unit_s if isinstance(value, int | float) else None


@dataclass(frozen=True, slots=True)
class Step:
    """A number of seats, measured over ``over_s`` seconds of the server's metrics.

    The percentiles come from its histograms, interpolated inside a bucket. ``mean_batch`` is the mean number of
    sequences in an engine step, ``queued`` what waited at the end, ``refused`` what was refused of the ``arrived``
    meanwhile. None where nothing was observed.
    """

    seats: int
    window_ms: float | None
    over_s: float
    tokens_per_s: float
    inter_token_mean_s: float | None
    inter_token_p50_s: float | None
    inter_token_p95_s: float | None
    ttft_p95_s: Mapping[str, float]
    mean_batch: float | None
    queued: int
    arrived: int
    refused: int

    @property
    def refused_ratio(self) -> float:
        """The share of the arrivals that were refused: waits that are cut to an objective become refusals."""
        return min(self.refused / self.arrived, 1.0) if self.arrived else 0.0

    def refuses_more(self, than: Step) -> bool:
        """Whether a larger share of the arrivals was refused than in another step."""
        return self.refused_ratio > than.refused_ratio + MORE_REFUSED_RATIO

    @property
    def filled(self) -> bool:
        """Whether the load took the seats."""
        return self.queued > 0 or (self.mean_batch or 0.0) >= FILLED_RATIO * self.seats

    def missed(self, objectives: Objectives) -> dict[str, float]:
        """The objectives that it misses, with the figure as a multiple of each."""
        found: dict[str, float] = {}
        if objectives.inter_token_s is not None and self.inter_token_p95_s is not None:
            found["time between tokens"] = self.inter_token_p95_s / objectives.inter_token_s
        for name, ttft_s in objectives.ttft_s.items():
            if name in self.ttft_p95_s:
                found[f"first token of {name}"] = self.ttft_p95_s[name] / ttft_s
        return {name: ratio for name, ratio in found.items() if ratio > 1}


def step_of(before: Counts, after: Counts, over_s: float, seats: int, window_ms: float | None) -> Step:
    """The step between two scrapes."""
    added = after.since(before)
    ttft = {name: figures.first_tokens.quantile(0.95) for name, figures in added.classes.items()}
    return Step(
        seats=seats,
        window_ms=window_ms,
        over_s=over_s,
        tokens_per_s=added.tokens / over_s,
        inter_token_mean_s=added.mean_inter_token_s,
        inter_token_p50_s=added.inter_tokens.quantile(0.5),
        inter_token_p95_s=added.inter_tokens.quantile(0.95),
        ttft_p95_s={name: value_s for name, value_s in ttft.items() if value_s is not None},
        mean_batch=added.mean_batch,
        queued=sum(figures.queued for figures in after.classes.values()),
        arrived=sum(figures.arrived for figures in added.classes.values()),
        refused=sum(sum(figures.refusals.values()) for figures in added.classes.values()),
    )
