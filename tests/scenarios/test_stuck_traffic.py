"""The stuck watch beside random traffic in virtual time: a stuck engine is named, one that serves never is.

The engine here is small: prompts in chunks, blocks of the KV cache, preemption, steps of random length. Its clients
give up and come again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from tiers import LONG

from headway_policies import Recovery
from headway_policies.engine import StuckCause, StuckWatch

TERMS = Recovery()
SEEDS = range(400 if LONG else 30)
#: The diagnosis, which is made every five seconds, has to say it within 15 s.
NAMED_WITHIN_S = 10.0
pytestmark = pytest.mark.slow


@dataclass
class Asked:
    """A request in the engine; its client leaves at a time."""

    prompt_tokens: int
    output_tokens: int
    leaves_s: float
    computed: int = 0
    answered: int = 0


@dataclass
class Traffic:
    """A closed loop of clients, each of which asks again a while after its answer or after it gave up."""

    random: Random
    clients: int
    patience_s: tuple[float, float]
    prompt_tokens: tuple[int, int]
    pause_s: tuple[float, float] = (0.0, 0.1)
    due_s: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.due_s = [self.random.uniform(0.0, 1.0) for _ in range(self.clients)]

    def left(self, at_s: float) -> None:
        """A client has its answer, or has given up."""
        self.due_s.append(at_s + self.random.uniform(*self.pause_s))

    def arrived(self, now_s: float) -> Iterator[Asked]:
        """The requests until now."""
        for due_s in [due_s for due_s in self.due_s if due_s <= now_s]:
            self.due_s.remove(due_s)
            draw = self.random.randint
            leaves_s = due_s + self.random.uniform(*self.patience_s)
            yield Asked(draw(*self.prompt_tokens), draw(1, 50), leaves_s)


class Engine:
    """An engine with so many seats, step tokens and KV blocks. ``stuck``: it steps and serves nothing, for a cause."""

    def __init__(self, random: Random, traffic: Traffic, step_s: tuple[float, float], chunk_tokens: int) -> None:
        self.random, self.traffic, self.step_s, self.chunk_tokens = random, traffic, step_s, chunk_tokens
        self.seats = random.randint(1, 8)
        self.block_tokens = random.choice((16, 64, 128, 256))
        self.blocks = 2 + random.randint(1, 4) * (traffic.prompt_tokens[1] + 50) // self.block_tokens
        self.running: list[Asked] = []
        self.waiting: list[Asked] = []
        self.stuck: StuckCause | None = None
        self.watch = StuckWatch()
        self.now_s = self.served_s = 0.0

    def run(self, span_s: float) -> Iterator[float]:
        """Run for so long: after each step, for how long the engine is stuck."""
        end_s = self.now_s + span_s
        while self.now_s < end_s:
            self._take_in()
            if not self.running and not self.waiting:
                self.now_s = max(self.now_s, min(self.traffic.due_s))
                continue
            self._step()
            yield self.watch.stuck_s(self.now_s, TERMS)
            if self._drop() and not self.running and not self.waiting:
                self._report(served=False, computed=0, preempted=0)

    def _take_in(self) -> None:
        self.waiting += self.traffic.arrived(self.now_s)

    def _used(self) -> int:
        return sum(-(-(one.computed + one.answered) // self.block_tokens) for one in self.running)

    def _step(self) -> None:
        while self.waiting and len(self.running) < self.seats and self._admits():
            self.running.append(self.waiting.pop(0))
        computed = tokens = preempted = 0
        for one in list(self.running):
            left = one.prompt_tokens - one.computed
            chunk = min(left, self.chunk_tokens - computed)
            if one not in self.running or (left and not chunk) or (not left and self.stuck is not None):
                continue
            one.computed, computed = one.computed + chunk, computed + chunk
            if chunk == left and self.stuck is not StuckCause.NO_TOKENS:
                one.answered, tokens = one.answered + 1, tokens + 1
            preempted += self._preempt(one)
        self.now_s += self.random.uniform(*self.step_s)
        ended = [one for one in self.running if one.answered >= one.output_tokens]
        self.running = [one for one in self.running if one not in ended]
        for _ in ended:
            self.traffic.left(self.now_s)
        if tokens:
            self.served_s = self.now_s
        self._report(served=tokens > 0, computed=computed, preempted=preempted)

    def _preempt(self, asking: Asked) -> int:
        """Make room for one by the last ones; how many these were."""
        preempted = 0
        while self._used() > self.blocks and self.running[-1] is not asking:
            lost = self.running.pop()
            lost.computed, lost.prompt_tokens, preempted = 0, lost.prompt_tokens + lost.answered, preempted + 1
            self.waiting.insert(0, lost)
        return preempted

    def _admits(self) -> bool:
        return self.stuck is not StuckCause.NOT_ADMITTED and self._used() < self.blocks

    def _drop(self) -> bool:
        """Abort what clients have left."""
        gone = [one for one in self.running + self.waiting if one.leaves_s <= self.now_s]
        self.running = [one for one in self.running if one not in gone]
        self.waiting = [one for one in self.waiting if one not in gone]
        for one in gone:
            self.traffic.left(max(one.leaves_s, self.now_s - 0.3))
        return bool(gone)

    def _report(self, *, served: bool, computed: int, preempted: int) -> None:
        self.watch.stepped(
            self.now_s,
            served=served,
            running=len(self.running),
            waiting=len(self.waiting),
            deferred=0,
            kv_usage_ratio=min(1.0, self._used() / self.blocks),
            computed=computed > 0,
            preempted=preempted > 0,
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_an_engine_that_serves_is_never_named(seed: int) -> None:
    """Whatever its steps, chunks and blocks, saturated by clients that wait, or that give up before they are served."""
    random = Random(seed)
    longest_s = random.choice((0.05, 0.5, 2.0, 8.0))
    patience_s = random.choice(((0.3, 1.5), (0.3, 60.0), (600.0, 900.0)))
    prompts = random.choice(((8, 64), (8, 4000), (3000, 4000)))
    traffic = Traffic(random, random.randint(1, 12), patience_s, prompts)
    engine = Engine(random, traffic, (longest_s / 4, longest_s), random.choice((4, 16, 100, 512, 8192)))
    found = max(engine.run(200 * longest_s + 300.0))
    assert found == 0.0, f"{found:.1f} s"


@pytest.mark.parametrize("cause", [StuckCause.NOT_ADMITTED, StuckCause.NO_TOKENS])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_stuck_engine_is_named_whatever_its_clients_do(seed: int, cause: StuckCause) -> None:
    """Ten seconds after the last token, and from then on, though each client gives up after 0.3 to 1.5 s and comes
    again. Where it admits, most steps have to show it: as many new prompts as steps would hide it."""
    random = Random(seed)
    admits = cause is StuckCause.NO_TOKENS
    longest_s = random.choice((0.01, 0.05)) if admits else random.choice((0.01, 0.1, 1.0))
    traffic = Traffic(random, random.randint(1, 3 if admits else 12), (0.3, 1.5), (8, 500))
    engine = Engine(random, traffic, (longest_s / 4, longest_s), random.choice((512, 8192)))
    for _ in engine.run(20.0):
        pass
    engine.stuck = cause
    begun_s = engine.now_s
    for stuck_s in engine.run(40.0):
        since_s = max(begun_s, engine.served_s)
        assert stuck_s > 0 or engine.now_s - since_s < NAMED_WITHIN_S, f"{engine.now_s - since_s:.1f} s"
    assert engine.now_s - engine.served_s > NAMED_WITHIN_S
    assert engine.watch.cause(compiling=False) in (cause, StuckCause.KV_FULL)
