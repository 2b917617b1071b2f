"""A snapshot as metric families: requests by class, the server, its engine, the fallback ladder, and memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from prometheus_client.core import Metric

from headway.api.schema import StepsStatus
from headway.operator.attainment import objectives_s
from headway.operator.metrics.table import by_label, counter, gauge, histogram, one_counter, one_gauge
from headway.operator.status.snapshot import Snapshot
from headway_policies import Block, Cause, Decision, EngineState, Outcome, Reason
from headway_policies.diagnosis import Bottleneck
from headway_policies.engine import StuckCause
from headway_policies.fallback import Degradation, Rung, Trigger


def snapshot_families(shot: Snapshot) -> Iterator[Metric]:
    """All families of one snapshot."""
    yield from _requests(shot)
    yield from _server(shot)
    yield from _process(shot)
    yield from _engine(shot)
    yield from _fallback(shot)
    yield from _memory(shot)


def _requests(shot: Snapshot) -> Iterator[Metric]:
    arrivals = counter("headway_arrivals_total", "class")
    lowered = counter("headway_lowered_classes_total", "class")
    decisions = counter("headway_admission_decisions_total", "class", "decision")
    refusals = counter("headway_refusals_total", "class", "reason")
    outcomes = counter("headway_outcomes_total", "class", "outcome")
    depth = gauge("headway_queue_depth", "class")
    oldest = gauge("headway_queue_oldest_wait_seconds", "class")
    timeouts = gauge("headway_queue_timeout_seconds", "class")
    overloaded = gauge("headway_overloaded", "class")
    reserved = gauge("headway_held_seats", "class")
    in_flight = gauge("headway_in_flight", "class")
    retries = counter("headway_retries_total", "class")
    recalls = counter("headway_recalls_total", "class")
    objectives = gauge("headway_objective_seconds", "class", "objective")
    for class_status in shot.status.classes:
        name, counts = class_status.name, shot.ledgers[class_status.name]
        arrivals.add_metric([name], counts.arrived)
        lowered.add_metric([name], class_status.lowered)
        depth.add_metric([name], counts.queued)
        oldest.add_metric([name], class_status.oldest_wait_s)
        if class_status.queue_timeout_s is not None:
            timeouts.add_metric([name], class_status.queue_timeout_s)
        overloaded.add_metric([name], class_status.overloaded)
        reserved.add_metric([name], class_status.held_seats)
        in_flight.add_metric([name], counts.in_flight)
        retries.add_metric([name], counts.retries)
        recalls.add_metric([name], counts.recalls)
        stated = {} if class_status.objectives is None else objectives_s(class_status.objectives)
        for objective, seconds in stated.items():
            objectives.add_metric([name, objective], seconds)
        for decision in Decision:
            decisions.add_metric([name, decision], counts.decisions[decision])
        for reason in Reason:
            refusals.add_metric([name, reason], counts.refusals[reason])
        for outcome in Outcome:
            outcomes.add_metric([name, outcome], counts.outcomes[outcome])
    yield from (arrivals, lowered, decisions, refusals, outcomes, retries, recalls)
    yield from (depth, oldest, timeouts, overloaded, reserved, in_flight, objectives)


def _server(shot: Snapshot) -> Iterator[Metric]:
    status, engine = shot.status, shot.status.engine
    plain = {
        "headway_seats_taken": status.seats_taken,
        "headway_queue_tokens": status.queued_tokens,
        "headway_queue_bytes": status.queued_bytes,
        "headway_scale_ratio": status.scale_ratio,
        "headway_desired_instances": status.desired_instances,
        "headway_batch_window_seconds": status.window_s,
        "headway_last_change_timestamp_seconds": shot.last_change_s,
        "headway_severity": shot.diagnosis.severity,
        "headway_fallback_rung": shot.rung,
        "headway_ready": status.ready,
        "headway_engine_kv_cache_usage_ratio": engine.kv_cache_usage_ratio,
        "headway_engine_running": engine.running,
        "headway_engine_waiting": engine.waiting,
    }
    for name, value in plain.items():
        yield one_gauge(name, value)
    limit = status.limit
    seats = {"live": limit.live, "proposed": limit.proposed, "reach": shot.reach, "ceiling": limit.ceiling}
    yield by_label("headway_limit", "kind", seats)
    failed = {
        "order": status.ordering.error is not None,
        "limit": limit.reason == "failed",
        "window": status.window_error is not None,
    }
    yield by_label("headway_policy_failed", "policy", failed)
    yield by_label("headway_dispatch_held", "hold", {block: block in status.holds for block in Block})
    yield by_label("headway_bottleneck", "bottleneck", {kind: kind is shot.diagnosis.bottleneck for kind in Bottleneck})
    errors = {of: accuracy.error_ratio for of, accuracy in status.prediction.items()}
    yield by_label("headway_prediction_error_ratio", "of", errors)
    samples = {of: accuracy.samples for of, accuracy in status.prediction.items()}
    yield by_label("headway_prediction_samples", "of", samples)
    yield by_label("headway_forecast_error_ratio", "figure", status.forecast.error_ratio)
    preset = gauge("headway_preset_info", "preset", "revision")
    preset.add_metric([status.preset.name, str(status.preset.revision)], 1)
    yield preset
    yield by_label("headway_preset_changes_total", "preset", shot.switches)
    yield by_label("headway_warmup_duration_seconds", "stage", shot.warmup_s)
    build = gauge("headway_build_info", "version", "backend")
    build.add_metric([status.version, engine.backend], 1)
    yield build


def _process(shot: Snapshot) -> Iterator[Metric]:
    """The API server's own process: what it got wrong, and how late its event loop is."""
    yield one_counter("headway_effect_errors_total", shot.effect_errors)
    yield one_counter("headway_audit_lines_lost_total", shot.audit_lost)
    lag = histogram("headway_loop_lag_seconds")
    lag.add_metric([], shot.loop_lag.buckets, shot.loop_lag.total)
    yield lag
    yield one_gauge("headway_loop_longest_lag_seconds", shot.loop_lag.recent_largest)


