"""The figures of one step of a sweep, and the objectives of the preset that it misses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headway.load.scrape import Counts

#: Below this share of its seats, and with an empty queue, more seats would change nothing.
FILLED_RATIO = 0.7
#: Refusals of so much more of the arrivals than in another step are those of the step, and not of chance.
MORE_REFUSED_RATIO = 0.01


@dataclass(frozen=True, slots=True)
class Objectives:
    """What a preset promises: the time between tokens, and the first token by class. None, or no entry: nothing."""

    inter_token_s: float | None
    ttft_s: Mapping[str, float]

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Objectives:
        """Those of a preset's settings. A limit that no class states counts only where a policy follows it."""
        stated: list[float] = []
        ttft_s: dict[str, float] = {}
        for key, value in settings.items():
            section, _, rest = key.partition(".")
            name, _, term = rest.rpartition(".")
            if section == "classes" and isinstance(value, int | float):
                if term == "inter_token_slo_ms":
                    stated.append(value / 1000)
                elif term == "ttft_slo_s":
                    ttft_s[name] = float(value)
        followed = settings.get("limit.inter_token_slo_ms")
        if settings.get("limit.policy", "fixed") != "fixed" and isinstance(followed, int | float):
            stated.append(followed / 1000)
        return cls(min(stated, default=None), ttft_s)


@dataclass(frozen=True, slots=True)
class Step:
    """One number of seats, measured over ``over_s`` seconds of the server's metrics.

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
    """What was added between two scrapes."""
    added = after.since(before)
    ttft = {name: one.first_tokens.quantile(0.95) for name, one in added.classes.items()}
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
        queued=sum(one.queued for one in after.classes.values()),
        arrived=sum(one.arrived for one in added.classes.values()),
        refused=sum(sum(one.refusals.values()) for one in added.classes.values()),
    )
