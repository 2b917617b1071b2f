"""The stuck watch: which engines that step are said to serve nothing, when, and for which cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from headway_policies import Recovery
from headway_policies.engine import STUCK_WORDS, StuckCause, StuckWatch

TERMS = Recovery(hang_after_s=10.0)
NAMED_S = 7.5


@dataclass(frozen=True)
class Step:
    """One step of an engine, as it reports it."""

    running: int = 0
    waiting: int = 0
    deferred: int = 0
    kv: float = 0.2
    served: bool = False
    computed: bool = False
    preempted: bool = False


class Watched:
    """A watch on virtual time."""

    def __init__(self) -> None:
        self.watch = StuckWatch()
        self.now_s = 1000.0

    def steps(self, steps: Iterable[Step], each_s: float) -> list[float]:
        """Make these steps; after each of them, for how long the engine is stuck."""
        found = []
        for step in steps:
            self.now_s += each_s
            self.watch.stepped(
                self.now_s,
                served=step.served,
                running=step.running,
                waiting=step.waiting,
                deferred=step.deferred,
                kv_usage_ratio=step.kv,
                computed=step.computed,
                preempted=step.preempted,
            )
            found.append(self.stuck_s)
        return found

    @property
    def stuck_s(self) -> float:
        """For how long it is stuck now."""
        return self.watch.stuck_s(self.now_s, TERMS)


@pytest.mark.parametrize(
    ("step", "compiling", "cause"),
    [
        (Step(waiting=3, kv=0.97), False, StuckCause.KV_FULL),
        (Step(waiting=3, deferred=2, kv=0.97), True, StuckCause.KV_FULL),
        (Step(running=2, waiting=1, kv=0.97), False, StuckCause.KV_FULL),
        (Step(waiting=3, kv=0.4), False, StuckCause.NOT_ADMITTED),
        (Step(waiting=3, deferred=2, kv=0.4), False, StuckCause.NOT_ADMITTED),
        (Step(waiting=3, deferred=3, kv=0.4), True, StuckCause.GRAMMAR),
        (Step(waiting=3, deferred=3, kv=0.97), False, StuckCause.DEFERRED),
        (Step(running=2, kv=0.4), True, StuckCause.NO_TOKENS),
    ],
    ids=lambda value: str(value) if isinstance(value, StuckCause) else None,
)
@pytest.mark.parametrize("each_s", [0.001, 0.3])
def test_an_engine_that_steps_and_serves_nothing_is_named_with_its_cause(
    step: Step, compiling: bool, cause: StuckCause, each_s: float
) -> None:
    """After three quarters of ``hang_after_s`` of such steps, however short they are, and no longer once it serves."""
    watched = Watched()
    watched.steps([Step(running=1, served=True)] * 5, 0.1)
    found = watched.steps([step] * round(12 / each_s), each_s)
    first = next(place for place, stuck_s in enumerate(found) if stuck_s)
    assert NAMED_S - 1.001 < each_s * first <= NAMED_S
    assert watched.watch.cause(compiling=compiling) is cause
    assert found[-1] == pytest.approx(12, abs=1.1)
    assert watched.steps([Step(running=1, served=True)], each_s) == [0.0]


def test_only_deferred_requests_keep_no_others_waiting() -> None:
    """Another request would be served beside them; each cause has its words."""
    assert {cause for cause in StuckCause if not cause.blocks_others} == {StuckCause.GRAMMAR, StuckCause.DEFERRED}
    assert set(STUCK_WORDS) == set(StuckCause)


PROMPT = [Step(running=1, waiting=2, kv=0.1 + 0.01 * chunk) for chunk in range(60)]


@pytest.mark.parametrize(
    ("steps", "each_s"),
    [
        ([Step(running=4, waiting=9, kv=0.99, served=True)] * 3600, 1.0),
        ([*PROMPT, Step(running=1, served=True)], 1.0),
        ([*PROMPT[:40], *(Step(running=1, kv=0.1 + 0.005 * chunk) for chunk in range(40))], 1.0),
        ([Step(running=1, waiting=place, kv=0.1 + 0.01 * place) for place in range(60)], 1.0),
        ([Step(running=1)] * 7, 60.0),
        ([Step()] * 100, 1.0),
        (([Step(running=1)] * 6 + [Step(running=1, served=True)]) * 100, 1.0),
        ([Step(running=1, kv=0.1 + 0.01 * (chunk // 16), computed=True) for chunk in range(800)], 2.0),
        ([Step(computed=True), Step(running=1, computed=True), Step()] * 100, 1.6),
    ],
    ids=[
        "full and serving", "a long prompt", "a long prompt, another one aborted", "arrivals beside a long prompt",
        "long steps", "idle", "a token now and then", "chunks below a block", "prompts given up",
    ],
)  # fmt: skip
def test_an_engine_that_serves_is_never_named(steps: list[Step], each_s: float) -> None:
    """Saturated, with a long prompt computed in chunks, with steps of a minute, or with nothing to do."""
    assert set(Watched().steps(steps, each_s)) == {0.0}


def test_requests_that_come_and_go_do_not_hide_it() -> None:
    """Each is admitted, and given up by its client a while later: none has had a token."""
    watched = Watched()
    comes_and_goes = [Step(running=3, kv=0.3), Step(running=4, kv=0.4)]
    found = watched.steps([one for one in comes_and_goes for _ in range(4)] * 10, 0.25)
    assert found[-1] > 15
    loading = [Step(waiting=1 + place % 3, deferred=1 + place % 3, kv=0.1 * (1 + place % 3)) for place in range(80)]
    assert watched.steps(loading, 0.25)[-1] > 15


@pytest.mark.parametrize("leaves_after_s", [0.3, 1.5, 5.0])
@pytest.mark.parametrize(
    ("step", "cause"),
    [
        (Step(waiting=1), StuckCause.NOT_ADMITTED),
        (Step(running=1, kv=0.97), StuckCause.KV_FULL),
        (Step(running=1), StuckCause.NO_TOKENS),
    ],
    ids=lambda value: str(value) if isinstance(value, StuckCause) else "",
)
def test_clients_that_give_up_each_of_their_requests_do_not_hide_it(
    step: Step, cause: StuckCause, leaves_after_s: float
) -> None:
    """The engine is empty for a step between two, and is stuck then, too, for the same cause."""
    watched = Watched()
    request = [replace(step, computed=step.running > 0), *[step] * round(leaves_after_s / 0.05), Step(kv=0.0)]
    found = watched.steps(request * round(15 / leaves_after_s), 0.05)
    assert all(found[199:]), "named after ten seconds, and from then on"
    assert watched.watch.cause(compiling=False) is cause


def test_waits_of_hours_ago_say_nothing() -> None:
    """Requests that were given up in vain count together only where they come one after another."""
    watched = Watched()
    for _ in range(20):
        assert watched.steps([Step(waiting=1, deferred=1)] * 20 + [Step()], 0.1)[-1] == 0.0
        watched.now_s += 60.0


@pytest.mark.parametrize("computed", [False, True], ids=["", "chunks counted"])
def test_sequences_that_preempt_one_another_for_ever_are_named(computed: bool) -> None:
    """The cache grows from chunk to chunk up to full, again and again, and no prompt is ever computed to its end."""
    watched = Watched()
    chunks = [Step(running=2, kv=0.5 + 0.025 * chunk, computed=computed) for chunk in range(20)]
    preempted = [Step(running=1, waiting=1, kv=0.5, computed=computed, preempted=True)]
    watched.steps([*chunks, *preempted] * 2, 0.1)
    assert watched.steps([*chunks, *preempted] * 5, 0.1)[-1] > NAMED_S
    assert watched.watch.cause(compiling=False) is StuckCause.KV_FULL


def test_what_has_stopped_stepping_is_not_stuck() -> None:
    """After ``hang_after_s`` without a step it is idle, or hung, which is for another to say."""
    watched = Watched()
    watched.steps([Step(waiting=1)] * 100, 0.1)
    watched.now_s += 9.0
    assert watched.stuck_s > 0
    watched.now_s += 1.1
    assert watched.stuck_s == 0.0


def test_a_watch_that_hears_nothing_for_a_while_counts_a_second_of_it() -> None:
    """A stalled event loop gets the reports of a minute at once: no evidence of a minute without service."""
    watched = Watched()
    for _ in range(6):
        watched.now_s += 60.0
        assert watched.steps([Step(running=1)] * 50, 0.0)[-1] == 0.0


def test_a_cache_that_was_full_is_no_cause_once_nothing_runs() -> None:
    """The cache has room then; a watch that has heard nothing names nothing."""
    watched = Watched()
    assert watched.stuck_s == 0.0
    watched.steps([Step(running=2, waiting=1, kv=0.97)] * 40, 0.1)
    watched.steps([Step(waiting=3, kv=0.3)] * 80, 0.1)
    assert watched.watch.cause(compiling=False) is StuckCause.NOT_ADMITTED


@pytest.mark.parametrize("rank", [0, 1])
def test_one_stuck_rank_beside_others_that_serve_is_named(rank: int) -> None:
    """After as long as an engine of one rank, with its own cause; once it serves again none is named."""
    watch, serves = StuckWatch(), {"served": True, "running": 4, "waiting": 9, "deferred": 0, "kv_usage_ratio": 0.99}
    stuck = serves | {"served": False, "running": 0, "kv_usage_ratio": 0.3}
    now_s, found = 1000.0, list[float]()
    for _ in range(100):
        now_s += 0.1
        watch.stepped(now_s, rank=1 - rank, **serves)  # type: ignore[arg-type]  # a dictionary of several kinds
        watch.stepped(now_s, rank=rank, **stuck)  # type: ignore[arg-type]
        found.append(watch.stuck_s(now_s, TERMS))
    first = next(place for place, stuck_s in enumerate(found) if stuck_s)
    assert 0.1 * first == pytest.approx(NAMED_S, abs=1.1)
    assert watch.cause(compiling=False) is StuckCause.NOT_ADMITTED
    watch.stepped(now_s, rank=rank, **serves)  # type: ignore[arg-type]
    assert watch.stuck_s(now_s, TERMS) == 0.0