def _engine(shot: Snapshot) -> Iterator[Metric]:
    engine = shot.status.engine
    yield by_label("headway_engine_state", "state", {state: state is shot.engine for state in EngineState})
    yield by_label("headway_engine_deaths_total", "cause", {cause: engine.deaths.get(cause, 0) for cause in Cause})
    yield one_counter("headway_engine_hangs_total", engine.hangs)
    yield one_counter("headway_preemptions_total", shot.preemptions)
    if engine.steps is not None:
        yield from _steps(engine.steps)
    yield one_gauge("headway_engine_compiling_seconds", shot.compiling_s)
    stuck: dict[str, float] = {cause: engine.stuck_s if cause == engine.stuck else 0.0 for cause in StuckCause}
    yield by_label("headway_engine_stuck_seconds", "cause", stuck)


def _steps(found: StepsStatus) -> Iterator[Metric]:
    """The steps that were planned."""
    steps = {"all": found.planned, "pressed": found.pressed, "held": found.held}
    tokens = {"prompt": found.prompt_tokens, "decode": found.decode_tokens, "budget": found.budget_tokens}
    seconds = {"all": found.total_s, "prefill": found.prefill_s, "target": found.target_s}
    yield by_label("headway_planned_steps_total", "kind", steps)
    yield by_label("headway_planned_step_tokens_total", "kind", tokens)
    yield by_label("headway_planned_step_seconds_total", "kind", seconds)
    yield one_gauge("headway_prompt_held_seconds", found.longest_held_s)


def _fallback(shot: Snapshot) -> Iterator[Metric]:
    steps = counter("headway_fallback_steps_total", "rung", "trigger")
    for rung, trigger in itertools.product(Rung, Trigger):
        steps.add_metric([rung.word, trigger], shot.steps.get((rung, trigger), 0))
    degraded = counter("headway_degraded_total", "class", "kind")
    for name, kind in itertools.product(shot.ledgers, Degradation):
        degraded.add_metric([name, kind], shot.degraded.get((name, kind), 0))
    yield from (steps, degraded)


def _memory(shot: Snapshot) -> Iterator[Metric]:
    memory = shot.status.memory
    yield one_gauge("headway_memory_cap_ratio", memory.cap_ratio)
    yield by_label("headway_cache_clears_total", "cache", memory.cleared)
    yield by_label("headway_recycles_total", "trigger", memory.recycled)
    pauses = histogram("headway_gc_pause_seconds", "generation")
    longest = gauge("headway_gc_longest_pause_seconds", "generation")
    for generation, seen in enumerate(shot.gc_pauses):
        pauses.add_metric([str(generation)], seen.buckets, seen.total)
        longest.add_metric([str(generation)], seen.recent_largest)
    yield from (pauses, longest)
    yield by_label("headway_engine_memory_bytes", "component", shot.engine_bytes)
