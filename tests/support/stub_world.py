"""The state of the stub server: requests that arrive, wait, run and end, its preset, its ladder and its audit log."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter

from prometheus_client import CollectorRegistry

from headway.admission import EndedRequest
from headway.api import schema
from headway.operator.attainment import FIRST_TOKEN, INTER_TOKEN, objectives_s
from headway.operator.metrics import Meters
from headway.operator.status.class_status import objectives_status
from headway_policies import Outcome, Reason, Usage, bundled_presets, changes
from headway_policies.fallback.rungs import Rung
from headway_policies.limits import ObjectivesNow, Unloaded
from headway_policies.request.outcome import REFUSED

CLASSES = ("realtime", "normal", "batch")
GIB = 1024.0**3
GC_BOUNDS = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
PREFILL_S, PACE_S = 0.03, 0.045
PROMPT_TOKENS, OUTPUT_TOKENS = 60, 40
#: What the engine takes for one request alone.
UNLOADED = Unloaded(0.03, 0.0005)

WARM = schema.WarmupStatus(
    state="done",
    attempt=1,
    single_s=0.412,
    batch_s=1.28,
    batch_size=32,
    stages={"single": [0.412], "logprobs": [2.31], "json_schema": [0.874], "batch": [1.9, 1.31, 1.28], "alone": [0.44]},
    settled=True,
)


class World:
    """The stub's state. ``step`` lets requests arrive, wait, run and end, so that the ledger always adds up.

    ``ends_per_s`` are requests a second that come and end at once in each class: by the reason they are refused for, or
    by their outcome where it needs no reason. A name that is in neither enum is taken for a reason of a later server.
    """

    def __init__(self, *, gpu: bool = False, seed: int = 7) -> None:
        self.random = random.Random(seed)
        self.gpu = gpu
        self.backend = "cuda" if gpu else "cpu"
        self.ready = True
        self.state = "up"
        self.restart_step = ""
        self.restart_attempts, self.max_restart_attempts = 0, 3
        self.deaths: Counter[str] = Counter()
        self.hangs = 0
        self.crash_suspects = 0
        self.retries: Counter[str] = Counter()
        self.warmup = WARM
        self.rung, self.ordered, self.trigger = Rung.NORMAL, False, ""
        self.usable = [one.word for one in Rung if one is not Rung.DIVERT]
        self.moves: list[schema.FallbackMove] = []
        self.rung_steps: Counter[tuple[str, str]] = Counter()
        self.degraded: Counter[tuple[str, str]] = Counter()
        self.cap_ratio = 1.0
        self.batches: list[schema.BatchStatus] = []
        self.cleared: Counter[str] = Counter()
        self.recycled: Counter[str] = Counter()
        self.recycling = False
        self.trial: schema.TrialEnds | None = None
        self.can_replace = True
        self.collections = [0.0] * (len(GC_BOUNDS) + 1)
        self.collected_s = 0.0
        self.limit_reason = "fixed"
        self.kv_seats: int | None = None
        self.ordered_limit: schema.OperatorLimit | None = None
        self.order_error: str | None = None
        self.load = 1.0
        self.ends_per_s: dict[str, float] = {}
        self.fail_ratio = 0.004
        self.expire_per_s = 0.01
        self.presets = bundled_presets()
        self.preset, self.revision = "balanced", 1
        self.last_change_s = self.started_s = time.time()
        self.preset_changes: Counter[str] = Counter(dict.fromkeys(self.presets, 0))
        self.arrived: Counter[str] = Counter()
        self.queued: Counter[str] = Counter()
        self.in_flight: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.meters = Meters(CLASSES, 128, CollectorRegistry())
        self.tokens = 0.0
        self.kv_ratio = 0.1
        self.audit: list[schema.AuditEntry] = []
        self.lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Seats of the running preset."""
        return self.presets[self.preset].batching.seats

    def step(self, seconds: float) -> None:
        """Let this much time pass."""
        with self.lock:
            for name, per_s in zip(CLASSES, (3.0, 6.0, 4.0), strict=True):
                self._arrive(name, self._poisson(per_s * self.load * seconds))
            for name, how in itertools.product(CLASSES, self.ends_per_s):
                self._end_at_once(name, how, self._poisson(self.ends_per_s[how] * seconds))
            self._finish(seconds)
            self._fill()
            taken = sum(self.in_flight.values())
            if taken:
                for _ in range(max(1, round(seconds * 20))):
                    self.meters.step(taken)
            self.tokens += taken * 22 * seconds
            pause_s = self.random.expovariate(1 / 0.004)
            self.collected_s += pause_s
            observe(self.collections, GC_BOUNDS, pause_s)
            self.kv_ratio = min(1.0, 0.04 + taken * 0.011 + self.random.uniform(-0.01, 0.01))

    def end(self, name: str, how: str, number: int = 1) -> None:
        """So many requests of a class come and end at once: by a ``Reason``, or an ``Outcome`` that needs none."""
        with self.lock:
            self._end_at_once(name, how, number)

    def _end_at_once(self, name: str, how: str, number: int) -> None:
        self.arrived[name] += number
        if isinstance(how, Outcome):
            assert how not in REFUSED.values(), f"{how} follows from a reason: end by that"
            outcome = how
        else:
            self.refusals[name, how] += number
            outcome = REFUSED[how] if isinstance(how, Reason) else Outcome.REJECTED_LIMIT
        for _ in range(number):
            self._end(name, outcome)

    def _arrive(self, name: str, number: int) -> None:
        for _ in range(number):
            self.arrived[name] += 1
            if self.queued[name] >= 40:
                self._end(name, Outcome.REJECTED_FULL)
                self.refusals[name, Reason.CLASS_QUEUE_FULL] += 1
            else:
                self.queued[name] += 1

    def _finish(self, seconds: float) -> None:
        for name in CLASSES:
            for _ in range(self._poisson(self.in_flight[name] * 0.55 * seconds)):
                if self.in_flight[name]:
                    self.in_flight[name] -= 1
                    self._end(name, Outcome.FAILED if self.random.random() < self.fail_ratio else Outcome.COMPLETED)
            for _ in range(self._poisson(self.queued[name] * self.expire_per_s * seconds)):
                if self.queued[name]:
                    self.queued[name] -= 1
                    self._end(name, Outcome.EXPIRED_QUEUED)
                    self.refusals[name, Reason.QUEUE_TIMEOUT] += 1

    def _fill(self) -> None:
        for name in CLASSES:
            while self.queued[name] and sum(self.in_flight.values()) < self.limit:
                self.queued[name] -= 1
                self.in_flight[name] += 1
                wait_s = self._wait_s(name)
                self.meters.waited(name, wait_s, self.queued[name] // max(1, self.limit))
                self.meters.first_token(name, wait_s + PREFILL_S, PREFILL_S)

    def _wait_s(self, name: str) -> float:
        return self.random.expovariate(1 / (0.02 + 0.04 * self.queued[name]))

    def _end(self, name: str, outcome: Outcome) -> None:
        self.outcomes[name, outcome] += 1
        self._meter_end(name, outcome)

    def _meter_end(self, name: str, outcome: Outcome) -> None:
        """How one request ended, for the meters; of those that completed, with all that they took."""
        completed = outcome is Outcome.COMPLETED
        delay_s, pace_s = self._wait_s(name) + PREFILL_S, PACE_S * self.random.uniform(0.8, 1.3)
        decode_s = pace_s * (OUTPUT_TOKENS - 1)
        own = self.objectives_of(name)
        self.meters.ended(
            EndedRequest(
                class_name=name,
                outcome=outcome,
                ttft_slo_s=own.get(FIRST_TOKEN),
                inter_token_slo_s=own.get(INTER_TOKEN),
                dispatched=completed or outcome is Outcome.FAILED,
                first_token_s=delay_s if completed else None,
                decode_s=decode_s if completed else None,
                total_s=delay_s + decode_s,
                pace_s=pace_s if completed else 0.0,
                usage=Usage(PROMPT_TOKENS, OUTPUT_TOKENS) if completed else None,
                finish_reasons=("length",) if completed else (),
            )
        )

    def _objectives(self, name: str) -> ObjectivesNow | None:
        """The objectives of a class of the preset in force, on this engine."""
        terms = self.presets[self.preset].classes.get(name)
        return None if terms is None else ObjectivesNow.of(terms, UNLOADED, PROMPT_TOKENS)

    def objectives_of(self, name: str) -> dict[str, float]:
        own = self._objectives(name)
        return {} if own is None else objectives_s(own.found)

    def _poisson(self, mean: float) -> int:
        whole = int(mean)
        return whole + (self.random.random() < mean - whole)

    def switch(self, name: str, who: dict[str, str], reason: str) -> schema.Switched:
        """Put a preset in force and write it down; one that is in force already stays as it is."""
        with self.lock:
            before = self.preset
            if name == before:
                return schema.Switched(name=name, revision=self.revision, previous=before, changes=[])
            self.preset, self.revision = name, self.revision + 1
            self.last_change_s = time.time()
            self.preset_changes[name] += 1
            self.note(who, before, name, reason, "applied")
            listed = [
                schema.SettingChange(setting=one.setting, before=one.before, after=one.after)
                for one in changes(self.presets[before], self.presets[name])
            ]
            return schema.Switched(name=name, revision=self.revision, previous=before, changes=listed)

    def climb(self, rung: Rung, trigger: str, *, ordered: bool = False) -> None:
        """Move the ladder."""
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
        if rung is not self.rung:
            move = schema.FallbackMove(time=now, before=self.rung.word, after=rung.word, trigger=trigger)
            self.moves.insert(0, move)
            self.rung_steps[rung.word, trigger] += 1
        self.rung, self.trigger, self.ordered = rung, trigger, ordered

    def ladder(self) -> schema.FallbackState:
        """The answer of ``GET /headway/v1/fallback``."""
        return schema.FallbackState(
            rung=self.rung.word,
            ordered=self.rung.word if self.ordered else None,
            trigger=self.trigger or None,
            in_force=[one.word for one in Rung if Rung.NORMAL < one <= self.rung],
            usable=self.usable,
            moves=self.moves,
        )

    def status(self) -> schema.Status:
        """The answer of ``GET /headway/v1/status``."""
        engine = schema.EngineStatus(
            backend=self.backend,
            healthy=self.state == "up",
            state=self.state,
            restart_step=self.restart_step,
            restart_attempts=self.restart_attempts,
            max_restart_attempts=self.max_restart_attempts,
            deaths=dict(self.deaths),
            hangs=self.hangs,
            crash_suspects=self.crash_suspects,
        )
        return schema.Status(
            version="0.1.0",
            model="stub",
            ready=self.ready,
            reasons=self.reasons(),
            state="open",
            uptime_s=60.0,
            preset=self.current(),
            limit=schema.LimitStatus(
                live=self.limit,
                proposed=self.limit,
                ceiling=64,
                reason=self.limit_reason,
                ordered=self.ordered_limit,
                kv_seats=self.kv_seats,
                kv_seats_tokens=1000.0,
            ),
            ordering=schema.OrderingStatus(between="weighted", inside="fair", error=self.order_error),
            seats_taken=sum(self.in_flight.values()),
            queued=sum(self.queued.values()),
            in_flight=sum(self.in_flight.values()),
            classes=[self._class(name) for name in CLASSES],
            fallback=schema.FallbackSummary(rung=self.rung.word, trigger=self.trigger or None),
            warmup=self.warmup,
            memory=schema.MemoryStatus(cap_ratio=self.cap_ratio, recycling=self.recycling, longest_gc_pause_s=0.031),
            engine=engine,
            batches=self.batches,
        )

    def current(self) -> schema.PresetStatus:
        """The preset in force."""
        return schema.PresetStatus(name=self.preset, revision=self.revision, trial=self.trial)

    def _class(self, name: str) -> schema.ClassStatus:
        terms, own = self.presets[self.preset].classes, self._objectives(name)
        return schema.ClassStatus(
            name=name,
            priority=terms[name].priority if name in terms else None,
            queued=self.queued[name],
            oldest_wait_s=self.queued[name] * 0.12,
            in_flight=self.in_flight[name],
            arrived=self.arrived[name],
            outcomes={outcome: self.outcomes[name, outcome] for outcome in Outcome},
            objectives=None if own is None else objectives_status(name, own, self.preset),
        )

    def reasons(self) -> list[str]:
        """Why it takes no traffic."""
        if self.ready:
            return []
        if self.state == "up":
            return [f"warm-up {self.warmup.state}"]
        said = {"silent": "the engine gives no sign of life", "restarting": "the engine is being replaced"}
        step = f": {self.restart_step}" if self.restart_step else ""
        return [said.get(self.state, "the engine is not running") + step]

    def note(
        self, who: dict[str, str], before: str, after: str, reason: str, result: str, action: str = "switch_preset"
    ) -> None:
        """One audit entry."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        entry = schema.AuditEntry(
            time=now,
            **{"actor": "", "role": "", "address": "", **who},
            action=action,
            before=before,
            after=after,
            revision=self.revision,
            reason=reason,
            result=result,
        )
        self.audit.insert(0, entry)


def observe(counts: list[float], bounds: tuple[float, ...], value: float) -> None:
    """Count one observation in its bucket."""
    counts[next((at for at, bound in enumerate(bounds) if value <= bound), len(bounds))] += 1
