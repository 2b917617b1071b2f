"""The figures of a run, from records written by hand."""

from __future__ import annotations

import pytest
from small_presets import small_preset, terms

from headway_policies import Ledger, Outcome, Reason
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.report.class_slo import ClassSlo, stated_by
from headway_simulator.report.summary import spread, summarise
from headway_simulator.run.result import Result
from headway_simulator.run.visit import Visit
from headway_simulator.traffic.workload import Request

SLO = Slo(ttft_s=1.0, inter_token_s=0.1)


def served(
    at_s: float,
    first_s: float,
    ended_s: float,
    tokens: int = 11,
    name: str = "normal",
    tenant: str = "",
    attempt: int = 0,
) -> Visit:
    """A visit that completed, dispatched at once."""
    request = Request(at_s, name, 10, tokens, tenant=tenant)
    return Visit(0, request, attempt, name, at_s, at_s, first_s, ended_s, Outcome.COMPLETED, made_tokens=tokens)


def refused(at_s: float, name: str = "normal", tenant: str = "", attempt: int = 0) -> Visit:
    """A request that was refused."""
    request = Request(at_s, name, 10, 10, tenant=tenant)
    visit = Visit(0, request, attempt, name, at_s, outcome=Outcome.REJECTED_FULL, reason=Reason.QUEUE_FULL)
    visit.ended_s = at_s
    return visit


def result(*visits: Visit) -> Result:
    """A run with these visits."""
    one = Result(EngineModel(), list(visits), Ledger(["realtime", "normal"]))
    one.ended_s = max(visit.ended_s or 0.0 for visit in visits)
    return one


@pytest.mark.parametrize(
    ("first_s", "ended_s", "good"),
    [(1.0, 2.0, True), (1.01, 2.0, False), (0.5, 1.5, True), (0.5, 1.51, False)],
    ids=["both at the edge", "first token late", "tokens at the edge", "tokens late"],
)
def test_goodput_counts_requests_that_kept_both_objectives(first_s: float, ended_s: float, good: bool) -> None:
    """The edge counts as kept."""
    whole = summarise("x", result(served(0.0, first_s, ended_s)), SLO, span_s=10.0)
    assert (whole.all.good, whole.all.goodput_per_s) == (int(good), good / 10)
    assert whole.all.good_tokens_per_s == pytest.approx(1.1 if good else 0.0)


def test_the_refused_lower_what_is_attained_of_the_offered_only() -> None:
    """One good of one admitted, of two offered; the reason is counted."""
    whole = summarise("x", result(served(0, 0.5, 1.0), refused(0)), SLO)
    assert (whole.all.attained_ratio, whole.all.attained_of_admitted_ratio) == (0.5, 1.0)
    assert whole.all.refused == {"queue_full": 1}


def test_a_client_that_comes_again_is_offered_once() -> None:
    """Two attempts, one request."""
    whole = summarise("x", result(refused(0), served(5, 5.5, 6.0, attempt=1)), SLO)
    assert (whole.all.offered, whole.all.good, whole.all.attained_ratio) == (1, 1, 1.0)


def test_the_warm_up_is_excluded_and_rates_are_over_the_rest() -> None:
    """Earlier arrivals do not count at all."""
    whole = summarise("x", result(served(1, 1.5, 2), served(40, 40.5, 41)), SLO, warmup_s=30, span_s=50)
    assert (whole.all.offered, whole.span_s, whole.all.goodput_per_s) == (1, 20, 1 / 20)


def test_classes_are_listed_in_the_order_of_the_preset_behind_the_sum() -> None:
    """And each has its own figures."""
    whole = summarise("x", result(served(0, 0.5, 1), refused(0, "realtime")), SLO)
    assert list(whole.classes) == ["all", "realtime", "normal"]
    assert whole.classes["realtime"].attained_ratio == 0.0
    assert whole.classes["normal"].attained_ratio == 1.0


OWN = {"realtime": ClassSlo(0.5, 0.05), "normal": ClassSlo(5.0, None)}


