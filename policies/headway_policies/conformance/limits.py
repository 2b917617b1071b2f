"""Conformance suite for limits and limit policies.

Pseudo-random histories of a closed loop: all seats that the limit allows are taken. Their parts: fair load, steps
without a time between tokens, zeros only, huge values, an idle hour, a running engine that reports nothing, an SLO
breach, a storm of preemptions. After every step the rules of ``RULES`` are checked. The rules that concern safety must
be kept; the others state how a limit should behave, and an author may break them on purpose (``accept``).

The governor needs no rule: whatever a policy proposes, the limit in force is between min_seats and the ceiling of its
preset and never exceeds the engine's capacity. Not checked: that a policy returns at all, whether a limit is any good,
and the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from headway_policies.import_path import FAILURES, cause
from headway_policies.limits import WHYS, Governor, Interval, Limit, LimitPolicy, LimitSettings, Load, Signals

_STEPS = 120
_STEP_S = 0.1
_BREACH_SHOWS_STEPS = 30
_FAIR_PARTS = 6
_PARTS = ("fair", "untimed", "zeros", "huge", "idle", "silent", "breach", "storm")
_SEATS = (1, 16, 500)


@dataclass(frozen=True, slots=True)
class Rule:
    """A requirement, in one sentence. ``acceptable``: its author may break it, since it does not concern safety."""

    name: str
    statement: str
    acceptable: bool = False


#: All rules for limits and limit policies, by name.
RULES = {
    rule.name: rule
    for rule in (
        Rule("never-raises", "A policy never raises, whatever the engine reports."),
        Rule("whole-number", "A policy proposes a whole number (int)."),
        Rule("at-least-one", "A limit is a whole number of at least 1."),
        Rule("repeatable", "Two calls at one instant return the same limit."),
        Rule("known-reason", "The reason of a limit is a key of governor.WHYS."),
        Rule(
            "no-growth-in-breach",
            f"The limit does not grow once the time between tokens has been over the SLO for "
            f"{_BREACH_SHOWS_STEPS * _STEP_S:g} s.",
            acceptable=True,
        ),
        Rule(
            "recovers",
            f"After a storm of preemptions, {_FAIR_PARTS * _STEPS * _STEP_S:g} s of fair load bring the limit back to "
            "at least half of its value before the storm.",
            acceptable=True,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Violation:
    """The first violation of a rule: the history and event, what was expected, and what was returned."""

    rule: Rule
    event: str
    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.rule.statement} At {self.event}: expected {self.expected}, got {self.actual}"


def check_limit(
    make: Callable[[], Limit],
    seeds: Iterable[int] = range(10),
    inter_token_slo_s: float = 0.075,
    accept: Collection[str] = (),
) -> None:
    """Raise AssertionError unless the limits that ``make`` makes keep, under that SLO, all rules but ``accept``."""
    report = _Report()
    for seed in seeds:
        _History(make(), inter_token_slo_s, seed, report, f"seed {seed}").run()
        _raise_first(report.found(), accept)


def check_limit_policy(
    make: Callable[[LimitSettings, int], LimitPolicy], seeds: Iterable[int] = range(10), accept: Collection[str] = ()
) -> None:
    """Raise AssertionError unless the policies that ``make`` makes keep all rules but ``accept`` under the governor."""
    _raise_first(violations(make, seeds), accept)


def violations(make: Callable[[LimitSettings, int], LimitPolicy], seeds: Iterable[int] = range(10)) -> list[Violation]:
    """Every rule that the policies of ``make`` break under the governor, with its first violation."""
    report = _Report()
    for seed in seeds:
        for fixed in _SEATS:
            settings = LimitSettings()
            governor = Governor(_Watched(make(settings, fixed), report), settings, fixed, None)
            history = f"seed {seed}, {fixed} seats at the start"
            _History(governor, settings.slo_s(None), seed, report, history).run()
    return report.found()


def _raise_first(found: Iterable[Violation], accept: Collection[str]) -> None:
    for violation in found:
        if not (violation.rule.acceptable and violation.rule.name in accept):
            raise AssertionError(str(violation))


class _Ended(Exception):
    """The history cannot continue."""


class _Report:
    """The first violation of each rule. ``event`` is the current event of the history."""

    def __init__(self) -> None:
        self.event = ""
        self._found: dict[str, Violation] = {}

    def expect(self, rule: str, kept: bool, expected: str, actual: str) -> None:
        """Record a violation unless ``kept``."""
        if not kept and rule not in self._found:
            self._found[rule] = Violation(RULES[rule], self.event, expected, actual)

    def found(self) -> list[Violation]:
        """All violations, in the order of their occurrence."""
        return list(self._found.values())


class _Watched:
    """Passes a policy's proposals on and records violations."""

    def __init__(self, policy: LimitPolicy, report: _Report) -> None:
        self._policy = policy
        self._report = report

    def propose(self, seen: Interval, allowed: int) -> int:
        try:
            proposal = self._policy.propose(seen, allowed)
        except FAILURES as error:
            self._report.expect("never-raises", False, _asked(seen, allowed), cause(error))
            raise
        if type(proposal) is not int:
            self._report.expect("whole-number", False, _asked(seen, allowed), repr(proposal))
        return proposal


