"""The server's ``/metrics`` text as counts, and the growth between two scrapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from headway_tools.load.histogram import Histogram


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """The counts of one class: each arrival is waiting, running, or ended in one outcome; and its objectives."""

    arrived: int = 0
    queued: int = 0
    in_flight: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, int] = field(default_factory=dict)
    waits: Histogram = field(default_factory=Histogram)
    first_tokens: Histogram = field(default_factory=Histogram)
    objectives_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        """Arrivals in no count (or counted twice, if negative). Zero at every scrape."""
        return self.arrived - self.queued - self.in_flight - sum(self.outcomes.values())

    def since(self, earlier: ClassCounts) -> ClassCounts:
        """The counts since an earlier scrape, with the present queue and requests in flight."""
        return ClassCounts(
            arrived=self.arrived - earlier.arrived,
            queued=self.queued,
            in_flight=self.in_flight,
            outcomes={name: count - earlier.outcomes.get(name, 0) for name, count in self.outcomes.items()},
            refusals={name: count - earlier.refusals.get(name, 0) for name, count in self.refusals.items()},
            waits=self.waits.since(earlier.waits),
            first_tokens=self.first_tokens.since(earlier.first_tokens),
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a scrape: the classes, batch sizes as (sum, count), and the ladder's moves by rung.

    ``tokens`` and the times between them are vLLM's own, over all its engines.
    """

    classes: Mapping[str, ClassCounts]
    batch_sum: float = 0.0
    batch_steps: float = 0.0
    rungs: Mapping[str, int] = field(default_factory=dict)
    tokens: float = 0.0
    inter_tokens: Histogram = field(default_factory=Histogram)
    inter_token_sum_s: float = 0.0

    def since(self, earlier: Counts) -> Counts:
        """The counts since an earlier scrape."""
        nothing = ClassCounts()
        return Counts(
            {name: figures.since(earlier.classes.get(name, nothing)) for name, figures in self.classes.items()},
            self.batch_sum - earlier.batch_sum,
            self.batch_steps - earlier.batch_steps,
            {rung: moves - earlier.rungs.get(rung, 0) for rung, moves in self.rungs.items()},
            self.tokens - earlier.tokens,
            self.inter_tokens.since(earlier.inter_tokens),
            self.inter_token_sum_s - earlier.inter_token_sum_s,
        )

    @property
    def open(self) -> int:
        """Requests that wait or run."""
        return sum(figures.queued + figures.in_flight for figures in self.classes.values())

    @property
    def mean_batch(self) -> float | None:
        """Mean number of sequences in an engine step; None if there was no step."""
        return self.batch_sum / self.batch_steps if self.batch_steps else None

    @property
    def mean_inter_token_s(self) -> float | None:
        """Mean time between two tokens of a sequence; None where there were none."""
        gaps = self.inter_tokens.count
        return self.inter_token_sum_s / gaps if gaps else None


def read(text: str) -> Counts:
    """Read a Prometheus text exposition. Metrics that are missing count as zero."""
    plain: _Nested = {}
    counters: dict[str, _Nested] = {name: {} for name in _LABELS}
    buckets: dict[str, _Nested] = {name: {} for name in _HISTOGRAMS}
    sums = dict.fromkeys((_BATCH_SUM, _BATCH_STEPS, _TOKENS, f"{_INTER_TOKENS}_sum"), 0.0)
    inter_tokens: dict[str, int] = {}
    rungs: dict[str, int] = {}
    objectives: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name, labels, value = sample.name, sample.labels, sample.value
            if name in sums:
                sums[name] += value
            elif name == f"{_INTER_TOKENS}_bucket":
                inter_tokens[labels["le"]] = inter_tokens.get(labels["le"], 0) + int(value)
            elif name in _PLAIN:
                plain.setdefault(labels["class"], {})[name] = int(value)
            elif name in counters:
                counters[name].setdefault(labels["class"], {})[labels[_LABELS[name]]] = int(value)
            elif name in buckets:
                buckets[name].setdefault(labels["class"], {})[labels["le"]] = int(value)
            elif name == "headway_objective_seconds":
                objectives.setdefault(labels["class"], {})[labels["objective"]] = value
            elif name == "headway_fallback_steps_total":
                rungs[labels["rung"]] = rungs.get(labels["rung"], 0) + int(value)
    classes = {
        name: ClassCounts(
            arrived=counts.get(_ARRIVALS, 0),
            queued=counts.get(_QUEUED, 0),
            in_flight=counts.get(_IN_FLIGHT, 0),
            outcomes=counters[_OUTCOMES].get(name, {}),
            refusals=counters[_REFUSALS].get(name, {}),
            waits=Histogram(buckets[_WAITS].get(name, {})),
            first_tokens=Histogram(buckets[_FIRST_TOKENS].get(name, {})),
            objectives_s=objectives.get(name, {}),
        )
        for name, counts in plain.items()
    }
    return Counts(
        classes,
        sums[_BATCH_SUM],
        sums[_BATCH_STEPS],
        rungs,
        sums[_TOKENS],
        Histogram(inter_tokens),
        sums[f"{_INTER_TOKENS}_sum"],
    )


_Nested = dict[str, dict[str, int]]

_ARRIVALS, _QUEUED, _IN_FLIGHT = "headway_arrivals_total", "headway_queue_depth", "headway_in_flight"
_OUTCOMES, _REFUSALS = "headway_outcomes_total", "headway_refusals_total"
_WAITS, _FIRST_TOKENS = "headway_queue_wait_seconds_bucket", "headway_time_to_first_token_seconds_bucket"
_BATCH_SUM, _BATCH_STEPS = "headway_batch_size_sum", "headway_batch_size_count"
_TOKENS, _INTER_TOKENS = "vllm:generation_tokens_total", "vllm:inter_token_latency_seconds"
_PLAIN = (_ARRIVALS, _QUEUED, _IN_FLIGHT)
_LABELS = {_OUTCOMES: "outcome", _REFUSALS: "reason"}
_HISTOGRAMS = (_WAITS, _FIRST_TOKENS)