@pytest.mark.parametrize(
    ("name", "first_s", "ended_s", "good", "own"),
    [
        ("realtime", 0.5, 1.0, 1, 1.0),
        ("realtime", 0.51, 1.0, 1, 0.0),
        ("realtime", 0.5, 1.01, 1, 0.0),
        ("normal", 5.0, 5.5, 0, 1.0),
        ("normal", 0.5, 99.0, 0, 1.0),
        ("normal", 5.01, 5.5, 0, 0.0),
        ("batch", 0.5, 1.0, 1, None),
    ],
    ids=["kept", "first token late", "tokens late", "kept, a laxer one", "one not stated", "late", "none stated"],
)
def test_a_request_is_also_judged_by_what_its_preset_states_for_its_class(
    name: str, first_s: float, ended_s: float, good: int, own: float | None
) -> None:
    """Beside the objectives that are the same for all: an objective that is not stated cannot be missed."""
    whole = summarise("x", result(served(0.0, first_s, ended_s, name=name)), SLO, own=OWN)
    assert whole.classes[name].good == good
    for one in (whole.classes[name], whole.all):
        assert (one.own_attained_ratio, one.own_attained_of_admitted_ratio) == (own, own)
    assert whole.own == ({} if own is None else {name: OWN[name]})


def test_the_class_that_served_a_request_says_what_it_is_judged_by() -> None:
    """A preset without the class of the request serves it in another one."""
    visit = served(0.0, 3.0, 3.5, name="unheard-of")
    visit.class_name = "normal"
    whole = summarise("x", result(visit), SLO, own=OWN)
    assert (whole.classes["unheard-of"].own_attained_ratio, whole.own) == (1.0, {"normal": OWN["normal"]})


def test_requests_of_classes_without_objectives_are_in_no_share_of_their_own() -> None:
    """Two of four that have one: one kept it, one was refused; a retry is no request more."""
    visits = [served(0, 3, 4), refused(0, attempt=0), refused(1, attempt=1), served(0, 1, 2, name="batch")]
    whole = summarise("x", result(*visits), SLO, own=OWN)
    assert (whole.all.own_attained_ratio, whole.all.own_attained_of_admitted_ratio) == (0.5, 1.0)
    assert whole.all.attained_ratio == 1 / 3


def test_what_a_preset_states_is_read_from_its_classes() -> None:
    """In seconds; a class that states neither is left out, and the engine alone states nothing."""
    classes = {
        "a": terms(3, ttft_slo_s=2.0, inter_token_slo_ms=50.0), "b": terms(2, ttft_slo_s=9.0), "c": terms(1),
    }  # fmt: skip
    found = stated_by(small_preset(classes=classes), EngineModel(), [])
    assert found == {"a": ClassSlo(2.0, 0.05), "b": ClassSlo(9.0, None)}
    assert stated_by(None, EngineModel(), []) == {}


def test_relative_objectives_are_multiples_of_the_model() -> None:
    """Of a sequence alone, and of the mean prompt; a longer prompt has its own prefill on top."""
    classes = {"a": terms(1, ttft_slo_s="8x", inter_token_slo_ms="2.5x")}
    model = EngineModel(base_s=0.03, seat_s=0.001, prefill_s=0.002)
    requests = [Request(0.0, "a", tokens, 11) for tokens in (50, 150)]
    own = stated_by(small_preset(classes=classes), model, requests)["a"]
    assert (own.ttft_s, own.inter_token_s) == (pytest.approx(8 * (0.031 + 0.2)), pytest.approx(2.5 * 0.031))

    def kept(prompt_tokens: int, first_s: float) -> bool:
        request = Request(0.0, "a", prompt_tokens, 11)
        visit = Visit(0, request, 0, "a", 0.0, 0.0, first_s, first_s + 0.5, Outcome.COMPLETED, made_tokens=11)
        return own.kept(visit)

    assert [kept(100, 1.84), kept(100, 1.86), kept(50, 1.84), kept(200, 2.04), kept(200, 2.06)] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_percentiles_are_by_nearest_rank() -> None:
    """Of 1 to 100 the 99th is 99; of one value all are it; of none there is nothing."""
    one = spread(float(value) for value in range(100, 0, -1))
    assert (one.mean_s, one.p50_s, one.p95_s, one.p99_s) == (50.5, 50.0, 95.0, 99.0)
    assert spread([None, 7.0]).p50_s == 7.0
    assert spread([None]).mean_s is None


def test_fairness_is_measured_against_the_max_min_share() -> None:
    """A tenant that asked for little and got it all is served as fairly as one that asked for much and got the rest."""
    fair = [served(0, 1, 2, tokens=90, tenant="greedy"), served(0, 1, 2, tokens=10, tenant="small")]
    unasked = [refused(0, tenant="greedy") for _ in range(9)]
    assert summarise("x", result(*fair, *unasked), SLO).jain == pytest.approx(1.0)
    starved = [served(0, 1, 2, tokens=90, tenant="greedy"), refused(0, tenant="small")]
    assert summarise("x", result(*starved, *unasked), SLO).jain == pytest.approx(0.5)
