"""The longest cached prefix first between tenants: the order, its two bounds, and its cost."""

from __future__ import annotations

from random import Random

import pytest
from cost_growth import lines_run
from hypothesis import given
from hypothesis import strategies as st
from tiers import LONG

from headway_policies.prediction import PrefixCache
from headway_policies.queueing.disciplines import Discipline
from headway_policies.queueing.fair_share import FairShare
from headway_policies.queueing.prefix_share import PrefixShare
from headway_policies.request import Ticket

DEPTH = 6
ROOM_TOKENS = 8 * 500
#: The most that wait.
MANY = 100_000 if LONG else 30_000


def prefix(prompt: int, blocks: int = DEPTH) -> tuple[int, ...]:
    """The blocks of a system prompt; 0 is none."""
    return tuple(1000 * prompt + depth for depth in range(blocks if prompt else 0))


def ticket(number: int, prompt: int = 0, tenant: str = "", blocks: int = DEPTH) -> Ticket:
    return Ticket(number, "normal", float(number), tenant, prompt_tokens=500, prefix=prefix(prompt, blocks))


def dispatched(line: Discipline, tokens: float = 500.0) -> Ticket:
    """Dispatch the head."""
    head = line.head(0.0)
    assert head is not None
    line.charge(head, tokens)
    assert line.remove(head.id) is head
    return head


def drained(line: Discipline) -> list[int]:
    return [dispatched(line).id for _ in range(len(line))]


def test_requests_that_share_a_prompt_go_together() -> None:
    """After the first of a prompt all others with it go, then the next oldest with its own."""
    line = PrefixShare(PrefixCache(ROOM_TOKENS))
    for number in range(12):
        line.push(ticket(number, prompt=1 + number % 3), 500.0, 0.0)
    assert drained(line) == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]


def test_without_a_match_it_is_fair_sharing() -> None:
    """No prompt in common: the order of ``fair``, whatever the charges."""
    random, lines = Random(3), (PrefixShare(quantum_tokens=0), FairShare())
    for number in range(200):
        one = ticket(number, tenant=random.choice("abc"))
        for line in lines:
            line.push(one, 100.0, 0.0)
    tokens = [random.uniform(1, 900) for _ in range(200)]
    orders = [[dispatched(line, one).id for one in tokens] for line in lines]
    assert orders[0] == orders[1]


def test_a_head_that_leaves_is_followed_by_the_next() -> None:
    """The choice is made again after every arrival, cancellation, dispatch and correction."""
    line = PrefixShare(PrefixCache(ROOM_TOKENS))
    for number in range(3):
        line.push(ticket(number, prompt=1), 500.0, 0.0)
    assert line.head(0.0) == ticket(0, prompt=1)
    line.remove(0)
    assert line.head(0.0) == ticket(1, prompt=1)
    assert drained(line) == [1, 2]
    assert line.head(0.0) is None


def test_a_tenant_that_got_tokens_back_before_the_first_quantum_has_credit() -> None:
    """Its counter may be below zero: its longest match goes first all the same."""
    cache = PrefixCache(ROOM_TOKENS)
    line = PrefixShare(cache)
    cache.dispatched(ticket(0, prompt=1), 500.0)
    line.push(ticket(1, prompt=2), 500.0, 0.0)
    line.push(ticket(2, prompt=1), 500.0, 0.0)
    line.correct(ticket(1, prompt=2), -1000.0)
    assert drained(line) == [2, 1]


def test_a_round_of_very_many_tenants_is_no_more_work_at_its_end() -> None:
    """Their counters are brought up to date one by one, not all at once when the least is looked for."""
    line = PrefixShare(PrefixCache(ROOM_TOKENS), quantum_tokens=1)
    for number in range(2000):
        line.push(ticket(number, prompt=1, tenant=f"tenant-{number % 1000}"), 500.0, 0.0)
    for _ in range(950):
        dispatched(line)
    assert max(lines_run(lambda: dispatched(line)) for _ in range(100)) < 2000


