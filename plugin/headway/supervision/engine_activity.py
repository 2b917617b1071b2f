"""The activity of an engine, as its steps report it: load, time of the last step, batch sizes, largest sequences.

The engine's adapter calls ``step`` after each engine step (``headway.engine.StepListener``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from headway.admission import Gateway
from headway.engine import Ended
from headway.supervision.memory.processes import MachineUse
from headway_policies import Load
from headway_policies.limits import RankLoad
from headway_policies.preset import Ability
from headway_policies.step import StepFigures

_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Batches:
    """The time in which an engine has computed so far, and the same time weighted with the running sequences."""

    busy_s: float = 0.0
    sequence_s: float = 0.0

    def mean_since(self, before: Batches) -> float | None:
        """The mean number of running sequences since then, over the time with any; None without any."""
        busy_s = self.busy_s - before.busy_s
        return (self.sequence_s - before.sequence_s) / busy_s if busy_s > 0 else None


class EngineActivity:
    """A step listener: passes steps to the gateway, the limit policy and the batch histogram, and keeps figures.

    ``listens`` says whether the engine reports its steps. ``load`` is that of the last step, ``stepped_s`` its time on
    the gate's clock, ``worked_s`` the time of the last step with anything in it: a router reports the steps of idle
    instances, too. ``batches`` sums up all steps, ``preemptions`` and ``prompt_tokens`` count theirs.
    ``gpu_busy_ratio`` is the last reading of the GPUs, added to every load from then on; None without a GPU.
    ``machine`` is that of the processors. Call it on the event loop's thread only.
    """

    def __init__(self, gateway: Gateway, batch_meter: Callable[[int], None] | None = None) -> None:
        self.listens = False
        self.load = Load(0, 0, 0.0)
        self.batches = Batches()
        self.preemptions = self.prompt_tokens = 0
        self.stepped_s = self.worked_s = 0.0
        self.gpu_busy_ratio: float | None = None
        self.machine = MachineUse()
        self._gateway = gateway
        self._batch_meter = batch_meter
        self._internal_requests = self._unmeasured = 0
        self._largest_job_tokens = self._largest_prompt_tokens = 0

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        """Record one engine step: free the seats of the sequences that ended, and keep its figures.

        While the server's own requests run, a step is slow for reasons that do not return: the step is not measured,
        but for those of an ``internal_requests`` block that says so.
        """
        self._gateway.engine_stepped(ended, None if load is None else load.running + load.waiting)
        for sequence in ended:
            self._largest_job_tokens = max(self._largest_job_tokens, sequence.prompt_tokens + sequence.output_tokens)
        now_s = self._gateway.gate.now_s()
        self._watch(load, ended, now_s)
        step_s, running = now_s - self.stepped_s, self.load.running
        if running and 0 < step_s < _PAUSE_S:
            before = self.batches
            self.batches = Batches(before.busy_s + step_s, before.sequence_s + running * step_s)
        self.stepped_s = now_s
        if sequences or load is None or load.running:
            self.worked_s = now_s
        if sequences and self._batch_meter is not None and not self.internal:
            for _ in range(1 if load is None else load.steps):
                self._batch_meter(sequences)
        if load is not None:
            self.load = load
            self.preemptions += load.preemptions
            self.prompt_tokens += load.steps * load.prefill_tokens
            if not self.internal:
                self._largest_prompt_tokens = max(self._largest_prompt_tokens, load.prefill_tokens)
            if not self._unmeasured:
                busy = self.gpu_busy_ratio
                self._gateway.gate.observe(load if busy is None else replace(load, gpu_busy_ratio=busy))

    def _watch(self, load: Load | None, ended: Sequence[Ended], now_s: float) -> None:
        """Tell the stuck watch, where there is one. An engine that does not count first tokens is taken to serve."""
        watch = self._gateway.link.stuck_watch
        if watch is None or load is None:
            return
        served = bool(ended) or load.inter_token_s is not None or load.first_tokens != 0
        own: Load | RankLoad = load if load.own is None else load.own
        watch.stepped(
            now_s,
            served=served,
            running=own.running,
            waiting=own.waiting,
            deferred=own.deferred,
            kv_usage_ratio=own.kv_usage_ratio,
            computed=load.prefill_tokens > 0,
            preempted=load.preemptions > 0,
            rank=load.rank,
        )

    def heard(self) -> bool:
        """Note a step like the last one, which may be reported later unless a request waits for what it tells."""
        link, gate = self._gateway.link, self._gateway.gate
        if link.watchdog is not None:
            link.watchdog.heard(gate.now_s())
        return not gate.desk.ledger.queued

    def seen(self, load: Load) -> None:
        """Keep the load that was read between two steps."""
        self.load = load

    @property
    def steps(self) -> StepFigures | None:
        """The effect of the step policy so far, by the engine's last report; None where no step was planned."""
        link = self._gateway.link
        return link.adapter.step_figures(link.engine)

    @property
    def shapes(self) -> bool:
        """Whether this kind of engine computes prompts as a preset says."""
        link = self._gateway.link
        return Ability.SHAPES not in link.adapter.lacks(link.engine)

    @property
    def internal(self) -> bool:
        """Whether the server's own requests are running: a warm-up, or a keep-warm request."""
        return self._internal_requests > 0

    @contextmanager
    def internal_requests(self, *, measured: bool = False) -> Iterator[None]:
        """Mark a block in which the server's own requests run; ``measured``: their steps tell the engine's speed.

        Blocks may overlap: a step is measured where all of them say so.
        """
        self._internal_requests += 1
        self._unmeasured += not measured
        try:
            yield
        finally:
            self._internal_requests -= 1
            self._unmeasured -= not measured

    def take_largest_job(self) -> int:
        """The tokens of the largest sequence that has ended since the last call."""
        tokens, self._largest_job_tokens = self._largest_job_tokens, 0
        return tokens

    def take_largest_prompts(self) -> int:
        """The most prompt tokens that one step has computed since the last call."""
        tokens, self._largest_prompt_tokens = self._largest_prompt_tokens, 0
        return tokens
