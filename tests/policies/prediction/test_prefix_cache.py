"""The model of the engine's prefix cache: what is in it, what is evicted first, and how it is corrected."""

from __future__ import annotations

import gc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.prediction import PrefixCache
from headway_policies.request import BLOCK_TOKENS, PREFIX_TOKENS, Ticket

#: Four blocks: 216 tokens.
FOUR = 4


def ticket(name: int, blocks: int = FOUR, *, common: int = 0, prompt_tokens: int = 216, seats: int = 1) -> Ticket:
    """A ticket whose first ``common`` blocks are those of everybody."""
    prefix = tuple(depth if depth < common else 100 * name + depth for depth in range(blocks))
    return Ticket(name, "normal", 0.0, prefix=prefix, prompt_tokens=prompt_tokens, seats=seats)


def test_the_beginnings_grow_by_half() -> None:
    """16 beginnings from 64 to about 28,000 tokens; the blocks add up to them."""
    assert (len(PREFIX_TOKENS), PREFIX_TOKENS[:4], PREFIX_TOKENS[-1]) == (16, (64, 96, 144, 216), 27_994)
    assert [sum(BLOCK_TOKENS[: depth + 1]) for depth in range(16)] == list(PREFIX_TOKENS)


def test_what_was_dispatched_is_matched_as_far_as_it_is_the_same() -> None:
    """A second prompt matches the beginning that it shares with a first one, in tokens."""
    cache = PrefixCache(10_000)
    assert cache.matched_tokens(ticket(1)) == 0
    cache.dispatched(ticket(1, common=2), 300.0)
    assert cache.matched_tokens(ticket(1, common=2)) == 216
    assert cache.matched_tokens(ticket(2, common=2)) == 96
    assert cache.matched_tokens(ticket(3)) == 0


def test_the_least_recently_used_goes_first_and_the_end_of_a_prompt_before_its_beginning() -> None:
    """Room for two prompts: the third evicts the end of the one that was used longest ago."""
    cache = PrefixCache(2 * 300)
    cache.dispatched(ticket(1), 300.0)
    cache.dispatched(ticket(2), 300.0)
    cache.dispatched(ticket(1), 216.0)  # used again
    assert cache.matched_tokens(ticket(1)) == cache.matched_tokens(ticket(2)) == 216
    cache.dispatched(ticket(3, blocks=1), 200.0)
    assert cache.matched_tokens(ticket(1)) == 216
    assert 0 < cache.matched_tokens(ticket(2)) < 216


def test_what_nobody_shares_takes_room() -> None:
    """Long answers push prompts out; the sequences of one request share their prompt."""
    cache = PrefixCache(1000)
    cache.dispatched(ticket(1), 216.0)
    cache.dispatched(ticket(2, blocks=0), 900.0)
    assert cache.matched_tokens(ticket(1)) < 216
    wide = PrefixCache(1000)
    wide.dispatched(ticket(1), 216.0)
    wide.dispatched(ticket(2, blocks=0, prompt_tokens=216, seats=4), 4 * 216.0 + 40)
    assert wide.matched_tokens(ticket(1)) == 216


def test_the_prompt_of_a_request_that_ends_is_the_most_recent() -> None:
    """The engine could not evict it until then."""
    cache = PrefixCache(500)
    cache.dispatched(ticket(1), 216.0)
    cache.dispatched(ticket(2), 230.0)
    cache.ended(ticket(1))
    cache.dispatched(ticket(3, blocks=0), 100.0)
    assert (cache.matched_tokens(ticket(1)), cache.matched_tokens(ticket(2)) < 216) == (216, True)


def test_a_smaller_engine_holds_less_and_an_empty_cache_nothing() -> None:
    """The KV space that the engine reports counts; a cleared cache matches nothing."""
    cache = PrefixCache()
    for name in range(10):
        cache.dispatched(ticket(name), 300.0)
    cache.resize(600)
    held = [name for name in range(10) if cache.matched_tokens(ticket(name))]
    assert held == [8, 9]
    cache.clear()
    assert (len(cache), cache.matched_tokens(ticket(9))) == (0, 0)
    for name in (1, 2):
        cache.dispatched(ticket(name), 300.0)
    assert [cache.matched_tokens(ticket(name)) for name in (1, 2)] == [216, 216]


