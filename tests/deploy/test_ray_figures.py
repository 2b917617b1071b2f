"""The figures of a server that is played by the test, and what of them is kept while it does not answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest
from headway_fleet.figures import NEED, RATIO, READY, Figures, figures

from headway.operator.metrics import TABLE
from headway.router.forwarding.call import InstanceLostError

GOOD = """headway_ready 1
headway_scale_ratio 0.75
headway_desired_instances 1.25
headway_limit{kind="live"} 8
headway_limit{kind="ceiling"} 64
headway_queue_depth{class="batch"} 2
vllm:num_requests_running{engine="0"} 3
vllm:kv_cache_usage_perc 0.25
vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1
vllm:prompt_tokens_total 100
vllm:generation_tokens_total 20
"""
FIGURES = {
    "ready": 1, "demand": 1.0, "seats": 8, "load": 5, "kv_use": 0.25, "kv_tokens": 1600, "tokens": 120, "stale": 0,
}  # fmt: skip


def answering(*answers: str | Exception) -> Callable[[], Awaitable[str]]:
    """Scrapes with these answers, one after the other."""
    left = iter(answers)

    async def scrape() -> str:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return scrape


def test_the_figures_are_what_a_scrape_says() -> None:
    """A missing figure is 0."""
    assert figures(GOOD) == FIGURES
    assert figures("") == dict.fromkeys(FIGURES, 0)


def test_a_server_asks_for_the_most_of_what_it_has_and_what_it_needs() -> None:
    """Waiting requests count at once; its need counts on four fifths of the seats, and a fleet on a part of its own."""
    for ratio, need, demand in ((3.0, 1.0, 3.0), (0.5, 2.0, 1.6), (0.0, 0.0, 0.0)):
        assert figures(f"headway_scale_ratio {ratio}\nheadway_desired_instances {need}\n")["demand"] == demand


def test_every_name_that_is_read_is_a_metric() -> None:
    """The reading would not notice a metric that has been renamed."""
    assert {READY, RATIO, NEED} <= set(TABLE)


@pytest.mark.parametrize(
    "error",
    [TimeoutError(), InstanceLostError("one", sent=True), FileNotFoundError("the token"), ValueError("401")],
    ids=lambda error: type(error).__name__,
)
async def test_a_scrape_that_fails_keeps_what_was_known_and_is_stale(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Such a server is not ready, its counts stand still, and the log says so once."""
    server = Figures(answering(GOOD, error, error, GOOD))
    assert await server.read() == FIGURES
    with caplog.at_level(logging.WARNING, logger="ray.serve"):
        for _ in range(2):
            assert await server.read() == server.known == FIGURES | {"ready": 0, "stale": 1}
    assert [type(error).__name__ in record.getMessage() for record in caplog.records] == [True]
    assert await server.read() == FIGURES


async def test_a_server_that_has_never_answered_is_stale_and_has_nothing() -> None:
    """Nothing is made up for it."""
    assert await Figures(answering(TimeoutError())).read() == figures("") | {"stale": 1}
