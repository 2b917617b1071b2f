"""Load on a server: what is offered, the capacity, and two servers in turn."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
from load_stand_in import LoadStandIn

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.traffic.trace import read_trace
from headway_simulator.traffic.workload import WORKLOADS, Request
from headway_tools.load import run
from headway_tools.load.completions import Completions
from headway_tools.load.offered import MAX_REQUESTS, LoadError, Source
from headway_tools.load.run import Load, capacity_per_s, compare, offer

SLO = Slo(5.0, 1.0)
W1 = Source(WORKLOADS["W1"], max_tokens=16)


def silent(what: str, ratio: float) -> None:
    """Show nothing."""


@pytest.mark.parametrize("name", ["W1", "W2", "W3", "W6"])
@pytest.mark.parametrize(("rate_per_s", "over_s"), [(0.5, 3000.0), (12.0, 600.0)])
def test_a_workload_arrives_at_any_rate(name: str, rate_per_s: float, over_s: float) -> None:
    """The mean over whole rounds of its phases, within what chance allows; the lengths do not depend on it."""
    requests = Source(WORKLOADS[name]).requests(1, rate_per_s, over_s)
    assert len(requests) / over_s == pytest.approx(rate_per_s, rel=0.15)
    assert [request.at_s for request in requests] == sorted(request.at_s for request in requests)
    assert requests == Source(WORKLOADS[name]).requests(1, rate_per_s, over_s)


def test_classes_replace_those_of_the_workload() -> None:
    """In their shares; the arrivals stay."""
    other = replace(W1, classes={"chat": 0.75, "jobs": 0.25})
    drawn, usual = other.requests(1, 10.0, 400.0), W1.requests(1, 10.0, 400.0)
    assert [one.at_s for one in drawn] == [one.at_s for one in usual]
    assert sum(one.class_name == "chat" for one in drawn) / len(drawn) == pytest.approx(0.75, abs=0.05)
    assert {one.class_name for one in drawn} == {"chat", "jobs"}


def test_prompts_and_answers_are_cut_to_the_model() -> None:
    """Together they fit, and each has a token."""
    for request in Source(WORKLOADS["W3"], max_tokens=100).requests(1, 10.0, 400.0):
        assert request.prompt_tokens + request.output_tokens <= 100
        assert min(request.prompt_tokens, request.output_tokens) >= 1


def test_a_trace_is_squeezed_to_the_rate(tmp_path: Path) -> None:
    """Its order and lengths stay, its span shrinks."""
    file = tmp_path / "day.csv"
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n0,5,1\n10,6,2\n30,7,3\n40,8,4\n")
    source = Source(WORKLOADS["W1"], read_trace(file))
    assert source.own_rate_per_s == 3 / 40
    assert source.span_s(0.75) == pytest.approx(4.0)
    found = source.requests(1, 0.75, 3.5)
    assert [(round(one.at_s, 6), one.prompt_tokens) for one in found] == [(0.0, 5), (1.0, 6), (3.0, 7)]
    assert [one.prompt_tokens for one in source.requests(1, 0.75, inf)] == [5, 6, 7, 8]


def test_a_trace_of_one_moment_lasts_a_second(tmp_path: Path) -> None:
    """And all of it is measured."""
    file = tmp_path / "burst.csv"
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n0,5,1\n0,6,2\n")
    assert Source(WORKLOADS["W1"], read_trace(file)).span_s(1.0) == 1.0


async def test_a_burst_at_the_beginning_is_measured() -> None:
    """Where nothing comes after the warm-up, there is none."""
    with LoadStandIn() as server:
        async with Completions(server.url, timeout_s=5.0) as client:
            load = Load([Request(0.0, "chat", 1, 2)] * 3, 1.0, SLO, 5.0)
            found = await offer(client, load, lambda what, ratio: None)
    assert (found.all.offered, found.all.completed) == (3, 3)


def test_a_load_beyond_memory_is_refused() -> None:
    """Before anything is drawn."""
    with pytest.raises(LoadError, match=str(MAX_REQUESTS)):
        W1.requests(1, 1e4, 1e4)


def test_blocks_have_every_request_once() -> None:
    """With times from the beginning of their block."""
    whole = Load(W1.requests(1, 20.0, 90.0), 90.0, SLO, 1.0)
    parts = whole.blocks(4)
    assert sum(len(part.requests) for part in parts) == len(whole.requests)
    assert all(0 <= request.at_s < part.duration_s == 22.5 for part in parts for request in part.requests)
    assert parts[2].requests[0].prompt_tokens == next(one for one in whole.requests if one.at_s >= 45).prompt_tokens


async def test_an_open_loop_does_not_wait_for_answers() -> None:
    """Twenty requests in a tenth of a second, each of which takes longer, are open together; all end."""
    requests = [Request(0.005 * number, "slow", 2, 2) for number in range(20)]
    with LoadStandIn(wait_s=0.5) as server:
        async with Completions(server.url, timeout_s=20.0) as client:
            measured = await offer(client, Load(requests, 0.1, SLO, 20.0), silent)
        assert server.most_open == 20
    assert (measured.unanswered, measured.all.completed) == (0, measured.all.offered)
    assert measured.all.offered == sum(request.at_s >= 0.01 for request in requests)


async def test_every_end_is_in_the_figures_of_its_class() -> None:
    """Also one without an answer, and one that is still open when the time is up."""
    names = ["chat", "refused", "broken", "cut", "silent"]
    requests = [Request(0.1 + 0.001 * place, name, 2, 2) for place, name in enumerate(names)]
    with LoadStandIn() as server:
        async with Completions(server.url, timeout_s=60.0) as client:
            measured = await offer(client, Load(requests, 0.5, SLO, 1.0), silent)
    found = {name: (one.completed, one.unanswered) for name, one in measured.classes.items()}
    assert found == {"chat": (1, 0), "refused": (0, 0), "broken": (0, 0), "cut": (0, 1), "silent": (0, 1)}
    assert measured.unanswered == 2


async def test_no_more_requests_are_open_than_the_client_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request due beyond them is not sent, and is not forgotten."""
    monkeypatch.setattr(run, "MAX_OPEN", 5)
    requests = [Request(0.001 * number, "slow", 2, 2) for number in range(20)]
    with LoadStandIn(wait_s=0.5) as server:
        async with Completions(server.url, timeout_s=20.0) as client:
            measured = await offer(client, Load(requests, 0.01, SLO, 20.0), silent)
        assert server.most_open <= 5
    assert measured.unanswered == 15
    assert measured.all.failed == {"not sent: 5 requests are open": sum(one.at_s >= 0.001 for one in requests[5:])}


