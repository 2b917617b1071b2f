"""Rendering of a snapshot as Prometheus metrics, with the table of all instruments.

Counts come from the desk's ledger, in one consistent snapshot for each scrape, so that at every scrape arrivals equal
queued + in flight + outcomes. Durations are histograms observed when they happen. A scrape on a thread of the web
server asks the event loop for the snapshot; it never reads the desk itself, and changes nothing.

No name contains a colon and none begins with ``vllm:``: vLLM unregisters every collector that does.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from headway.operator.snapshot import EngineReading, FallbackReading, MemoryReading, Snapshot
from headway.release import version
from headway.supervision import Gpus, resident_bytes
from headway_policies import Cause, Decision, EngineState, Outcome, Reason
from headway_policies.diagnosis import Bottleneck
from headway_policies.fallback import Degradation, Rung, Trigger

#: The table: every metric, its kind and its help text. README, rules and dashboard are tested against it.
TABLE: dict[str, tuple[str, str]] = {
    "headway_arrivals_total": ("counter", "Requests that asked for a seat."),
    "headway_admission_decisions_total": ("counter", "Admission decisions on arrival: seated, queued or rejected."),
    "headway_refusals_total": ("counter", "Requests refused, by reason."),
    "headway_outcomes_total": ("counter", "Requests ended, by outcome; each request has exactly one."),
    "headway_queue_depth": ("gauge", "Requests waiting for a seat."),
    "headway_queue_tokens": ("gauge", "Prompt tokens of waiting requests, estimated until they are counted."),
    "headway_queue_bytes": ("gauge", "Bytes of waiting requests."),
    "headway_queue_oldest_wait_seconds": ("gauge", "Age of the longest-waiting request."),
    "headway_overloaded": ("gauge", "1 while the queue of a class stands: waits are cut to its objective."),
    "headway_held_seats": ("gauge", "Seats kept for a class from less urgent ones, taken or not."),
    "headway_in_flight": ("gauge", "Requests dispatched and not yet ended."),
    "headway_seats_taken": ("gauge", "Sequences in the engine, until it has confirmed that they ended."),
    "headway_limit": ("gauge", "Seats: live, proposed by the limit policy, and the ceiling of the engine."),
    "headway_scale_ratio": ("gauge", "Demand as a multiple of the live limit: the signal for a number of replicas."),
    "headway_batch_window_seconds": ("gauge", "Length of the batch window now; 0 where no batch gathers."),
    "headway_policy_failed": ("gauge", "1 while a custom policy is disabled because it raised an error, by policy."),
    "headway_prediction_error_ratio": ("gauge", "Mean absolute error of a prediction relative to the mean measured."),
    "headway_prediction_samples": ("gauge", "Samples behind headway_prediction_error_ratio."),
    "headway_severity": ("gauge", "Diagnosis: 0 ok, 1 watch, 2 degraded, 3 overloaded, 4 down."),
    "headway_bottleneck": ("gauge", "Diagnosis: what limits the server, one-hot; none while nothing does."),
    "headway_forecast_error_ratio": ("gauge", "Median error of the forecasts of presets after the last switches."),
    "headway_queue_wait_seconds": ("histogram", "Time from arrival to dispatch."),
    "headway_time_to_first_token_seconds": ("histogram", "Time from arrival to the first token, queue included."),
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
    "headway_retries_total": ("counter", "Requests retried after their engine died."),
    "headway_engine_kv_cache_usage_ratio": ("gauge", "KV-cache use in the engine's last step, 0 to 1."),
    "headway_engine_running": ("gauge", "Sequences running in the engine after its last step."),
    "headway_engine_waiting": ("gauge", "Sequences waiting in the engine after its last step."),
    "headway_process_resident_bytes": ("gauge", "Resident memory of the API server and of the engine's processes."),
    "headway_gpu_memory_used_bytes": ("gauge", "GPU memory in use; absent without a GPU."),
    "headway_gpu_memory_total_bytes": ("gauge", "GPU memory in all; absent without a GPU."),
    "headway_gpu_busy_ratio": ("gauge", "Share of the last sample period in which the GPU computed."),
    "headway_memory_cap_ratio": ("gauge", "Share of the limit that may be used while memory is short; 1 is all of it."),
    "headway_cache_clears_total": (
        "counter",
        "Caches cleared: engine prefixes, engine workers, heap of the API server.",
    ),
    "headway_recycles_total": ("counter", "Living engines replaced, by trigger."),
    "headway_gc_pause_seconds": ("histogram", "Pauses by Python's garbage collector, by generation."),
    "headway_build_info": ("gauge", "Version and backend; always 1."),
}
METRIC_NAMES = tuple(TABLE)

_WAIT_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
#: The first-token time-outs of the bundled presets are bounds: an interpolated quantile never passes one by mistake.
_TOKEN_BUCKETS = (0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0,
                  45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 450.0, 600.0, 1200.0, 3600.0)  # fmt: skip
_SNAPSHOT_WAIT_S = 2.0


class Meters:
    """The histograms. Each observation is one dictionary look-up and one increment."""

    def __init__(self, class_names: Iterable[str], max_seats: int, registry: CollectorRegistry) -> None:
        self._waits = _histogram("headway_queue_wait_seconds", _WAIT_BUCKETS, registry, "class")
        self._first_tokens = _histogram("headway_time_to_first_token_seconds", _TOKEN_BUCKETS, registry, "class")
        self._batch = _histogram("headway_batch_size", _sizes(max_seats), registry)
        self._wait_of = {name: self._waits.labels(name) for name in class_names}
        self._first_token_of = {name: self._first_tokens.labels(name) for name in class_names}

    def waited(self, class_name: str, wait_s: float) -> None:
        """A ticket was dispatched after this wait."""
        self._wait_of[class_name].observe(wait_s)

    def first_token(self, class_name: str, delay_s: float) -> None:
        """A ticket's first token came this long after its arrival."""
        self._first_token_of[class_name].observe(delay_s)

    def step(self, sequences: int) -> None:
        """The engine made a step with this many sequences."""
        self._batch.observe(sequences)


