"""The table of all metrics, and families made from it: a name that is not in the table cannot be exported.

No name contains a colon and none begins with ``vllm:``: vLLM unregisters every collector that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

#: The table: every metric, its kind and its help text. README, rules and dashboard are tested against it.
TABLE: dict[str, tuple[str, str]] = {
    "headway_arrivals_total": ("counter", "Requests that asked for a seat."),
    "headway_lowered_classes_total": (
        "counter",
        "Requests that asked for a class that their key does not allow, by that class; they got a less urgent one.",
    ),
    "headway_admission_decisions_total": ("counter", "Admission decisions on arrival: seated, queued or rejected."),
    "headway_refusals_total": ("counter", "Requests refused, by reason."),
    "headway_route_refusals_total": ("counter", "Requests refused by the route guard, before a class, by reason."),
    "headway_retry_budget_refusals_total": ("counter", "Refused retries told not to come again, by class."),
    "headway_truncated_responses_total": ("counter", "Responses that began and had no end though their client stayed."),
    "headway_outcomes_total": ("counter", "Requests ended, by outcome; each request has exactly one."),
    "headway_queue_depth": ("gauge", "Requests waiting for a seat."),
    "headway_queue_tokens": ("gauge", "Prompt tokens of waiting requests, estimated until they are counted."),
    "headway_queue_bytes": ("gauge", "Bytes of waiting requests."),
    "headway_queue_oldest_wait_seconds": ("gauge", "Age of the longest-waiting request."),
    "headway_queue_timeout_seconds": (
        "gauge",
        "Longest time in the queue of a class of the preset; absent where it has no time-out.",
    ),
    "headway_overloaded": ("gauge", "1 while the queue of a class stands: waits are cut to its objective."),
    "headway_dispatch_held": ("gauge", "1 while nothing is dispatched for this cause, by cause."),
    "headway_held_seats": ("gauge", "Seats kept for a class from less urgent ones, taken or not."),
    "headway_in_flight": ("gauge", "Requests dispatched and not yet ended."),
    "headway_seats_taken": ("gauge", "Sequences in the engine, until it has confirmed that they ended."),
    "headway_limit": (
        "gauge",
        "Seats: live, proposed by the limit policy, the most that it may come to, and the ceiling of the engine.",
    ),
    "headway_scale_ratio": ("gauge", "Demand as a multiple of the live limit: the signal for a number of replicas."),
    "headway_desired_instances": ("gauge", "Instances that the traffic needs: a server's own part; a router's fleet."),
    "headway_batch_window_seconds": ("gauge", "Length of the batch window now; 0 where no batch gathers."),
    "headway_policy_failed": ("gauge", "1 while a custom policy is disabled because it raised an error, by policy."),
    "headway_effect_errors_total": ("counter", "Errors raised while a decision was carried out; any is a defect."),
    "headway_prediction_error_ratio": ("gauge", "Mean absolute error of a prediction relative to the mean measured."),
    "headway_prediction_samples": ("gauge", "Samples behind headway_prediction_error_ratio."),
    "headway_severity": ("gauge", "Diagnosis: 0 ok, 1 watch, 2 degraded, 3 overloaded, 4 down."),
    "headway_bottleneck": ("gauge", "Diagnosis: what limits the server, one-hot; none while nothing does."),
    "headway_forecast_error_ratio": ("gauge", "Median error of the forecasts of presets after the last switches."),
    "headway_queue_wait_seconds": ("histogram", "Time from arrival to dispatch."),
    "headway_batches_waited": (
        "histogram",
        "Batches that left before a request while it waited; without batches, the times that others got seats.",
    ),
    "headway_time_to_first_token_seconds": ("histogram", "Time from arrival to the first token, queue included."),
    "headway_inter_token_seconds": ("histogram", "Mean time between two tokens of a completed request."),
    "headway_end_to_end_seconds": ("histogram", "Time from arrival to the last token, of completed requests."),
    "headway_prefill_seconds": ("histogram", "Time from dispatch to the first token."),
    "headway_decode_seconds": ("histogram", "Time from the first token to the last one, of completed requests."),
    "headway_longest_seconds": ("gauge", "Longest duration in the last 60 to 120 s, by kind; 0: none."),
    "headway_prompt_tokens_total": ("counter", "Prompt tokens of requests that ended, as the engine counted them."),
    "headway_output_tokens_total": ("counter", "Output tokens of requests that ended."),
    "headway_finish_reasons_total": ("counter", "Answers that ended, by the reason that the engine gave."),
    "headway_objective_seconds": (
        "gauge",
        "Objectives of the preset's classes on the present engine; absent for a class without objectives.",
    ),
    "headway_objective_judged_total": ("counter", "Requests judged by the objectives of their class."),
    "headway_objective_met_total": ("counter", "Requests that met the objectives of their class."),
    "headway_preemptions_total": ("counter", "Sequences preempted by the engine because the KV cache was full."),
    "headway_batch_size": ("histogram", "Sequences in each engine step."),
    "headway_preset_info": ("gauge", "The preset in force and its revision; always 1."),
    "headway_preset_changes_total": ("counter", "Preset switches, by the preset switched to."),
    "headway_last_change_timestamp_seconds": ("gauge", "Time of the last preset switch, or of the server's start."),
    "headway_fallback_rung": ("gauge", "Fallback ladder: 0 normal, 1 cap, 2 bypass, 3 shed, 4 divert, 5 pause."),
    "headway_fallback_steps_total": ("counter", "Moves of the fallback ladder, by the rung reached and the trigger."),
    "headway_degraded_total": ("counter", "Requests degraded by the fallback ladder, by kind."),
    "headway_ready": ("gauge", "1 while the server is ready to receive traffic."),
    "headway_warmup_duration_seconds": ("gauge", "Duration of each warm-up stage in its last round."),
    "headway_engine_state": ("gauge", "Engine state, one-hot."),
    "headway_engine_deaths_total": ("counter", "Engine deaths, by cause."),
    "headway_engine_hangs_total": ("counter", "Times the engine became unresponsive."),
    "headway_engine_compiling_seconds": (
        "gauge",
        "Age of the grammar that the engine has been compiling for longest; 0: none.",
    ),
    "headway_planned_steps_total": (
        "counter",
        "Steps with prompts that the step policy planned: all, with more for prompts, and with prompt tokens "
        "postponed.",
    ),
    "headway_planned_step_tokens_total": (
        "counter",
        "Tokens of planned steps: of prompts, of decoding sequences, and the most allowed.",
    ),
    "headway_planned_step_seconds_total": (
        "counter",
        "Time of planned steps: all, the part of prompts by the fitted costs, and the target of that part.",
    ),
    "headway_prompt_held_seconds": (
        "gauge",
        "Longest time in the engine of a prompt with postponed tokens, in the last half minute.",
    ),
    "headway_engine_stuck_seconds": (
        "gauge",
        "Time for which the engine has stepped without output for any request, by cause; 0: not stuck.",
    ),
    "headway_retries_total": ("counter", "Requests retried after their engine died."),
    "headway_recalls_total": ("counter", "Requests without a token yet that made room for a more urgent one."),
    "headway_engine_kv_cache_usage_ratio": ("gauge", "KV-cache use in the engine's last step, 0 to 1."),
    "headway_engine_running": ("gauge", "Sequences running in the engine after its last step."),
    "headway_engine_waiting": ("gauge", "Sequences waiting in the engine after its last step."),
    "headway_process_resident_bytes": ("gauge", "Resident memory of the API server and of the engine's processes."),
    "headway_engine_memory_bytes": ("gauge", "Memory of the engine: weights, and the KV cache as allocated."),
    "headway_memory_limit_bytes": ("gauge", "Memory that the server may use: of its control group, or all."),
    "headway_processor_busy_ratio": ("gauge", "Processor time as a share of the processors that may be used."),
    "headway_gpu_memory_used_bytes": ("gauge", "Memory in use on a GPU of this engine; absent without a GPU."),
    "headway_gpu_memory_total_bytes": ("gauge", "Total memory of a GPU of this engine; absent without a GPU."),
    "headway_gpu_busy_ratio": ("gauge", "Share of the last sample period in which a GPU of this engine computed."),
    "headway_memory_cap_ratio": (
        "gauge",
        "Share of the limit that may be used while memory is short; 1: the whole limit.",
    ),
    "headway_cache_clears_total": (
        "counter",
        "Caches cleared: engine prefixes, engine workers, heap of the API server.",
    ),
    "headway_recycles_total": ("counter", "Living engines replaced, by trigger."),
    "headway_gc_pause_seconds": ("histogram", "Pauses by Python's garbage collector, by generation."),
    "headway_gc_longest_pause_seconds": ("gauge", "Longest pause by the garbage collector in the last 60 to 120 s."),
    "headway_audit_lines_lost_total": ("counter", "Lines of the audit that could not be written to its files."),
    "headway_tenant_requests_total": (
        "counter",
        "Accounting: requests that ended, by tenant: of the 32 that use the most, and of all others.",
    ),
    "headway_tenant_refusals_total": ("counter", "Accounting: of these, the refused ones."),
    "headway_tenant_tokens_total": ("counter", "Accounting: tokens by tenant and kind: computed, cached, output."),
    "headway_budget_findings_total": (
        "counter",
        "Requests beyond a bound of a budget, by bound and action: refuse, lower, would_refuse, would_lower.",
    ),
    "headway_usage_lost_total": ("counter", "Accounting: requests that could not be counted in the database."),
    "headway_open_batches": ("gauge", "Batch API: batches that have not ended, by status."),
    "headway_late_batches": (
        "gauge",
        "Batch API: batches in progress that would miss their window at their pace; they run in the default class.",
    ),
    "headway_batch_lines_left": ("gauge", "Batch API: unfinished lines of batches in progress."),
    "headway_batch_lines_total": (
        "counter",
        "Batch API: finished lines, by outcome: completed or failed; the lines of an expired batch fail.",
    ),
    "headway_grammar_checks_total": ("counter", "Grammars checked before the engine compiles them, by result."),
    "headway_grammars_compiling": (
        "gauge",
        "Grammars that are compiled outside of the engine now, or wait.",
    ),
    "headway_loop_lag_seconds": ("histogram", "How late the event loop of the API server is, five times a second."),
    "headway_loop_longest_lag_seconds": ("gauge", "Largest lag of the event loop in the last 60 to 120 s."),
    "headway_instance_up": ("gauge", "Router: 1 while the instance is healthy and may receive requests."),
    "headway_instance_seats": ("gauge", "Router: sequences that the instance runs at once."),
    "headway_instance_own_seats": (
        "gauge",
        "Router: sequences of the instance that this router may fill, where several routers share it.",
    ),
    "headway_instance_running": (
        "gauge",
        "Router: sequences at the instance, by sender: this router, or others.",
    ),
    "headway_instance_kv_cache_usage_ratio": ("gauge", "Router: KV-cache use of the instance, 0 to 1."),
    "headway_instance_time_to_first_token_seconds": (
        "histogram",
        "Router: time from the seat to the first token of a stream of the instance.",
    ),
    "headway_instance_inter_token_seconds": ("histogram", "Router: time between tokens in streams of the instance."),
    "headway_instance_exchanges_total": ("counter", "Router: exchanges with the instance, by how they ended."),
    "headway_instance_retries_total": ("counter", "Router: requests tried again because their instance was lost."),
    "headway_share_total_seats": ("gauge", "Share: the seats that are divided between the servers."),
    "headway_share_seats": ("gauge", "Share: seats of the server."),
    "headway_share_wanted_seats": ("gauge", "Share: seats that the requests of the server would fill."),
    "headway_share_taken_seats": ("gauge", "Share: seats of the server that are taken."),
    "headway_share_paused": ("gauge", "Share: 1 while the server is paused for an urgent one."),
    "headway_share_late": ("gauge", "Share: 1 while the server is urgent and late."),
    "headway_share_managed": ("gauge", "Share: 1 while the server answers and follows commands."),
    "headway_build_info": ("gauge", "Version and backend; always 1."),
}
METRIC_NAMES = tuple(TABLE)


def counter(name: str, *labels: str) -> CounterMetricFamily:
    """An empty family of counters."""
    return CounterMetricFamily(name, TABLE[name][1], labels=labels)


def gauge(name: str, *labels: str) -> GaugeMetricFamily:
    """An empty family of gauges."""
    return GaugeMetricFamily(name, TABLE[name][1], labels=labels)


def one_gauge(name: str, value: float) -> GaugeMetricFamily:
    """A gauge without labels."""
    return GaugeMetricFamily(name, TABLE[name][1], value=float(value))


def one_counter(name: str, value: float) -> CounterMetricFamily:
    """A counter without labels."""
    return CounterMetricFamily(name, TABLE[name][1], value=value)


def by_label(name: str, label: str, values: Mapping[str, float]) -> Metric:
    """A family of gauges or counters with one label, by its values."""
    family = counter(name, label) if TABLE[name][0] == "counter" else gauge(name, label)
    for value, number in values.items():
        family.add_metric([value], number)
    return family


def histogram(name: str, *labels: str) -> HistogramMetricFamily:
    """An empty family of histograms."""
    return HistogramMetricFamily(name, TABLE[name][1], labels=labels)


class ScrapedCollector(Collector):
    """A collector that names no families ahead of a scrape: to register it takes no reading."""

    def describe(self) -> Iterable[Metric]:
        return []
