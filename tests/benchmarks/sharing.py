"""G9, G10 and G16: the shares of classes and of tenants under overload, and what cached prefixes give."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from statistics import mean

from arms import MODEL, SLO, arm
from goal import Goal
from serving.arms import stated

from headway_policies import Preset
from headway_policies.queueing import OrderSettings
from headway_policies.usage import jain, max_min
from headway_simulator import WORKLOADS, Clients, Visit, simulate, spread

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
            if visit.dispatched_s is not None and visit.ended_s is not None and 30 <= visit.ended_s <= _SPAN_S:
                served[visit.request.class_name] += visit.request.prompt_tokens + visit.made_tokens
        shares.append(served["normal"] / served.total())
        ratios.append(_urgent_p99_s(weighted.visits) / _urgent_p99_s(strict.visits))
    yield Goal("G9", f"share of the low class in what is served, quota {QUOTA:g}", 0.95 * QUOTA, mean(shares))
    yield Goal("G9", "TTFT p99 of the urgent class, with that quota : with strict order", 1.15, mean(ratios), most=True)


_QUOTA = {"realtime": {"priority": 2, "share": 1 - QUOTA}, "normal": {"priority": 1, "share": QUOTA}}
_PATIENT = Clients(patience_s=30.0)


def _urgent_p99_s(visits: list[Visit]) -> float:
    urgent = (visit.ttft_s for visit in visits if visit.request.class_name == "realtime" and visit.arrived_s >= 30)
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
    figure = "the same where objectives refuse what would be late"
    yield Goal("G10", figure, 0.99, mean(_jain(one) for one in _with_objectives()))
    yield Goal(
        "G10",
        "TTFT p99 of tenants with at most half a fair share, first come first served : fair",
        50.0,
        mean(ratios),
    )
    yield Goal("G10", "tokens served while the load lasts, fair : first come first served", 0.99, mean(conserved))


def _with_objectives() -> Iterator[list[Visit]]:
    """``interactive`` with the objectives stated; then a request waits for a second at most."""
    for seed in SEEDS:
        requests = WORKLOADS["W6"].requests(_SPAN_S, seed, model=MODEL, slo=SLO)
        yield simulate(requests, stated(SLO), MODEL).visits


def prefixes() -> Iterator[Goal]:
    """G16: 32 system prompts of 512 tokens, KV space for 8 of them, four to each of eight tenants; 4 times the load."""
    workload = WORKLOADS["W7"]
    assert workload.kv_tokens == 8 * workload.prefix_tokens
    model = replace(MODEL, kv_tokens=workload.kv_tokens, prefix_cache=True)
    gains, fair_gains, jains, overtaken, hits = [], [], [], [], []
    for seed in SEEDS:
        requests = workload.requests(_SPAN_S, seed, model=model, slo=SLO)
        fifo, fair, prefix = (
            simulate(requests, _seats(inside, ordering={"inside": inside}), model)
            for inside in ("fifo", "fair", "prefix")
        )
        gains.append(_served_tokens(prefix.visits) / _served_tokens(fifo.visits))
        fair_gains.append(_served_tokens(prefix.visits) / _served_tokens(fair.visits))
        jains.append(_jain(prefix.visits))
        overtaken.append(_most_overtaken(prefix.visits))
        hits += [one.prefix_hit_tokens / one.prefix_queried_tokens for one in (fifo, prefix)]
    note = f"prompt tokens found in the cache: {mean(hits[::2]):.2f} and {mean(hits[1::2]):.2f}"
    yield Goal(
        "G16", "tokens served while the load lasts, prefix : first come first served", 1.3, mean(gains), note=note
    )
    yield Goal("G16", "tokens served while the load lasts, prefix : fair", 1.3, mean(fair_gains))
    yield Goal("G16", "Jain's index over served : max-min share", 0.95, min(jains), note="the least of three runs")
    bound = OrderSettings().prefix_max_overtakes + 1
    figure = "dispatches of its tenant that a request waits for : in the order of arrival, the largest"
    yield Goal("G16", figure, bound, max(overtaken), most=True)


def _most_overtaken(visits: list[Visit]) -> float:
    """For each request, its tenant's dispatches from its arrival to its own, by those it would have waited for."""
    ratios = []
    for tenant in {visit.request.tenant for visit in visits}:
        own = [(visit.arrived_s, visit.dispatched_s) for visit in visits if visit.request.tenant == tenant]
        dispatches = sorted(dispatched_s for _, dispatched_s in own if dispatched_s is not None)
        for place, (arrived_s, dispatched_s) in enumerate(own):
            gone = bisect_right(dispatches, arrived_s)
            if dispatched_s is not None:
                older = sum(at_s is None or at_s > arrived_s for _, at_s in own[:place])
                ratios.append((bisect_left(dispatches, dispatched_s) + 1 - gone) / (older + 1))
    return max(ratios)


def _tokens(visits: list[Visit], until_s: float | None) -> dict[str, float]:
    """Tokens by tenant: of the requests that were served and ended by a time, or of all that were requested."""
    total: dict[str, float] = {}
    for visit in visits:
        request = visit.request
        tokens = request.prompt_tokens + (request.output_tokens if until_s is None else visit.made_tokens)
        ended_s = None if visit.dispatched_s is None else visit.ended_s
        counts = until_s is None or (ended_s is not None and ended_s <= until_s)
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
    p99_s = spread(visit.ttft_s for visit in visits if visit.request.tenant in light and visit.arrived_s >= 30).p99_s
    assert p99_s is not None
    return p99_s
