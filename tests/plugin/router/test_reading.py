"""What the router reads of an instance's metrics."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from headway.router.reading import Reading, read

PLAIN = """\
# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_running{engine="1",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.4
vllm:generation_tokens_total{engine="0",model_name="tiny"} 100.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 20.0
"""
HEADWAY = """\
headway_limit{kind="live"} 24.0
headway_limit{kind="ceiling"} 64.0
headway_queue_depth{class="normal"} 5.0
"""
#: As with HEADWAY_VLLM_WAITING=1.
WITH_QUEUE = """\
headway_limit{kind="live"} 24.0
headway_queue_depth{class="normal"} 5.0
headway_engine_waiting 4.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 9.0
"""


def test_plain_vllm_says_no_seats() -> None:
    """Its engines are added up; of the KV cache the fullest counts."""
    assert read(PLAIN) == Reading(seats=None, running=5, waiting=4, kv_use=0.5, tokens=120.0)


def test_a_headway_instance_says_its_live_limit_and_its_queue() -> None:
    """The ceiling is not what it has."""
    assert read(PLAIN + HEADWAY) == Reading(seats=24, running=5, waiting=9, kv_use=0.5, tokens=120.0)


def test_a_queue_that_vllm_shows_too_counts_once() -> None:
    """What the engine itself has is read under Headway's name."""
    assert read(WITH_QUEUE).waiting == 9


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """What is no sample is passed over."""
    found = read(text)
    assert 0.0 <= found.kv_use <= 1.0
    read("vllm:kv_cache_usage_perc " + text)
    read("headway_limit{" + text)


def test_the_cost_is_linear() -> None:
    """Ten times the text costs about ten times as much, also of one long line."""

    def cost_s(text: str) -> float:
        began_s = time.process_time()
        for _ in range(5):
            read(text)
        return time.process_time() - began_s

    for unit in (PLAIN, "vllm:x{" * 10 + "\n", "vllm:kv_cache_usage_perc{a=" + "9" * 30):
        small, large = unit * 2_000, unit * 20_000
        cost_s(small)
        assert cost_s(large) <= 40 * max(cost_s(small), 1e-3)