def test_cached_tokens_are_charged_at_a_tenth() -> None:
    """A tenant is charged 500 tokens for the first of a prompt, and 500 - 0.9 * 486 for the others."""
    line = PrefixShare(PrefixCache(ROOM_TOKENS))
    for number in range(3):
        line.push(ticket(number, prompt=1, tenant="a"), 500.0, 0.0)
    line.push(ticket(3, tenant="b"), 500.0, 0.0)
    for expected in (500.0, 562.6, 625.2):
        dispatched(line)
        assert (line._waiting.get("a") or line._idle["a"]).served_tokens == pytest.approx(expected)


# ------------------------------------------------------------------ the bound on overtaking


arrivals = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), min_size=1, max_size=120)


@given(arrivals=arrivals, max_overtakes=st.integers(0, 5), quantum=st.sampled_from([0, 700, 1e9]), data=st.data())
def test_a_ticket_is_overtaken_no_more_than_it_may_be(
    arrivals: list[tuple[str, int]], max_overtakes: int, quantum: float, data: st.DataObject
) -> None:
    """With p older ones of its tenant before it, it is among the next (most + 1) * (p + 1) of its tenant."""
    line = PrefixShare(PrefixCache(ROOM_TOKENS), quantum, max_overtakes)
    due: dict[int, int] = {}
    waiting: dict[str, list[Ticket]] = {tenant: [] for tenant in "abc"}
    gone = dict.fromkeys("abc", 0)

    def dispatch() -> None:
        head = dispatched(line)
        gone[head.tenant] += 1
        assert gone[head.tenant] <= due[head.id]
        waiting[head.tenant].remove(head)

    for number, (tenant, prompt) in enumerate(arrivals):
        one = ticket(number, prompt, tenant)
        due[number] = gone[tenant] + (max_overtakes + 1) * (len(waiting[tenant]) + 1)
        line.push(one, 500.0, 0.0)
        waiting[tenant].append(one)
        if number % 2:
            dispatch()
        if number % 7 == 6 and len(line):
            left = data.draw(st.sampled_from([one for tickets in waiting.values() for one in tickets]))
            assert line.remove(left.id) is left
            waiting[left.tenant].remove(left)
    while len(line):
        dispatch()


# ------------------------------------------------------------------ the bound on shares


@given(seed=st.integers(0, 10_000), quantum=st.sampled_from([0, 500, 3000]), off_by=st.sampled_from([0, 300]))
def test_the_gap_between_tenants_that_wait_is_bounded(seed: int, quantum: int, off_by: int) -> None:
    """The charges of two tenants that wait throughout differ by at most 2 * (Q + A + E), whatever is cached."""
    random = Random(seed)
    cache = PrefixCache(ROOM_TOKENS)
    line = PrefixShare(cache, quantum)
    given_tokens, lowest, gap = dict.fromkeys("abc", 0.0), {(a, b): 0.0 for a in "abc" for b in "abc"}, 0.0
    number, largest, running = 0, 0.0, []
    for tenant in "abc" * 3:
        number += 1
        line.push(ticket(number, random.randrange(6), tenant), 500.0, 0.0)
    for _ in range(150):
        head = line.head(0.0)
        assert head is not None
        tokens = random.uniform(1, 900)
        cost = tokens - 0.9 * min(cache.matched_tokens(head), tokens)
        line.charge(head, tokens)
        line.remove(head.id)
        number += 1
        line.push(ticket(number, random.randrange(6), head.tenant), 500.0, 0.0)
        error = random.uniform(-min(off_by, cost), off_by)
        running.append((head, error))
        given_tokens[head.tenant] += cost + error
        largest = max(largest, cost + max(error, 0.0))
        if len(running) > 2:
            line.correct(*running.pop(0))
        for a, b in lowest:
            ahead = given_tokens[a] - given_tokens[b]
            lowest[a, b] = min(lowest[a, b], ahead)
            gap = max(gap, ahead - lowest[a, b])
    assert 0 < gap <= 2 * (quantum + largest + 2 * 3 * off_by)


