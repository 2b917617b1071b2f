"""A quiet tenant beside one that sends 32 times as much, in one class, with no rate set by hand.

Both figures are of one engine: the first token of the same requests, beside the other tenant and without it. What is
left of the difference is the work that the engine shares: a step under way, larger batches, and the wait for a seat.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import mean

import pytest
from engine_family import FAMILY, objectives
from tiers import LONG

from headway_policies import Reason, bundled_presets
from headway_simulator import WORKLOADS, EngineModel, Request, simulate

TRAFFIC = replace(WORKLOADS["W1"], classes={"normal": 1.0}, tenants={"loud": 32.0, "quiet": 1.0})
REQUESTS = 3000  # fewer than fill a queue: then nobody's request is taken
ENGINES = ("two cores", "H100, 1B")
#: By preset and multiple of the ceiling: p99 of the first token beside the other tenant, in times that alone.
MOST = {("balanced", 0.8): 4.0, ("throughput", 0.8): 2.5, ("balanced", 3.0): 8.0, ("throughput", 3.0): 12.0}


#: In the short form one of two engines each, by turns.
TRIED = [
    pytest.param(preset, load, engine, id=f"{preset} at {load:g}-{engine}")
    for at, (preset, load) in enumerate(MOST)
    for engine in (FAMILY if LONG else (ENGINES[at % 3 > 0],))
]
FULL = [(preset, engine) for preset in ("balanced", "throughput") for engine in ENGINES]


def first_tokens_s(requests: list[Request], preset: str, model: EngineModel, from_s: float) -> list[float | None]:
    """Of the quiet tenant's requests after the beginning; None for one that was refused."""
    visits = simulate(requests, bundled_presets()[preset], model, seed=1).visits
    mine = [visit for visit in visits if visit.request.tenant == "quiet" and visit.request.at_s >= from_s]
    return [None if visit.first_s is None else visit.first_s - visit.arrived_s for visit in mine]


@pytest.mark.parametrize(("preset", "load", "engine"), TRIED)
def test_a_quiet_tenant_is_served_beside_a_loud_one(preset: str, load: float, engine: str) -> None:
    """No request of it is refused, and its slowest first tokens come within a few times what they take alone."""
    model = FAMILY[engine]
    slo = objectives(model)
    span_s = REQUESTS / mean(TRAFFIC.rates_per_s(model, slo, load))
    requests = TRAFFIC.requests(span_s, 1, model=model, slo=slo, load=load)
    alone_s, beside_s = (
        [first_s for first_s in first_tokens_s(sent, preset, model, 0.1 * span_s) if first_s is not None]
        for sent in ([one for one in requests if one.tenant == "quiet"], requests)
    )
    assert len(beside_s) == len(alone_s)  # refused: none
    assert p99(beside_s) <= MOST[preset, load] * p99(alone_s)


@pytest.mark.parametrize(("preset", "engine"), FULL if LONG else (FULL[0], FULL[3]))
def test_a_full_queue_refuses_the_tenant_that_fills_it(preset: str, engine: str) -> None:
    """At three times the ceiling, in a class of 100 places: each place of the quiet tenant is one of the loud one's."""
    model, bundled = FAMILY[engine], bundled_presets()[preset]
    slo = objectives(model)
    requests = TRAFFIC.requests(
        REQUESTS / mean(TRAFFIC.rates_per_s(model, slo, 3.0)), 1, model=model, slo=slo, load=3.0
    )
    small = bundled.classes["normal"].model_copy(update={"max_waiting": 100})
    classes = {"normal": small, "realtime": bundled.classes["realtime"], "batch": bundled.classes["batch"]}
    visits = simulate(requests, bundled.model_copy(update={"classes": classes}), model, seed=1).visits
    refused = Counter((visit.request.tenant, visit.reason) for visit in visits if visit.reason is not None)
    assert refused["loud", Reason.CLASS_QUEUE_FULL] > REQUESTS / 50
    assert not refused["quiet", Reason.CLASS_QUEUE_FULL]


def p99(values: list[float]) -> float:
    """The value below which 99 of 100 are."""
    return sorted(values)[int(0.99 * len(values))]
