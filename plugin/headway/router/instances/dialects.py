"""The dialects of servers: where each maker's server states its figures, and under which names.

The table is all that this server knows of makers: a further maker is a further entry. A field that is empty is not
stated by that server, and ``headway status`` names it. Of several names the first that exists counts; those of ``work``
are added up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """``prefix`` begins the names of its metrics. ``owners`` are the ``owned_by`` of a model, ``{id}`` its own name.

    Gauges: requests that are ``running`` and ``waiting``, ``kv_use`` as a share or ``kv_used`` in tokens, ``kv_tokens``
    the space of the KV cache. Counters: ``work`` grows while the engine computes; ``prompts`` are the tokens of
    prompts, ``cached`` those of them that were in a cache; ``gaps`` between two tokens of a sequence took ``gaps_s`` in
    all; ``preemptions``.

    ``context``, the longest sequence in tokens, and ``seats``, the most sequences at once, are places in the entry of
    the model in ``/v1/models`` or in the answer of ``info``, a route that says more; in a list all are added up.
    ``health_takes_s``: its health route may take this much longer than others.
    """

    maker: str
    prefix: str
    owners: Names
    running: Names = ()
    waiting: Names = ()
    kv_use: Names = ()
    kv_used: Names = ()
    kv_tokens: Names = ()
    work: Names = ()
    prompts: Names = ()
    cached: Names = ()
    gaps: Names = ()
    gaps_s: Names = ()
    preemptions: Names = ()
    info: Names = ()
    context: Names = ()
    seats: Names = ()
    health_takes_s: float = 0.0


VLLM: Final = Dialect(
    maker="vLLM",
    prefix="vllm:",
    owners=("vllm", "vllm-frontend-rs"),  # the front ends in Python and in Rust
    running=("vllm:num_requests_running",),
    waiting=("headway_engine_waiting", "vllm:num_requests_waiting"),  # the second may have Headway's queue in it, too
    kv_use=("vllm:kv_cache_usage_perc", "headway_engine_kv_cache_usage_ratio"),
    work=("vllm:generation_tokens_total", "vllm:prompt_tokens_total"),
    prompts=("vllm:prompt_tokens_total",),
    cached=("vllm:prompt_tokens_cached_total", "vllm:prompt_tokens_cached_by_source_total"),
    gaps=("vllm:inter_token_latency_seconds_count",),
    gaps_s=("vllm:inter_token_latency_seconds_sum",),
    preemptions=("vllm:num_preemptions_total",),
    context=("max_model_len",),
)
SGLANG: Final = Dialect(
    maker="SGLang",
    prefix="sglang:",
    owners=("sglang",),
    running=("sglang:num_running_reqs",),
    waiting=("sglang:num_queue_reqs",),
    kv_use=("sglang:token_usage",),
    kv_tokens=("sglang:max_total_num_tokens",),
    work=("sglang:inter_token_latency_seconds_sum", "sglang:generation_tokens_total", "sglang:prompt_tokens_total"),
    prompts=("sglang:prompt_tokens_total",),
    cached=("sglang:cached_tokens_total",),
    gaps=("sglang:inter_token_latency_seconds_count",),
    gaps_s=("sglang:inter_token_latency_seconds_sum",),
    info=("/server_info", "/get_server_info"),  # the second in old versions
    context=("max_model_len",),
    seats=("internal_states.effective_max_running_requests_per_dp",),
    health_takes_s=20.0,  # the route computes a token, looks for it once a second, and gives up after 20
)
TGI: Final = Dialect(
    maker="TGI",
    prefix="tgi_",
    owners=("{id}",),
    running=("tgi_batch_current_size",),
    waiting=("tgi_queue_size",),
    kv_used=("tgi_batch_current_max_tokens",),
    kv_tokens=("tgi_batch_max_total_tokens",),
    work=("tgi_batch_inference_count",),
    prompts=("tgi_request_input_length_sum",),
    gaps=("tgi_request_mean_time_per_token_duration_count",),
    gaps_s=("tgi_request_mean_time_per_token_duration_sum",),
    info=("/info",),
    context=("max_total_tokens",),
    seats=("max_concurrent_requests",),
)
LLAMA_CPP: Final = Dialect(
    maker="llama.cpp",
    prefix="llamacpp:",
    owners=("llamacpp",),
    running=("llamacpp:requests_processing",),
    waiting=("llamacpp:requests_deferred",),
    work=("llamacpp:n_decode_total", "llamacpp:tokens_predicted_total", "llamacpp:prompt_tokens_total"),
    prompts=("llamacpp:prompt_tokens_total",),
    gaps=("llamacpp:tokens_predicted_total",),
    gaps_s=("llamacpp:tokens_predicted_seconds_total",),
    info=("/props",),
    context=("meta.n_ctx", "default_generation_settings.n_ctx"),
    seats=("total_slots",),
)
#: The first one is meant where a server does not show its maker.
DIALECTS: Final = (VLLM, SGLANG, TGI, LLAMA_CPP)


def dialect_of(owner: object, model: str) -> Dialect | None:
    """The dialect of a server that names this owner of this model; None for an unknown one."""
    return next((known for known in DIALECTS if owner in [name.replace("{id}", model) for name in known.owners]), None)