def _asked(seen: Interval, allowed: int) -> str:
    return f"a whole number from propose({seen!r}, allowed={allowed})"


class _History:
    """The history of a limit in a closed loop, through all parts in a seeded order."""

    def __init__(self, limit: Limit, slo_s: float, seed: int, report: _Report, name: str) -> None:
        self._limit = limit
        self._slo_s = slo_s
        self._report = report
        self._name = name
        self._random = Random(seed)  # noqa: S311 - repeatable, not secret
        self._now_s = self._random.choice((0.0, 1e6))

    def run(self) -> None:
        """Run all parts, or as many as possible."""
        try:
            self._check("start", 0)
            for part in self._random.sample(_PARTS, len(_PARTS)):
                self._run_part(part)
        except _Ended:
            return

    def _run_part(self, part: str) -> None:
        before = self._limit.seats(self._now_s)
        allowed = self._play(part)
        if part == "breach":
            late = list(enumerate(allowed))[_BREACH_SHOWS_STEPS:]
            for (_, earlier), (step, seats) in pairwise(late):
                self._at(part, step)
                self._report.expect("no-growth-in-breach", seats <= earlier, f"{earlier} seats or fewer", f"{seats}")
        if part == "storm":
            after = max(self._play("fair")[-1] for _ in range(_FAIR_PARTS))
            self._at("after the storm", _FAIR_PARTS * _STEPS)
            least = f"{(before + 1) // 2} seats or more, with {before} before the storm"
            self._report.expect("recovers", 2 * after >= before, least, f"{after}")

    def _play(self, part: str) -> list[int]:
        """The limit after each step of a part."""
        allowed = []
        for step, (load, pause_s) in enumerate(self._loads(part)):
            self._now_s += pause_s
            self._at(part, step)
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
        """Check the rules that always apply. Raises _Ended for a limit that is not usable."""
        self._at(part, step)
        report, limit, now_s = self._report, self._limit, self._now_s
        seats, proposed = limit.seats(now_s), limit.proposed(now_s)
        for number in (seats, proposed):
            whole = type(number) is int and number >= 1
            report.expect("at-least-one", whole, "a whole number of at least 1", repr(number))
            if not whole:
                raise _Ended
        again = limit.seats(now_s), limit.proposed(now_s)
        report.expect("repeatable", again == (seats, proposed), f"{(seats, proposed)} again", f"{again}")
        report.expect("known-reason", limit.why in WHYS, "a key of governor.WHYS", repr(limit.why))
        return seats

    def _at(self, part: str, step: int) -> None:
        self._report.event = f"{self._name}, {part}, step {step}"
