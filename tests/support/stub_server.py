"""A stub of a Headway server: real Prometheus text on /metrics, and the admin API.

No engine, no desk: a small state whose numbers a test changes by hand (``world.step``) or lets move with the clock
(``moving=True``). The text is what ``prometheus_client.generate_latest`` writes, as vLLM's endpoint serves it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from admin_answers import current_preset, preset_entry, problem
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from pydantic import BaseModel

from headway.admission import EndedRequest
from headway.api import schema
from headway.operator.attainment import FIRST_TOKEN, INTER_TOKEN, objectives_s
from headway.operator.metrics import Meters
from headway.operator.status.class_status import objectives_status
from headway_policies import Cause, Outcome, Reason, Usage, bundled_presets, changes
from headway_policies.fallback.degradation import Degradation
from headway_policies.fallback.rungs import Rung, Trigger
from headway_policies.limits import ObjectivesNow, Unloaded
from headway_policies.memory.policy import Cache
from headway_policies.request.outcome import REFUSED

OPERATOR_TOKEN = "stub-operator-" + "o" * 32
VIEWER_TOKEN = "stub-viewer-" + "v" * 32
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
        self.cleared: Counter[str] = Counter()
        self.recycled: Counter[str] = Counter()
        self.recycling = False
        self.trial: schema.TrialEnds | None = None
        self.can_replace = True
        self.collections = [0.0] * (len(GC_BOUNDS) + 1)
        self.collected_s = 0.0
        self.limit_reason = "fixed"
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
                self.meters.waited(name, wait_s)
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
        own = self._objectives_s(name)
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

    def _objectives_s(self, name: str) -> dict[str, float]:
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

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        with self.lock:
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

    def _ticket_families(self) -> Iterator[Metric]:
        yield labelled(CounterMetricFamily, "headway_arrivals_total", "class", {n: self.arrived[n] for n in CLASSES})
        yield labelled(GaugeMetricFamily, "headway_queue_depth", "class", {n: self.queued[n] for n in CLASSES})
        yield labelled(GaugeMetricFamily, "headway_in_flight", "class", {n: self.in_flight[n] for n in CLASSES})
        oldest = {n: self.queued[n] * 0.12 for n in CLASSES}
        yield labelled(GaugeMetricFamily, "headway_queue_oldest_wait_seconds", "class", oldest)
        yield labelled(GaugeMetricFamily, "headway_overloaded", "class", dict.fromkeys(CLASSES, 0))
        yield labelled(GaugeMetricFamily, "headway_held_seats", "class", dict.fromkeys(CLASSES, 0))
        retries = {name: self.retries[name] for name in CLASSES}
        yield labelled(CounterMetricFamily, "headway_retries_total", "class", retries)
        outcomes = CounterMetricFamily("headway_outcomes_total", "-", labels=("class", "outcome"))
        refusals = CounterMetricFamily("headway_refusals_total", "-", labels=("class", "reason"))
        for name in CLASSES:
            for outcome in Outcome:
                outcomes.add_metric([name, outcome], self.outcomes[name, outcome])
            for reason in dict.fromkeys((*Reason, *(reason for _, reason in self.refusals))):
                refusals.add_metric([name, reason], self.refusals[name, reason])
        yield from (outcomes, refusals)

    def _histogram_families(self) -> Iterator[Metric]:
        yield from self.meters.collect()
        objectives = GaugeMetricFamily("headway_objective_seconds", "-", labels=("class", "objective"))
        for name in CLASSES:
            for objective, seconds in self._objectives_s(name).items():
                objectives.add_metric([name, objective], seconds)
        yield objectives

    def _limit_families(self) -> Iterator[Metric]:
        limits = {"live": self.limit, "proposed": self.limit, "reach": 64, "ceiling": 64}
        yield labelled(GaugeMetricFamily, "headway_limit", "kind", limits)
        errors = {"output_tokens": 0.25, "queue_wait": 0.4}
        yield labelled(GaugeMetricFamily, "headway_prediction_error_ratio", "of", errors)
        forecast = {"tokens_per_s": 0.08, "mean_batch": 0.11, "ttft_p50_s": 0.14, "ttft_p95_s": 0.25}
        yield labelled(GaugeMetricFamily, "headway_forecast_error_ratio", "figure", forecast)
        yield labelled(GaugeMetricFamily, "headway_prediction_samples", "of", dict.fromkeys(errors, 100.0))

    def _preset_families(self) -> Iterator[Metric]:
        preset = GaugeMetricFamily("headway_preset_info", "-", labels=("preset", "revision"))
        preset.add_metric([self.preset, str(self.revision)], 1)
        yield preset
        yield labelled(CounterMetricFamily, "headway_preset_changes_total", "preset", self.preset_changes)
        build = GaugeMetricFamily("headway_build_info", "-", labels=("version", "backend"))
        build.add_metric(["0.1.0", self.backend], 1)
        yield build

    def _plain_families(self) -> Iterator[Metric]:
        plain = {
            "headway_seats_taken": sum(self.in_flight.values()),
            "headway_queue_tokens": sum(self.queued.values()) * 60,
            "headway_queue_bytes": sum(self.queued.values()) * 240,
            "headway_batch_window_seconds": self.presets[self.preset].batching.window_ms / 1000,
            "headway_ready": self.ready,
            "headway_last_change_timestamp_seconds": self.last_change_s,
            "process_start_time_seconds": self.started_s,
            "headway_engine_kv_cache_usage_ratio": self.kv_ratio,
            "headway_engine_running": sum(self.in_flight.values()),
            "headway_engine_waiting": 0,
            "headway_memory_limit_bytes": 24 * GIB,
            "vllm:num_requests_running": sum(self.in_flight.values()),
            "vllm:kv_cache_usage_perc": self.kv_ratio,
        }
        for name, value in plain.items():
            yield GaugeMetricFamily(name, "-", value=float(value))

    def _engine_families(self) -> Iterator[Metric]:
        states = {one: float(one == self.state) for one in ("up", "silent", "restarting", "lost")}
        yield labelled(GaugeMetricFamily, "headway_engine_state", "state", states)
        deaths = {cause: self.deaths[cause] for cause in Cause}
        yield labelled(CounterMetricFamily, "headway_engine_deaths_total", "cause", deaths)
        yield CounterMetricFamily("headway_engine_hangs_total", "-", value=self.hangs)
        last_s = {stage: rounds_s[-1] for stage, rounds_s in self.warmup.stages.items()}
        yield labelled(GaugeMetricFamily, "headway_warmup_duration_seconds", "stage", last_s)
        for name, value in (("generation_tokens", self.tokens), ("prompt_tokens", 1.5 * self.tokens),
                            ("num_preemptions", 0), ("prefix_cache_queries", self.tokens),
                            ("prefix_cache_hits", 0.3 * self.tokens)):  # fmt: skip
            yield labelled(CounterMetricFamily, f"vllm:{name}_total", "model_name", {"stub": value})

    def _ladder_families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("headway_fallback_rung", "-", value=float(self.rung))
        steps = CounterMetricFamily("headway_fallback_steps_total", "-", labels=("rung", "trigger"))
        for rung, trigger in itertools.product(Rung, Trigger):
            steps.add_metric([rung.word, trigger], self.rung_steps[rung.word, trigger])
        degraded = CounterMetricFamily("headway_degraded_total", "-", labels=("class", "kind"))
        for name, how in itertools.product(CLASSES, Degradation):
            degraded.add_metric([name, how], self.degraded[name, how])
        yield from (steps, degraded)

    def _upkeep_families(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("headway_memory_cap_ratio", "-", value=self.cap_ratio)
        cleared = {cache: self.cleared[cache] for cache in Cache}
        yield labelled(CounterMetricFamily, "headway_cache_clears_total", "cache", cleared)
        recycled = {trigger: self.recycled[trigger] for trigger in ("command", "schedule", "growth")}
        yield labelled(CounterMetricFamily, "headway_recycles_total", "trigger", recycled)
        pauses = HistogramMetricFamily("headway_gc_pause_seconds", "-", labels=("generation",))
        pauses.add_metric(["0"], buckets(self.collections, GC_BOUNDS), self.collected_s)
        yield pauses
        held = {"weights": 0.55 * GIB, "kv_cache": 0.9 * GIB}
        yield labelled(GaugeMetricFamily, "headway_engine_memory_bytes", "component", held)
        resident = {"api_server": 0.42 * GIB, "engine": 1.65 * GIB + self.kv_ratio * 2e7}
        yield labelled(GaugeMetricFamily, "headway_process_resident_bytes", "process", resident)
        busy = {"api_server": 0.12, "engine": min(1.0, 0.1 + 0.02 * sum(self.in_flight.values())), "machine": 0.6}
        yield labelled(GaugeMetricFamily, "headway_processor_busy_ratio", "process", busy)
        if self.gpu:
            yield labelled(GaugeMetricFamily, "headway_gpu_memory_used_bytes", "gpu", {"0": 71.3 * GIB})
            yield labelled(GaugeMetricFamily, "headway_gpu_memory_total_bytes", "gpu", {"0": 79.6 * GIB})


def labelled(kind: Any, name: str, label: str, values: dict[str, float]) -> Metric:
    """A family with one label."""
    family: Metric = kind(name, "-", labels=(label,))
    for value, number in values.items():
        family.add_metric([value], number)  # type: ignore[attr-defined]  # both families used here have it
    return family


def observe(counts: list[float], bounds: tuple[float, ...], value: float) -> None:
    """Count one observation in its bucket."""
    counts[next((at for at, bound in enumerate(bounds) if value <= bound), len(bounds))] += 1


def buckets(counts: list[float], bounds: tuple[float, ...]) -> list[tuple[str, float]]:
    """Cumulative buckets as the exposition has them."""
    total, found = 0.0, []
    for bound, count in zip((*map(str, bounds), "+Inf"), counts, strict=True):
        total += count
        found.append((bound, total))
    return found


def as_bytes(body: BaseModel | dict[str, Any] | bytes | str) -> bytes:
    """What is sent of a body."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    return (body.model_dump_json() if isinstance(body, BaseModel) else json.dumps(body)).encode()