def test_without_credits_the_longest_prefix_first_breaks_that_bound() -> None:
    """The bound is one that the longest prefix alone does not keep: the check can fail."""
    line = PrefixShare(PrefixCache(ROOM_TOKENS), quantum_tokens=1e12, max_overtakes=1_000_000)
    for number in range(200):
        line.push(ticket(number, prompt=1 if number % 2 else number + 2, tenant="ab"[number % 2]), 500.0, 0.0)
    order = [dispatched(line) for _ in range(101)]
    assert [one.tenant for one in order] == ["a"] + ["b"] * 100


# ------------------------------------------------------------------ against a search through all tickets


class Searched:
    """The same rule by a search through all waiting tickets, with books of its own."""

    def __init__(self, cache: PrefixCache, quantum: float, most: int) -> None:
        self.cache, self.quantum, self.most = cache, quantum, most
        self.waiting: list[Ticket] = []
        self.served: dict[str, float] = {}
        self.overtaken: dict[str, int] = {}
        self.allowance = 0.0

    def push(self, one: Ticket) -> None:
        """Nothing is saved up, and no debt forgotten: all tenants always wait in this test, or were never seen."""
        self.served.setdefault(one.tenant, 0.0)
        self.waiting.append(one)

    def expects(self, head: Ticket) -> bool:
        """Whether this ticket may be the head."""
        counters = {one.tenant: self.served[one.tenant] for one in self.waiting}
        if min(counters.values()) >= self.allowance:
            self.allowance = min(counters.values()) + self.quantum
        able = [one for one in self.waiting if counters[one.tenant] < self.allowance]
        longest = max((self.cache.matched_tokens(one) for one in able), default=0)
        oldest = next(one for one in self.waiting if one.tenant == head.tenant)
        if self.overtaken.get(head.tenant, 0) >= self.most:
            return head is oldest
        if longest:
            return head in able and self.cache.matched_tokens(head) == longest
        return head is oldest and counters[head.tenant] == min(counters.values())

    def go(self, head: Ticket, tokens: float) -> None:
        """Book its dispatch."""
        oldest = next(one for one in self.waiting if one.tenant == head.tenant)
        self.overtaken[head.tenant] = 0 if oldest is head else self.overtaken.get(head.tenant, 0) + 1
        self.served[head.tenant] += tokens - 0.9 * min(self.cache.matched_tokens(head), tokens)
        self.waiting.remove(head)


@pytest.mark.parametrize("seed", range(30))
def test_the_head_is_that_of_a_search_through_all_tickets(seed: int) -> None:
    """Whatever comes and goes in the cache: the longest match of a tenant with credit, or the oldest that is due."""
    random = Random(seed)
    cache = PrefixCache(random.choice((700, 2500, 9000)))
    quantum, most = random.choice((0, 900, 5000)), random.choice((2, 15))
    line, searched, number = PrefixShare(cache, quantum, most), Searched(cache, quantum, most), 0

    def push(tenant: str) -> None:
        nonlocal number
        number += 1
        one = ticket(number, random.randrange(7), tenant, random.randint(1, DEPTH))
        line.push(one, 500.0, 0.0)
        searched.push(one)

    for _ in range(25):
        for tenant in "abc":
            push(tenant)
    for _ in range(300):
        head = line.head(0.0)
        assert head is not None
        assert line.head(0.0) is head
        assert searched.overtaken.get(head.tenant, 0) <= most
        assert searched.expects(head)
        tokens = random.uniform(1, 900)
        searched.go(head, tokens)
        line.charge(head, tokens)
        line.remove(head.id)
        push(head.tenant)
        if random.random() < 0.2:
            cache.dispatched(ticket(0, random.randrange(7)), random.uniform(1, 900))


# ------------------------------------------------------------------ cost


