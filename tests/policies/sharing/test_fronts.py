"""The seats of several fronts: what they use together, whatever they want, hear and lose, and how it is divided."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.sharing import FrontClaims, FrontShare
from headway_policies.sharing.fronts import GONE_S, LEASE_S, SPARE, divide

SEATS = {"a:1": 32, "b:1": 7, "c:1": 1}
EVERY_S = 0.5


class Fleet:
    """Fronts whose rounds overlap in any way; requests fill what is granted, end when they end, and are not stopped."""

    def __init__(self, random: Random, number: int) -> None:
        self.random = random
        self.now_s = 0.0
        self.places = [f"front-{at}" for at in range(number)]
        self.fronts: dict[str, FrontShare] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.wanted = dict.fromkeys(self.places, 0)
        self.rounds: dict[str, Iterator[None]] = {}
        self.listens: set[str] = set()
        self.most = dict.fromkeys(SEATS, 0)
        self.named = 0

    def start(self, place: str) -> None:
        """A front with a new name, which listens somewhat later."""
        self.named += 1
        self.fronts[place] = FrontShare(f"{self.random.random()}-{self.named}", self.places)
        self.used[place] = dict.fromkeys(SEATS, 0)
        self.rounds[place] = self._round(place)

    def kill(self, place: str) -> None:
        """Its connections close, so the instances drop what it ran."""
        for kept in (self.fronts, self.used, self.rounds):
            kept.pop(place, None)
        self.listens.discard(place)

    def pass_time(self) -> None:
        """A moment in which rounds go on, and requests begin and end."""
        self.now_s += 0.02
        for place in self.random.sample(list(self.fronts), len(self.fronts)):
            if place not in self.listens and self.random.random() < 0.02:
                self.listens.add(place)
            if self.random.random() < 0.5:
                next(self.rounds[place])
            self._work(place)
        for name in SEATS:
            self.most[name] = max(self.most[name], sum(used[name] for used in self.used.values()))

    def _work(self, place: str) -> None:
        front, used = self.fronts[place], self.used[place]
        free = self.now_s < front.until_s and place in self.listens  # nobody asks one that does not listen
        for name in SEATS:
            used[name] -= sum(self.random.random() < 0.03 for _ in range(used[name]))
            if free and used[name] < min(front.granted.get(name, 0), self.wanted[place] * SEATS[name] / 100):
                used[name] += 1

    def _round(self, place: str) -> Iterator[None]:
        front = self.fronts[place]
        while True:
            began_s = self.now_s
            front.aim(SEATS, self.wanted[place], 100, began_s)
            for asked in self.random.sample(self.places, len(self.places)):
                yield
                if asked not in self.listens:
                    front.gone(asked, self.now_s)
                elif self.random.random() > 0.05:  # else it is silent
                    said = self.fronts[asked].claims(self.used[asked])
                    if self.random.random() < 0.5:
                        yield
                    front.hear(asked, said, self.now_s)
            front.settle(SEATS, dict.fromkeys(SEATS, began_s), began_s)
            while self.now_s < began_s + EVERY_S:
                yield


@pytest.mark.parametrize("number", [2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_fronts_that_hear_each_other_never_use_more_than_there_is(number: int, seed: int) -> None:
    """Whatever they want, in whichever order they ask and answer, and however often one is killed and started again."""
    fleet = Fleet(Random(seed), number)
    for place in fleet.places:
        fleet.start(place)
    for step in range(6000):
        if fleet.random.random() < 0.01:
            fleet.wanted[fleet.random.choice(fleet.places)] = fleet.random.choice((0, 20, 70, 300))
        if step % 500 == 499:
            place = fleet.random.choice(fleet.places)
            fleet.kill(place) if place in fleet.fronts else fleet.start(place)
        fleet.pass_time()
        assert all(fleet.most[name] <= seats for name, seats in SEATS.items())
    assert fleet.most == SEATS, "all of it was in use at some time"


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.0, 10.0), min_size=1))
def test_the_parts_are_max_min_fair_and_add_up(wanted: dict[str, float]) -> None:
    """Nobody gets less than it wants while another one has more than that."""
    shares = divide(wanted)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares.values()) >= min(SPARE, 1 / len(wanted)) - 1e-9
    for name, share in shares.items():
        assert share >= wanted[name] - 1e-9 or share >= max(shares.values()) - 1e-9


@given(
    st.dictionaries(st.sampled_from("abcde"), st.integers(0, 200), min_size=2),
    st.dictionaries(st.text("xyz:1", min_size=1), st.integers(0, 300), min_size=1, max_size=5),
)
def test_no_seat_is_nobodys_once_all_know_what_all_want(wanted: dict[str, int], seats: dict[str, int]) -> None:
    """The parts of each instance are whole numbers that add up to its seats."""
    fronts = {name: FrontShare(name, wanted) for name in wanted}
    for at in range(4):
        now_s = at * EVERY_S
        for name, front in fronts.items():
            front.aim(seats, wanted[name], 100, now_s)
        for front in fronts.values():
            for name, other in fronts.items():
                front.hear(name, other.claims({}), now_s)
        for front in fronts.values():
            front.settle(seats, {}, now_s)
    for name, number in seats.items():
        assert sum(front.granted[name] for front in fronts.values()) == number


def pair(wanted: int = 32) -> tuple[FrontShare, FrontShare]:
    """Two fronts that have heard each other for a while, the second one with this demand."""
    two = FrontShare("a", ["a", "b"]), FrontShare("b", ["a", "b"])
    for at in range(5):
        for front, mine in zip(two, (32, wanted), strict=True):
            rounds(front, two, at * EVERY_S, mine)
    return two


def rounds(
    front: FrontShare, heard: tuple[FrontShare, ...], now_s: float, wanted: int = 32, read_s: float = 0.0
) -> None:
    """One round in which these answer."""
    front.aim({"i": 32}, wanted, 32, now_s)
    for other in heard:
        front.hear(other.front, other.claims({}), now_s)
    front.settle({"i": 32}, {"i": read_s}, now_s)


def test_an_idle_front_keeps_one_seat_of_thirty_two() -> None:
    """The rest serves the other one."""
    assert [front.granted["i"] for front in pair(0)] == [31, 1]
    assert [front.granted["i"] for front in pair(8)] == [24, 8]


def test_a_front_that_is_gone_leaves_its_seats_and_one_that_is_silent_does_later() -> None:
    """As soon as the instance has said what runs there without it. Later: when its own grant has ended, for it may be
    alive, but for a while without time.
    """
    first, second = pair()
    assert (first.granted["i"], second.granted["i"]) == (16, 16)
    first.gone("b", 2.4)
    rounds(first, (first,), 2.5, read_s=2.3)
    assert first.granted["i"] == 16, "what the instance said before counts no more than ran then"
    rounds(first, (first,), 3.0, read_s=2.5)
    assert first.granted["i"] == 32
    first, second = pair()
    last_s, at_s = second.until_s - LEASE_S, 2.5
    while first.granted["i"] == 16:
        rounds(first, (first,), at_s, read_s=at_s)
        at_s += EVERY_S
    assert second.until_s < at_s <= last_s + GONE_S + 3 * EVERY_S
    second.aim({"i": 32}, 32, 32, at_s)
    assert second.granted["i"] == 0, "its lease has ended"


def test_the_largest_limit_that_one_knows_is_that_of_all() -> None:
    """An adaptive one grows where it is needed: eight of 40 are not half of the seats because 16 were enough there."""
    first, second = FrontShare("a", ["a", "b"]), FrontShare("b", ["a", "b"])
    for at in range(4):
        for front, wanted, limit in ((first, 100, 40), (second, 8, 16)):
            front.aim({"i": 100}, wanted, limit, at * EVERY_S)
            for other in (first, second):
                front.hear(other.front, other.claims({}), at * EVERY_S)
            front.settle({"i": 100}, {}, at * EVERY_S)
    assert (first.limit, second.limit, first.granted["i"], second.granted["i"]) == (40, 40, 80, 20)


def test_one_that_was_started_again_is_another_front() -> None:
    """Requests of the front before it may still run."""
    first, second = pair()
    anew = FrontShare("c", ["a", "b"])
    first.aim({"i": 32}, 32, 32, 2.5)
    first.hear("b", anew.claims({}), 2.6)
    first.hear("a", first.claims({}), 2.6)
    first.settle({"i": 32}, {"i": 2.5}, 2.5)
    assert (first.others, first.granted["i"], second.granted["i"]) == (1, 16, 16)
    first.aim({"i": 32}, 32, 32, 3.0)
    first.hear("b", anew.claims({"i": 9}), 3.1)
    first.settle({"i": 32}, {"i": 2.7}, 3.0)
    assert first.granted["i"] == 23


def test_while_one_is_silent_nothing_more_is_granted_and_nothing_is_lost() -> None:
    """Its claim of half a second ago may be another number now."""
    first, second = pair(0)
    first.aim({"i": 64}, 64, 64, 2.5)
    first.hear("a", first.claims({}), 2.5)
    first.settle({"i": 64}, {}, 2.5)
    assert first.granted["i"] == 31
    first.aim({"i": 64}, 64, 64, 3.0)
    for one in (first, second):
        first.hear(one.front, one.claims({}), 3.1)
    first.settle({"i": 64}, {}, 3.0)
    assert first.granted["i"] == 62


def test_a_front_that_nobody_can_hear_takes_its_even_share_of_what_is_free() -> None:
    """Also where the others are not there: it may only be the first of them to ask."""
    alone = FrontShare("b", ["a", "b"])
    alone.aim({"i": 32}, 32, 32, 0.0)
    for place in "ab":
        alone.gone(place, 0.0)
    alone.settle({"i": 32}, {}, 0.0)
    assert alone.granted["i"] == 16
    alone.aim({"i": 32}, 32, 32, EVERY_S)
    alone.hear("b", alone.claims({}), EVERY_S)
    alone.settle({"i": 32}, {}, EVERY_S)
    assert alone.granted["i"] == 16
    alone.aim({"i": 32}, 32, 32, 2 * EVERY_S)
    alone.hear("a", FrontClaims("a", 32, 32, {"i": 30}), 2 * EVERY_S)
    alone.settle({"i": 32}, {}, 2 * EVERY_S)
    assert alone.granted["i"] == 2, "what it had was said to nobody"


def test_what_is_in_use_is_claimed_until_it_ends() -> None:
    """A target that fell ends no request."""
    front = FrontShare("a", ["a", "b"])
    assert front.claims({"i": 9}).seats == {"i": 9}
    front.aim({"i": 4}, 32, 32, 0.0)
    assert front.claims({"i": 9, "j": 1}).seats == {"i": 9, "j": 1}
    assert front.claims({}).seats == {"i": 2}