class StubServer:
    """Serves a world on a free loopback port until the ``with`` block ends."""

    def __init__(
        self, *, gpu: bool = False, moving: bool = False, admin: bool = True, port: int = 0, load: float = 1.0
    ) -> None:
        self.world = World(gpu=gpu)
        self.world.load = load
        self.admin = admin
        self.moving = moving
        self.delay_s = 0.0
        self.silent = threading.Event()
        self.forced: dict[tuple[str, str], tuple[int, dict[str, Any] | str]] = {}
        self.requests: list[tuple[str, str]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self.world)
        self._stop = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._http.daemon_threads = True
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> StubServer:
        for work in (lambda: self._http.serve_forever(0.05), self._move):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port and end the threads. Safe to call twice."""
        if not self._stop.is_set():
            self._stop.set()
            self._http.shutdown()
            self._http.server_close()
            for thread in self._threads:
                thread.join(5)

    def _move(self) -> None:
        while not self._stop.wait(0.25):
            if self.moving:
                self.world.step(0.25)

    def scrape(self) -> bytes:
        """The text of /metrics."""
        return generate_latest(self._registry)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # http.server calls this name
                stub.answer(self)

            def do_PUT(self) -> None:  # http.server calls this name
                stub.answer(self)

            def do_POST(self) -> None:  # http.server calls this name
                stub.answer(self)

            def log_message(self, format: str, *values: Any) -> None:  # noqa: A002  # http.server passes this name
                pass

        return Handler

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path = request.path.split("?")[0]
        self.requests.append((request.command, request.path))
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length)
        if self.delay_s:
            self._stop.wait(self.delay_s)
        if (request.command, path) in self.forced:
            status, forced = self.forced[request.command, path]
            return self._send(request, status, forced)
        if path == "/metrics":
            return self._send(request, 200, self.scrape(), kind="text/plain; version=0.0.4; charset=utf-8")
        if path == "/headway/readyz":
            reasons = self.world.reasons()
            return self._send(request, 503 if reasons else 200, schema.Readiness(ready=not reasons, reasons=reasons))
        if path.startswith("/headway/v1/"):
            return self._admin(request, path.removeprefix("/headway/v1/"), body)
        return self._problem(request, 404, "no such page")

    def _admin(self, request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        if not self.admin:
            return self._problem(request, 404, "The admin API is off. Set HEADWAY_ADMIN_TOKEN.")
        roles = {f"Bearer {OPERATOR_TOKEN}": "operator", f"Bearer {VIEWER_TOKEN}": "viewer"}
        role = roles.get(request.headers.get("Authorization", ""))
        if role is None:
            return self._problem(request, 401, "A valid token is needed.")
        world = self.world
        if request.command == "PUT" and path == "preset":
            return self._switch(request, role, body)
        if request.command in ("PUT", "POST"):
            return self._carry_out(request, path, role, body)
        if path == "fallback":
            return self._send(request, 200, world.ladder())
        if path == "presets":
            listed = [preset_entry(preset) for preset in world.presets.values()]
            return self._send(request, 200, schema.PresetList(current=world.current(), presets=listed))
        if path == "preset":
            return self._send(request, 200, current_preset(world.presets[world.preset], world.revision), etag=True)
        if path == "audit":
            return self._send(request, 200, schema.AuditLog(entries=world.audit[:50]))
        if path == "status":
            return self._send(request, 200, world.status())
        return self._problem(request, 404, "no such page")

    def _carry_out(self, request: BaseHTTPRequestHandler, path: str, role: str, body: bytes) -> None:
        """An order to the ladder, or a recycle."""
        if role != "operator":
            return self._problem(request, 403, "This token may read but not change anything.")
        world, wanted = self.world, json.loads(body)
        who = {"actor": wanted.get("actor") or role, "role": role, "address": "127.0.0.1"}
        reason = wanted.get("reason", "")
        if path == "fallback":
            word, before = wanted["rung"], world.rung.word
            if word is not None and word not in world.usable:
                return self._problem(request, 422, f"{word} has nothing to do here.")
            world.climb(Rung.NORMAL if word is None else Rung[word.upper()], "operator", ordered=word is not None)
            world.note(who, before, world.rung.word, reason, "applied", "order_fallback")
            return self._send(request, 200, world.ladder())
        if path != "recycle":
            return self._problem(request, 404, "no such page")
        if not world.can_replace:
            return self._problem(request, 501, "this server cannot replace its engine; restart it.")
        if world.recycling:
            return self._problem(request, 409, "a recycle is under way.")
        world.recycling = True
        world.note(who, world.preset, world.preset, reason, "accepted", "recycle_engine")
        taken = sum(world.in_flight.values())
        return self._send(request, 202, schema.RecycleAccepted(accepted=True, seats_taken=taken))

    def _switch(self, request: BaseHTTPRequestHandler, role: str, body: bytes) -> None:
        who = {"actor": role, "role": role, "address": "127.0.0.1"}
        if role != "operator":
            return self._problem(request, 403, "This token may read but not change anything.")
        expected = request.headers.get("If-Match")
        if expected is None:
            return self._problem(request, 428, "Send If-Match.")
        wanted = json.loads(body)
        who["actor"] = wanted.get("actor") or role
        if expected != f'"{self.world.revision}"':
            refused = f"refused: revision {self.world.revision} runs now"
            self.world.note(who, self.world.preset, wanted["name"], wanted.get("reason", ""), refused)
            return self._problem(request, 412, f"Revision {self.world.revision} runs now.")
        if wanted["name"] not in self.world.presets:
            return self._problem(request, 422, f"unknown preset {wanted['name']!r}.")
        return self._send(request, 200, self.world.switch(wanted["name"], who, wanted.get("reason", "")), etag=True)

    def _problem(self, request: BaseHTTPRequestHandler, status: int, detail: str) -> None:
        self._send(request, status, problem(status, detail), kind="application/problem+json")

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        body: BaseModel | dict[str, Any] | bytes | str,
        *,
        kind: str = "application/json",
        etag: bool = False,
    ) -> None:
        content = as_bytes(body)
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(content)))
        if etag:
            request.send_header("ETag", f'"{self.world.revision}"')
        with contextlib.suppress(ConnectionError):  # a client that had enough of waiting
            request.end_headers()
            request.wfile.write(content)
