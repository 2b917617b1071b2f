"""The health of an instance by its reports, on a clock that the test moves: one report a second."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from headway_policies.fallback import BreakerState
from headway_policies.routing import Demand, Report, ReportedInstance, ReportedInstances

CLOSED, HALF_OPEN, OPEN = BreakerState.CLOSED, BreakerState.HALF_OPEN, BreakerState.OPEN
SILENT_S = 10.0


class Told:
    """An instance, and its report of each second."""

    def __init__(self) -> None:
        self.health = ReportedInstance(SILENT_S)
        self.now_s = 0.0
        self.last = Report(0, ready=True, seats=4, load=0, kv_use=0.0)
        self.next()

    def next(self, *, ready: bool = True, answered: int = 0, failed: int = 0, tokens: int = 0) -> BreakerState:
        """The report of the next second, with so much more than the last one; the state after it."""
        self.now_s += 1.0
        self.last = replace(
            self.last,
            number=self.last.number + 1,
            ready=ready,
            answered=self.last.answered + answered,
            failed=self.last.failed + failed,
            tokens=self.last.tokens + tokens,
        )
        self.health.report(self.last, self.now_s)
        return self.health.state(self.now_s)

    def send(self) -> None:
        """A request is sent there, and runs."""
        self.health.sent(self.now_s)

    def out_s(self) -> int:
        """The seconds of good reports until it takes a request."""
        seconds = 0
        while not self.health.takes(self.now_s):
            self.next()
            seconds += 1
        return seconds

    def outage(self) -> int:
        """One bad report, and how long it is out after it."""
        self.next(ready=False)
        return self.out_s()


@pytest.fixture
def probed() -> Told:
    """One that has been out, and has its probe."""
    told = Told()
    assert told.outage() == 1
    told.send()
    assert not told.health.takes(told.now_s)
    return told


@dataclass(frozen=True)
class Case:
    """What the reports say after a probe was sent, and the state then."""

    reports: list[dict[str, Any]]
    state: BreakerState


CASES = {
    "an answer": Case([{"answered": 1}], CLOSED),
    "an answer and a failure": Case([{"answered": 1, "failed": 1}], CLOSED),
    "a failure": Case([{"failed": 1}], OPEN),
    "not ready": Case([{"ready": False}], OPEN),
    "tokens once": Case([{"tokens": 9}], HALF_OPEN),
    "tokens twice": Case([{"tokens": 9}, {}, {"tokens": 1}], CLOSED),
    "tokens and a failure": Case([{"tokens": 9}, {"tokens": 9, "failed": 1}], OPEN),
    "nothing yet": Case([{}, {}], HALF_OPEN),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_reports_after_a_probe_are_its_result(probed: Told, case: Case) -> None:
    """Of a request that still runs; until there is a result nothing else is sent."""
    states = [probed.next(**one) for one in case.reports]
    assert states[-1] is case.state
    assert probed.health.takes(probed.now_s) is (case.state is CLOSED)


@pytest.mark.parametrize("ends", [True, False])
def test_a_probe_without_a_result_is_followed_by_another_one(probed: Told, ends: bool) -> None:
    """At once where its request has ended, as when its client left; else when nothing was heard of it for long."""
    probed.health.own -= ends
    waited_s = 0
    while not probed.health.takes(probed.now_s):
        assert probed.next() is HALF_OPEN
        waited_s += 1
    assert waited_s == (1 if ends else SILENT_S)
    probed.send()
    assert probed.next(answered=1) is CLOSED


def test_an_answer_to_any_router_ends_the_probation() -> None:
    """Routers that send nothing to it learn so, too, as one whose probe has ended before the report of its answer."""
    told = Told()
    told.outage()
    assert told.next() is HALF_OPEN
    assert told.next(answered=1) is CLOSED


def test_only_a_probe_that_fails_makes_it_cool_for_longer() -> None:
    """A probe that is answered makes the next outage short again."""
    told, out = Told(), []
    for _ in range(4):
        out.append(told.outage())
        told.send()
        told.health.own -= 1
        assert told.next(answered=1) is CLOSED
    assert out == [1, 1, 1, 1]
    out = [told.outage()]
    for _ in range(3):
        told.send()
        told.next(failed=1)
        out.append(told.out_s())
    assert out == [1, 2, 4, 8]


def test_one_that_does_not_answer_serve_has_failed_its_probe(probed: Told) -> None:
    """And cools for two seconds, as after any probe that failed."""
    probed.health.unreachable(probed.now_s)
    assert not probed.health.takes(probed.now_s)
    assert probed.out_s() == 2


def test_one_that_never_reported_and_is_not_there_is_not_asked_again_at_once() -> None:
    """It would seem to be the least loaded of all, and each request would be sent to it first."""
    instances, now_s, first = ReportedInstances(SILENT_S), 100.0, 0
    instances.instance("a").report(Report(1, ready=True, seats=4, load=2, kv_use=0.1), now_s)
    for _ in range(50):
        order = instances.rank(["a", "b"], Demand(10), now_s)
        if order[0] == "b":
            first += 1
            instances.instance("b").unreachable(now_s)
    assert first == 1
    assert instances.rank(["b"], Demand(10), now_s) == ["b"]
    assert "b" in instances.rank(["a", "b"], Demand(10), now_s + SILENT_S)


def test_silence_is_no_result(probed: Told) -> None:
    """Where what the reports pass through was away, the probe is as it was, and is judged after it."""
    probed.now_s += 2 * SILENT_S
    assert probed.health.state(probed.now_s) is OPEN
    assert probed.next(answered=1) is CLOSED
