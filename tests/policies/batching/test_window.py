"""The batching window, on a small batch server in virtual time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest
from tiers import LONG

from headway_policies.batching import make_window
from headway_policies.batching.strategy import Dynamic
from headway_policies.batching.window import AdaptiveWindow, FixedWindow, Gathered, Window, WindowReason
from headway_policies.conformance.windows import check_window

LONGEST_S = 0.2
REQUESTS = 3000
LOADS = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Server:
    """One batch at a time. ``fixed_s`` and ``member_s`` of its time are certain, the longest answer adds the rest."""

    most: int
    fixed_s: float
    member_s: float
    token_s: float = 0.0

    def batch_s(self, answers: list[int]) -> float:
        return self.fixed_s + self.member_s * len(answers) + self.token_s * max(answers)

    def capacity_per_s(self) -> float:
        random = Random(0)
        batches = [self.batch_s([answer(random) for _ in range(self.most)]) for _ in range(200)]
        return self.most * len(batches) / sum(batches)


SERVERS = {
    "short batches": Server(most=8, fixed_s=0.03, member_s=0.002),
    "costly members": Server(most=16, fixed_s=0.05, member_s=0.05),
    "long batches": Server(most=32, fixed_s=2.0, member_s=0.05),
    "answers of any length": Server(most=32, fixed_s=0.0, member_s=0.068, token_s=0.029),
}
#: Each server under each load; in the short form under every other one, and each load with every other server.
TRIED = [
    pytest.param(name, load, id=f"{name}-{load}")
    for first, name in enumerate(SERVERS)
    for second, load in enumerate(LOADS)
    if LONG or (first + second) % 2
]


def answer(random: Random) -> int:
    """Tokens: lognormal, mean 64, cv 1."""
    return min(512, max(4, round(random.lognormvariate(math.log(64) - math.log(2) / 2, math.sqrt(math.log(2))))))


def waits_s(window: Window, server: Server, arrivals_s: list[float]) -> list[tuple[float, float]]:
    """For each request, how long it waited for company while the server was idle, and how long it took in all."""
    strategy, random = Dynamic(window), Random(7)
    answers = [answer(random) for _ in arrivals_s]
    come = gone = 0
    free_s = now_s = 0.0
    found = []
    while gone < len(arrivals_s):
        if come == gone:
            now_s = max(now_s, arrivals_s[come])
        while come < len(arrivals_s) and arrivals_s[come] <= now_s:
            window.arrived(1, arrivals_s[come])
            come += 1
        gathered = Gathered(come - gone, server.most, arrivals_s[gone], full=come - gone >= server.most)
        if not strategy.leaving(gathered, now_s):
            now_s = min([strategy.due_s(gathered, now_s), *arrivals_s[come : come + 1]])
            continue
        leaving = range(gone, min(come, gone + server.most))
        duration_s = server.batch_s([answers[one] for one in leaving])
        found += [(now_s - max(free_s, arrivals_s[one]), now_s + duration_s - arrivals_s[one]) for one in leaving]
        gone = leaving.stop
        while come < len(arrivals_s) and arrivals_s[come] <= now_s + duration_s:
            window.arrived(1, arrivals_s[come])
            come += 1
        now_s = free_s = now_s + duration_s
        window.batch_done(len(leaving), duration_s, now_s)
    return found


def poisson_s(per_s: float, seed: int) -> list[float]:
    random, now_s, found = Random(seed), 0.0, []
    for _ in range(REQUESTS):
        now_s += random.expovariate(per_s)
        found.append(now_s)
    return found


def mean_s(make: Callable[[], Window], server: Server, load: float) -> float:
    """The mean time from arrival to end, the first tenth left out."""
    times_s = []
    for seed in (1, 2):
        arrivals_s = poisson_s(load * server.capacity_per_s(), seed)
        times_s += [total_s for _, total_s in waits_s(make(), server, arrivals_s)[REQUESTS // 10 :]]
    return sum(times_s) / len(times_s)


@pytest.mark.parametrize(("name", "load"), TRIED)
def test_it_is_as_good_as_the_best_fixed_window_at_every_load(name: str, load: float) -> None:
    """Without being tuned, the adaptive window costs at most 2 % over the best of 10, 50, 100 and 200 ms."""
    server = SERVERS[name]
    best_s = min(mean_s(lambda: FixedWindow(ms / 1000), server, load) for ms in (10, 50, 100, 200))  # noqa: B023
    assert mean_s(lambda: AdaptiveWindow(LONGEST_S), server, load) <= 1.02 * best_s


def taught(gap_s: float, fixed_s: float = 1.0, member_s: float = 0.01) -> tuple[AdaptiveWindow, float]:
    """A window after 50 arrivals so far apart and 20 batches, and the time of the last arrival."""
    window = AdaptiveWindow(LONGEST_S)
    for number in range(20):
        seats = 1 + number % 8
        window.batch_done(seats, fixed_s + member_s * seats, 0.0)
    for number in range(50):
        window.arrived(1, number * gap_s)
    return window, 49 * gap_s


def length_s(window: Window, seats: int, now_s: float) -> float:
    return window.length_s(Gathered(seats, 64, now_s), now_s)


def test_it_shrinks_to_nothing_under_load() -> None:
    """The more have gathered, the shorter the window, down to 0."""
    window, now_s = taught(gap_s=0.01)
    lengths_s = [length_s(window, seats, now_s) for seats in range(1, 64)]
    assert lengths_s[0] == LONGEST_S
    assert lengths_s == sorted(lengths_s, reverse=True)
    assert lengths_s[-1] == 0


def test_no_batch_waits_at_high_load() -> None:
    """With a queue at every departure, batches follow one another without a pause."""
    server = SERVERS["long batches"]
    waited = waits_s(AdaptiveWindow(LONGEST_S), server, poisson_s(0.95 * server.capacity_per_s(), 3))
    late = waited[REQUESTS // 10 :]
    assert sum(company_s for company_s, _ in late) < 0.001 * sum(total_s for _, total_s in late)


@pytest.mark.parametrize(
    ("gap_s", "expected_s"),
    [
        pytest.param(0.1, LONGEST_S, id="idle, and an arrival is expected: all of it"),
        pytest.param(0.3, 0.0, id="no arrival is expected in time"),
        pytest.param(40.0, 0.0, id="no arrival is expected at all"),
    ],
)
def test_a_lone_request_waits_only_for_an_expected_arrival(gap_s: float, expected_s: float) -> None:
    """While batches are dear, the window of a lone request is as long as it may be, if arrivals are near enough."""
    window, now_s = taught(gap_s)
    assert length_s(window, 1, now_s) == expected_s


@pytest.mark.parametrize(
    ("gap_s", "seats", "reason"),
    [
        pytest.param(0.1, 1, WindowReason.FILLING, id="low load, an arrival is expected: stretched"),
        pytest.param(0.01, 63, WindowReason.LOAD, id="high load: many have gathered"),
        pytest.param(40.0, 1, WindowReason.IDLE, id="truly idle: no other request is expected"),
    ],
)
def test_it_names_what_decides_its_length(gap_s: float, seats: int, reason: WindowReason) -> None:
    """Stretched at low load, 0 under high load, and 0 as well where a lone request would wait for no other."""
    window, now_s = taught(gap_s)
    assert window.reason(Gathered(seats, 64, now_s), now_s) is reason
    assert length_s(window, seats, now_s) == (LONGEST_S if reason is WindowReason.FILLING else 0)


@pytest.mark.parametrize(("slo_ratio", "part"), [(0.1, 1.0), (0.5, 1.0), (0.75, 0.5), (1.0, 0.0), (30.0, 0.0)])
def test_late_first_tokens_shorten_it(slo_ratio: float, part: float) -> None:
    """Whole while first tokens come within half of their objective, 0 from the objective on, whatever the load."""
    window, now_s = taught(gap_s=0.01)
    new = AdaptiveWindow(LONGEST_S)
    for one in (window, new):
        for _ in range(16):
            one.first_token(slo_ratio)
        assert length_s(one, 1, now_s) == pytest.approx(part * LONGEST_S)
        assert (one.reason(Gathered(1, 64, now_s), now_s) is WindowReason.LATENCY) is (part < 1)


def test_it_is_whole_again_when_first_tokens_are_early_again() -> None:
    """A breach of the objective is forgotten within some thirty first tokens."""
    window, now_s = taught(gap_s=0.01)
    for slo_ratio in [30.0] * 16 + [0.1] * 48:
        window.first_token(slo_ratio)
    assert length_s(window, 1, now_s) == LONGEST_S


def test_it_is_the_marginal_rule() -> None:
    """One waits (b - n*a) / (n + 1) after the last arrival, and not at all when the gap is longer."""
    window, now_s = taught(gap_s=0.01, fixed_s=0.25, member_s=0.02)
    assert length_s(window, 3, now_s) == pytest.approx((0.25 - 3 * 0.02) / 4)
    opened_s = now_s - 0.03
    assert window.length_s(Gathered(3, 64, opened_s), now_s) == pytest.approx(0.03 + (0.25 - 3 * 0.02) / 4)
    window, now_s = taught(gap_s=0.05, fixed_s=0.25, member_s=0.02)
    assert length_s(window, 3, now_s) == 0


@pytest.mark.parametrize(("busy", "times"), [(None, 1.0), (1.0, 1.0), (0.8, 1.0), (0.4, 1.5), (0.0, 2.0)])
def test_an_under_used_gpu_has_more_patience(busy: float | None, times: float) -> None:
    """Up to twice as much, within the longest window and the objective of first tokens."""
    window, now_s = taught(gap_s=0.01, fixed_s=0.25, member_s=0.02)
    gathered = Gathered(3, 64, now_s, gpu_busy_ratio=busy)
    assert window.length_s(gathered, now_s) == pytest.approx(times * (0.25 - 3 * 0.02) / 4)
    for _ in range(16):
        window.first_token(0.9)
    assert window.length_s(gathered, now_s) <= 0.2 * LONGEST_S + 1e-9
    window, now_s = taught(gap_s=0.01)
    assert window.length_s(Gathered(1, 64, now_s, gpu_busy_ratio=busy), now_s) == LONGEST_S


def test_without_knowledge_it_is_the_longest() -> None:
    """Until it has seen batches and arrivals, it behaves like a fixed window."""
    window = AdaptiveWindow(LONGEST_S)
    assert length_s(window, 1, 5.0) == LONGEST_S
    for _ in range(50):
        window.batch_done(8, 0.001, 5.0)
    assert length_s(window, 1, 5.0) == LONGEST_S


def test_a_night_without_requests_is_soon_forgotten() -> None:
    """After a long pause, some thirty arrivals are enough to expect the next one again."""
    window, now_s = taught(gap_s=0.01)
    now_s += 30_000
    window.arrived(1, now_s)
    for _ in range(32):
        now_s += 0.01
        window.arrived(1, now_s)
    assert length_s(window, 1, now_s) == LONGEST_S


@pytest.mark.parametrize("make", [FixedWindow, AdaptiveWindow])
def test_the_first_never_waits_longer_than_the_longest(make: Callable[[float], Window]) -> None:
    """The window opens with the first arrival and no later one restarts it, however they trickle in."""
    server = Server(most=1000, fixed_s=30.0, member_s=0.0)
    trickle_s = [0.9 * LONGEST_S * number for number in range(600)]
    waited = waits_s(make(LONGEST_S), server, trickle_s)
    assert max(company_s for company_s, _ in waited) == pytest.approx(LONGEST_S)


@pytest.mark.parametrize("make", [FixedWindow, AdaptiveWindow])
def test_it_conforms(make: Callable[[float], Window]) -> None:
    """Never negative, never above its longest, the same when asked again."""
    check_window(make)


class Late(FixedWindow):
    """Counts from now, not from the first arrival: a later call waits again."""

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        return min(self.window_s, now_s - gathered.opened_s + self.window_s / 2)


class Above(FixedWindow):
    """Adds a millisecond."""

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        return self.window_s + 0.001


class Below(FixedWindow):
    """Grows impatient without end."""

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        return self.window_s - (now_s - gathered.opened_s)


@pytest.mark.parametrize("make", [Late, Above, Below])
def test_conformance_catches_what_does_not_conform(make: Callable[[float], Window]) -> None:
    """A window that is put off, too long or negative is found out."""
    with pytest.raises(AssertionError, match="seed 0, step"):
        check_window(make)


@pytest.mark.parametrize(("window_ms", "window_s"), [(0, 0.0), (0.001, 1e-6), (50, 0.05), (60_000, 60.0)])
def test_a_preset_names_a_window_to_the_microsecond(window_ms: float, window_s: float) -> None:
    """Both kinds take any length, in milliseconds and their fractions."""
    assert length_s(make_window("fixed", window_ms), 1, 7.0) == window_s
    assert length_s(make_window("adaptive", window_ms), 1, 7.0) == window_s
