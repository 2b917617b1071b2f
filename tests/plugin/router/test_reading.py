"""What the router reads of an instance's metrics."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.router.reading import Reading, ServedModel, read, read_models

PLAIN = """\
# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0",model_name="tiny"} 3.0
vllm:num_requests_running{engine="1",model_name="tiny"} 2.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.4
vllm:generation_tokens_total{engine="0",model_name="tiny"} 100.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 20.0
vllm:prompt_tokens_cached_total{engine="0",model_name="tiny"} 5.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.1",model_name="tiny"} 90.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="tiny"} 90.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="tiny"} 2.7
vllm:num_preemptions_total{engine="0",model_name="tiny"} 2.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="100"} 1.0
vllm:cache_config_info{engine="1",block_size="16",num_gpu_blocks="100"} 1.0
vllm:cache_config_info{engine="2",block_size="16",num_gpu_blocks="None"} 1.0
"""
HEADWAY = """\
headway_limit{kind="live"} 24.0
headway_limit{kind="reach"} 40.0
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
    """Its engines are added up; of the KV cache the fullest counts, and what one does not say is nothing."""
    assert read(PLAIN) == Reading(
        running=5,
        waiting=4,
        kv_use=0.5,
        kv_tokens=3_200,
        tokens=120.0,
        prompt_tokens=15.0,
        gaps=90.0,
        gaps_s=2.7,
        preemptions=2.0,
    )


def test_a_headway_instance_says_its_live_limit_and_its_queue() -> None:
    """The ceiling is not what it has, nor what its limit may come to."""
    assert read(PLAIN + HEADWAY) == replace(read(PLAIN), limit=24, reach=40, waiting=9)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"data": [{"id": "a/b", "max_model_len": 8192}, {"id": "lora"}]}', ServedModel("a/b", 8192)),
        ('{"data": [{"id": "other server"}]}', ServedModel("other server")),
        ('{"data": [{"id": "a", "max_model_len": true}]}', ServedModel("a")),
        ('{"data": [{"id": "a", "max_model_len": -1}]}', ServedModel("a")),
        ('{"data": [{}]}', ServedModel()),
        ('{"data": []}', ServedModel()),
        ("[1]", ServedModel()),
        ("", ServedModel()),
    ],
)
def test_what_an_instance_serves_is_read_from_its_list_of_models(text: str, expected: ServedModel) -> None:
    """The first; what says nothing serves nothing that is known."""
    assert read_models(text) == expected
