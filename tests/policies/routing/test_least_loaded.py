"""The router: it keeps its bound, waits when all are full, and prefers room for long prompts and known prefixes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.routing import Demand, Instance, LeastLoaded

SHORT = Demand(tokens=128, prompt_tokens=64)
ROUTER = LeastLoaded()


class Cached:
    """An instance that holds so many tokens of every prompt."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def matched_tokens(self, prefix: tuple[int, ...]) -> int:
        """All it holds, of any prompt that has a prefix."""
        return self.tokens if prefix else 0


@st.composite
def fleets(draw: st.DrawFn) -> list[Instance]:
    """One to eight instances in any state, overfull ones among them."""
    return [
        Instance(
            f"i{place}",
            seats=draw(st.integers(0, 8)),
            running=draw(st.integers(0, 10)),
            kv_use=draw(st.sampled_from((0.0, 0.3, 1.0))),
            weight=draw(st.sampled_from((0.5, 1.0, 3.0))),
            prefixes=draw(st.sampled_from((None, Cached(64), Cached(4096)))),
            kv_tokens=draw(st.sampled_from((None, 0, 1000, 9000))),
            classes=draw(st.sampled_from((frozenset(), frozenset({"realtime"}), frozenset({"batch"})))),
        )
        for place in range(draw(st.integers(1, 8)))
    ]


@given(fleets(), st.integers(1, 9), st.sampled_from((64, 4096)), st.booleans())
def test_a_seat_is_found_where_there_is_one_and_the_load_decides_within_the_bound(
    fleet: list[Instance], seats: int, prompt_tokens: int, shared: bool
) -> None:
    """None only where nothing is free; room for all sequences goes first; no one is far more loaded than need be."""
    demand = Demand(prompt_tokens, prompt_tokens, (1, 2) if shared else (), seats, "realtime")
    name = ROUTER.choose(demand, fleet)
    free = [one for one in fleet if one.free]
    if not free:
        assert name is None
        return
    (chosen,) = [one for one in fleet if one.name == name]
    assert chosen.free
    roomy = [one for one in free if one.free >= seats]
    if not roomy:
        assert chosen.free == max(one.free for one in free)
        return
    assert chosen in roomy
    kept = chosen.kept_for("realtime")
    assert kept == max(one.kept_for("realtime") for one in roomy)
    roomy = [one for one in roomy if one.kept_for("realtime") == kept]
    kv = ROUTER.kv if prompt_tokens < ROUTER.long_tokens else ROUTER.kv_long
    allowed = kv + (ROUTER.affinity if shared else 0.0)
    assert chosen.free_share >= max(one.free_share for one in roomy) - allowed - 1e-9


@given(fleets())
def test_the_same_question_has_the_same_answer(fleet: list[Instance]) -> None:
    """A router keeps nothing between two requests."""
    first = ROUTER.choose(SHORT, fleet)
    ROUTER.choose(Demand(9000, 8000, (1,), 3), fleet)
    assert ROUTER.choose(SHORT, fleet) == first


def test_of_equal_instances_the_first_goes() -> None:
    """In the order in which they are given."""
    fleet = [Instance("b", 4, 1), Instance("a", 4, 1)]
    assert ROUTER.choose(SHORT, fleet) == "b"
    assert ROUTER.choose(SHORT, fleet[::-1]) == "a"


def test_the_least_loaded_goes_whatever_its_size() -> None:
    """By the share of its seats, not by their number."""
    assert ROUTER.choose(SHORT, [Instance("small", 4, 1), Instance("large", 32, 16)]) == "small"


def test_a_weight_counts_as_more_seats() -> None:
    """Twice the weight, twice the running sequences for the same load."""
    fleet = [Instance("slow", 8, 2), Instance("fast", 8, 3, weight=2.0)]
    assert ROUTER.choose(SHORT, fleet) == "fast"
    assert ROUTER.choose(SHORT, [fleet[0], replace(fleet[1], running=5)]) == "slow"


def test_a_long_prompt_goes_where_there_is_room_in_the_cache() -> None:
    """And a short one to where seats are free."""
    fleet = [Instance("full cache", 8, 2, kv_use=0.9), Instance("empty cache", 8, 4, kv_use=0.1)]
    assert ROUTER.choose(SHORT, fleet) == "full cache"
    assert ROUTER.choose(Demand(9000, 8000), fleet) == "empty cache"


def test_a_group_that_is_kept_for_a_class_takes_others_only_where_nothing_else_is_free() -> None:
    """The class goes there first, and elsewhere once the group is full."""
    group, other = Instance("group", 4, 3, classes=frozenset({"realtime"})), Instance("other", 4, 0)
    realtime, batch = replace(SHORT, class_name="realtime"), replace(SHORT, class_name="batch")
    assert [ROUTER.choose(one, [other, group]) for one in (realtime, batch)] == ["group", "other"]
    assert ROUTER.choose(realtime, [other, replace(group, running=4)]) == "other"
    assert ROUTER.choose(batch, [replace(other, running=4), group]) == "group"


def test_a_prefix_is_worth_a_few_seats_and_no_more() -> None:
    """A prefix draws a request to a busier instance, but not to one that is far busier."""
    demand = Demand(1100, 1000, (1, 2))
    idle, holder = Instance("idle", 10, 0), Instance("holder", 10, 1, prefixes=Cached(900))
    assert ROUTER.choose(demand, [idle, holder]) == "holder"
    assert ROUTER.choose(replace(demand, prefix=()), [idle, holder]) == "idle"
    assert ROUTER.choose(demand, [idle, replace(holder, running=3)]) == "idle"


def test_a_request_of_several_sequences_prefers_an_instance_that_has_a_seat_for_each() -> None:
    """Even the busier one; where there is none, the most free seats."""
    fleet = [Instance("small", 2, 0), Instance("large", 16, 8), Instance("full", 4, 4)]
    assert ROUTER.choose(replace(SHORT, seats=4), fleet) == "large"
    assert ROUTER.choose(replace(SHORT, seats=12), fleet) == "large"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"seats": -1}, "seats"), ({"kv_use": 1.5}, "kv_use"), ({"weight": 0.0}, "weight"), ({"running": -2}, "running")],
)
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, float], says: str) -> None:
    """With the name of the instance and of the number."""
    with pytest.raises(ValueError, match=rf"instance a: .*{says}"):
        Instance(**{"name": "a", "seats": 1, "running": 0, **wrong})  # type: ignore[arg-type]


def test_a_share_above_all_is_refused() -> None:
    """Such a share would leave no bound."""
    with pytest.raises(ValueError, match="affinity must be between 0 and 1, not 2"):
        LeastLoaded(affinity=2)


def test_free_tokens_and_not_shares_say_where_there_is_room() -> None:
    """A large cache that is nearly full may have more room than a small one that is half empty; where the size of one
    is not known, the shares count.
    """
    small = Instance("small", 8, 2, kv_use=0.5, kv_tokens=10_000)
    large = Instance("large", 8, 2, kv_use=0.8, kv_tokens=100_000)
    long = Demand(9000, 8000)
    assert ROUTER.choose(long, [small, large]) == "large"
    assert ROUTER.choose(long, [replace(small, kv_tokens=None), large]) == "small"
    assert ROUTER.choose(long, [replace(small, kv_tokens=100_000), large]) == "small"
