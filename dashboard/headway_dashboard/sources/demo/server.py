"""The server of the demo: requests that arrive, wait for a seat, run and end, by a small deterministic model.

A step of the engine takes a base and a part for each sequence, so that a larger batch serves more and each request
longer. Random numbers are replaced by multiples of the golden ratio, which fill the interval from 0 to 1 evenly.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from headway_dashboard.sources.demo import script
from headway_dashboard.sources.demo.histogram import DURATIONS_S, PAUSES_S, SIZES, Histogram
from headway_policies import Outcome, Reason
from headway_policies.fallback import Rung
from headway_policies.limits import ObjectivesNow, Unloaded, resolved
from headway_policies.request.outcome import REFUSED

CLASSES = tuple(script.RATES_PER_S)
WEIGHTS: Mapping[str, float] = {"realtime": 60.0, "normal": 30.0, "batch": 10.0}
QUEUE_TIMEOUTS_S: Mapping[str, float] = {"realtime": 5.0, "normal": 30.0, "batch": 300.0}
#: What of a request is measured: wait, first token, time between tokens, whole request, and its phases.
MEASURED = ("wait", "first_token", "inter_token", "end_to_end", "prefill", "decode")
MAX_QUEUED = 60
_GOLDEN = 0.6180339887498949
_SLICE_S = 1.0
_STEP_S, _SEQUENCE_S = 0.02, 0.0012
#: What the simulated engine takes for one request alone, and the usual prompt.
UNLOADED = Unloaded(_STEP_S + _SEQUENCE_S, 0.0008)
USUAL_PROMPT_TOKENS = 220.0
_CAP_AFTER_S, _CAP_UNTIL_S = 10.0, 2.0
_KV_FULL_RATIO = 0.85


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the demo."""

    class_name: str
    arrived_s: float
    number: int

    @property
    def tokens(self) -> int:
        """Tokens of its answer, 20 to 100."""
        return 20 + self.number * 37 % 81

    @property
    def prompt_tokens(self) -> int:
        """Tokens of its prompt, 40 to 400."""
        return 40 + self.number * 151 % 361


