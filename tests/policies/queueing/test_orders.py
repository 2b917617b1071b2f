"""Orders between the classes, and the bounds that each order documents."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.queueing.ageing import AgeingOrder
from headway_policies.queueing.disciplines import Edf, Fifo, Hrrn
from headway_policies.queueing.factory import Order, OrderSettings, StrictOrder, make_discipline, make_order
from headway_policies.queueing.fair_share import FairShare
from headway_policies.queueing.prefix_share import PrefixShare
from headway_policies.queueing.weighted import WeightedOrder, shares
from headway_policies.request.classes import PriorityClass
from headway_policies.request.ticket import Ticket, Timeouts


def classes(**priorities: int) -> dict[str, PriorityClass]:
    return {name: PriorityClass(priority=priority, max_waiting=10**6) for name, priority in priorities.items()}


THREE = classes(batch=1, realtime=3, normal=2)
TWO = classes(low=0, high=1)
arrivals = st.lists(st.sampled_from(sorted(THREE)), max_size=30)


@pytest.mark.parametrize("between", ["strict", "ageing", "weighted", "headway_policies.queueing.factory:StrictOrder"])
def test_the_settings_say_what_goes_first(between: str) -> None:
    """Shares, or the classes above; of a custom order neither is known."""
    settings = OrderSettings(between=between)
    order = make_order(settings, THREE)
    assert settings.by_shares is isinstance(order, WeightedOrder)
    assert settings.by_urgency is isinstance(order, StrictOrder | AgeingOrder)


def ticket(number: int, name: str = "normal", arrived_s: float | None = None) -> Ticket:
    return Ticket(number, name, float(number) if arrived_s is None else arrived_s)


def lined_up(order: Order, names: list[str], tokens: float = 100.0) -> list[Ticket]:
    tickets = [ticket(number, name) for number, name in enumerate(names)]
    for one in tickets:
        order.push(one, one.class_name, tokens, one.arrived_s)
    return tickets


def gone(order: Order, now_s: float = 0.0, excluded: Collection[str] = (), tokens: float = 100.0) -> Ticket | None:
    """The next one goes."""
    head = order.head(now_s, excluded)
    if head is not None:
        order.charge(head, head.class_name, tokens)
        assert order.remove(head.id) is head
    return head


def drained(order: Order) -> list[Ticket]:
    served = []
    while (head := gone(order)) is not None:
        served.append(head)
    return served


# ------------------------------------------------------------------ strict


@given(names=arrivals)
def test_strict_order_is_by_urgency_and_then_by_arrival(names: list[str]) -> None:
    """The most urgent goes first: never the lowest priority, whatever order the classes were written in."""
    order = StrictOrder(THREE)
    tickets = lined_up(order, names)
    assert drained(order) == sorted(tickets, key=lambda one: (-THREE[one.class_name].priority, one.id))


@pytest.mark.parametrize("make", [StrictOrder, AgeingOrder, WeightedOrder])
def test_a_negative_priority_is_the_least_urgent(make: type[StrictOrder | AgeingOrder | WeightedOrder]) -> None:
    """A priority below 0 is less urgent than 0, and never counts from the other end."""
    order = make(classes(zero=0, below=-1, above=1))
    lined_up(order, ["below", "zero", "above"])
    assert [one.class_name for one in drained(order)] == ["above", "zero", "below"]


def test_a_ticket_may_wait_in_another_class_than_its_own() -> None:
    """After a switch a ticket waits where the desk puts it, and keeps its name."""
    order = StrictOrder(THREE)
    order.push(ticket(1, "gone"), "batch", 1.0, 0.0)
    order.push(ticket(2, "normal"), "normal", 1.0, 0.0)
    assert [one.id for one in order] == [2, 1]
    assert order.waiting("batch") == 1


# ------------------------------------------------------------------ the stated bounds


class Server:
    """One server of 1000 tokens a second. The high class always offers three times that, low tickets always wait."""

    def __init__(self, order: Order, seed: int, off_by: float = 0.0) -> None:
        self.order, self.random, self.off_by = order, Random(seed), off_by
        self.now_s, self.made = 0.0, 0
        self.next_s = {"high": 0.0, "low": 0.0}
        self.per_s = {"high": 30.0, "low": 3.0}
        self.served = {"high": 0.0, "low": 0.0}

    def run(self, for_s: float) -> None:
        while self.now_s < for_s:
            for name in self.next_s:
                while self.next_s[name] <= self.now_s:
                    self.arrive(name, self.next_s[name])
                    self.next_s[name] += 1 / self.per_s[name]
            self.serve()

    def arrive(self, name: str, at_s: float) -> None:
        self.made += 1
        self.order.push(ticket(self.made, name, at_s), name, 100.0, at_s)

    def serve(self) -> None:
        actual = self.random.uniform(20.0, 180.0)
        guess = max(1.0, actual + self.random.uniform(-self.off_by, self.off_by))
        head = gone(self.order, self.now_s, tokens=guess)
        assert head is not None
        self.served[head.class_name] += actual
        self.now_s += actual / 1000.0
        self.order.correct(head, head.class_name, actual - guess)

    def low_share(self) -> float:
        return self.served["low"] / sum(self.served.values())


@given(seed=st.integers(0, 1000), off_by=st.sampled_from([0.0, 80.0]))
def test_weighted_gives_the_lowest_class_its_tenth(seed: int, off_by: float) -> None:
    """At three times the load from above the lowest class gets 0.95 of its 10 % or more, and no more than it should."""
    server = Server(WeightedOrder(TWO), seed, off_by)
    server.run(60.0)
    assert 0.95 * 0.1 <= server.low_share() <= 1.05 * 0.1


@given(
    parts=st.lists(st.integers(1, 9), min_size=2, max_size=4),
    sizes=st.lists(st.integers(1, 500), min_size=20, max_size=200),
)
def test_weighted_keeps_the_stated_share_bound(parts: list[int], sizes: list[int]) -> None:
    """After any number of tickets of any size, every class that always waits has share * (T - sum(Q + A)) - Q - A."""
    named = {
        f"class-{rank}": PriorityClass(priority=rank, max_waiting=10, share=part / 40)
        for rank, part in enumerate(parts)
    }
    order, share_of = WeightedOrder(named), shares(named)
    served, number = dict.fromkeys(named, 0), len(named)
    lined_up(order, list(named))
    largest = max(sizes)
    quanta = {name: largest * share / min(share_of.values()) for name, share in share_of.items()}
    slack = sum(quanta.values()) + largest * len(named)
    for size in sizes:
        head = gone(order, tokens=float(size))
        assert head is not None
        number += 1
        order.push(ticket(number, head.class_name), head.class_name, 1.0, 0.0)
        served[head.class_name] += size
        total = sum(served.values())
        for name, share in share_of.items():
            assert served[name] >= share * (total - slack) - quanta[name] - largest


@given(backlog=st.integers(0, 60), step_s=st.sampled_from([0.5, 5.0, 20.0]), seed=st.integers(0, 100))
def test_ageing_keeps_the_stated_wait_bound(backlog: int, step_s: float, seed: int) -> None:
    """The lowest class waits at most step * (levels - 1) and the backlog ahead, worked out from all arrivals."""
    three, random = classes(low=0, middle=1, high=2), Random(seed)
    order = AgeingOrder(three, step_s=step_s)
    coming = deque(sorted([0.0] * backlog + [random.uniform(0.0, 60.0) for _ in range(150)]))
    arrived: list[float] = []
    now_s, service_s, number = 0.0, 0.3, 0
    while coming or len(order):
        while coming and coming[0] <= now_s:
            number += 1
            name = random.choice(sorted(three))
            order.push(ticket(number, name, coming[0]), name, 1.0, now_s)
            arrived.append(coming.popleft())
        head = gone(order, now_s)
        if head is None:
            now_s = coming[0]
            continue
        if head.class_name == "low":
            until_s = head.arrived_s + 2 * step_s
            ahead = sum(at_s <= until_s for at_s in arrived)
            assert now_s - head.arrived_s <= 2 * step_s + ahead * service_s
        now_s += service_s


def test_ageing_is_worth_one_class_for_each_step() -> None:
    """A ticket that came a step earlier draws level with the class above; a little more, and it goes first."""
    for early_s, first in ((9.9, "normal"), (10.1, "batch")):
        order = AgeingOrder(THREE, step_s=10.0)
        order.push(ticket(1, "batch", 0.0), "batch", 1.0, 0.0)
        order.push(ticket(2, "normal", early_s), "normal", 1.0, early_s)
        head = order.head(early_s)
        assert head is not None
        assert head.class_name == first


# ------------------------------------------------------------------ weighted: turns and credit


def test_weighted_serves_every_class_each_round_the_most_urgent_first() -> None:
    """With tickets of one size a round is 6 : 3 : 1, in order of urgency."""
    order = WeightedOrder(THREE)
    lined_up(order, ["batch", "normal", "realtime"] * 400)
    for _ in range(300):
        gone(order)
    names = [head.class_name for _ in range(200) if (head := gone(order)) is not None]
    assert [names.count(name) for name in ("realtime", "normal", "batch")] == pytest.approx([120, 60, 20], abs=6)
    turns = "".join(name[0] for name in names).split("b")
    assert all(turn == "".join(sorted(turn, reverse=True)) for turn in turns)
    assert {len(turn) for turn in turns[1:-1]} <= {8, 9, 10}


def test_weighted_serves_an_arrival_of_an_idle_class_at_once() -> None:
    """Urgent tickets that come now and then do not wait for the round to end."""
    order = WeightedOrder(THREE)
    lined_up(order, ["batch"] * 200)
    for number in range(1000, 1050):
        assert gone(order) is not None
        order.push(ticket(number, "realtime"), "realtime", 100.0, 0.0)
        head = gone(order)
        assert head is not None
        assert head.id == number


def test_weighted_saves_up_nothing_for_an_idle_class() -> None:
    """However long it was away, a class starts with one round's tokens, even when it was overcharged before."""
    order = WeightedOrder(THREE)
    order.correct(ticket(0, "realtime"), "realtime", -1e6)
    lined_up(order, ["normal"] * 400)
    for _ in range(100):
        gone(order)
    for number in range(1000, 1100):
        order.push(ticket(number, "realtime"), "realtime", 100.0, 0.0)
    names = [head.class_name for _ in range(40) if (head := gone(order)) is not None]
    assert names.count("normal") >= 9


