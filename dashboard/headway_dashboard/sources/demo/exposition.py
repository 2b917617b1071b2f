"""The metrics of the demo's server, as a scrape has them: every name that a page asks for, with its labels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from headway_dashboard.sources.demo import script
from headway_dashboard.sources.demo.histogram import Histogram
from headway_dashboard.sources.demo.server import CLASSES, SimulatedServer
from headway_dashboard.sources.exposition import SampleKey
from headway_policies import Cause, Decision, EngineState, Hold, Outcome, Reason
from headway_policies.diagnosis import Bottleneck, Severity
from headway_policies.fallback import Degradation, Rung, Trigger
from headway_policies.memory import Cache

MODEL, VERSION, BACKEND = "demo-model", "demo", "cuda"
WARMUP_S: Mapping[str, float] = {"single": 0.4, "batch": 1.3}
_GIB = 1024.0**3
_DURATIONS: Mapping[str, str] = {
    "wait": "headway_queue_wait_seconds",
    "first_token": "headway_time_to_first_token_seconds",
    "inter_token": "headway_inter_token_seconds",
    "end_to_end": "headway_end_to_end_seconds",
    "prefill": "headway_prefill_seconds",
    "decode": "headway_decode_seconds",
}
_ENGINE = {"model_name": MODEL, "engine": "0"}

Sample = tuple[SampleKey, float]


def samples_of(server: SimulatedServer) -> Iterator[Sample]:
    """One scrape."""
    yield from _tickets(server)
    yield from _durations(server)
    yield from _objectives(server)
    yield from _limits(server)
    yield from _engine(server)
    yield from _engine_itself(server)
    yield from _ladder(server)
    yield from _machine(server)
    yield from _not_simulated()


def _sample(name: str, value: float, **labels: str) -> Sample:
    """Keywords end with an underscore where the label is a word of Python."""
    named = {key.rstrip("_"): text for key, text in labels.items()}
    return (name, tuple(sorted(named.items()))), float(value)


def _histogram(name: str, of: Histogram, **labels: str) -> Iterator[Sample]:
    for le, below in of.buckets():
        yield _sample(f"{name}_bucket", below, le=le, **labels)
    yield _sample(f"{name}_sum", of.total, **labels)
    yield _sample(f"{name}_count", of.count, **labels)


def _tickets(server: SimulatedServer) -> Iterator[Sample]:
    yield _sample("headway_route_refusals_total", 0, reason="no_key")
    for name in CLASSES:
        yield _sample("headway_arrivals_total", server.arrived[name], class_=name)
        yield _sample("headway_queue_depth", len(server.queued[name]), class_=name)
        yield _sample("headway_queue_oldest_wait_seconds", server.oldest_s(name), class_=name)
        yield _sample("headway_overloaded", len(server.queued[name]) > server.limit, class_=name)
        yield _sample("headway_held_seats", 0, class_=name)
        yield _sample("headway_in_flight", server.running[name], class_=name)
        yield _sample("headway_retries_total", server.retries[name], class_=name)
        yield _sample("headway_recalls_total", 0, class_=name)
        yield _sample("headway_retry_budget_refusals_total", 0, class_=name)
        yield _sample("headway_truncated_responses_total", 0, class_=name)
        yield _sample("headway_output_tokens_total", server.output_tokens[name], class_=name)
        yield _sample("headway_prompt_tokens_total", server.input_tokens[name], class_=name)
        for decision in Decision:
            number = server.decisions[name, decision]
            yield _sample("headway_admission_decisions_total", number, class_=name, decision=decision)
        for reason in Reason:
            yield _sample("headway_refusals_total", server.refusals[name, reason], class_=name, reason=reason)
        for outcome in Outcome:
            yield _sample("headway_outcomes_total", server.outcomes[name, outcome], class_=name, outcome=outcome)
        for why in ("stop", "length"):
            yield _sample("headway_finish_reasons_total", server.finishes[name, why], class_=name, finish_reason=why)


def _durations(server: SimulatedServer) -> Iterator[Sample]:
    for what, metric in _DURATIONS.items():
        for name in CLASSES:
            seen = server.measured[what, name]
            yield from _histogram(metric, seen, class_=name)
            yield _sample("headway_longest_seconds", seen.take_longest(), class_=name, of=what)
    yield from _histogram("headway_batch_size", server.batch)
    yield from _histogram("headway_gc_pause_seconds", server.pauses_s, generation="0")
    longest_s = server.pauses_s.take_longest()
    yield _sample("headway_gc_longest_pause_seconds", longest_s, generation="0")
    yield from _histogram("headway_loop_lag_seconds", server.pauses_s)  # nothing else holds its loop up
    yield _sample("headway_loop_longest_lag_seconds", longest_s)


def _objectives(server: SimulatedServer) -> Iterator[Sample]:
    for name in CLASSES:
        found = server.objectives(name).found
        for objective, slo_s in (("first_token", found.ttft_s), ("inter_token", found.inter_token_s)):
            if slo_s is not None:
                yield _sample("headway_objective_seconds", slo_s, class_=name, objective=objective)
        for what in ("first_token", "inter_token", "both"):
            judged, met = server.judged[name, what], server.met[name, what]
            yield _sample("headway_objective_judged_total", judged, class_=name, objective=what)
            yield _sample("headway_objective_met_total", met, class_=name, objective=what)


def _limits(server: SimulatedServer) -> Iterator[Sample]:
    waiting = server.queued_in_all
    most = script.CEILING
    for kind, seats in (("live", server.limit), ("proposed", server.limit), ("reach", most), ("ceiling", most)):
        yield _sample("headway_limit", seats, kind=kind)
    yield _sample("headway_seats_taken", server.seats_taken)
    yield _sample("headway_scale_ratio", (server.seats_taken + waiting) / server.limit)
    yield _sample("headway_desired_instances", (server.seats_taken + waiting) / (0.8 * server.limit))
    yield _sample("headway_batch_window_seconds", 0)
    yield _sample("headway_queue_tokens", sum(one.prompt_tokens for all_ in server.queued.values() for one in all_))
    yield _sample("headway_queue_bytes", 2048 * waiting)
    yield _sample("headway_preset_info", 1, preset=script.preset_at(server.now_s).name, revision=str(server.revision))
    for name in script.PRESETS:
        yield _sample("headway_preset_changes_total", (server.revision - 1) // len(script.PRESETS), preset=name)
    changed_s = max(server.began_s, script.switched_s(server.now_s))
    yield _sample("headway_last_change_timestamp_seconds", changed_s)
    yield _sample("headway_severity", severity_of(server))
    for bottleneck in Bottleneck:
        yield _sample("headway_bottleneck", bottleneck is bottleneck_of(server), bottleneck=bottleneck)


def severity_of(server: SimulatedServer) -> Severity:
    """A short form of the diagnosis, for the metric."""
    if not server.up:
        return Severity.DOWN
    return Severity.OVERLOADED if server.queued_in_all > server.limit else Severity.OK


def bottleneck_of(server: SimulatedServer) -> Bottleneck:
    """What limits the simulated server."""
    if not server.up:
        return Bottleneck.ENGINE_DOWN
    return Bottleneck.SEATS if server.queued_in_all else Bottleneck.NONE


def _engine(server: SimulatedServer) -> Iterator[Sample]:
    state = EngineState.UP if server.up else EngineState.RESTARTING
    for one in EngineState:
        yield _sample("headway_engine_state", one is state, state=one)
    for cause in Cause:
        yield _sample("headway_engine_deaths_total", server.deaths * (cause is Cause.CRASH), cause=cause)
    yield _sample("headway_ready", server.up)
    yield _sample("headway_engine_hangs_total", 0)
    yield _sample("headway_engine_compiling_seconds", 0)
    yield _sample("headway_preemptions_total", int(server.preemptions))
    yield _sample("headway_engine_kv_cache_usage_ratio", server.kv_ratio)
    yield _sample("headway_engine_running", server.seats_taken)
    yield _sample("headway_engine_waiting", 0)
    for stage, took_s in WARMUP_S.items():
        yield _sample("headway_warmup_duration_seconds", took_s, stage=stage)
    yield _sample("headway_build_info", 1, version=VERSION, backend=BACKEND)


def _engine_itself(server: SimulatedServer) -> Iterator[Sample]:
    """What vLLM's own metrics would say."""
    values = {
        "num_requests_running": server.seats_taken,
        "num_requests_waiting": 0,
        "kv_cache_usage_perc": server.kv_ratio,
        "generation_tokens_total": int(server.tokens),
        "prompt_tokens_total": server.prompt_tokens,
        "num_preemptions_total": int(server.preemptions),
        "prefix_cache_queries_total": server.prompt_tokens,
        "prefix_cache_hits_total": server.prefix_hits,
    }
    for name, value in values.items():
        yield _sample(f"vllm:{name}", value, **_ENGINE)
    yield from _histogram("vllm:inter_token_latency_seconds", server.token_times_s, **_ENGINE)


