"""The judge of a policy on any engine: what it serves, beside the same engine alone, and which goals it misses.

A *cell* is one engine, preset, workload and load. Loads are multiples of the fluid ceiling of that engine within its
objectives (``engine_family.objectives``). The goals of a cell:

    goodput      below the ceiling at least 0.98 of that of the engine alone. Above it, for the presets that keep
                 objectives, at least 0.90 of the best that can be had: the ceiling, or the best of a grid of caps that
                 refuse at once, where bursts or a changing mix keep every policy below the ceiling
    first token  below the ceiling, where the engine alone keeps the objectives of 98 % of the requests: p99 at most 1.1
                 times that of the engine alone. Where it does not, holding prompts back is what keeps them
    tokens       ``throughput``: above the ceiling at least 0.97 of the tokens a second of the engine alone
    order        no class is served, or kept within its objectives, less often than a less urgent one by over 0.02; and
                 below the ceiling, where chance decides it, by over what the engine alone has between them, if more
    top class    at least 0.96 within the objectives, where the engine with nothing but that class keeps them for 98 %,
                 and no more of it arrives than the share that its weight guarantees of what can be had

An engine that alone misses the objectives of over a tenth of its requests at 0.3 of the ceiling is judged by tokens
and order only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean

from engine_family import objectives

from headway_policies import Preset
from headway_simulator import WORKLOADS, EngineModel, Request, Slo, Summary, Workload, simulate, summarise
from headway_simulator.engine_model.capacity import ceiling

KEEP_OBJECTIVES = ("balanced", "interactive")
_ALONE_RATIO, _CEILING_RATIO, _TOKENS_RATIO, _TOP_RATIO = 0.98, 0.90, 0.97, 0.96
_P99_RATIO, _KEPT_RATIO, _ORDER_MARGIN, _TOP_SHARE = 1.1, 0.98, 0.02, 0.6
_CAPS = (0.7, 0.85, 1.0, 1.2, 1.5)
_MIN_S, _WARMUP_RATIO = 15.0, 0.1
#: The longest run: so many steps of one sequence, and at least so many seconds. A slow engine needs that time for
#: enough requests of each class to judge by.
_MAX_STEPS, _LONGEST_S = 6000, 300.0


@dataclass(frozen=True, slots=True)
class Served:
    """What one arm served. Ratios are of what was offered, by class."""

    goodput_per_s: float
    tokens_per_s: float
    ttft_p99_s: float | None
    attained: Mapping[str, float]
    served: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Cell:
    """The means over the seeds of one cell. ``best_per_s`` is None below the ceiling, and of ``throughput``, which is
    judged by neither that nor ``top_by_itself``.
    """

    preset: str
    load: float
    own: Served
    alone: Served
    ceiling_per_s: float
    best_per_s: float | None
    top_by_itself: float
    judged_whole: bool

    def missed(self, slack: float = 0.0) -> list[str]:
        """The goals that are missed by more than ``slack``, each with its figure."""
        return [*self._goods(slack), *self._order(slack)]

    def _goods(self, slack: float) -> Iterator[str]:
        """What is missed of goodput, first tokens, and tokens a second."""
        own, alone, below = self.own, self.alone, self.load < 1
        good = own.goodput_per_s / max(alone.goodput_per_s, 1e-9)
        if self.judged_whole and below and good < _ALONE_RATIO - slack:
            yield f"goodput {good:.2f} of the engine alone"
        if self.judged_whole and below and min(alone.attained.values()) >= _KEPT_RATIO:
            later = (own.ttft_p99_s or 0.0) / (alone.ttft_p99_s or 1.0)
            if later > _P99_RATIO + 10 * slack:
                yield f"first token p99 {later:.2f} times"
        if self.judged_whole and self.best_per_s and self.preset in KEEP_OBJECTIVES:
            of_best = own.goodput_per_s / min(self.best_per_s, self.ceiling_per_s)
            if of_best < _CEILING_RATIO - slack:
                yield f"goodput {of_best:.2f} of the best"
        tokens = own.tokens_per_s / max(alone.tokens_per_s, 1e-9)
        if not below and self.preset == "throughput" and tokens < _TOKENS_RATIO - slack:
            yield f"tokens {tokens:.2f} of the engine alone"

    def _order(self, slack: float) -> Iterator[str]:
        """Classes that are served before more urgent ones, and a top class that is not kept within its objectives."""
        own, alone = self.own, self.alone
        names = list(own.attained)  # most urgent first
        for more, less in pairwise(names):
            shares = ("kept", own.attained, alone.attained), ("served", own.served, alone.served)
            for what, share, alone_share in shares:
                by_chance = alone_share[less] - alone_share[more] + 1e-9 if self.load < 1 else 0.0
                if share[more] < share[less] - max(_ORDER_MARGIN, by_chance) - slack:
                    yield f"{what}: {more} {share[more]:.2f}, {less} {share[less]:.2f}"
        keeps = self.judged_whole and self.preset != "throughput" and self.top_by_itself >= _KEPT_RATIO
        if keeps and own.attained[names[0]] < _TOP_RATIO - slack:
            yield f"{names[0]} {own.attained[names[0]]:.2f} within the objectives"


class Judge:
    """Measures cells on one engine. ``requests`` is about how many arrive in each run."""

    def __init__(self, model: EngineModel, requests: int = 2000) -> None:
        self.model = model
        self.slo = objectives(model)
        self._requests = requests
        self._whole: dict[str, bool] = {}
        self._arms: dict[tuple[str, float, int, int | None, str | None], Served] = {}

    def cell(self, preset: Preset, workload: str, load: float, seeds: Sequence[int]) -> Cell:
        """One cell."""
        runs = [self._traffic(workload, load, seed) for seed in seeds]
        own = _mean([self._run(preset, *run[:2], seed) for run, seed in zip(runs, seeds, strict=True)])
        alone = _mean([self._alone(workload, load, seed) for seed in seeds])
        top = next(iter(own.attained))
        best: float | None = None
        ceiling_per_s, by_itself = mean(run[2] for run in runs), 0.0
        if preset.name != "throughput":
            best = self._best(workload, load, seeds) if load >= 1 else None
            most = min(ceiling_per_s, best or ceiling_per_s)
            by_itself = mean(self._top_by_itself(top, workload, load, most, seed) for seed in seeds)
        return Cell(preset.name, load, own, alone, ceiling_per_s, best, by_itself, self._judged_whole(workload))

    def _judged_whole(self, workload: str) -> bool:
        """Whether the engine alone keeps the objectives at 0.3 of the ceiling, for nine of ten requests."""
        if workload not in self._whole:
            self._whole[workload] = min(self._alone(workload, 0.3, 1).attained.values()) >= 0.9
        return self._whole[workload]

    def _alone(
        self, workload: str, load: float, seed: int, *, cap: int | None = None, only: str | None = None
    ) -> Served:
        """The engine alone, with a cap that refuses at once, or with the requests of one class; each measured once."""
        key = workload, load, seed, cap, only
        if key not in self._arms:
            requests, span_s, _ = self._traffic(workload, load, seed)
            own = [one for one in requests if only in (None, one.class_name)]
            self._arms[key] = self._run(None, own, span_s, seed, cap=cap)
        return self._arms[key]

    def _traffic(self, name: str, load: float, seed: int) -> tuple[list[Request], float, float]:
        """The requests, the time in which they arrive, and the fluid ceiling of their mix."""
        model, slo, workload = self.model, self.slo, WORKLOADS[name]
        rate_per_s = mean(workload.rates_per_s(model, slo, load))
        longest_s = max(_LONGEST_S, _MAX_STEPS * model.step_s(1))
        span_s = max(_MIN_S, min(self._requests / rate_per_s, longest_s))
        if len(workload.phases) > 1:
            each_s = span_s / len(workload.phases)
            workload = replace(workload, phases=tuple(replace(one, length_s=each_s) for one in workload.phases))
        return workload.requests(span_s, seed, model=model, slo=slo, load=load), span_s, _ceiling(workload, model, slo)

    def _best(self, workload: str, load: float, seeds: Sequence[int]) -> float:
        """The goodput of the best of a grid of caps on the engine alone, which refuse at once beyond them."""
        seats = ceiling(self.model, 64, 64, self.slo).seats
        caps = sorted({max(1, round(ratio * seats)) for ratio in _CAPS})
        return max(mean(self._alone(workload, load, seed, cap=cap).goodput_per_s for seed in seeds) for cap in caps)

    def _top_by_itself(self, top: str, workload: str, load: float, most: float, seed: int) -> float:
        """What the engine alone keeps of the most urgent class, with nothing else to serve; 0 where more of it arrives
        than its share of ``most``, what can be had of the engine.
        """
        requests, span_s, _ = self._traffic(workload, load, seed)
        if sum(one.class_name == top for one in requests) / span_s > _TOP_SHARE * most:
            return 0.0
        return self._alone(workload, load, seed, only=top).attained.get(top, 0.0)

    def _run(
        self, preset: Preset | None, requests: list[Request], span_s: float, seed: int, *, cap: int | None = None
    ) -> Served:
        result = simulate(requests, preset, self.model, seed=seed, most_inside=cap)
        warmup_s = _WARMUP_RATIO * span_s
        found = summarise("", result, self.slo, warmup_s=warmup_s, span_s=span_s)
        return _served(found, result.tokens_per_s(warmup_s, span_s))


def _served(found: Summary, tokens_per_s: float) -> Served:
    ranked = [name for name in ("realtime", "normal", "batch") if name in found.classes]
    return Served(
        found.all.goodput_per_s,
        tokens_per_s,
        found.all.ttft.p99_s,
        {name: found.classes[name].attained_ratio for name in ranked},
        {name: found.classes[name].completed / max(found.classes[name].offered, 1) for name in ranked},
    )


def _mean(found: Sequence[Served]) -> Served:
    p99_s = [one.ttft_p99_s for one in found if one.ttft_p99_s is not None]
    return Served(
        mean(one.goodput_per_s for one in found),
        mean(one.tokens_per_s for one in found),
        mean(p99_s) if p99_s else None,
        {name: mean(one.attained.get(name, 1.0) for one in found) for name in found[0].attained},
        {name: mean(one.served.get(name, 1.0) for one in found) for name in found[0].served},
    )


def _ceiling(workload: Workload, model: EngineModel, slo: Slo) -> float:
    return mean(
        ceiling(model, one.prompt.mean_tokens, one.output.mean_tokens, slo).requests_per_s for one in workload.phases
    )