class MetricsCollector(Collector):
    """Renders a snapshot as metric families at each scrape. ``snapshot`` takes one; it runs on the loop's thread."""

    def __init__(self, snapshot: Callable[[], Snapshot], loop: asyncio.AbstractEventLoop) -> None:
        self._take = snapshot
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._last = snapshot()
        self._gpus = Gpus()

    def describe(self) -> Iterable[Metric]:
        """No families ahead of a scrape: registering takes no snapshot."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One consistent scrape."""
        shot = self._snapshot()
        yield from _tickets(shot)
        yield from _server(shot)
        yield from _engine(shot.engine)
        yield from _fallback(shot.fallback, shot.classes)
        yield from self._memory_use()
        yield from _memory(shot.memory)

    def _snapshot(self) -> Snapshot:
        """A fresh snapshot from the loop; the last one when the loop is too busy to answer in two seconds."""
        if threading.get_ident() == self._loop_thread:
            return self._take()
        answer: concurrent.futures.Future[Snapshot] = concurrent.futures.Future()
        try:
            self._loop.call_soon_threadsafe(lambda: answer.set_result(self._take()))
            self._last = answer.result(_SNAPSHOT_WAIT_S)
        except (TimeoutError, RuntimeError):  # RuntimeError: the loop has closed
            return self._last
        return self._last

    def _memory_use(self) -> Iterator[Metric]:
        resident = _gauge("headway_process_resident_bytes", "process")
        for process, size_bytes in resident_bytes().items():
            resident.add_metric([process], size_bytes)
        yield resident
        gpus = self._gpus.read()
        if gpus:
            used = _gauge("headway_gpu_memory_used_bytes", "gpu")
            total = _gauge("headway_gpu_memory_total_bytes", "gpu")
            busy = _gauge("headway_gpu_busy_ratio", "gpu")
            for card in gpus:
                used.add_metric([card.gpu], card.used_bytes)
                total.add_metric([card.gpu], card.total_bytes)
                if card.busy_ratio is not None:
                    busy.add_metric([card.gpu], card.busy_ratio)
            yield from (used, total, busy)


def _tickets(shot: Snapshot) -> Iterator[Metric]:
    arrivals = _counter("headway_arrivals_total", "class")
    decisions = _counter("headway_admission_decisions_total", "class", "decision")
    refusals = _counter("headway_refusals_total", "class", "reason")
    outcomes = _counter("headway_outcomes_total", "class", "outcome")
    depth = _gauge("headway_queue_depth", "class")
    oldest = _gauge("headway_queue_oldest_wait_seconds", "class")
    overloaded = _gauge("headway_overloaded", "class")
    held = _gauge("headway_held_seats", "class")
    in_flight = _gauge("headway_in_flight", "class")
    retries = _counter("headway_retries_total", "class")
    for name, one in shot.classes.items():
        counts = one.counts
        arrivals.add_metric([name], counts.arrived)
        depth.add_metric([name], counts.queued)
        oldest.add_metric([name], one.oldest_wait_s)
        overloaded.add_metric([name], one.overloaded)
        held.add_metric([name], one.held_seats)
        in_flight.add_metric([name], counts.in_flight)
        retries.add_metric([name], counts.retries)
        for decision in Decision:
            decisions.add_metric([name, decision], counts.decisions[decision])
        for reason in Reason:
            refusals.add_metric([name, reason], counts.refusals[reason])
        for outcome in Outcome:
            outcomes.add_metric([name, outcome], counts.outcomes[outcome])
    yield from (arrivals, decisions, refusals, outcomes, depth, oldest, overloaded, held, in_flight, retries)