def _ladder(server: SimulatedServer) -> Iterator[Sample]:
    yield _sample("headway_fallback_rung", server.rung)
    for rung, trigger in itertools.product(Rung, Trigger):
        number = server.rung_steps[rung.word, trigger]
        yield _sample("headway_fallback_steps_total", number, rung=rung.word, trigger=trigger)
    for name, kind in itertools.product(CLASSES, Degradation):
        yield _sample("headway_degraded_total", server.degraded[name, kind], class_=name, kind=kind)


def _machine(server: SimulatedServer) -> Iterator[Sample]:
    busy = min(1.0, server.seats_taken / 24) if server.up else 0.0
    yield _sample("headway_process_resident_bytes", 1.1 * _GIB, process="api_server")
    yield _sample("headway_process_resident_bytes", 3.2 * _GIB if server.up else 0.4 * _GIB, process="engine")
    yield _sample("headway_memory_limit_bytes", 32 * _GIB)
    for component, size_bytes in (("weights", 14.2 * _GIB), ("kv_cache", 5.8 * _GIB)):
        yield _sample("headway_engine_memory_bytes", size_bytes if server.up else 0, component=component)
    for process, ratio in (("server", 0.06), ("engine", 0.1 + 0.2 * busy), ("machine", 0.2 + 0.2 * busy)):
        yield _sample("headway_processor_busy_ratio", ratio, process=process)
    yield _sample("headway_gpu_memory_used_bytes", 21.6 * _GIB if server.up else 0.5 * _GIB, gpu="0")
    yield _sample("headway_gpu_memory_total_bytes", 24 * _GIB, gpu="0")
    yield _sample("headway_gpu_busy_ratio", busy, gpu="0")
    yield _sample("headway_memory_cap_ratio", 1)


def _not_simulated() -> Iterator[Sample]:
    """What stays as it is in the demo."""
    for hold in Hold:
        yield _sample("headway_dispatch_held", 0, hold=hold)
    for cache in Cache:
        yield _sample("headway_cache_clears_total", 0, cache=cache)
    for trigger in ("operator", "schedule", "memory"):
        yield _sample("headway_recycles_total", 0, trigger=trigger)
    for metric in ("headway_effect_errors_total", "headway_audit_lines_lost_total"):
        yield _sample(metric, 0)
    for policy in ("order", "limit", "window"):
        yield _sample("headway_policy_failed", 0, policy=policy)
    for of, ratio in (("output_tokens", 0.42), ("queue_wait", 0.18)):
        yield _sample("headway_prediction_error_ratio", ratio, of=of)
        yield _sample("headway_prediction_samples", 512, of=of)
    for figure, ratio in (("tokens_per_s", 0.08), ("ttft_p95_s", 0.22)):
        yield _sample("headway_forecast_error_ratio", ratio, figure=figure)