def test_weighted_skips_an_excluded_class_and_keeps_its_turn() -> None:
    """An excluded class neither loses nor gains credit: admitted again, it goes first, for one round of tokens only."""
    order = WeightedOrder(THREE)
    lined_up(order, ["realtime", "normal"] * 300)
    for _ in range(100):
        head = gone(order, excluded=["realtime"])
        assert head is not None
        assert head.class_name == "normal"
    names = [head.class_name for _ in range(60) if (head := gone(order)) is not None]
    assert names[:3] == ["realtime"] * 3
    assert names.count("normal") >= 15


def test_looking_for_the_next_of_one_class_takes_no_turn_from_the_others() -> None:
    """Whoever looks before each dispatch, no class gets more than its share: no round begins for a look."""
    order, looked_at = WeightedOrder(TWO), WeightedOrder(TWO)
    served: dict[WeightedOrder, list[str]] = {order: [], looked_at: []}
    for one, names in served.items():
        lined_up(one, ["high", "low"] * 40)
        for _ in range(40):
            if one is looked_at:
                first = one.first_of("high", 0.0)
                assert first is None or first.class_name == "high"
            head = gone(one)
            assert head is not None
            names.append(head.class_name)
    assert served[order] == served[looked_at]
    assert "low" in served[order]


def test_weighted_leaves_an_excluded_class_its_returned_credit() -> None:
    """Tokens given back to a class that waits are still its own after the rounds it was excluded from."""
    order = WeightedOrder(THREE)
    lined_up(order, ["batch", "normal"] * 100)
    early = gone(order, excluded=["normal"])
    assert early is not None
    order.correct(early, "batch", -2000.0)
    for _ in range(50):
        gone(order, excluded=["batch"])
    names = [head.class_name for _ in range(25) if (head := gone(order)) is not None]
    assert names.count("batch") >= 20


