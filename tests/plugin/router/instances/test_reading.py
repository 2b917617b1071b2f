"""What the router reads of an instance's metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from cost_growth import assert_linear
from hypothesis import given
from hypothesis import strategies as st

from headway.router.instances.dialects import DIALECTS, Dialect
from headway.router.instances.dialects import LLAMA_CPP as LLAMA
from headway.router.instances.dialects import SGLANG as SGLANG_DIALECT
from headway.router.instances.dialects import TGI as TGI_DIALECT
from headway.router.instances.reading import InstanceReading, ServedModel, read, read_info, read_models

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
    assert read(PLAIN) == InstanceReading(
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


SGLANG = """\
sglang:num_running_reqs{model_name="tiny",priority="",tp_rank="0"} 3.0
sglang:num_running_reqs{model_name="tiny",priority="5",tp_rank="0"} 2.0
sglang:num_queue_reqs{model_name="tiny",priority="",tp_rank="0"} 4.0
sglang:token_usage{model_name="tiny",tp_rank="0"} 0.25
sglang:max_total_num_tokens{model_name="tiny",tp_rank="0"} 4096.0
sglang:prompt_tokens_total{is_streaming="true",model_name="tiny"} 20.0
sglang:prompt_tokens_total{is_streaming="false",model_name="tiny"} 10.0
sglang:cached_tokens_total{cache_source="device",model_name="tiny"} 5.0
sglang:generation_tokens_total{is_streaming="true",model_name="tiny"} 100.0
sglang:inter_token_latency_seconds_count{model_name="tiny"} 90.0
sglang:inter_token_latency_seconds_sum{model_name="tiny"} 3.0
"""
TGI = """\
tgi_batch_current_size 3
tgi_queue_size 4
tgi_batch_current_max_tokens 1024
tgi_batch_max_total_tokens 4096
tgi_batch_inference_count{method="decode"} 120
tgi_batch_inference_count{method="prefill"} 13
tgi_request_input_length_sum 25
tgi_request_mean_time_per_token_duration_sum 3
tgi_request_mean_time_per_token_duration_count 90
"""
LLAMA_CPP = """\
llamacpp:prompt_tokens_total 25
llamacpp:prompt_tokens_cached_total 11
llamacpp:tokens_predicted_total 90
llamacpp:tokens_predicted_seconds_total 3
llamacpp:n_decode_total 18
llamacpp:requests_processing 3
llamacpp:requests_deferred 4
"""
RUST = """\
vllm:num_requests_running{model_name="tiny",engine="0"} 3
vllm:num_requests_waiting{model_name="tiny",engine="0"} 4
vllm:kv_cache_usage_perc{model_name="tiny",engine="0"} 0.25
vllm:prompt_tokens_total{model_name="tiny",engine="0"} 30
vllm:prompt_tokens_cached_by_source_total{model_name="tiny",engine="0",source="device"} 5
vllm:generation_tokens_total{model_name="tiny",engine="0"} 103
vllm:inter_token_latency_seconds_sum{model_name="tiny",engine="0"} 3.0
vllm:inter_token_latency_seconds_count{model_name="tiny",engine="0"} 90
# EOF
"""


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        (SGLANG, ()),
        (TGI, ()),
        (LLAMA_CPP, ("KV use", "KV space")),
        (RUST, ("KV space",)),
        ("", tuple(InstanceReading().lacks)),
    ],
)
def test_each_maker_says_the_same_in_its_own_words(text: str, lacks: tuple[str, ...]) -> None:
    """But for what it does not say."""
    found = read(text)
    said = InstanceReading(
        running=3, waiting=4, kv_use=0.25, kv_tokens=4096,
        tokens=133.0, prompt_tokens=25.0, gaps=90.0, gaps_s=3.0,
    )  # fmt: skip
    without = {"KV use": {"kv_use": 0.0}, "KV space": {"kv_tokens": None}}
    for name in lacks:
        said = replace(said, **without.get(name, {}))
    assert found == (said if text else InstanceReading())
    assert found.lacks == lacks


def test_a_headway_instance_says_its_live_limit_and_its_queue() -> None:
    """The ceiling is not what it has, nor what its limit may come to."""
    assert read(PLAIN + HEADWAY) == replace(read(PLAIN), limit=24, reach=40, waiting=9)


def test_a_queue_that_vllm_shows_too_counts_once() -> None:
    """The engine's own queue is read under Headway's name."""
    assert read(WITH_QUEUE).waiting == 9


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """A line that is no sample is passed over."""
    found = read(text)
    assert 0.0 <= found.kv_use <= 1.0
    read("vllm:kv_cache_usage_perc " + text)
    read("headway_limit{" + text)


@pytest.mark.parametrize("unit", [PLAIN, "vllm:x{" * 10 + "\n", "vllm:kv_cache_usage_perc{a=" + "9" * 30])
def test_the_cost_is_linear(unit: str) -> None:
    """Also of one long line."""

    def work(size: int) -> Callable[[], object]:
        text = unit * (size // len(unit))
        return lambda: read(text)

    assert_linear(work, 64 * 1024)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"data": [{"id": "a/b", "max_model_len": 8192}, {"id": "lora"}]}', ServedModel("a/b", 8192)),
        ('{"data": [{"id": "other server"}]}', ServedModel("other server")),
        ('{"data": [{"id": "a", "owned_by": "a"}]}', ServedModel("a", dialect=TGI_DIALECT)),
        ('{"data": [{"id": "a", "owned_by": "llamacpp", "meta": {"n_ctx": 9}}]}', ServedModel("a", 9, None, LLAMA)),
        ('{"data": [{"id": "a", "owned_by": "llamacpp", "meta": null}]}', ServedModel("a", dialect=LLAMA)),
        ('{"data": [{"id": "a", "max_model_len": true}]}', ServedModel("a")),
        ('{"data": [{"id": "a", "max_model_len": -1}]}', ServedModel("a")),
        ('{"data": [{"id": "a", "owned_by": ["a"]}]}', ServedModel("a")),
        ('{"data": [{}]}', ServedModel()),
        ('{"data": []}', ServedModel()),
        ("[1]", ServedModel()),
        ("", ServedModel()),
    ],
)
def test_what_an_instance_serves_is_read_from_its_list_of_models(text: str, expected: ServedModel) -> None:
    """The first; what says nothing serves nothing that is known."""
    assert read_models(text) == expected


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        (LLAMA, '{"default_generation_settings": {"n_ctx": 9}, "total_slots": 4}', (9, 4)),
        (TGI_DIALECT, '{"max_concurrent_requests": 4, "max_total_tokens": 9}', (9, 4)),
        (SGLANG_DIALECT, '{"internal_states": [{"effective_max_running_requests_per_dp": 2}, {}, 1]}', (None, 2)),
        (LLAMA, '{"total_slots": true, "default_generation_settings": 1}', (None, None)),
        (LLAMA, '{"total_slots": -1}', (None, None)),
        (LLAMA, "[]", (None, None)),
        (LLAMA, "<html>", (None, None)),
    ],
)
def test_what_a_route_of_its_own_adds(dialect: Dialect, text: str, expected: tuple[int | None, int | None]) -> None:
    """Context and seats, of all ranks together; what is none is none."""
    model = read_info(ServedModel("a", dialect=dialect), text)
    assert (model.context_tokens, model.seats) == expected


def test_the_names_of_the_makers_do_not_overlap() -> None:
    """A metric is of one maker, and so is a server."""
    for dialect in DIALECTS:
        assert not any(dialect.prefix.startswith(other.prefix) for other in DIALECTS if other is not dialect)
    owners = [name for dialect in DIALECTS for name in dialect.owners]
    assert len(owners) == len(set(owners))
