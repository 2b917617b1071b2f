"""The server's ``/metrics`` text as the figures that the demo checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """The counts of one class: each arrival is waiting, running, or ended in one outcome."""

    arrived: int = 0
    queued: int = 0
    in_flight: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)

    @property
    def unaccounted(self) -> int:
        """Arrivals in no count (or counted twice, if negative). Zero at every scrape."""
        return self.arrived - self.queued - self.in_flight - sum(self.outcomes.values())

    def since(self, earlier: ClassCounts) -> ClassCounts:
        """What was added since an earlier scrape; queue and flight are those of now."""
        return ClassCounts(
            arrived=self.arrived - earlier.arrived,
            queued=self.queued,
            in_flight=self.in_flight,
            outcomes={name: count - earlier.outcomes.get(name, 0) for name, count in self.outcomes.items()},
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """One scrape: the classes, and the histogram of batch sizes as (sum, count)."""

    classes: Mapping[str, ClassCounts]
    batch_sum: float = 0.0
    batch_steps: float = 0.0

    def since(self, earlier: Counts) -> Counts:
        """What was added since an earlier scrape."""
        nothing = ClassCounts()
        return Counts(
            {name: one.since(earlier.classes.get(name, nothing)) for name, one in self.classes.items()},
            self.batch_sum - earlier.batch_sum,
            self.batch_steps - earlier.batch_steps,
        )

    @property
    def mean_batch(self) -> float | None:
        """Mean number of sequences in an engine step; None if there was no step."""
        return self.batch_sum / self.batch_steps if self.batch_steps else None


def read(text: str) -> Counts:
    """Read a Prometheus text exposition. Metrics that are missing count as zero."""
    plain: dict[str, dict[str, int]] = {}
    outcomes: dict[str, dict[str, int]] = {}
    batch = {"headway_batch_size_sum": 0.0, "headway_batch_size_count": 0.0}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name, labels, value = sample.name, sample.labels, sample.value
            if name in batch:
                batch[name] += value
            elif name == "headway_outcomes_total":
                outcomes.setdefault(labels["class"], {})[labels["outcome"]] = int(value)
            elif name in _PLAIN:
                plain.setdefault(labels["class"], {})[_PLAIN[name]] = int(value)
    classes = {name: ClassCounts(**counts, outcomes=outcomes.get(name, {})) for name, counts in plain.items()}
    return Counts(classes, *batch.values())


_PLAIN = {
    "headway_arrivals_total": "arrived",
    "headway_queue_depth": "queued",
    "headway_in_flight": "in_flight",
}
