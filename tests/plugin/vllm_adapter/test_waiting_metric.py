"""vLLM's waiting requests with the queue in them: as the balancers read them, and nothing else changed."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from running_server import Scrape

from headway.vllm_adapter.waiting_metric import BY_REASON, WAITING, WithQueue


def vllms(engines: int, waiting: int) -> CollectorRegistry:
    """The gauges of vLLM with so many engines, in each of which so many wait and as many run."""
    registry, labels = CollectorRegistry(), ["model_name", "engine"]
    gauges = [Gauge(name, "As vLLM says", labels, registry=registry) for name in (WAITING, "vllm:num_requests_running")]
    by_reason = Gauge(BY_REASON, "As vLLM says", [*labels, "reason"], registry=registry)
    for engine in map(str, range(engines)):
        for gauge in gauges:
            gauge.labels("tiny", engine).set(waiting)
        by_reason.labels("tiny", engine, "capacity").set(waiting)
        by_reason.labels("tiny", engine, "deferred").set(0)
    return registry


def values(scrape: Scrape, name: str, **labels: str) -> list[float]:
    """The samples of a name with these labels, in their order."""
    return [
        sample.value for sample in scrape.samples if sample.name == name and labels.items() <= sample.labels.items()
    ]


@pytest.mark.parametrize(
    ("engines", "queued", "shown"),
    [(1, 7, [9.0]), (1, 0, [2.0]), (3, 7, [5.0, 4.0, 4.0]), (2, 1, [3.0, 2.0]), (0, 7, [])],
    ids=["one engine", "an empty queue", "its part for each", "less than one for each", "no engine yet"],
)
def test_each_engine_shows_its_part_of_the_queue(engines: int, queued: int, shown: list[float]) -> None:
    """The engine's own queue is counted, too; by reason it is for want of capacity, so that the sums agree."""
    registry = vllms(engines, 2)
    scrape = Scrape(generate_latest(WithQueue(registry, lambda: queued)).decode())
    assert values(scrape, WAITING) == shown
    assert values(scrape, BY_REASON, reason="capacity") == shown
    assert values(scrape, BY_REASON, reason="deferred") == [0.0] * engines
    assert values(scrape, "vllm:num_requests_running") == [2.0] * engines


def test_everything_else_is_as_it_was() -> None:
    """Without a queue the scrape is the same, byte for byte; and vLLM's own gauges never change."""
    registry = vllms(2, 5)
    before = generate_latest(registry)
    assert generate_latest(WithQueue(registry, lambda: 0)) == before
    generate_latest(WithQueue(registry, lambda: 9))
    assert generate_latest(registry) == before
