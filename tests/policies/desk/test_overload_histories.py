"""Long random histories of an overload, with objectives and several seats that come free at once, before the oracle."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from small_presets import small_preset, terms
from tiers import LONG
from watched_desk import WatchedDesk

from headway_policies import CapReason, Load, Preset, Reason, Reject
from headway_policies.limits import LimitSettings

EVENTS = 1500 if LONG else 180
#: At least so many histories of each, and more where those refuse nothing for an objective.
LEAST_HISTORIES, MOST_HISTORIES = (2 if LONG else 1), 12
STRATEGIES: dict[str, dict[str, Any]] = {
    "continuous": {},
    "dynamic": {"strategy": "dynamic", "window_ms": 200},
    "dynamic, bins": {"strategy": "dynamic", "window_ms": 200, "bins": 3},
}


def preset(between: str, inside: str, batching: dict[str, Any], limit: LimitSettings | None = None) -> Preset:
    """Three classes with short objectives and long time-outs."""
    classes = {
        name: terms(priority, places=14, queue_s=30, total_s=90, ttft_slo_s=slo_s, burst_s=0.5, reserved_seats=held)
        for name, priority, slo_s, held in (("urgent", 3, 1.0, 1), ("middle", 2, 1.5, 0), ("low", 1, 3.0, 0))
    }
    return small_preset(4, classes=classes, between=between, inside=inside, batching=batching, limit=limit)


class History:
    """Arrivals at about twice what is served, in bursts, of all classes; tokens, ends, pauses and crashes."""

    def __init__(self, preset: Preset, seed: int) -> None:
        self.it, self.random = WatchedDesk(preset, ceiling=8), Random(seed)
        self.refused = Counter[Reason]()

    def plays(self) -> Counter[Reason]:
        """Play it; the refusals by their reason."""
        for _ in range(EVENTS):
            self.passes()
            self.happens()
            self.it.oracle.check(self.it.now_s)
        return self.refused

    def passes(self) -> None:
        """Time passes with a tick for every wish, and now and then an engine step."""
        self.sees(self.it.passes(self.random.expovariate(12.0)))
        if self.random.random() < 0.2:
            step_s = self.random.choice((0.02, 0.02, 0.2))
            load = Load(len(self.it.oracle.running), 0, self.random.choice((0.1, 0.1, 0.97)), inter_token_s=step_s)
            self.it.oracle.objectives.stepped_s = self.it.now_s
            self.sees(self.it.does("observe", load))

    def happens(self) -> None:
        """One event."""
        it, random, running = self.it, self.random, sorted(self.it.oracle.running)
        what = random.random()
        if what < 0.6 or not running:
            name = random.choice(("urgent", "middle", "middle", "low"))
            more = {"seats": random.choice((1, 1, 1, 1, 2, 3)), "prompt_tokens": random.choice((10, 200))}
            self.sees(it.comes(name, tenant=random.choice("ab"), max_tokens=random.choice((10, 500)), **more))
        elif what < 0.75:
            self.sees(it.token(random.choice(running)))
        elif what < 0.97:
            self.sees(it.leaves(random.choice(running)))
        elif what < 0.985:
            self.sees(it.does("cap_seats", CapReason.MEMORY, random.choice((0.25, 1.0, 1.0))))
        elif what < 0.99:
            self.sees(it.does("engine_restarting", set(running) - it.oracle.token_s.keys()))
            self.sees(it.does("engine_back"))
        else:
            self.sees(it.does(random.choice(("pause", "resume"))))
            self.sees(it.does("resume"))

    def sees(self, effects: list[Any]) -> None:
        """Count the refusals."""
        self.refused.update(one.reason for one in effects if isinstance(one, Reject))


#: Each two of an order, a line and a strategy meet; in the long form each three.
MEETINGS = [
    pytest.param(between, inside, strategy, id=f"{between}-{inside}-{strategy}")
    for first, between in enumerate(("strict", "ageing", "weighted"))
    for second, inside in enumerate(("fifo", "edf", "fair", "prefix"))
    for third, strategy in enumerate(STRATEGIES)
    if LONG or (first + second) % len(STRATEGIES) == third
]


@pytest.mark.parametrize(("between", "inside", "strategy"), MEETINGS)
def test_every_invariant_holds_in_an_overload(between: str, inside: str, strategy: str) -> None:
    """Whatever the order and the strategy: no refusal for an objective while less urgent work is served in its place,
    none without another of its class that is, and each ticket has one outcome.
    """
    refused = 0
    for seed in range(MOST_HISTORIES):
        reasons = History(preset(between, inside, STRATEGIES[strategy]), seed).plays()
        refused += reasons[Reason.OBJECTIVE_UNREACHABLE] + reasons[Reason.OBJECTIVE_INFEASIBLE]
        if seed + 1 >= LEAST_HISTORIES and refused:
            break
    assert refused > 0


@pytest.mark.parametrize("between", ["strict", "ageing", "weighted"])
@pytest.mark.parametrize("inside", ["fifo", "fair"])
def test_every_invariant_holds_under_a_limit_that_moves(between: str, inside: str) -> None:
    """The most urgent class takes seats beyond the limit, within its share, and never beyond the highest limit."""
    limit = LimitSettings(policy="aimd", inter_token_slo_ms=50, max_seats=7, memory_aware=True)
    for seed in range(LEAST_HISTORIES):
        history = History(preset(between, inside, {}, limit), seed)
        history.plays()
        assert history.it.desk.ledger.classes["urgent"].arrived > 0