def costs(waiting: int, tenants: int) -> list[int]:
    """The cost of each of 300 dispatches and arrivals, with so many waiting."""
    random = Random(1)
    line = PrefixShare(PrefixCache(ROOM_TOKENS))

    def push(number: int) -> None:
        tenant = f"tenant-{random.randrange(tenants)}"
        line.push(ticket(number, 1 + random.randrange(32), tenant), 500.0, 0.0)

    for number in range(waiting):
        push(number)
    found = []
    for number in range(waiting, waiting + 300):
        found.append(lines_run(lambda: dispatched(line)))
        push(number)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("tenants", [1, 20, MANY // 5])
def test_a_dispatch_costs_no_more_where_very_many_wait(tenants: int) -> None:
    """From so many waiting tickets it runs about as many lines as from 10^3, on average and at the worst."""
    few, many = costs(1000, min(tenants, 100)), costs(MANY, tenants)
    assert sum(many) <= 2 * sum(few)
    assert max(many) <= 3 * max(few)


def test_a_search_passes_over_a_bounded_number_of_tenants() -> None:
    """Where thousands have used their quantum it is over after some hundred, and the tenant served least goes."""
    cache = PrefixCache(100_000_000)
    line = PrefixShare(cache, quantum_tokens=1000)
    for blocks, prompt in ((DEPTH, 1), (3, 2)):
        cache.dispatched(ticket(0, prompt, blocks=blocks), 500.0)
    line.push(ticket(1, prompt=3, tenant="patient"), 500.0, 0.0)
    for number in range(2, 8002):  # each of 4,000 tenants uses its quantum for the deeper one of its two prompts
        blocks, prompt = ((DEPTH, 1), (3, 2))[number % 2]
        line.push(ticket(number, prompt, f"tenant-{number // 2}", blocks), 500.0, 0.0)
    for _ in range(4000):
        assert dispatched(line, 5000.0).prefix == prefix(1)
    found: list[Ticket] = []
    assert lines_run(lambda: found.append(dispatched(line))) < 5000
    assert found == [ticket(1, prompt=3, tenant="patient")]


def test_nothing_is_left_of_tickets_that_left() -> None:
    """Cancellations and dispatches, however many, leave no block, no count, and short lists."""
    random = Random(2)
    line = PrefixShare(PrefixCache(ROOM_TOKENS), quantum_tokens=2000)
    for number in range(5000):
        line.push(ticket(number, random.randrange(9), random.choice("abc")), 500.0, 0.0)
        if number % 3:
            line.remove(random.choice([one.id for one in line]))
        elif number > 30:
            dispatched(line)
        assert len(line._resting) <= len({id(one) for one in line._resting}) <= 9 * DEPTH
    drained(line)
    assert (line._sharers, line._overtaken) == ({}, {})
    assert len(line._matches) <= 64


def test_a_line_behind_a_patient_ticket_is_swept() -> None:
    """Thousands with its prompt come and go behind it: only those that wait are listed, and some more."""
    line = PrefixShare(PrefixCache(ROOM_TOKENS))
    line.push(ticket(0, prompt=1), 500.0, 0.0)
    for number in range(1, 3000):
        line.push(ticket(number, prompt=1), 500.0, 0.0)
        line.remove(number)
    sharers = line._sharers[prefix(1)[0]]
    assert not isinstance(sharers, Ticket)
    assert len(sharers.lines[""].tickets) < 100
    assert drained(line) == [0]


def test_prompts_that_come_and_go_below_a_longer_match_are_forgotten() -> None:
    """As long as a deeper block leads the search, the shallower ones that are over do not pile up behind it."""
    cache = PrefixCache(1_000_000)
    line = PrefixShare(cache)
    cache.dispatched(ticket(0, prompt=1), 500.0)
    line.push(ticket(0, prompt=1), 500.0, 0.0)
    for number in range(2, 3000):
        cache.dispatched(ticket(number, prompt=number, blocks=2), 100.0)
        line.push(ticket(number, prompt=number, blocks=2), 100.0, 0.0)
        assert line.head(0.0) == ticket(0, prompt=1)
        line.remove(number)
    assert len(line._matches) < 100


def test_a_prompt_is_as_recent_as_the_end_of_its_last_request() -> None:
    """The engine holds it until then, and evicts others first."""
    line = PrefixShare(PrefixCache(1200))
    for number, prompt in enumerate((1, 2)):
        line.push(ticket(number, prompt), 500.0, 0.0)
    first = dispatched(line)
    dispatched(line)
    line.correct(first, 0.0)
    line.push(ticket(2), 700.0, 0.0)
    dispatched(line, 700.0)
    for number, prompt in ((3, 2), (4, 1)):
        line.push(ticket(number, prompt), 500.0, 0.0)
    assert drained(line) == [4, 3]