@pytest.mark.slow
async def test_the_capacity_is_that_of_the_seats() -> None:
    """Four seats, sixteen tokens of 5 ms: less than what they could do without any overhead, and most of it."""
    source = Source(replace(WORKLOADS["W1"], classes={"chat": 1.0}), max_tokens=17)
    with LoadStandIn(seats=4, token_s=0.005) as server:
        async with Completions(server.url, timeout_s=20.0) as client:
            found = await capacity_per_s(client, source, 1, clients=12, within_s=3.0)
            tokens = sum(one["max_tokens"] for one in server.asked) / len(server.asked)
    assert 0.3 < found / (4 / (0.005 * tokens)) < 1.1


async def test_a_server_that_completes_nothing_has_no_capacity() -> None:
    """The error says what to give instead."""
    source = replace(W1, classes={"refused": 1.0})
    with LoadStandIn() as server:
        async with Completions(server.url, timeout_s=5.0) as client:
            with pytest.raises(LoadError, match="give --rate"):
                await capacity_per_s(client, source, 1, clients=2, within_s=0.3)


async def test_two_servers_get_the_same_requests_in_turn() -> None:
    """A B, B A, A B, B A; never both at once; the ratio is B / A, pair by pair."""
    order: list[str] = []
    requests = [Request(0.01 * number, "slow", 2, 1 + number) for number in range(40)]
    with LoadStandIn(wait_s=0.01) as a, LoadStandIn(wait_s=0.1) as b:
        async with Completions(a.url, timeout_s=20.0) as first, Completions(b.url, timeout_s=20.0) as second:
            note = lambda what, ratio: order.append(what[0])  # noqa: E731
            compared = await compare((first, second), Load(requests, 0.4, SLO, 20.0), 4, note)
        drawn = [sorted(one["max_tokens"] for one in server.asked if one["class"]) for server in (a, b)]
    assert drawn[0] == drawn[1] == [request.output_tokens for request in requests]
    assert "".join(one for place, one in enumerate(order) if order[place - 1 : place] != [one]) == "ABABA"
    assert [arm.all.offered for arm in compared.arms] == [
        sum(one.all.offered for one in arm) for arm in zip(*compared.pairs, strict=True)
    ]
    ratios = {one.name: one for one in compared.ratios()}
    assert ratios["goodput, requests/s"].median == pytest.approx(1.0)
    assert ratios["first token, p50"].most > 2  # the direction: a disturbed pair says nothing
    assert ratios["first token, p50"].least <= ratios["first token, p50"].median <= ratios["first token, p50"].most
    assert ratios["first token, p50"].pairs == 4
