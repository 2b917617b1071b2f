"""Fairness between tenants of one class, compared with max-min fair shares.

Max-min fairness (Bertsekas and Gallager, Data Networks, 6.5.2): no tenant can have more without a tenant that has less,
or as little, having even less. Invariant I11: each backlogged tenant's share of tokens is within 5 % of that.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from closed_loop import ClosedLoop, Record
from serving.arms import stated
from small_presets import small_preset, terms
from tiers import LONG, long_form

from headway_policies import Outcome
from headway_policies.queueing.fair_share import CREDIT_TICKETS
from headway_policies.usage import jain, max_min
from headway_simulator import WORKLOADS, EngineModel, Slo, simulate

SEEDS = range(5 if LONG else 1)
FOR_S, WARM_S = (4000.0, 100.0) if LONG else (400.0, 50.0)
SLO = Slo(ttft_s=1.0, inter_token_s=0.075)
SEATS, TOKENS_PER_S = 10, 100.0  # of each seat: a thousand in all

#: Tokens a second that each tenant asks for, and the tokens of one of its requests.
MIXES: dict[str, dict[str, tuple[float, int]]] = {
    "two floods of unlike size": {"a": (2000, 50), "b": (2000, 800)},
    "one below its share": {"a": (100, 50), "b": (1500, 100), "c": (1500, 400)},
    "five of all kinds": {"a": (50, 50), "b": (150, 300), "c": (400, 100), "d": (900, 700), "e": (3000, 100)},
    "a flood against nine": {"a": (9000, 100)} | dict.fromkeys("bcdefghij", (80, 100)),
}
NINE = long_form("the floods of the other mixes; nine tenants take as many seconds as all of these")
OTHER = long_form("each mix has known lengths or learnt ones, and the other mixes have the other ones")
#: Each mix with the lengths known and learnt; the short form has one of them each.
TRIED = [
    pytest.param(
        mix, known, marks=NINE if len(mix) > 9 else OTHER if known is (at % 2 == 0) else (), id=f"{name}-{what}"
    )
    for at, (name, mix) in enumerate(MIXES.items())
    for known, what in ((True, "lengths known"), (False, "lengths learnt"))
]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("mix", "known"), TRIED)
def test_each_tenant_gets_its_max_min_share_of_tokens(
    mix: dict[str, tuple[float, int]], known: bool, seed: int
) -> None:
    """Within 5 % over some minutes, whatever the sizes of the requests and however hard the others push."""
    random = Random(seed)
    classes = {"normal": terms(1, places=1_000_000, queue_s=None, total_s=None)}
    preset = small_preset(SEATS, most_waiting=1_000_000, classes=classes, inside="fair")
    loop = ClosedLoop(preset, lambda record: record.output_tokens / TOKENS_PER_S)

    def come(tenant: str, per_s: float, tokens: int) -> None:
        length = max(1, round(tokens * random.uniform(0.5, 1.5)))
        most = length if known else 2000
        loop.ask("normal", tenant=tenant, output_tokens=length, max_tokens=most)
        loop.at(loop.now_s + random.expovariate(per_s / tokens), lambda: come(tenant, per_s, tokens))

    for tenant, (per_s, tokens) in mix.items():
        loop.at(random.expovariate(per_s / tokens), lambda a=tenant, b=per_s, c=tokens: come(a, b, c))
    loop.run(FOR_S)

    def asked(tenant: str) -> float:
        mine = [one for one in loop.records if one.ticket.tenant == tenant and one.ticket.arrived_s >= WARM_S]
        return sum(one.output_tokens for one in mine) / (FOR_S - WARM_S)

    fair = max_min({tenant: asked(tenant) for tenant in mix}, SEATS * TOKENS_PER_S)
    for tenant, share in fair.items():
        got = tokens_served(loop.records, tenant) / (FOR_S - WARM_S)
        assert got == pytest.approx(share, rel=0.05, abs=0.01 * SEATS * TOKENS_PER_S), (seed, tenant, got, fair)


def tokens_served(records: list[Record], tenant: str) -> float:
    """The tokens a tenant was served after the start, counted as the server gave them."""
    total = 0.0
    for record in records:
        if record.ticket.tenant == tenant and record.dispatched_s is not None:
            ended_s = min(FOR_S, record.dispatched_s + record.output_tokens / TOKENS_PER_S)
            total += max(0.0, ended_s - max(WARM_S, record.dispatched_s)) * TOKENS_PER_S
    return total


def test_an_absent_tenant_does_not_catch_up() -> None:
    """A tenant that returns after ten minutes gets its credit, then half of the server beside one that stayed."""
    classes = {"normal": terms(1, places=1_000_000, queue_s=None, total_s=None)}
    loop = ClosedLoop(small_preset(4, classes=classes, inside="fair", most_waiting=1_000_000), lambda record: 1.0)

    def again(record: Record) -> None:
        loop.ask("normal", again, tenant=record.ticket.tenant, max_tokens=100)

    for _ in range(20):
        loop.ask("normal", again, tenant="stayed", max_tokens=100)
    loop.ask("normal", tenant="away", max_tokens=100)
    loop.run(600.0)
    for _ in range(20):
        loop.ask("normal", again, tenant="away", max_tokens=100)
    loop.run(700.0)
    back = [record for record in loop.records if record.dispatched_s is not None and record.dispatched_s >= 600.0]
    mine = sum(one.ticket.tenant == "away" for one in back)
    more = mine - (len(back) - mine)
    assert CREDIT_TICKETS / 2 <= more <= CREDIT_TICKETS + 4
    later = [one for one in back if one.dispatched_s is not None and one.dispatched_s >= 650.0]
    assert sum(one.ticket.tenant == "away" for one in later) / len(later) == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
def test_a_tenant_below_its_share_is_served_where_objectives_refuse() -> None:
    """Five tenants at three times the load, each request due within a second: those that ask for less than a fair share
    are served, and the tokens are shared as fairly as the lengths allow; first come, first served they are not.
    """
    requests = WORKLOADS["W6"].requests(180.0, 1, model=EngineModel(), slo=SLO)
    asked, jains = Counter[str](), {}
    for request in requests:
        asked[request.tenant] += request.prompt_tokens + request.output_tokens
    for inside in ("fair", "fifo"):
        served, completed = Counter[str](), Counter[str]()
        preset = stated(SLO)
        ordering = preset.ordering.model_copy(update={"inside": inside})
        for visit in simulate(requests, preset.model_copy(update={"ordering": ordering}), EngineModel()).visits:
            served[visit.request.tenant] += visit.made_tokens and visit.request.prompt_tokens + visit.made_tokens
            completed[visit.request.tenant] += visit.outcome is Outcome.COMPLETED
        shares = max_min(asked, sum(served.values()))
        jains[inside] = jain([served[tenant] / share for tenant, share in shares.items()])
        if inside == "fair":
            sent = Counter(request.tenant for request in requests)
            assert all(completed[tenant] >= 0.8 * sent[tenant] for tenant in ("tiny", "small"))
    assert jains["fair"] >= 0.98
    assert jains["fifo"] <= 0.7
