"""Does a limit, or a policy that proposes one, keep what its protocol promises?

Pseudo-random histories of a closed loop: whatever the limit allows is taken. Their parts: fair weather, steps without a
time between tokens, nothing but zeros, huge values, an idle hour, a running engine that falls silent, a breach of the
SLO, a storm of preemptions. Checked after every step: a whole number of at least 1, the same when asked again, with a
reason that is known; no growth once a breach has lasted; and after a storm the limit comes back, half the way at least.
Not checked: whether a limit is any good, and the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from random import Random

from headway_policies.governor import WHYS, Governor, LimitPolicy
from headway_policies.interval import Interval
from headway_policies.limits import Limit, Limiting, Load, Signals
from headway_policies.named import FAILURES, cause

_STEPS = 120
_STEP_S = 0.1
_BREACH_SHOWS_STEPS = 30
_FAIR_PARTS = 6
_PARTS = ("fair", "untimed", "zeros", "huge", "idle", "silent", "breach", "storm")


def check_limit(make: Callable[[], Limit], seeds: Iterable[int] = range(10), inter_token_slo_s: float = 0.075) -> None:
    """Raise AssertionError unless the limits that ``make`` makes keep the promises of ``Limit`` under that SLO."""
    for seed in seeds:
        _History(make(), inter_token_slo_s, seed).run()


def check_limit_policy(make: Callable[[Limiting, int], LimitPolicy], seeds: Iterable[int] = range(10)) -> None:
    """Raise AssertionError unless the policies that ``make`` makes propose whole numbers and do well on the rails."""
    for seed in seeds:
        for fixed in (1, 16, 500):
            limiting = Limiting()
            watched = _Watched(make(limiting, fixed))
            history = _History(Governor(watched, limiting, fixed, None), limiting.inter_token_slo_ms / 1000, seed)
            history.run()
            _expect(watched.complaint is None, f"seed {seed}, {fixed} seats: {watched.complaint}")


class _Watched:
    """Passes a policy's proposals on and keeps the first thing wrong with them."""

    def __init__(self, policy: LimitPolicy) -> None:
        self._policy = policy
        self.complaint: str | None = None

    def propose(self, seen: Interval, allowed: int) -> int:
        try:
            proposal = self._policy.propose(seen, allowed)
        except FAILURES as error:
            self.complaint = self.complaint or f"raised {cause(error)}"
            raise
        if type(proposal) is not int:
            self.complaint = self.complaint or f"proposed {proposal!r}, which is no whole number"
        return proposal


class _History:
    """One limit in a closed loop, through all parts in an order of the seed."""

    def __init__(self, limit: Limit, slo_s: float, seed: int) -> None:
        self._limit = limit
        self._slo_s = slo_s
        self._seed = seed
        self._random = Random(seed)  # noqa: S311 - repeatable, not secret
        self._now_s = self._random.choice((0.0, 1e6))

    def run(self) -> None:
        self._check("start", 0)
        for part in self._random.sample(_PARTS, len(_PARTS)):
            before = self._limit.seats(self._now_s)
            allowed = self._play(part)
            if part == "breach":
                late = allowed[_BREACH_SHOWS_STEPS:]
                grown = any(one > other for other, one in pairwise(late))
                _expect(not grown, f"seed {self._seed}: the limit grew while the time between tokens broke the SLO")
            if part == "storm":
                after = max(self._play("fair")[-1] for _ in range(_FAIR_PARTS))
                _expect(2 * after >= before, f"seed {self._seed}: {before} seats before a storm, {after} long after it")

    def _play(self, part: str) -> list[int]:
        """The limit after each step of a part."""
        allowed = []
        for step, (load, pause_s) in enumerate(self._loads(part)):
            self._now_s += pause_s
            limited = load.running > 0
            self._limit.observe(Signals(load, load.running, 5, limited, 64.0, 64.0, 60.0), self._now_s)
            allowed.append(self._check(part, step))
        if part == "silent":
            self._now_s += 3600
            self._check(part, _STEPS)
        return allowed

    def _loads(self, part: str) -> Iterator[tuple[Load, float]]:
        for _ in range(_STEPS):
            seats = self._limit.seats(self._now_s)
            fair_s = self._slo_s * self._random.uniform(0.1, 0.3)
            match part:
                case "untimed":
                    yield Load(seats, 3, 0.3, None, 640, kv_capacity_tokens=10**6), _STEP_S
                case "zeros":
                    yield Load(0, 0, 0.0, 0.0), self._random.choice((0.0, _STEP_S))
                case "huge":
                    yield Load(seats, 10**9, 1.0, self._random.choice((1e-9, 1e9)), 10**12, 0, 1), _STEP_S
                case "idle":
                    yield Load(0, 0, 0.0), 30.0
                case "breach":
                    yield Load(seats, 0, 0.2, 2 * self._slo_s, 64, kv_capacity_tokens=10**6), _STEP_S
                case "storm":
                    yield Load(seats, 9, 0.99, fair_s, 64, 3, kv_capacity_tokens=10**6), _STEP_S
                case _:
                    yield Load(seats, 0, 0.0005 * min(seats, 1000), fair_s, 64, kv_capacity_tokens=10**6), _STEP_S

    def _check(self, part: str, step: int) -> int:
        where = f"seed {self._seed}, {part}, step {step}"
        limit, now_s = self._limit, self._now_s
        seats, proposed = limit.seats(now_s), limit.proposed(now_s)
        for number in (seats, proposed):
            _expect(type(number) is int and number >= 1, f"{where}: the limit is {number!r}")
        again = limit.seats(now_s), limit.proposed(now_s)
        _expect(again == (seats, proposed), f"{where}: asked again it is {again}, not {(seats, proposed)}")
        _expect(limit.why in WHYS, f"{where}: {limit.why!r} is no known reason")
        return seats


def _expect(kept: bool, broken: str) -> None:
    if not kept:
        raise AssertionError(broken)