class SimulatedServer:
    """The state at ``now_s``, and the counters since it began. ``advance`` moves it on."""

    def __init__(self, began_s: float) -> None:
        self.began_s = self.now_s = began_s
        self.queued: dict[str, deque[Request]] = {name: deque() for name in CLASSES}
        self.running: Counter[str] = Counter()
        self.arrived: Counter[str] = Counter()
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.finishes: Counter[tuple[str, str]] = Counter()
        self.judged: Counter[tuple[str, str]] = Counter()
        self.met: Counter[tuple[str, str]] = Counter()
        self.retries: Counter[str] = Counter()
        self.degraded: Counter[tuple[str, str]] = Counter()
        self.rung_steps: Counter[tuple[str, str]] = Counter()
        self.output_tokens: Counter[str] = Counter()
        self.input_tokens: Counter[str] = Counter()
        self.tokens = self.prompt_tokens = self.prefix_hits = self.preemptions = 0.0
        self.rung = Rung.NORMAL
        self.measured = {(what, name): Histogram(DURATIONS_S) for what in MEASURED for name in CLASSES}
        self.batch, self.token_times_s, self.pauses_s = (Histogram(one) for one in (SIZES, DURATIONS_S, PAUSES_S))
        self._turns = dict.fromkeys(CLASSES, 0.0)
        self._ends: list[tuple[float, int, Request, float]] = []
        self._numbers = itertools.count(1)
        self._next_arrival_s = began_s
        self._crashes = script.crashes(began_s)

    @property
    def seats_taken(self) -> int:
        """Requests that run."""
        return sum(self.running.values())

    @property
    def queued_in_all(self) -> int:
        """Requests that wait."""
        return sum(len(waiting) for waiting in self.queued.values())

    @property
    def revision(self) -> int:
        """The revision of the preset in force; the server began with the first."""
        return script.switches(self.now_s) - script.switches(self.began_s) + 1

    @property
    def deaths(self) -> int:
        """Crashes of the engine since the server began."""
        return script.crashes(self.now_s) - script.crashes(self.began_s)

    @property
    def limit(self) -> int:
        """The seats of the preset in force."""
        return min(script.preset_at(self.now_s).batching.seats, script.CEILING)

    @property
    def up(self) -> bool:
        """Whether the engine works."""
        return not script.restarting(self.now_s)

    @property
    def kv_ratio(self) -> float:
        """The share of the KV cache that is in use."""
        return min(0.98, 0.04 + 0.0135 * self.seats_taken)

    @property
    def step_s(self) -> float:
        """How long a step of the engine takes now."""
        return _STEP_S + _SEQUENCE_S * self.seats_taken

    def oldest_s(self, name: str) -> float:
        """How long the oldest waiting request of a class has waited."""
        waiting = self.queued[name]
        return self.now_s - waiting[0].arrived_s if waiting else 0.0

    def advance(self, to_s: float) -> None:
        """Let time pass."""
        while self.now_s < to_s:
            until_s = min(to_s, self.now_s + _SLICE_S)
            self._slice(until_s - self.now_s)
            self._events(until_s)
            self.now_s = until_s
            self._expire()
            self._crash()
            self._climb()
            self._fill()

    def _slice(self, seconds: float) -> None:
        """What the engine does in a moment in which the batch stays the same."""
        taken = self.seats_taken
        if taken and self.up:
            steps = seconds / self.step_s
            self.batch.observe(taken, steps)
            self.token_times_s.observe(self.step_s, steps * taken)
            self.tokens += steps * taken
        if self.kv_ratio > _KV_FULL_RATIO:
            self.preemptions += 0.2 * seconds
        self.pauses_s.observe(0.0008 + 0.006 * self._uniform(int(self.now_s)))

    def _events(self, until_s: float) -> None:
        """Arrivals and ends up to a time, in their order."""
        while True:
            end_s = self._ends[0][0] if self._ends and self.up else float("inf")
            self.now_s = min(self._next_arrival_s, end_s)
            if self.now_s > until_s:
                return
            if end_s <= self._next_arrival_s:
                self._end()
            else:
                self._arrive()
            self._fill()

    def _arrive(self) -> None:
        number = next(self._numbers)
        per_s = sum(script.RATES_PER_S.values()) * script.load_factor(self.now_s)
        self._next_arrival_s = self.now_s - log(1 - self._uniform(number)) / per_s
        name = self._class_of(number)
        self.arrived[name] += 1
        if len(self.queued[name]) >= MAX_QUEUED:
            self.decisions[name, "rejected"] += 1
            self._refuse(name, Reason.CLASS_QUEUE_FULL)
            return
        free = self.up and self.seats_taken < self.limit and not any(self.queued.values())
        self.decisions[name, "seated" if free else "queued"] += 1
        if not self.queued[name]:
            others = [self._turns[one] for one in CLASSES if self.queued[one]]
            self._turns[name] = max(self._turns[name], min(others, default=0.0))
        self.queued[name].append(Request(name, self.now_s, number))

    def _class_of(self, number: int) -> str:
        at = self._uniform(7 * number + 3) * sum(script.RATES_PER_S.values())
        for name, per_s in script.RATES_PER_S.items():
            at -= per_s
            if at < 0:
                return name
        return CLASSES[-1]

    def _fill(self) -> None:
        """Give free seats to the classes by their shares."""
        while self.up and self.seats_taken < self.limit and (waiting := [one for one in CLASSES if self.queued[one]]):
            name = min(waiting, key=lambda one: self._turns[one])
            self._turns[name] += 1 / WEIGHTS[name]
            self._start(self.queued[name].popleft())

    def _start(self, request: Request) -> None:
        name, wait_s = request.class_name, self.now_s - request.arrived_s
        self.running[name] += 1
        self.prompt_tokens += request.prompt_tokens
        self.prefix_hits += 0.3 * request.prompt_tokens
        tokens = min(request.tokens, 40) if self.rung >= Rung.CAP and name == "batch" else request.tokens
        self.degraded[name, "max_tokens"] += tokens < request.tokens
        token_s, prefill_s = self.step_s, UNLOADED.first_token_s(request.prompt_tokens)
        self._measure(name, wait=wait_s, first_token=wait_s + prefill_s, prefill=prefill_s)
        end_s = self.now_s + prefill_s + tokens * token_s
        heapq.heappush(self._ends, (end_s, request.number, request, token_s))

    def _end(self) -> None:
        end_s, _, request, token_s = heapq.heappop(self._ends)
        name = request.class_name
        self.running[name] -= 1
        self.output_tokens[name] += request.tokens
        self.input_tokens[name] += request.prompt_tokens
        if request.number % 97 == 0:
            self.outcomes[name, Outcome.CANCELLED_RUNNING] += 1
            return
        if request.number % 400 == 0:
            self.outcomes[name, Outcome.FAILED] += 1
            return
        self.outcomes[name, Outcome.COMPLETED] += 1
        self.finishes[name, "length" if request.number % 3 == 0 else "stop"] += 1
        decode_s = request.tokens * token_s
        self._measure(name, inter_token=token_s, end_to_end=end_s - request.arrived_s, decode=decode_s)
        first_token_s = end_s - request.arrived_s - decode_s
        self._judge(name, request.prompt_tokens, first_token_s=first_token_s, inter_token_s=token_s)

    def _measure(self, name: str, **durations_s: float) -> None:
        for what, value_s in durations_s.items():
            self.measured[what, name].observe(value_s)

    def objectives(self, name: str) -> ObjectivesNow:
        """The objectives of a class of the preset in force on this engine."""
        return ObjectivesNow.of(script.preset_at(self.now_s).classes[name], UNLOADED, USUAL_PROMPT_TOKENS)

    def _judge(self, name: str, prompt_tokens: int, first_token_s: float, inter_token_s: float) -> None:
        """Against the objectives of the preset in force; a class without one is not judged by it."""
        terms = script.preset_at(self.now_s).classes[name]
        found = resolved(terms, UNLOADED, prompt_tokens, USUAL_PROMPT_TOKENS)
        kept = {
            what: value_s <= bound_s
            for what, value_s, bound_s in (
                ("first_token", first_token_s, found.ttft_s),
                ("inter_token", inter_token_s, found.inter_token_s),
            )
            if bound_s is not None
        }
        for what, met in ({**kept, "both": all(kept.values())} if kept else {}).items():
            self.judged[name, what] += 1
            self.met[name, what] += met

    def _refuse(self, name: str, reason: Reason) -> None:
        self.refusals[name, reason] += 1
        self.outcomes[name, REFUSED[reason]] += 1
        for what in ("first_token", "both"):
            self.judged[name, what] += 1

    def _expire(self) -> None:
        for name, waiting in self.queued.items():
            while waiting and self.now_s - waiting[0].arrived_s > QUEUE_TIMEOUTS_S[name]:
                waiting.popleft()
                self._refuse(name, Reason.QUEUE_TIMEOUT)

    def _crash(self) -> None:
        """The requests of an engine that died are retried, but for one that had sent output."""
        crashes = script.crashes(self.now_s)
        if crashes == self._crashes:
            return
        self._crashes = crashes
        died = [request for _, _, request, _ in sorted(self._ends, reverse=True)]
        self._ends.clear()
        self.running.clear()
        for request in died[1:]:
            self.retries[request.class_name] += 1
            self.queued[request.class_name].appendleft(request)
        for request in died[:1]:
            self._refuse(request.class_name, Reason.ENGINE_LOST)

    def _climb(self) -> None:
        """The ladder shortens answers of the class batch while requests of the class normal wait long."""
        oldest_s = self.oldest_s("normal")
        if self.rung is Rung.NORMAL and oldest_s > _CAP_AFTER_S:
            self._move(Rung.CAP, "queue_age")
        elif self.rung is Rung.CAP and oldest_s < _CAP_UNTIL_S:
            self._move(Rung.NORMAL, "queue_age")

    def _move(self, rung: Rung, trigger: str) -> None:
        self.rung = rung
        self.rung_steps[rung.word, trigger] += 1

    @staticmethod
    def _uniform(number: int) -> float:
        return number * _GOLDEN % 1.0
