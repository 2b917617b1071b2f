"""The facts of one server: samples of it, and what they and its recent requests say together.

A sample costs some microseconds; the facts about a millisecond, whatever has happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from statistics import fmean

from headway.admission import Gate
from headway.fallback import FallbackController
from headway.operator.commands.operator_limit import OperatorLimits
from headway.operator.forecast_errors import ForecastErrors
from headway.operator.forecasts import PresetForecasts
from headway.operator.status.forecast_facts import forecasted, objectives_of
from headway.recorder import ServedLog
from headway.supervision import EngineActivity, EngineRecycle, Supervisor, WarmupState, not_ready
from headway_policies import AdmissionState, Block, Desk, EngineState, Outcome, Preset, Reason
from headway_policies.diagnosis import (
    BY_REASON,
    IN_ENGINE,
    NOT_FAILED,
    WHILE_RUNNING,
    ClassFacts,
    Facts,
    Forecasted,
    refused_for_load,
    words,
)
from headway_policies.step import StepFigures
from headway_policies.trial import ALL, Served

#: The figures are of so many seconds.
WINDOW_S = 30.0
#: A forecast older than this says nothing of the present traffic.
FORECAST_MAX_AGE_S = 900.0
_MOST_UNANSWERED = 2000
_SELDOM = 0.1  # of the samples: a queue that is there so seldom delays hardly any request

Failures = Counter[str]


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """A class since the server's start: arrivals, ends that count, and the failed ones by cause."""

    arrived: int
    ended: int
    failures: Failures

    def share(self, *causes: str) -> float | None:
        """The share of these failures; None where nothing has ended."""
        return _share(sum(self.failures[cause] for cause in causes), self.ended)


@dataclass(frozen=True, slots=True)
class Sample:
    """The server at one moment; counts are since its start.

    ``reserved_free`` are the seats that are kept for urgent classes and not taken, by class, a request counted as one
    seat.
    ``busy_s`` is the time in which the engine computed, ``prompt_tokens`` what it computed of prompts, and
    ``largest_prompt_tokens`` the most of a step since the sample before. ``steps`` is None where none was planned.
    """

    at_s: float
    seats_taken: int
    limit: int
    why: str
    capped: bool
    reserved_free: Mapping[str, int]
    queued: int
    oldest_wait_s: float
    kv_ratio: float
    preemptions: int
    busy_s: float
    prompt_tokens: int
    largest_prompt_tokens: int
    steps: StepFigures | None
    busy: frozenset[str]
    classes: Mapping[str, ClassCounts]
    lowered: Counter[str]


