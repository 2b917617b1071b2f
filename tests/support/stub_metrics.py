"""The metrics of the stub server, as its state has them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from stub_world import CLASSES, GC_BOUNDS, GIB, World

from headway_policies import Cause, Outcome, Reason
from headway_policies.fallback.degradation import Degradation
from headway_policies.fallback.rungs import Rung, Trigger
from headway_policies.memory.settings import Cache


class WorldMetrics:
    """A collector of Prometheus' client: all families of one world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        with self.world.lock:
            yield from list(self._families())

    def describe(self) -> list[Metric]:
        """Nothing to check ahead."""
        return []

    def _families(self) -> Iterator[Metric]:
        yield from self._ticket_families()
        yield from self._histogram_families()
        yield from self._limit_families()
        yield from self._preset_families()
        yield from self._plain_families()
        yield from self._engine_families()
        yield from self._ladder_families()
        yield from self._upkeep_families()
        yield from self._tenant_families()

    def _tenant_families(self) -> Iterator[Metric]:
        served = self.world.outcomes["normal", Outcome.COMPLETED]
        tokens = CounterMetricFamily("headway_tenant_tokens_total", "-", labels=("tenant", "kind"))
        for tenant, share in (("loud", 90.0), ("held", 6.0), ("quiet", 4.0)):
            tokens.add_metric([tenant, "output"], share * served)
        yield tokens
        yield labelled(
            CounterMetricFamily, "headway_tenant_refusals_total", "tenant", {"loud": 0.2 * served, "quiet": 0.0}
        )

    def _ticket_families(self) -> Iterator[Metric]:
        yield labelled(
            CounterMetricFamily, "headway_arrivals_total", "class", {n: self.world.arrived[n] for n in CLASSES}
        )
        yield labelled(GaugeMetricFamily, "headway_queue_depth", "class", {n: self.world.queued[n] for n in CLASSES})
        yield labelled(GaugeMetricFamily, "headway_in_flight", "class", {n: self.world.in_flight[n] for n in CLASSES})
        oldest = {n: self.world.queued[n] * 0.12 for n in CLASSES}
        yield labelled(GaugeMetricFamily, "headway_queue_oldest_wait_seconds", "class", oldest)
        timeouts = {"realtime": 5.0, "normal": 30.0, "batch": 300.0}
        yield labelled(GaugeMetricFamily, "headway_queue_timeout_seconds", "class", timeouts)
        yield labelled(GaugeMetricFamily, "headway_overloaded", "class", dict.fromkeys(CLASSES, 0))
        yield labelled(GaugeMetricFamily, "headway_held_seats", "class", dict.fromkeys(CLASSES, 0))
        retries = {name: self.world.retries[name] for name in CLASSES}
        yield labelled(CounterMetricFamily, "headway_retries_total", "class", retries)
        outcomes = CounterMetricFamily("headway_outcomes_total", "-", labels=("class", "outcome"))
        refusals = CounterMetricFamily("headway_refusals_total", "-", labels=("class", "reason"))
        for name in CLASSES:
            for outcome in Outcome:
                outcomes.add_metric([name, outcome], self.world.outcomes[name, outcome])
            for reason in dict.fromkeys((*Reason, *(reason for _, reason in self.world.refusals))):
                refusals.add_metric([name, reason], self.world.refusals[name, reason])
        yield from (outcomes, refusals)

    def _histogram_families(self) -> Iterator[Metric]:
        yield from self.world.meters.collect()
        objectives = GaugeMetricFamily("headway_objective_seconds", "-", labels=("class", "objective"))
        for name in CLASSES:
            for objective, seconds in self.world.objectives_of(name).items():
                objectives.add_metric([name, objective], seconds)
        yield objectives

    def _limit_families(self) -> Iterator[Metric]:
        limits = {"live": self.world.limit, "proposed": self.world.limit, "reach": 64, "ceiling": 64}
        yield labelled(GaugeMetricFamily, "headway_limit", "kind", limits)
        errors = {"output_tokens": 0.25, "queue_wait": 0.4}
        yield labelled(GaugeMetricFamily, "headway_prediction_error_ratio", "of", errors)
        forecast = {"tokens_per_s": 0.08, "mean_batch": 0.11, "ttft_p50_s": 0.14, "ttft_p95_s": 0.25}
        yield labelled(GaugeMetricFamily, "headway_forecast_error_ratio", "figure", forecast)
        yield labelled(GaugeMetricFamily, "headway_prediction_samples", "of", dict.fromkeys(errors, 100.0))

    def _preset_families(self) -> Iterator[Metric]:
        preset = GaugeMetricFamily("headway_preset_info", "-", labels=("preset", "revision"))
        preset.add_metric([self.world.preset, str(self.world.revision)], 1)
        yield preset
        yield labelled(CounterMetricFamily, "headway_preset_changes_total", "preset", self.world.preset_changes)
        build = GaugeMetricFamily("headway_build_info", "-", labels=("version", "backend"))
        build.add_metric(["0.1.0", self.world.backend], 1)
        yield build

    def _plain_families(self) -> Iterator[Metric]:
        plain = {
            "headway_seats_taken": sum(self.world.in_flight.values()),
            "headway_queue_tokens": sum(self.world.queued.values()) * 60,
            "headway_queue_bytes": sum(self.world.queued.values()) * 240,
            "headway_batch_window_seconds": self.world.presets[self.world.preset].batching.window_ms / 1000,
            "headway_ready": self.world.ready,
            "headway_last_change_timestamp_seconds": self.world.last_change_s,
            "process_start_time_seconds": self.world.started_s,
            "headway_engine_kv_cache_usage_ratio": self.world.kv_ratio,
            "headway_engine_running": sum(self.world.in_flight.values()),
            "headway_engine_waiting": 0,
            "headway_memory_limit_bytes": 24 * GIB,
            "vllm:num_requests_running": sum(self.world.in_flight.values()),
            "vllm:kv_cache_usage_perc": self.world.kv_ratio,
        }
        for name, value in plain.items():
            yield GaugeMetricFamily(name, "-", value=float(value))

    def _engine_families(self) -> Iterator[Metric]:
        states = {one: float(one == self.world.state) for one in ("up", "silent", "restarting", "lost")}
        yield labelled(GaugeMetricFamily, "headway_engine_state", "state", states)
        deaths = {cause: self.world.deaths[cause] for cause in Cause}
        yield labelled(CounterMetricFamily, "headway_engine_deaths_total", "cause", deaths)
        yield CounterMetricFamily("headway_engine_hangs_total", "-", value=self.world.hangs)
        last_s = {stage: rounds_s[-1] for stage, rounds_s in self.world.warmup.stages.items()}
        yield labelled(GaugeMetricFamily, "headway_warmup_duration_seconds", "stage", last_s)
        for name, value in (("generation_tokens", self.world.tokens), ("prompt_tokens", 1.5 * self.world.tokens),
                            ("num_preemptions", 0), ("prefix_cache_queries", self.world.tokens),
                            ("prefix_cache_hits", 0.3 * self.world.tokens)):  # fmt: skip
            yield labelled(CounterMetricFamily, f"vllm:{name}_total", "model_name", {"stub": value})

    def _ladder_families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("headway_fallback_rung", "-", value=float(self.world.rung))
        steps = CounterMetricFamily("headway_fallback_steps_total", "-", labels=("rung", "trigger"))
        for rung, trigger in itertools.product(Rung, Trigger):
            steps.add_metric([rung.word, trigger], self.world.rung_steps[rung.word, trigger])
        degraded = CounterMetricFamily("headway_degraded_total", "-", labels=("class", "kind"))
        for name, how in itertools.product(CLASSES, Degradation):
            degraded.add_metric([name, how], self.world.degraded[name, how])
        yield from (steps, degraded)

    def _upkeep_families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("headway_memory_cap_ratio", "-", value=self.world.cap_ratio)
        cleared = {cache: self.world.cleared[cache] for cache in Cache}
        yield labelled(CounterMetricFamily, "headway_cache_clears_total", "cache", cleared)
        recycled = {trigger: self.world.recycled[trigger] for trigger in ("command", "schedule", "growth")}
        yield labelled(CounterMetricFamily, "headway_recycles_total", "trigger", recycled)
        pauses = HistogramMetricFamily("headway_gc_pause_seconds", "-", labels=("generation",))
        pauses.add_metric(["0"], buckets(self.world.collections, GC_BOUNDS), self.world.collected_s)
        yield pauses
        held = {"weights": 0.55 * GIB, "kv_cache": 0.9 * GIB}
        yield labelled(GaugeMetricFamily, "headway_engine_memory_bytes", "component", held)
        resident = {"api_server": 0.42 * GIB, "engine": 1.65 * GIB + self.world.kv_ratio * 2e7}
        yield labelled(GaugeMetricFamily, "headway_process_resident_bytes", "process", resident)
        busy = {"api_server": 0.12, "engine": min(1.0, 0.1 + 0.02 * sum(self.world.in_flight.values())), "machine": 0.6}
        yield labelled(GaugeMetricFamily, "headway_processor_busy_ratio", "process", busy)
        if self.world.gpu:
            yield labelled(GaugeMetricFamily, "headway_gpu_memory_used_bytes", "gpu", {"0": 71.3 * GIB})
            yield labelled(GaugeMetricFamily, "headway_gpu_memory_total_bytes", "gpu", {"0": 79.6 * GIB})


def labelled(kind: Any, name: str, label: str, values: dict[str, float]) -> Metric:
    """A family with one label."""
    family: Metric = kind(name, "-", labels=(label,))
    for value, number in values.items():
        family.add_metric([value], number)  # type: ignore[attr-defined]  # both families used here have it
    return family


def buckets(counts: list[float], bounds: tuple[float, ...]) -> list[tuple[str, float]]:
    """Cumulative buckets as the exposition has them."""
    total, found = 0.0, []
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        total += count
        found.append((bound, total))
    return found
