"""Workloads: requests drawn from a seed, and the named workloads by which policies are compared.

Arrivals are an open loop: no client waits for an answer before the next request is due. The gaps are exponential (a
Poisson process) or, for bursts, Gamma with a larger coefficient of variation; a rate that changes with the phase
stretches them (time change of a renewal process). A closed workload has all its requests at time 0.

Loads are multiples of the fluid ceiling (see ``engine_model/capacity``), so that "1.5" means the same on any engine.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from headway_simulator.engine_model.capacity import Slo, ceiling
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.traffic.lengths import Lengths, bimodal, exponential, fixed, lognormal


class Request(NamedTuple):
    """A request. ``output_tokens`` is what it will generate, ``max_tokens`` what the client says beforehand.

    Requests with the same ``prefix`` have the first ``prefix_tokens`` of their prompts in common; 0 is none.
    ``adapter`` is a LoRA adapter; "" is the model itself.
    """

    at_s: float
    class_name: str
    prompt_tokens: int
    output_tokens: int
    max_tokens: int | None = None
    tenant: str = ""
    prefix: int = 0
    prefix_tokens: int = 0
    adapter: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time with its own lengths and its own share of the load."""

    prompt: Lengths
    output: Lengths
    length_s: float = math.inf
    load_ratio: float = 1.0


#: A fifth of the requests is urgent.
CLASSES: Mapping[str, float] = {"realtime": 0.2, "normal": 0.8}


@dataclass(frozen=True, slots=True)
class Workload:
    """The arrivals of a run. The phases repeat in a circle; ``closed`` is a number of requests, all at time 0.

    ``classes``, ``tenants`` and ``adapters`` are shares of the requests; the engine runs ``most_adapters`` different
    ones at once. ``load`` is the usual multiple of the ceiling.
    ``tells_length``: clients say how many tokens they want, ``length_error`` times off (sigma of a log-normal error).
    Each tenant has an equal part of the ``prefixes``, system prompts of ``prefix_tokens`` before the prompts of the
    phases, and each request one of them at random; the engine then has a prefix cache.
    """

    name: str
    summary: str
    phases: tuple[Phase, ...]
    gap_cv: float = 1.0
    classes: Mapping[str, float] = field(default_factory=lambda: CLASSES)
    tenants: Mapping[str, float] = field(default_factory=lambda: {"": 1.0})
    load: float = 1.5
    closed: int = 0
    kv_tokens: int | None = None
    tells_length: bool = True
    length_error: float = 0.0
    prefixes: int = 0
    prefix_tokens: int = 0
    adapters: Mapping[str, float] = field(default_factory=lambda: {"": 1.0})
    most_adapters: int | None = None

    def requests(
        self,
        duration_s: float,
        seed: int,
        *,
        model: EngineModel,
        slo: Slo,
        load: float | None = None,
    ) -> list[Request]:
        """Every request of the first ``duration_s`` seconds, in order. The same seed gives the same requests."""
        source = Random(seed)  # noqa: S311 - to be repeatable
        gaps, sizes, clients = (Random(source.random()) for _ in range(3))  # noqa: S311 - to be repeatable
        times_s = self._times(gaps, duration_s, self.rates_per_s(model, slo, load))
        return list(self._drawn(times_s, sizes, clients))

    def rates_per_s(self, model: EngineModel, slo: Slo, load: float | None = None) -> list[float]:
        """Requests a second in each phase."""
        factor = self.load if load is None else load
        ceilings = [
            ceiling(model, self.prefix_tokens + phase.prompt.mean_tokens, phase.output.mean_tokens, slo)
            for phase in self.phases
        ]
        return [
            factor * phase.load_ratio * top.requests_per_s for phase, top in zip(self.phases, ceilings, strict=True)
        ]

    def _times(self, random: Random, duration_s: float, rates_per_s: Sequence[float]) -> Iterator[tuple[float, int]]:
        """Arrival times with the number of their phase."""
        if self.closed:
            return iter([(0.0, 0)] * self.closed)
        lengths_s = [phase.length_s for phase in self.phases]
        times = _renewals(_gaps(random, self.gap_cv), lengths_s, rates_per_s, duration_s)
        return itertools.takewhile(lambda arrival: arrival[0] < duration_s, times)

    def _drawn(self, times: Iterator[tuple[float, int]], sizes: Random, clients: Random) -> Iterator[Request]:
        draws = [(phase.prompt.sampler(sizes), phase.output.sampler(sizes)) for phase in self.phases]
        draw_class, draw_tenant = chooser(clients, self.classes), chooser(clients, self.tenants)
        draw_adapter = chooser(clients, self.adapters)
        for at_s, place in times:
            prompt_tokens, output_tokens = draws[place][0](), draws[place][1]()
            said_tokens = self._said(output_tokens, sizes) if self.tells_length else None
            request = Request(at_s, draw_class(), prompt_tokens, output_tokens, said_tokens, draw_tenant())
            request = request._replace(adapter=draw_adapter())
            yield self._prefixed(request, clients) if self.prefixes else request

    def _prefixed(self, request: Request, random: Random) -> Request:
        """The request with one of the system prompts of its tenant in front."""
        each = self.prefixes // len(self.tenants)
        prefix = 1 + list(self.tenants).index(request.tenant) * each + random.randrange(each)
        prompt_tokens = self.prefix_tokens + request.prompt_tokens
        return request._replace(prompt_tokens=prompt_tokens, prefix=prefix, prefix_tokens=self.prefix_tokens)

    def _said(self, output_tokens: int, random: Random) -> int:
        if not self.length_error:
            return output_tokens
        return max(1, round(output_tokens * random.lognormvariate(0.0, self.length_error)))