def _server(shot: Snapshot) -> Iterator[Metric]:
    load = shot.engine.load
    plain = {
        "headway_seats_taken": shot.seats_taken,
        "headway_queue_tokens": shot.queue.tokens,
        "headway_queue_bytes": shot.queue.size_bytes,
        "headway_scale_ratio": shot.limit.scale_ratio,
        "headway_batch_window_seconds": shot.queue.window_s,
        "headway_last_change_timestamp_seconds": shot.preset.last_change_s,
        "headway_severity": shot.diagnosis.severity,
        "headway_fallback_rung": shot.fallback.rung,
        "headway_ready": not shot.not_ready,
        "headway_engine_kv_cache_usage_ratio": load.kv_usage_ratio,
        "headway_engine_running": load.running,
        "headway_engine_waiting": load.waiting,
    }
    for name, value in plain.items():
        yield GaugeMetricFamily(name, TABLE[name][1], value=float(value))
    limit = _gauge("headway_limit", "kind")
    limit.add_metric(["live"], shot.limit.live)
    limit.add_metric(["proposed"], shot.limit.proposed)
    limit.add_metric(["ceiling"], shot.limit.ceiling)
    failed = _gauge("headway_policy_failed", "policy")
    failed.add_metric(["order"], shot.queue.order_failed is not None)
    failed.add_metric(["limit"], shot.limit.why == "failed")
    failed.add_metric(["window"], shot.queue.window_failed is not None)
    error, samples = _gauge("headway_prediction_error_ratio", "of"), _gauge("headway_prediction_samples", "of")
    for of, accuracy in shot.accuracy.items():
        error.add_metric([of], accuracy.error_ratio)
        samples.add_metric([of], accuracy.samples)
    forecast = _gauge("headway_forecast_error_ratio", "figure")
    for figure, ratio in shot.forecast.error_ratios.items():
        forecast.add_metric([figure], ratio)
    bottleneck = _gauge("headway_bottleneck", "bottleneck")
    for one in Bottleneck:
        bottleneck.add_metric([one], one is shot.diagnosis.bottleneck)
    preset = _gauge("headway_preset_info", "preset", "revision")
    preset.add_metric([shot.preset.name, str(shot.preset.revision)], 1)
    switched = _counter("headway_preset_changes_total", "preset")
    for name, number in shot.preset.switches.items():
        switched.add_metric([name], number)
    warmup = _gauge("headway_warmup_duration_seconds", "stage")
    for stage, took_s in shot.warmup.last_s().items():
        warmup.add_metric([stage], took_s)
    build = _gauge("headway_build_info", "version", "backend")
    build.add_metric([version(), shot.identity.backend], 1)
    yield from (limit, failed, bottleneck, error, samples, forecast, preset, switched, warmup, build)


def _engine(engine: EngineReading) -> Iterator[Metric]:
    state = _gauge("headway_engine_state", "state")
    for one in EngineState:
        state.add_metric([one], one is engine.state)
    supervisor = engine.supervisor
    deaths = _counter("headway_engine_deaths_total", "cause")
    for cause in Cause:
        deaths.add_metric([cause], 0 if supervisor is None else supervisor.deaths[cause])
    hangs = _counter("headway_engine_hangs_total")
    hangs.add_metric([], 0 if supervisor is None else supervisor.hangs)
    yield from (state, deaths, hangs)


def _fallback(fallback: FallbackReading, class_names: Iterable[str]) -> Iterator[Metric]:
    steps = _counter("headway_fallback_steps_total", "rung", "trigger")
    for rung, trigger in itertools.product(Rung, Trigger):
        steps.add_metric([rung.word, trigger], fallback.steps.get((rung, trigger), 0))
    degraded = _counter("headway_degraded_total", "class", "kind")
    for name, kind in itertools.product(class_names, Degradation):
        degraded.add_metric([name, kind], fallback.degraded.get((name, kind), 0))
    yield from (steps, degraded)


def _memory(memory: MemoryReading) -> Iterator[Metric]:
    yield GaugeMetricFamily("headway_memory_cap_ratio", TABLE["headway_memory_cap_ratio"][1], value=memory.cap_ratio)
    clears = _counter("headway_cache_clears_total", "cache")
    for cache, number in memory.cleared.items():
        clears.add_metric([cache], number)
    recycles = _counter("headway_recycles_total", "trigger")
    for trigger, number in memory.recycled.items():
        recycles.add_metric([trigger], number)
    gc_name = "headway_gc_pause_seconds"
    pauses = HistogramMetricFamily(gc_name, TABLE[gc_name][1], labels=["generation"])
    for generation, seen in enumerate(memory.gc_pauses):
        pauses.add_metric([str(generation)], seen.cumulative(), seen.total_s)
    yield from (clears, recycles, pauses)


def _counter(name: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, TABLE[name][1], labels=labels)


def _gauge(name: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, TABLE[name][1], labels=labels)


def _histogram(name: str, buckets: Iterable[float], registry: CollectorRegistry, *labels: str) -> Histogram:
    return Histogram(name, TABLE[name][1], labels, buckets=tuple(buckets), registry=registry)


def _sizes(max_seats: int) -> list[float]:
    powers = [float(2**exponent) for exponent in range(11)]
    return sorted({*powers, float(max_seats)})