@dataclass(frozen=True, slots=True)
class FactsReader:
    """Reads the facts of one server. Call it on the event loop's thread only."""

    gate: Gate
    served: ServedLog
    activity: EngineActivity
    fallback: FallbackController
    forecasts: PresetForecasts
    forecast_errors: ForecastErrors
    recycle: EngineRecycle
    warmup: WarmupState
    limits: OperatorLimits
    supervisor: Supervisor | None

    def sample(self) -> Sample:
        """How the server is now."""
        desk, load, now_s = self.gate.desk, self.activity.load, self.gate.now_s()
        reading, classes = desk.read(now_s), desk.ledger.classes
        why = reading.limit_reason
        reserved = {name: max(0, seats - classes[name].in_flight) for name, seats in reading.reserved_seats.items()}
        return Sample(
            at_s=now_s,
            seats_taken=desk.seats_taken,
            limit=desk.limit,
            why="fixed" if why == "policy" and desk.preset.limit.policy == "fixed" else why,
            capped=desk.limit < reading.proposed_limit and not desk.preset.limit.shadow,
            reserved_free=reserved,
            queued=desk.ledger.queued,
            oldest_wait_s=max(reading.oldest_wait_s.values(), default=0.0),
            kv_ratio=load.kv_usage_ratio if desk.seats_taken else 0.0,
            preemptions=self.activity.preemptions,
            busy_s=self.activity.batches.busy_s,
            prompt_tokens=self.activity.prompt_tokens,
            largest_prompt_tokens=self.activity.take_largest_prompts(),
            steps=self.activity.steps,
            busy=frozenset(name for name, counts in classes.items() if counts.queued or counts.in_flight),
            classes={
                name: _counts(counts.arrived, counts.outcomes, counts.refusals) for name, counts in classes.items()
            },
            lowered=self.gate.lowered.copy(),
        )

    def facts(self, samples: Sequence[Sample]) -> Facts:
        """The facts of the last half minute; of its requests since five minutes ago, where none has ended in it.

        ``samples`` are those since the last switch, at least one, the newest last.
        """
        desk, now_s, began_s = self.gate.desk, self.gate.now_s(), samples[0].at_s
        recent = [sample for sample in samples if sample.at_s >= now_s - WINDOW_S]
        ends = _Ends(recent[0], recent[-1])
        arrived = {name for name, counts in ends.classes.items() if counts.arrived}
        busy = arrived.union(*(sample.busy for sample in recent))
        if busy and not ends.ended:
            ends = _Ends(samples[0], recent[-1])
        served = self._figures(began_s, max(began_s, min(ends.since_s, now_s - WINDOW_S)), now_s)
        preset, ladder, reading = desk.preset, self.fallback.ladder, desk.read(now_s)
        by_command = ladder.ordered is not None
        return replace(
            self._of_steps(self._of_seats(self._of_engine(), recent), recent, now_s),
            capped=recent[-1].capped,
            oldest_wait_s=max(reading.oldest_wait_s.values(), default=0.0),
            longest_wait_s=max(sample.oldest_wait_s for sample in recent),
            window_s=_gathering_s(preset, reading.window_s),
            ended=ends.ended,
            error_share=ends.share(*ends.failures),
            failed_share=ends.share(*IN_ENGINE),
            invalid_share=ends.share(Outcome.REJECTED_INVALID),
            expired_share=ends.share(*WHILE_RUNNING),
            refused_share=ends.share(*refused_for_load(shed_by_command=by_command)),
            causes=_in_words(ends.failures),
            arrived=_arrived(samples[-1]) - _arrived(samples[0]),
            lowered=samples[-1].lowered - samples[0].lowered,
            rung=ladder.rung.word,
            rung_set=by_command,
            ttft_p95_s=served[ALL].ttft_p95_s,
            classes=tuple(
                _class_facts(
                    name, desk, served.get(name, _NOTHING), counts,
                    refused_share=counts.share(*refused_for_load(shed_by_command=by_command)),
                    reserved_seats=fmean(sample.reserved_free.get(name, 0) for sample in recent),
                    overloaded=name in reading.standing_queues,
                    idle=name not in busy,
                )
                for name, counts in sorted(ends.classes.items(), key=lambda item: _urgency(desk, item[0]))
            ),
            forecast=self._forecast(preset),
            forecasts=self._other_forecasts(preset),
        )  # fmt: skip

    # ------------------------------------------------------------------ inside

    def _of_engine(self) -> Facts:
        """The engine, what supervises it, and the preset in force."""
        desk, supervisor, preset = self.gate.desk, self.supervisor, self.gate.desk.preset
        ordered = self.limits.in_force
        return Facts(
            engine=None if _never_up(desk) else desk.mode.engine,
            stopped=self._stopped(),
            planned=self.recycle.running or _closes(desk) or _warms_up(desk),
            replaceable=self.recycle.possible,
            restarts_hung=preset.recovery.restart_hung,
            preset=preset.name,
            strategy=preset.batching.strategy,
            adaptive=preset.limit.moves and not preset.limit.shadow,
            ceiling=desk.ceiling,
            limit_set=ordered is not None and ordered.seats < ordered.own.batching.seats,
            machine_busy=self.activity.machine.busy_ratio,
            own_busy=self.activity.machine.own_ratio,
            stuck=None if supervisor is None else supervisor.stuck,
            stuck_s=0.0 if supervisor is None else supervisor.stuck_s,
            compiling_s=0.0 if supervisor is None else supervisor.slow_compilation_s,
        )

    def _of_seats(self, facts: Facts, recent: Sequence[Sample]) -> Facts:
        """How seats and queue have been filled, with these facts."""
        seats_taken = fmean(sample.seats_taken for sample in recent)
        waiting = [sample.seats_taken / sample.limit for sample in recent if sample.queued and sample.limit]
        running = [sample for sample in recent if sample.seats_taken]
        pressed = [sample for sample in recent if sample.queued] or recent
        return replace(
            facts,
            seats_taken=seats_taken,
            seats_now=recent[-1].seats_taken,
            limit=fmean(sample.limit for sample in recent),
            limit_now=recent[-1].limit,
            limit_reason=Counter(sample.why for sample in pressed).most_common(1)[0][0],
            reserved_seats=fmean(sum(sample.reserved_free.values()) for sample in recent),
            queued=fmean(sample.queued for sample in recent),
            queued_now=recent[-1].queued,
            used_while_waiting=fmean(waiting) if len(waiting) > _SELDOM * len(recent) else None,
            mean_batch=fmean(sample.seats_taken for sample in running) if running else None,
            kv_ratio=fmean(sample.kv_ratio for sample in running) if running else 0.0,
            preemptions=recent[-1].preemptions - recent[0].preemptions,
            doubling_gain=self.gate.desk.engine_fit.doubling_gain(seats_taken) if seats_taken else None,
        )

    def _of_steps(self, facts: Facts, recent: Sequence[Sample], now_s: float) -> Facts:
        """The share of the engine's steps that prompts have taken, with these facts."""
        fit = self.gate.desk.engine_fit
        prompt_token_s = 0.0 if fit.error_ratio is None else fit.step_costs.prefill_token_s
        steps = steps_lately(recent, now_s) or StepFigures()
        shapes = self.gate.desk.preset.step.prefill_share != "off"
        return replace(
            facts,
            shapes_steps=shapes if self.activity.shapes else None,
            prompt_share=_prompt_share(recent, prompt_token_s),
            longest_prompt_s=prompt_token_s * max(sample.largest_prompt_tokens for sample in recent),
            longest_held_s=steps.held_s,
        )

    def _stopped(self) -> str:
        desk = self.gate.desk
        reasons = not_ready(self.gate.desk, self.warmup.report, self.supervisor)
        if not reasons and desk.mode.state is AdmissionState.PAUSED:
            reasons = [f"paused: {', '.join(sorted(desk.mode.blocks))}"]
        return ", ".join(reasons)

    def _figures(self, began_s: float, since_s: float, now_s: float) -> Mapping[str, Served]:
        """How requests were served that have arrived since the last switch."""
        waiting = self.gate.unanswered(_MOST_UNANSWERED)
        return self.served.between(since_s, now_s, waiting, arrived_s=began_s)

    def _forecast(self, preset: Preset) -> Forecasted | None:
        """The forecast of the preset in force; None also where it does not agree with what happens."""
        found = self.forecasts.recent(preset, FORECAST_MAX_AGE_S)
        check = None if found is None else self.forecast_errors.check()
        if check is not None and check.differs:
            return None
        return None if found is None else forecasted(preset, found, self.gate.desk)

    def _other_forecasts(self, preset: Preset) -> tuple[Forecasted, ...]:
        made = self.forecasts.made(FORECAST_MAX_AGE_S)
        return tuple(forecasted(other, found, self.gate.desk) for other, found in made if other.name != preset.name)


