"""The summary of a run: the figures by which presets are compared, from the record of every visit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway_policies import Outcome
from headway_policies.usage import jain, max_min
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.report.class_slo import ClassSlo
from headway_simulator.run.result import Result
from headway_simulator.run.visit import Visit

ALL = "all"
_NONE: Mapping[str, ClassSlo] = {}


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and percentiles, in seconds; None where nothing was measured."""

    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """The figures of one class, or of all. A request counts once, however often its client came.

    ``good`` are those served to the end within both objectives. ``attained_ratio`` is good / offered,
    ``attained_of_admitted_ratio`` good / those let through to the engine. ``own_...`` are the same by what the preset
    states for the classes, of requests whose class states any; None where none does. ``refused`` counts attempts by
    reason.
    """

    name: str
    offered: int
    admitted: int
    completed: int
    good: int
    goodput_per_s: float
    good_tokens_per_s: float
    attained_ratio: float
    attained_of_admitted_ratio: float
    own_attained_ratio: float | None
    own_attained_of_admitted_ratio: float | None
    ttft: Spread
    inter_token: Spread
    wait: Spread
    end_to_end: Spread
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run. Rates are over ``span_s``; ``jain`` is the fairness between tenants, 1.0 for one tenant.

    ``own`` are the objectives that the preset states for the classes that served a request. ``policy_failures`` is
    that of the result.
    """

    name: str
    span_s: float
    classes: Mapping[str, ClassSummary]
    tokens_per_s: float
    requests_per_s: float
    mean_batch: float
    preemptions: int
    utilisation_ratio: float
    jain: float
    own: Mapping[str, ClassSlo]
    policy_failures: str = ""

    @property
    def all(self) -> ClassSummary:
        """All classes together."""
        return self.classes[ALL]


def summarise(
    name: str,
    result: Result,
    slo: Slo,
    *,
    warmup_s: float = 0.0,
    span_s: float | None = None,
    own: Mapping[str, ClassSlo] = _NONE,
    judged: Mapping[str, ClassSlo] = _NONE,
) -> Summary:
    """The figures of a run, without the requests that arrived in the first ``warmup_s``.

    A class is judged by its objectives in ``judged``, or by ``slo`` where it has none there. ``own`` are the objectives
    that its preset states for the classes (``stated_by``). Requests that arrived until
    ``span_s`` are measured against the time from the one to the other; by default the whole run, to the end of the last
    request.
    """
    end_s = result.ended_s if span_s is None else span_s
    visits = [visit for visit in result.visits if visit.arrived_s >= warmup_s]
    seconds = max(end_s - warmup_s, 1e-9)
    by_class: dict[str, list[Visit]] = {}
    for visit in visits:
        by_class.setdefault(visit.request.class_name, []).append(visit)
    ranked = sorted(by_class, key=[*result.ledger.classes, *by_class].index)
    usual = ClassSlo(slo.ttft_s, slo.inter_token_s)
    good = {id(visit) for visit in visits if judged.get(visit.class_name, usual).kept(visit)}
    classes = {class_name: _class(class_name, by_class[class_name], good, own, seconds) for class_name in ranked}
    whole = _class(ALL, visits, good, own, seconds)
    return Summary(
        name,
        seconds,
        {ALL: whole} | classes | {ALL: whole},  # first, whatever a class is called
        tokens_per_s=sum(visit.made_tokens for visit in result.visits) / max(result.ended_s, 1e-9),
        requests_per_s=sum(visit.outcome is Outcome.COMPLETED for visit in visits) / seconds,
        mean_batch=result.mean_batch,
        preemptions=result.preemptions,
        utilisation_ratio=result.utilisation_ratio,
        jain=_fairness(visits),
        own={name: terms for name, terms in own.items() if any(visit.class_name == name for visit in visits)},
        policy_failures=result.policy_failures,
    )


def _class(
    name: str, visits: Sequence[Visit], in_time: Container[int], own: Mapping[str, ClassSlo], seconds: float
) -> ClassSummary:
    offered, admitted = _offered(visits), _admitted(visits)
    judged = [visit for visit in visits if visit.class_name in own]
    kept = sum(own[visit.class_name].kept(visit) for visit in judged)
    good = [visit for visit in visits if id(visit) in in_time]
    completed = [visit for visit in visits if visit.outcome is Outcome.COMPLETED]
    return ClassSummary(
        name,
        offered,
        admitted,
        len(completed),
        len(good),
        goodput_per_s=len(good) / seconds,
        good_tokens_per_s=sum(visit.made_tokens for visit in good) / seconds,
        attained_ratio=len(good) / max(offered, 1),
        attained_of_admitted_ratio=len(good) / max(admitted, 1),
        own_attained_ratio=kept / max(_offered(judged), 1) if judged else None,
        own_attained_of_admitted_ratio=kept / max(_admitted(judged), 1) if judged else None,
        ttft=spread(visit.ttft_s for visit in visits),
        inter_token=spread(visit.inter_token_s for visit in visits),
        wait=spread(visit.wait_s for visit in visits),
        end_to_end=spread((visit.ended_s or 0.0) - visit.arrived_s for visit in completed),
        refused=dict(sorted(Counter(str(visit.reason) for visit in visits if visit.reason is not None).items())),
    )


def _offered(visits: Sequence[Visit]) -> int:
    return sum(not visit.attempt for visit in visits)


def _admitted(visits: Sequence[Visit]) -> int:
    return sum(visit.dispatched_s is not None for visit in visits)


def spread(values: Iterable[float | None]) -> Spread:
    """Mean and percentiles (nearest rank) of measurements."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return Spread(None, None, None, None)
    mean_s = sum(known) / len(known)
    return Spread(mean_s, *(known[max(math.ceil(ratio * len(known)) - 1, 0)] for ratio in (0.5, 0.95, 0.99)))


def fairness(asked: Mapping[str, float], served: Mapping[str, float]) -> float:
    """Jain's index over what each tenant got, as a part of its max-min share of all that was served."""
    shares = max_min(asked, sum(served.values()))
    return jain([served.get(name, 0) / share for name, share in shares.items() if share])


def _fairness(visits: Sequence[Visit]) -> float:
    asked: Counter[str] = Counter()
    served: Counter[str] = Counter()
    for visit in visits:
        request = visit.request
        if not visit.attempt:
            asked[request.tenant] += request.prompt_tokens + request.output_tokens
        if visit.made_tokens:
            served[request.tenant] += request.prompt_tokens + visit.made_tokens
    return fairness(asked, served)
