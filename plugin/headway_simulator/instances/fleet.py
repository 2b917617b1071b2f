"""A fleet: several engines on one virtual clock, served to the shell like one.

The step that ends next is found in a heap: a step costs O(log engines), whatever their number. Equal steps of one
engine are taken at once only until another's step ends, since a seat that comes free there may be given away at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import chain

from headway_simulator.engine_model.engine import Engine, EngineModel, Sequence, Steps
from headway_simulator.instances.binding import Binding


class Fleet:
    """The engines. ``ends_s`` is the end of the next step that ends; ``stepped`` the engine whose step ended last.

    When an engine is killed, its sequences without a token of output wait here for a seat of another one, before all
    that are dispatched later.
    """

    def __init__(self, models: Iterable[EngineModel], binding: Binding) -> None:
        self._engines = [Engine(one) for one in models]
        self._smallest = min(self._engines, key=lambda engine: engine.model.kv_tokens)
        self._binding = binding
        self._held: list[dict[Sequence, None]] = [{} for _ in self._engines]
        self._place_of: dict[Sequence, int] = {}
        self._ends: list[tuple[float, int]] = []
        self._starts: dict[int, None] = {}
        self._homeless: deque[Sequence] = deque()
        self._lost: list[Sequence] = []
        self._dropped: list[Sequence] = []
        self._stepping = False
        self.stepped = 0
        self.ends_s = math.inf
        self.interrupted: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._engines)

    # ------------------------------------------------------------------ what the shell asks

    @property
    def model(self) -> EngineModel:
        """The constants of the first engine."""
        return self._engines[0].model

    @property
    def startable(self) -> bool:
        """Whether an idle engine has something to begin with."""
        return bool(self._starts)

    @property
    def waiting(self) -> int:
        """Sequences in the lines of the engines, and those without an engine."""
        return len(self._homeless) + sum(engine.waiting for engine in self._engines)

    @property
    def running(self) -> Iterator[Sequence]:
        """The sequences that run."""
        return chain.from_iterable(engine.running for engine in self._engines)

    @property
    def running_count(self) -> int:
        """How many sequences run."""
        return sum(len(engine.running) for engine in self._engines)

    @property
    def kv_usage_ratio(self) -> float:
        """The mean share of the KV blocks in use."""
        return sum(engine.kv_usage_ratio for engine in self._engines) / len(self._engines)

    def could_hold(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a sequence fits into the whole KV space of every engine: of the smallest."""
        return self._smallest.could_hold(prompt_tokens, output_tokens)

    # ------------------------------------------------------------------ what a router may ask

    def left_tokens(self, place: int) -> list[int]:
        """The tokens that each sequence of an engine has still to generate."""
        engine = self._engines[place]
        return [sequence.output_tokens - engine.made_tokens(sequence) for sequence in self._held[place]]

    def step_s(self, place: int, running: int) -> float:
        """How long a step of an engine takes with so many sequences."""
        return self._engines[place].model.step_s(running)

    # ------------------------------------------------------------------ events

    def submit(self, sequence: Sequence) -> None:
        """Send a sequence to the engine that the binding names; it waits here where that names none."""
        self._homeless.append(sequence)
        self._house()

    def abort(self, sequence: Sequence) -> None:
        """Drop a sequence at the end of the step in progress; one without an engine when its turn comes."""
        place = self._place_of.get(sequence)
        if place is None:
            sequence.dropped = True
        else:
            self._engines[place].abort(sequence)

    def kill(self, place: int, now_s: float, *, resend: bool) -> None:
        """An engine dies. With ``resend`` its sequences without any output go to others; the rest are lost."""
        engine = self._engines[place]
        self._engines[place] = Engine(engine.model)
        self._binding.gone(place)
        for sequence in self._held[place]:
            del self._place_of[sequence]
            sequence.made_tokens = engine.made_tokens(sequence)
            if sequence.dropped:
                self._dropped.append(sequence)
            elif resend and not sequence.made_tokens:
                sequence.restart()
                self._homeless.append(sequence)
            else:
                self._lost.append(sequence)
        self._held[place] = {}
        self._starts.pop(place, None)
        self._ends = [one for one in self._ends if one[1] != place]
        heapify(self._ends)
        self._house()
        self._look(now_s)

    def begin(self, now_s: float) -> None:
        """Begin the next step of the engine whose step has ended, and of every idle one that was sent something."""
        if self._stepping:
            self._starts[self.stepped] = None
            self._stepping = False
        self.interrupted = []
        for place in self._starts:
            engine = self._engines[place]
            engine.begin(now_s)
            self.interrupted += engine.interrupted
            if engine.ends_s < math.inf:
                heappush(self._ends, (engine.ends_s, place))
        self._starts.clear()
        self._look(now_s)

    def finish(self, until_s: float, most_steps: int) -> Steps:
        """End the step that ends next, with as many equal ones as end before another engine's. After a death it is an
        empty one, with all that were lost.
        """
        if self._lost or self._dropped:
            steps = Steps(0, 0.0, 0, 0, 0, 0, dropped=self._dropped, lost=self._lost)
            self._dropped, self._lost = [], []
            return steps
        _, place = heappop(self._ends)
        engine = self._engines[place]
        if self._ends:
            until_s = min(until_s, self._ends[0][0])
        steps = engine.finish(until_s, most_steps)
        self.ends_s, self.stepped, self._stepping = engine.ends_s, place, True
        if steps.ended or steps.dropped:
            for sequence in chain(steps.ended, steps.dropped):
                del self._held[place][sequence], self._place_of[sequence]
            self._tell(place)
            self._house()
        return steps

    # ------------------------------------------------------------------ inside

    def _house(self) -> None:
        """Send those without an engine to one, as far as there are seats, the longest waiting first."""
        homeless = self._homeless
        while homeless:
            sequence = homeless[0]
            if sequence.dropped:
                self._dropped.append(sequence)
            else:
                place = self._binding.place(sequence)
                if place is None:
                    return
                self._send(sequence, place)
            homeless.popleft()

    def _send(self, sequence: Sequence, place: int) -> None:
        engine = self._engines[place]
        self._held[place][sequence] = None
        self._place_of[sequence] = place
        engine.submit(sequence)
        if engine.startable:
            self._starts[place] = None
        self._tell(place)

    def _tell(self, place: int) -> None:
        self._binding.changed(place, len(self._held[place]), self._engines[place].kv_usage_ratio)

    def _look(self, now_s: float) -> None:
        """Find the end of the next step; at once where the shell has to hear of sequences that are gone."""
        if self._lost or self._dropped:
            self.ends_s = now_s
        else:
            self.ends_s = self._ends[0][0] if self._ends else math.inf