@given(
    names=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 16), st.integers(0, 5000)), max_size=60),
    capacity_tokens=st.integers(100, 20_000),
)
def test_it_stays_within_its_room_and_holds_whole_beginnings(
    names: list[tuple[int, int, int]], capacity_tokens: int
) -> None:
    """Never a block without the one that it continues, never more tokens than the room, few entries."""
    cache = PrefixCache(capacity_tokens)
    for name, blocks, tokens in names:
        one = ticket(name, blocks, common=name % 3)
        cache.dispatched(one, float(tokens))
        if tokens % 3 == 0:
            cache.ended(ticket(max(name - 1, 0), blocks))
        assert sum(cache._blocks.values()) == cache._tokens <= capacity_tokens
        assert len(cache) <= capacity_tokens // 16
        held = [block in cache for block in one.prefix]
        assert held == sorted(held, reverse=True)


def test_watchers_hear_of_new_blocks_only_and_are_not_kept() -> None:
    """Told once of each block that comes in or comes again; a watcher that is gone is forgotten."""

    class Heard:
        def __init__(self) -> None:
            self.blocks: list[int] = []

        def cached(self, block: int) -> None:
            self.blocks.append(block)

    cache, heard = PrefixCache(1000), Heard()
    cache.watch(heard)
    cache.watch(Heard())
    gc.collect()
    assert len(cache._watchers) == 1
    cache.dispatched(ticket(1, common=2), 300.0)
    cache.dispatched(ticket(2, common=2), 300.0)
    assert sorted(heard.blocks) == sorted({*ticket(1, common=2).prefix, *ticket(2, common=2).prefix})
    cache.clear()
    cache.dispatched(ticket(1, blocks=1), 64.0)
    assert heard.blocks[-1] == 100


def dispatches(cache: PrefixCache, found_ratio: float, count: int) -> None:
    """All of one prompt, of which the engine found such a share."""
    for _ in range(count):
        cache.dispatched(ticket(1), 216.0)
        cache.found(216, int(216 * found_ratio))


@pytest.mark.parametrize(("found_ratio", "falls"), [(0.0, True), (0.5, True), (0.95, False), (1.0, False)])
def test_the_room_follows_what_the_engine_really_finds(found_ratio: float, falls: bool) -> None:
    """Fewer hits than expected: less room, never less than an eighth; as many: the room comes back."""
    cache = PrefixCache(100_000)
    dispatches(cache, found_ratio, 64)
    assert (cache.factor < 1) is falls
    dispatches(cache, found_ratio, 64 * 40)
    assert cache.factor == (0.125 if falls else 1.0)
    for name in range(2, 402):
        cache.dispatched(ticket(name), 250.0)
    held = sum(cache.matched_tokens(ticket(name)) == 216 for name in range(2, 402))
    assert held == (50 if falls else 400)
    dispatches(cache, 1.0, 64 * 60)
    assert cache.factor == 1.0


def test_a_wrong_estimate_of_tokens_corrects_nothing() -> None:
    """Only shares are compared: the engine may count its tokens in another way."""
    cache = PrefixCache(100_000)
    for _ in range(640):
        cache.dispatched(ticket(1), 216.0)
        cache.found(1000, 980)
    assert cache.factor == 1.0


def test_the_cost_is_that_of_the_blocks() -> None:
    """However many it holds, a dispatch touches the blocks of one ticket, and evicts what was added before."""
    cache, random = PrefixCache(50_000), Random(1)
    for name in range(5000):
        cache.dispatched(ticket(random.randrange(400), 8), 800.0)
        assert len(cache) <= 8 * 400, name