def test_weighted_works_off_a_debt_however_large() -> None:
    """A ticket that used far more than was guessed costs its class as many tokens, and one alone is never held up."""
    order = WeightedOrder(TWO)
    lined_up(order, ["high", "low"] * 300)
    head = gone(order)
    assert head is not None
    assert head.class_name == "high"
    order.correct(head, "high", 9000.0)
    names = [head.class_name for _ in range(12) if (head := gone(order)) is not None]
    assert names.count("low") >= 8
    alone = WeightedOrder(TWO)
    lined_up(alone, ["low"] * 3)
    alone.correct(ticket(9, "low"), "low", 1e12)
    assert len(drained(alone)) == 3


@pytest.mark.parametrize(
    ("given_shares", "expected"),
    [
        ([None], [1.0]),
        ([None, None], [0.1, 0.9]),
        ([None, None, None], [0.1, 0.3, 0.6]),
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ([None, None, 0.5], [0.125, 0.375, 0.5]),
        ([0.5, 0.5, 1.0], [0.25, 0.25, 0.5]),
        ([1.0, None], [1 / 1.9, 0.9 / 1.9]),
    ],
)
def test_shares_are_the_named_ones_and_usual_ones_for_the_rest(
    given_shares: list[float | None], expected: list[float]
) -> None:
    """The lowest class has a tenth and the others double, unless shares are named; they always come to 1."""
    named = {
        f"class-{rank}": PriorityClass(priority=rank, max_waiting=1, share=share)
        for rank, share in enumerate(given_shares)
    }
    assert list(shares(named).values()) == pytest.approx(expected)


