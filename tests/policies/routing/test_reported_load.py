"""The load of instances that report, as one balancer knows it, on a clock that the test moves."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from headway_policies.routing import Demand, Report, ReportedInstances

DEMAND = Demand(tokens=16, prompt_tokens=16)


def view(**reports: Report) -> ReportedInstances:
    """A view that has these reports, of second 0."""
    found = ReportedInstances(silent_s=10.0)
    for name, report in reports.items():
        found.instance(name).report(report, 0.0)
    return found


def report(
    number: int = 1, *, ready: bool = True, seats: int = 4, load: int = 0, answered: int = 0, stale: bool = False
) -> Report:
    """A report of a server that has nothing in its KV cache."""
    return Report(number, ready, seats, load, kv_use=0.0, answered=answered, stale=stale)


def test_requests_that_arrive_together_are_spread_before_any_is_sent() -> None:
    """A choice counts at once, and its request is not counted twice when it is sent."""
    two = view(a=report(), b=report())
    chosen = [two.rank(["a", "b"], DEMAND, 1.0)[0] for _ in range(4)]
    assert chosen == ["a", "b", "a", "b"]
    for name in chosen:
        two.instance(name).sent(1.0)
    two.instance("a").sent(1.0)
    assert two.rank(["a", "b"], DEMAND, 1.0) == ["b", "a"]


def test_a_choice_that_was_never_sent_is_forgotten() -> None:
    """A client that left while its request was routed does not count for long."""
    two = view(a=report(), b=report())
    for _ in range(3):
        two.rank(["a"], DEMAND, 1.0)
    assert two.rank(["a", "b"], DEMAND, 1.5) == ["b", "a"]
    assert two.rank(["a", "b"], DEMAND, 3.0) == ["a", "b"]


@given(st.lists(st.sampled_from(["sent a", "sent b", "ended a", "ended b"]), max_size=60))
def test_no_history_makes_a_load_negative(events: list[str]) -> None:
    """Ends that were never sent, as Serve reports for a request that it could not send, change nothing."""
    two, own = view(a=report(seats=100), b=report(seats=100)), {"a": 0, "b": 0}
    for event in events:
        what, name = event.split()
        if what == "sent":
            two.instance(name).sent(1.0)
            own[name] += 1
        else:
            two.ended(name)
            own[name] = max(0, own[name] - 1)
    assert two.rank(["a", "b"], DEMAND, 1.0)[0] == ("a" if own["a"] <= own["b"] else "b")


def test_the_requests_of_other_routers_count_and_its_own_are_not_counted_twice() -> None:
    """Requests of a report beyond those sent from here are from others."""
    two = view(a=report(), b=report())
    for _ in range(3):
        two.instance("a").sent(1.0)
    two.instance("a").report(report(2, load=3), 1.0)
    two.instance("b").report(report(2, load=2), 1.0)
    assert two.rank(["a", "b"], DEMAND, 1.0) == ["b", "a"]
    for _ in range(3):
        two.ended("a")
    assert two.rank(["a", "b"], DEMAND, 1.0)[0] == "a"


def test_a_server_that_is_not_ready_or_silent_is_given_nothing_while_another_one_is_healthy() -> None:
    """Nor is one that has reported nothing for a while; an instance that is new counts as warm."""
    two = view(a=report(), b=report())
    two.instance("a").report(report(2, ready=False), 1.0)
    assert two.rank(["a", "b", "new"], DEMAND, 1.0) == ["b", "new"]
    two.instance("a").report(report(3), 2.5)
    two.instance("b").report(report(2), 2.5)
    assert set(two.rank(["a", "b"], DEMAND, 2.5)) == {"a", "b"}
    two.instance("b").report(report(3), 12.0)
    assert two.rank(["a", "b"], DEMAND, 12.6) == ["b"]


def test_an_instance_on_probation_is_given_one_request_until_its_answer_is_reported() -> None:
    """A probe counts from its choice on, so of those that arrive together one alone is the probe."""
    two = view(a=report(), b=report(load=3))
    two.instance("a").report(report(2, ready=False), 1.0)
    two.instance("a").report(report(3), 2.0)
    assert two.rank(["a", "b"], DEMAND, 2.0) == ["a", "b"]
    assert two.rank(["a", "b"], DEMAND, 2.0) == ["b"]
    two.instance("a").sent(2.1)
    assert two.rank(["a", "b"], DEMAND, 2.2) == ["b"]
    two.instance("a").report(report(4, load=1, answered=1), 3.0)
    assert two.rank(["a", "b"], DEMAND, 3.0) == ["a", "b"]


def test_where_none_takes_a_request_those_on_probation_are_asked_before_the_others() -> None:
    """The only server that works serves all, whether its probe has been answered or not."""
    two = view(a=report(), b=report())
    for name in ("a", "b"):
        two.instance(name).report(report(2, ready=False), 1.0)
    two.instance("a").report(report(3), 2.0)
    assert [two.rank(["a", "b"], DEMAND, 2.0) for _ in range(3)] == [["a"]] * 3


def test_a_server_that_serves_between_its_outages_cools_no_longer_each_time() -> None:
    """However many of them there are, it is back with the next good report."""
    two, now_s, number, answered = view(a=report(), b=report()), 0.0, 1, 0

    def next_second(*, ready: bool = True) -> None:
        nonlocal now_s, number
        now_s, number = now_s + 1.0, number + 1
        two.instance("a").report(report(number, ready=ready, answered=answered), now_s)
        two.instance("b").report(report(number), now_s)

    for _ in range(8):
        next_second(ready=False)
        next_second()
        assert "a" in two.rank(["a", "b"], DEMAND, now_s)
        two.instance("a").sent(now_s)
        two.ended("a")
        answered += 1
        next_second()


def test_a_server_whose_metrics_fail_is_not_taken_for_an_empty_one() -> None:
    """Where none is healthy its load is the one that was known, and what has ended since is not counted as others'."""
    two = view(a=report(load=3), b=report(load=2))
    for name in ("a", "b"):
        two.instance(name).report(report(2, load=3 if name == "a" else 2, ready=False, stale=True), 1.0)
    assert two.rank(["a", "b"], DEMAND, 1.0) == ["b", "a"]
    two = view(a=report(), b=report(load=1))
    for _ in range(2):
        two.instance("a").sent(1.0)
    two.instance("a").report(report(2, load=2), 2.0)
    for _ in range(2):
        two.ended("a")
    two.instance("a").report(report(3, load=2, ready=False, stale=True), 3.0)
    two.instance("b").report(report(2, load=1, ready=False, stale=True), 3.0)
    assert two.rank(["a", "b"], DEMAND, 3.0) == ["a", "b"]