def steps_lately(samples: Iterable[Sample], now_s: float) -> StepFigures | None:
    """The effect of the step policy in the last half minute; ``held_s`` is the longest in it."""
    since_s = now_s - WINDOW_S
    recent = [sample.steps for sample in samples if sample.steps is not None and sample.at_s >= since_s]
    if not recent:
        return None
    grown = [after.since(before) for before, after in pairwise(recent)]
    return replace(recent[-1].since(recent[0]), held_s=max((figures.held_s for figures in grown), default=0.0))


def _prompt_share(samples: Sequence[Sample], prompt_token_s: float) -> float | None:
    """The share of the engine's time that went to prompts; None where it is not known."""
    busy_s = samples[-1].busy_s - samples[0].busy_s
    if busy_s <= 0 or not prompt_token_s:
        return None
    return min(1.0, prompt_token_s * (samples[-1].prompt_tokens - samples[0].prompt_tokens) / busy_s)


_NOTHING = Served()


def _warms_up(desk: Desk) -> bool:
    return Block.WARMUP in desk.mode.blocks or _never_up(desk)


def _closes(desk: Desk) -> bool:
    """A drain that no operator has commanded belongs to the end of the server."""
    return desk.mode.state is AdmissionState.DRAINING and Block.OPERATOR not in desk.mode.blocks


