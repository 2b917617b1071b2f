"""Several engines on the simulator's clock, served to its shell like one: evidence for the router's policies.

The step that ends next is found in a heap: a step costs O(log engines). Equal steps of one engine are taken at once
only until another's step ends, since a seat that comes free there may be given away at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heappop, heappush
from itertools import chain
from random import Random
from typing import Protocol, cast

from headway_policies import Desk, Effect, Preset
from headway_policies.preset import with_fixed_limit
from headway_policies.routing import Demand, Instance, LeastLoaded
from headway_simulator.engine_model.engine import Engine, EngineModel, Sequence, Steps
from headway_simulator.run.result import Result
from headway_simulator.run.shell import Shell
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.workload import Request

#: The classes of short and of long prompts.
_SHORT, _LONG = "short", "long"


class Binding(Protocol):
    """Chooses the engine of a dispatched sequence. Places are the numbers of the engines, from 0 on."""

    def place(self, sequence: Sequence) -> int:
        """The engine for a sequence."""
        ...

    def changed(self, place: int, running: int, kv_use: float) -> None:
        """An engine now has so many sequences, and this share of its KV cache in use."""
        ...


class Fleet:
    """The engines, in place of one. ``ends_s`` is the end of the next step that ends, ``held`` what each engine has."""

    def __init__(self, models: Iterable[EngineModel], binding: Binding) -> None:
        self.engines = [Engine(model) for model in models]
        self.held: list[dict[Sequence, None]] = [{} for _ in self.engines]
        self.model = self.engines[0].model
        self.ends_s = math.inf
        self.interrupted: list[Sequence] = []
        self.step_policy = None  # the steps of a fleet are its engines' own
        self._binding = binding
        self._place_of: dict[Sequence, int] = {}
        self._ends: list[tuple[float, int]] = []
        self._starts: dict[int, None] = {}
        self._stepped: int | None = None

    @property
    def startable(self) -> bool:
        """Whether an idle engine has something to begin with."""
        return bool(self._starts)

    @property
    def waiting(self) -> int:
        """Sequences in the lines of the engines."""
        return sum(engine.waiting for engine in self.engines)

    @property
    def running(self) -> Iterator[Sequence]:
        """The sequences that run."""
        return chain.from_iterable(engine.running for engine in self.engines)

    @property
    def kv_usage_ratio(self) -> float:
        """The mean share of the KV blocks in use."""
        return sum(engine.kv_usage_ratio for engine in self.engines) / len(self.engines)

    def could_hold(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a sequence fits into the whole KV space of every engine."""
        return all(engine.could_hold(prompt_tokens, output_tokens) for engine in self.engines)

    def submit(self, sequence: Sequence) -> None:
        """Send a sequence to the engine that the binding names."""
        place = self._place_of[sequence] = self._binding.place(sequence)
        self.held[place][sequence] = None
        engine = self.engines[place]
        engine.submit(sequence)
        if engine.startable:
            self._starts[place] = None
        self._tell(place)

    def abort(self, sequence: Sequence) -> None:
        """Drop a sequence at the end of the step in progress."""
        self.engines[self._place_of[sequence]].abort(sequence)

    def begin(self, now_s: float) -> None:
        """Begin the next step of the engine whose step has ended, and of every idle one that was sent something."""
        if self._stepped is not None:
            self._starts[self._stepped], self._stepped = None, None
        self.interrupted = []
        for place in self._starts:
            engine = self.engines[place]
            engine.begin(now_s)
            self.interrupted += engine.interrupted
            if engine.ends_s < math.inf:
                heappush(self._ends, (engine.ends_s, place))
        self._starts.clear()
        self.ends_s = self._ends[0][0] if self._ends else math.inf

    def finish(self, until_s: float, most_steps: int) -> Steps:
        """End the step that ends next, with as many equal ones as end before another engine's."""
        _, place = heappop(self._ends)
        engine = self.engines[place]
        if self._ends:
            until_s = min(until_s, self._ends[0][0])
        steps = engine.finish(until_s, most_steps)
        self.ends_s, self._stepped = engine.ends_s, place
        if steps.ended or steps.dropped:
            for sequence in chain(steps.ended, steps.dropped):
                del self.held[place][sequence], self._place_of[sequence]
            self._tell(place)
        return steps

    def _tell(self, place: int) -> None:
        self._binding.changed(place, len(self.held[place]), self.engines[place].kv_usage_ratio)


class LateBinding:
    """The router's: its policy chooses among the open instances when a sequence is dispatched.

    With ``long_tokens`` the last instance is kept for prompts from that length on, and the others for shorter ones.
    """

    def __init__(self, seats: Iterable[int], long_tokens: int | None = None) -> None:
        self._states = [Instance(str(place), number, 0) for place, number in enumerate(seats)]
        self._long_tokens = long_tokens
        if long_tokens is not None:
            kept = [_SHORT] * (len(self._states) - 1) + [_LONG]
            self._states = [
                replace(one, classes=frozenset({name})) for one, name in zip(self._states, kept, strict=True)
            ]
        self._router = LeastLoaded()
        self._open = set(range(len(self._states)))

    @property
    def seats(self) -> int:
        """The seats of the instances that are open."""
        return sum(self._states[place].seats for place in self._open)

    def place(self, sequence: Sequence) -> int:
        """That of the policy; the desk sends no more than there are seats."""
        is_long = self._long_tokens is not None and sequence.prompt_tokens >= self._long_tokens
        tokens, name = sequence.prompt_tokens + sequence.output_tokens, _LONG if is_long else _SHORT
        demand = Demand(tokens, sequence.prompt_tokens, class_name=name)
        chosen = self._router.choose(demand, [self._states[one] for one in sorted(self._open)])
        assert chosen is not None
        return int(chosen)

    def changed(self, place: int, running: int, kv_use: float) -> None:
        """Its free seats are others now."""
        self._states[place] = replace(self._states[place], running=running, kv_use=kv_use)

    def open(self, place: int) -> None:
        """It may be chosen from now on."""
        self._open.add(place)

    def close(self, place: int) -> None:
        """It is not chosen until it is opened again; what runs there goes on."""
        self._open.discard(place)


class OneDesk:
    """The ``desk``, its ``fleet`` and the late ``binding`` between them; its limit is the sum of their seats."""

    def __init__(
        self, preset: Preset, models: Iterable[EngineModel], seats: int, long_tokens: int | None = None
    ) -> None:
        models = list(models)
        own = [min(seats, model.max_num_seqs) for model in models]
        self.binding = LateBinding(own, long_tokens)
        self.fleet = Fleet(models, self.binding)
        self._preset = preset
        self.desk = Desk(with_fixed_limit(preset, sum(own)), ceiling=sum(own))

    def refit(self, now_s: float) -> list[Effect]:
        """Other instances are open than before: the limit follows. No waiting request is dropped."""
        return self.desk.switch(with_fixed_limit(self._preset, self.binding.seats), now_s)


class OneDeskShell(Shell):
    """One run of that desk."""

    def __init__(self, one: OneDesk, clients: Clients | None = None, seed: int = 0) -> None:
        super().__init__(one.desk, cast(Engine, one.fleet), clients or Clients(), Random(seed), one_by_one=False)


def simulate_late(
    requests: Iterable[Request],
    preset: Preset,
    models: Iterable[EngineModel],
    seats: int,
    long_tokens: int | None = None,
) -> Result:
    """Serve these requests under one desk, with so many seats for each engine."""
    return OneDeskShell(OneDesk(preset, models, seats, long_tokens)).run(requests, (), None)