def chooser(random: Random, shares: Mapping[str, float]) -> Callable[[], str]:
    """A function that draws one name after another by their shares, which need not add up to 1."""
    names = list(shares)
    if len(names) == 1:
        return lambda: names[0]
    total = sum(shares.values())
    bounds = [bound / total for bound in itertools.accumulate(shares.values())][:-1]
    return lambda: names[bisect(bounds, random.random())]


def _gaps(random: Random, cv: float) -> Iterator[float]:
    """Gaps of mean 1."""
    if cv == 1:
        while True:
            yield random.expovariate(1.0)
    shape = 1 / cv**2
    while True:
        yield random.gammavariate(shape, 1 / shape)


def _renewals(
    gaps: Iterator[float], lengths_s: Sequence[float], rates: Sequence[float], until_s: float
) -> Iterator[tuple[float, int]]:
    """The times at which the integral of the rate has grown by each gap, with the phase they fall into."""
    place, at_s, phase_ends_s = 0, 0.0, lengths_s[0]
    for gap in gaps:
        left = gap
        while left > (phase_ends_s - at_s) * rates[place]:
            left -= (phase_ends_s - at_s) * rates[place]
            at_s = phase_ends_s
            if at_s >= until_s:  # a gap of a tiny rate has ever more phases
                return
            place = (place + 1) % len(rates)
            phase_ends_s += lengths_s[place]
        at_s += left / rates[place]
        yield at_s, place


_PROMPT = lognormal(64, 0.7, 1, 2048)
_OUTPUT = lognormal(64, 1.0)


def _phase(prompt_tokens: int, output_tokens: int) -> Phase:
    return Phase(lognormal(prompt_tokens, 0.7, 1, 2048), lognormal(output_tokens, 1.0), 60.0)


def _closed(name: str, summary: str, output: Lengths) -> Workload:
    return Workload(name, summary, (Phase(fixed(64), output),), classes={"normal": 1.0}, closed=1024)


_ALL = (
    Workload("W1", "chat: Poisson, prompts mean 64, answers mean 64 with cv 1", (Phase(_PROMPT, _OUTPUT),)),
    Workload("W2", "the same lengths in bursts: gaps with cv 3.5", (Phase(_PROMPT, _OUTPUT),), gap_cv=3.5),
    Workload(
        "W3",
        "a changing mix, 60 s each: chat, long prompts, long answers, chat, short",
        (_phase(64, 64), _phase(384, 32), _phase(16, 192), _phase(64, 64), _phase(32, 16)),
    ),
    _closed("W4", "a closed batch, answers mean 64 with cv 1", _OUTPUT),
    _closed("W4-fixed", "a closed batch, all answers of 64 tokens", fixed(64)),
    _closed("W4-cv0.5", "a closed batch, answers mean 64 with cv 0.5", lognormal(64, 0.5)),
    _closed("W4-cv2", "a closed batch, answers mean 64 with cv 2", lognormal(64, 2.0)),
    _closed("W4-exponential", "a closed batch, answers exponential with mean 64", exponential(64)),
    _closed("W4-bimodal", "a closed batch, 9 of 10 answers of 16 tokens, the others of 512", bimodal(16, 512, 0.1)),
    Workload(
        "W5",
        "a closed batch in tight KV space: 6,400 tokens (or --kv-tokens), prompts 64, answers mean 128 with cv 1",
        (Phase(fixed(64), lognormal(128, 1.0)),),
        classes={"normal": 1.0},
        closed=600,
        kv_tokens=6400,
    ),
    Workload(
        "W6",
        "five tenants that offer 2.0, 0.4, 0.3, 0.2 and 0.1 of the ceiling",
        (Phase(_PROMPT, _OUTPUT),),
        classes={"normal": 1.0},
        tenants={"greedy": 2.0, "large": 0.4, "medium": 0.3, "small": 0.2, "tiny": 0.1},
        load=3.0,
    ),
    Workload(
        "W7",
        "32 system prompts of 512 tokens, four to each of eight tenants of unequal load, and KV space for 8 of them",
        (Phase(_PROMPT, _OUTPUT),),
        classes={"normal": 1.0},
        tenants={f"tenant-{place}": 1.0 + place % 4 for place in range(8)},
        load=4.0,
        kv_tokens=8 * 512,
        prefixes=32,
        prefix_tokens=512,
    ),
    Workload(
        "W8",
        "chat beside long prompts: 5 % of the prompts have 1,536 tokens, the others 64",
        (Phase(bimodal(64, 24 * 64, 0.05), _OUTPUT),),
    ),
    Workload(
        "W9",
        "a third for the model itself, the rest for eight LoRA adapters of unequal load, of which two run at once",
        (Phase(_PROMPT, _OUTPUT),),
        adapters={"": 9.0} | {f"adapter-{place}": 1.0 + place % 4 for place in range(8)},
        load=0.9,
        most_adapters=2,
    ),
)

#: The named workloads.
WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}