# ------------------------------------------------------------------ from a preset


@pytest.mark.parametrize(
    ("inside", "line"), [("fifo", Fifo), ("edf", Edf), ("hrrn", Hrrn), ("fair", FairShare), ("prefix", PrefixShare)]
)
def test_a_preset_names_the_discipline(inside: str, line: type) -> None:
    """Each name of ``inside`` makes its line."""
    assert type(make_discipline(inside, THREE["normal"])) is line


@pytest.mark.parametrize(
    ("between", "kind"), [("strict", StrictOrder), ("ageing", AgeingOrder), ("weighted", WeightedOrder)]
)
def test_a_preset_names_the_order(between: str, kind: type) -> None:
    """Each name of ``between`` makes its order."""
    assert type(make_order(OrderSettings(between=between), THREE)) is kind


def test_a_preset_sets_the_ageing_step() -> None:
    """``ageing_step_s`` reaches the order."""
    order = make_order(OrderSettings(between="ageing", inside="fifo", ageing_step_s=1.0), THREE)
    order.push(ticket(1, "batch", 0.0), "batch", 1.0, 0.0)
    order.push(ticket(2, "normal", 1.5), "normal", 1.0, 1.5)
    assert [one.id for one in drained(order)] == [1, 2]


def test_edf_knows_the_time_outs_of_its_class() -> None:
    """A ticket that asks for more time than its class has is due when the class says."""
    terms = PriorityClass(priority=1, max_waiting=9, queue_timeout_s=5.0)
    line = make_discipline("edf", terms)
    own = Timeouts(queue_s=20.0)
    line.push(Ticket(1, "normal", 0.0), 1.0, 0.0)
    line.push(Ticket(2, "normal", 1.0, asked=own), 1.0, 1.0)
    head = line.head(1.0)
    assert head is not None
    assert head.id == 1


def test_a_preset_may_name_policies_of_ones_own() -> None:
    """An import path leads to a class, for either; one that leads nowhere is a ValueError."""
    own = OrderSettings(
        between="headway_policies.queueing.weighted:WeightedOrder",
        inside="headway_policies.queueing.fair_share:FairShare",
    )
    order = make_order(own, THREE)
    batch, realtime = lined_up(order, ["batch", "realtime"])
    assert drained(order) == [realtime, batch]
    with pytest.raises(ValueError, match="no_such_module"):
        make_order(OrderSettings(between="no_such_module:Order"), THREE)
    with pytest.raises(ValueError, match="no_such_module"):
        make_order(OrderSettings(inside="no_such_module:Discipline"), THREE)
