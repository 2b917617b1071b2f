"""A snapshot as metric families: requests by class, the server, its engine, the fallback ladder, and memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from prometheus_client.core import Metric

from headway.api.schema import StepsStatus
from headway.operator.attainment import objectives_s
from headway.operator.metrics.table import counter, gauge, histogram, one_gauge
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
    yield from (depth, oldest, overloaded, reserved, in_flight, objectives)


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
    limit = gauge("headway_limit", "kind")
    limit.add_metric(["live"], status.limit.live)
    limit.add_metric(["proposed"], status.limit.proposed)
    limit.add_metric(["reach"], shot.reach)
    limit.add_metric(["ceiling"], status.limit.ceiling)
    failed = gauge("headway_policy_failed", "policy")
    failed.add_metric(["order"], status.ordering.error is not None)
    failed.add_metric(["limit"], status.limit.reason == "failed")
    failed.add_metric(["window"], status.window_error is not None)
    error, samples = gauge("headway_prediction_error_ratio", "of"), gauge("headway_prediction_samples", "of")
    for of, accuracy in status.prediction.items():
        error.add_metric([of], accuracy.error_ratio)
        samples.add_metric([of], accuracy.samples)
    forecast = gauge("headway_forecast_error_ratio", "figure")
    for figure, ratio in status.forecast.error_ratio.items():
        forecast.add_metric([figure], ratio)
    bottleneck = gauge("headway_bottleneck", "bottleneck")
    for kind in Bottleneck:
        bottleneck.add_metric([kind], kind is shot.diagnosis.bottleneck)
    blocked = gauge("headway_dispatch_held", "hold")
    for block in Block:
        blocked.add_metric([block], block in status.holds)
    preset = gauge("headway_preset_info", "preset", "revision")
    preset.add_metric([status.preset.name, str(status.preset.revision)], 1)
    switched = counter("headway_preset_changes_total", "preset")
    for name, number in shot.switches.items():
        switched.add_metric([name], number)
    warmup = gauge("headway_warmup_duration_seconds", "stage")
    for stage, took_s in shot.warmup_s.items():
        warmup.add_metric([stage], took_s)
    build = gauge("headway_build_info", "version", "backend")
    build.add_metric([status.version, engine.backend], 1)
    yield from (limit, failed, blocked, bottleneck, error, samples, forecast, preset, switched, warmup, build)


def _process(shot: Snapshot) -> Iterator[Metric]:
    """The API server's own process: what it got wrong, and how late its event loop is."""
    effects, audit = counter("headway_effect_errors_total"), counter("headway_audit_lines_lost_total")
    effects.add_metric([], shot.effect_errors)
    audit.add_metric([], shot.audit_lost)
    lag = histogram("headway_loop_lag_seconds")
    lag.add_metric([], shot.loop_lag.buckets, shot.loop_lag.total)
    yield from (effects, audit, lag, one_gauge("headway_loop_longest_lag_seconds", shot.loop_lag.recent_largest))


def _engine(shot: Snapshot) -> Iterator[Metric]:
    state = gauge("headway_engine_state", "state")
    for possible in EngineState:
        state.add_metric([possible], possible is shot.engine)
    engine = shot.status.engine
    deaths = counter("headway_engine_deaths_total", "cause")
    for cause in Cause:
        deaths.add_metric([cause], engine.deaths.get(cause, 0))
    hangs = counter("headway_engine_hangs_total")
    hangs.add_metric([], engine.hangs)
    preemptions = counter("headway_preemptions_total")
    preemptions.add_metric([], shot.preemptions)
    yield from (state, deaths, hangs, preemptions)
    if engine.steps is not None:
        yield from _steps(engine.steps)
    yield one_gauge("headway_engine_compiling_seconds", shot.compiling_s)
    stuck = gauge("headway_engine_stuck_seconds", "cause")
    for why in StuckCause:
        stuck.add_metric([why], engine.stuck_s if why == engine.stuck else 0.0)
    yield stuck


def _steps(found: StepsStatus) -> Iterator[Metric]:
    """The steps that were planned."""
    steps = counter("headway_planned_steps_total", "kind")
    tokens = counter("headway_planned_step_tokens_total", "kind")
    seconds = counter("headway_planned_step_seconds_total", "kind")
    figures = (
        (steps, {"all": found.planned, "pressed": found.pressed, "held": found.held}),
        (tokens, {"prompt": found.prompt_tokens, "decode": found.decode_tokens, "budget": found.budget_tokens}),
        (seconds, {"all": found.total_s, "prefill": found.prefill_s, "target": found.target_s}),
    )
    for family, values in figures:
        for kind, value in values.items():
            family.add_metric([kind], value)
        yield family
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
    clears = counter("headway_cache_clears_total", "cache")
    for cache, number in memory.cleared.items():
        clears.add_metric([cache], number)
    recycles = counter("headway_recycles_total", "trigger")
    for trigger, number in memory.recycled.items():
        recycles.add_metric([trigger], number)
    pauses = histogram("headway_gc_pause_seconds", "generation")
    longest = gauge("headway_gc_longest_pause_seconds", "generation")
    for generation, seen in enumerate(shot.gc_pauses):
        pauses.add_metric([str(generation)], seen.buckets, seen.total)
        longest.add_metric([str(generation)], seen.recent_largest)
    held = gauge("headway_engine_memory_bytes", "component")
    for component, size_bytes in shot.engine_bytes.items():
        held.add_metric([component], size_bytes)
    yield from (clears, recycles, pauses, longest, held)