def test_where_none_is_healthy_all_are_asked() -> None:
    """A balancer goes on while what all reports pass through is away."""
    two = view(a=report(), b=report())
    assert set(two.rank(["a", "b"], DEMAND, 1000.0)) == {"a", "b"}


def test_full_instances_are_ranked_by_their_queues() -> None:
    """No request waits in the balancer: the servers have the queues, with their classes."""
    two = view(a=report(load=9), b=report(load=6))
    assert two.rank(["a", "b"], DEMAND, 1.0) == ["b", "a"]


def test_an_instance_that_is_gone_is_forgotten() -> None:
    """Its requests do not count for another one of the same name, nor do their ends."""
    one = view(a=report())
    one.instance("a").sent(1.0)
    one.keep(["b"])
    one.ended("a")
    one.instance("a").report(report(1, load=4), 5.0)
    assert one.rank(["a"], DEMAND, 5.0) == ["a"]


def test_a_long_prompt_goes_where_a_report_tells_of_more_free_tokens() -> None:
    """Not where the larger share of a small cache is free; where one does not say its size the shares count."""
    small, large = Report(1, True, 8, 2, kv_use=0.5, kv_tokens=10_000), Report(1, True, 8, 2, kv_use=0.8)
    long = Demand(9000, 8000)
    assert view(small=small, large=replace(large, kv_tokens=100_000)).rank(["small", "large"], long, 0.0)[0] == "large"
    assert view(small=small, large=large).rank(["small", "large"], long, 0.0)[0] == "small"