def _never_up(desk: Desk) -> bool:
    """Before the first warm-up an engine counts as lost, though there has been none."""
    return desk.mode.engine is EngineState.LOST and desk.mode.lost_why is Reason.NOT_READY


def _counts(arrived: int, outcomes: Counter[Outcome], refusals: Counter[Reason]) -> ClassCounts:
    failures = Failures({str(reason): number for reason, number in refusals.items()})
    failures.update({str(how): number for how, number in outcomes.items() if how not in (*NOT_FAILED, *BY_REASON)})
    return ClassCounts(arrived, failures.total() + outcomes[Outcome.COMPLETED], failures)


class _Ends:
    """The ends between two samples."""

    def __init__(self, before: Sample, now: Sample) -> None:
        self.since_s = before.at_s
        self.classes = {name: _grown(before.classes.get(name), counts) for name, counts in now.classes.items()}
        self.failures = sum((ends.failures for ends in self.classes.values()), Failures())
        self.ended = sum(ends.ended for ends in self.classes.values())

    def share(self, *causes: str) -> float | None:
        """The share of these failures."""
        return _share(sum(self.failures[cause] for cause in causes), self.ended)


def _grown(before: ClassCounts | None, now: ClassCounts) -> ClassCounts:
    if before is None:
        return now
    return ClassCounts(now.arrived - before.arrived, now.ended - before.ended, now.failures - before.failures)


def _arrived(sample: Sample) -> int:
    return sum(counts.arrived for counts in sample.classes.values())


def _share(number: float, ended: int) -> float | None:
    """The share of the requests that ended, those that their clients cancelled apart; None where none has."""
    return number / ended if ended else None


def _gathering_s(preset: Preset, window_s: float) -> float:
    """How long a request may wait for its batch by itself."""
    return (preset.batching.flush_after_s or inf) if preset.batching.strategy == "static" else window_s


def _urgency(desk: Desk, name: str) -> float:
    """The place of a class among the others, the most urgent first; last where the preset lacks it."""
    return -desk.preset.classes[name].priority if name in desk.preset.classes else inf


def _in_words(failures: Failures) -> dict[str, float]:
    return {words(cause): float(number) for cause, number in failures.items() if number}


def _class_facts(
    name: str,
    desk: Desk,
    served: Served,
    grown: ClassCounts,
    *,
    refused_share: float | None,
    reserved_seats: float,
    overloaded: bool,
    idle: bool,
) -> ClassFacts:
    terms, found = desk.preset.classes.get(name), objectives_of(desk, name)
    return ClassFacts(
        name,
        ttft_p95_s=served.ttft_p95_s,
        inter_token_p95_s=served.inter_token_p95_s,
        error_share=_share(grown.failures.total() - grown.failures[Outcome.REJECTED_INVALID], grown.ended),
        ended=grown.ended,
        refused_share=refused_share,
        causes=_in_words(grown.failures),
        ttft_slo_s=_bound(found.ttft_s, None if terms is None else terms.ttft_slo_s),
        first_token_timeout_s=inf if terms is None else terms.first_token_timeout_s or inf,
        inter_token_slo_s=_bound(found.inter_token_s, None if terms is None else terms.inter_token_slo_ms),
        reserved_seats=reserved_seats,
        overloaded=overloaded,
        idle=idle,
    )


def _bound(slo_s: float | None, stated: float | str | None) -> float | None:
    """An objective as a fact: infinite where none is stated, None where it is relative and not known yet."""
    return inf if stated is None else slo_s
