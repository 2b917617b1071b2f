"""G9 and G10: the shares of classes and of tenants under overload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean

from arms import MODEL, SLO, arm
from goal import Goal

from headway.simulator import WORKLOADS, Clients, Visit, jain, max_min, simulate, spread
from headway_policies import Preset

SEEDS = (1, 2, 3)
QUOTA = 0.1
_SPAN_S = 300


def _seats(name: str, **more: object) -> Preset:
    return arm(name, batching={"strategy": "continuous", "seats": 24}, **more)  # type: ignore[arg-type]  # tables


def starvation() -> Iterator[Goal]:
    """G9: the urgent class offers 3.0 times the capacity, the other class 0.3 times."""
    workload = replace(WORKLOADS["W1"], classes={"realtime": 3.0, "normal": 0.3}, load=3.3)
    shares, ratios = [], []
    for seed in SEEDS:
        requests = workload.requests(_SPAN_S, seed, model=MODEL, slo=SLO)
        weighted = simulate(requests, _seats("weighted", ordering={"between": "weighted"}, classes=_QUOTA), MODEL,
                            clients=_PATIENT)  # fmt: skip
        strict = simulate(requests, _seats("strict"), MODEL, clients=_PATIENT)
        served = Counter[str]()
        for visit in weighted.visits:
            if visit.ended_s is not None and 30 <= visit.ended_s <= _SPAN_S:
                served[visit.request.class_name] += visit.request.prompt_tokens + visit.made_tokens
        shares.append(served["normal"] / served.total())
        ratios.append(_urgent_p99_s(weighted.visits) / _urgent_p99_s(strict.visits))
    yield Goal("G9", f"share of the low class in what is served, quota {QUOTA:g}", 0.95 * QUOTA, mean(shares))
    yield Goal("G9", "TTFT p99 of the urgent class, with that quota : with strict order", 1.15, mean(ratios), most=True)


_QUOTA = {"realtime": {"priority": 2, "share": 1 - QUOTA}, "normal": {"priority": 1, "share": QUOTA}}
_PATIENT = Clients(patience_s=30.0)


def _urgent_p99_s(visits: list[Visit]) -> float:
    urgent = (one.ttft_s for one in visits if one.request.class_name == "realtime" and one.arrived_s >= 30)
    p99_s = spread(urgent).p99_s
    assert p99_s is not None
    return p99_s


def tenants() -> Iterator[Goal]:
    """G10: five tenants offer 2.0, 0.4, 0.3, 0.2 and 0.1 of the capacity."""
    jains, ratios, conserved = [], [], []
    for seed in SEEDS:
        requests = WORKLOADS["W6"].requests(_SPAN_S, seed, model=MODEL, slo=SLO)
        fair = simulate(requests, _seats("fair", ordering={"inside": "fair"}), MODEL)
        fifo = simulate(requests, _seats("fifo"), MODEL)
        jains.append(_jain(fair.visits))
        ratios.append(_light_p99_s(fifo.visits) / _light_p99_s(fair.visits))
        conserved.append(_served_tokens(fair.visits) / _served_tokens(fifo.visits))
    yield Goal("G10", "Jain's index over served : max-min share", 0.99, mean(jains))
    yield Goal(
        "G10",
        "TTFT p99 of tenants with at most half a fair share, first come first served : fair",
        50.0,
        mean(ratios),
    )
    yield Goal("G10", "tokens served while the load lasts, fair : first come first served", 0.99, mean(conserved))


def _tokens(visits: list[Visit], until_s: float | None) -> dict[str, float]:
    """Tokens by tenant: of the requests that ended by a time, or of all that were requested."""
    total: dict[str, float] = {}
    for visit in visits:
        request = visit.request
        tokens = request.prompt_tokens + (request.output_tokens if until_s is None else visit.made_tokens)
        counts = until_s is None or (visit.ended_s is not None and visit.ended_s <= until_s)
        total[request.tenant] = total.get(request.tenant, 0.0) + tokens * counts
    return total


def _jain(visits: list[Visit]) -> float:
    served = _tokens(visits, _SPAN_S)
    fair = max_min(_tokens(visits, None), sum(served.values()))
    return jain([served[tenant] / fair[tenant] for tenant in fair])


def _served_tokens(visits: list[Visit]) -> float:
    return sum(_tokens(visits, _SPAN_S).values())


def _light_p99_s(visits: list[Visit]) -> float:
    """TTFT p99 of the tenants that ask for at most half their fair share; one near its share queues behind itself."""
    asked = _tokens(visits, None)
    fair = max(max_min(asked, _served_tokens(visits)).values())
    light = {tenant for tenant in asked if asked[tenant] <= fair / 2}
    p99_s = spread(one.ttft_s for one in visits if one.request.tenant in light and one.arrived_s >= 30).p99_s
    assert p99_s is not None
    return p99_s
