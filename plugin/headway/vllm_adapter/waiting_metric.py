"""vLLM's count of waiting requests with Headway's queue added, for balancers that read that name.

``vllm:num_requests_waiting`` is near zero behind Headway. llm-d's router and the Gateway API's endpoint picker take the
first sample of that name, the router of vLLM's production stack takes the last, and others add them up. So each engine
of a data-parallel server gets its part of the one queue: the sum is right, and every sample has its part.
``vllm:num_requests_waiting_by_reason`` grows in the same way for want of capacity, since its sum is the other's.

Nothing of vLLM is changed: this is another view of its registry, for one scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from headway.operator.metrics.table import ScrapedCollector

WAITING = "vllm:num_requests_waiting"
BY_REASON = "vllm:num_requests_waiting_by_reason"
_CAPACITY = {"reason": "capacity"}


class WithQueue(ScrapedCollector):
    """A registry whose counts of waiting requests have ``queued`` added to them."""

    def __init__(self, registry: Collector, queued: Callable[[], int]) -> None:
        self._registry = registry
        self._queued = queued

    def collect(self) -> Iterator[Metric]:
        """All families of the registry."""
        for family in self._registry.collect():
            if family.name == WAITING:
                yield _grown(family, self._queued(), {})
            elif family.name == BY_REASON:
                yield _grown(family, self._queued(), _CAPACITY)
            else:
                yield family


def _grown(family: Metric, queued: int, labels: dict[str, str]) -> Metric:
    """A copy of the family, with ``queued`` divided among the samples that have these labels."""
    grown = Metric(family.name, family.documentation, family.type, family.unit)
    number = sum(labels.items() <= sample.labels.items() for sample in family.samples)
    parts = iter(queued // number + (place < queued % number) for place in range(number))
    grown.samples = [
        sample._replace(value=sample.value + next(parts)) if labels.items() <= sample.labels.items() else sample
        for sample in family.samples
    ]
    return grown
