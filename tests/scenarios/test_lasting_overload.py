"""Service of the least urgent class under a constant overload by the most urgent one.

Seven virtual days in the long form. The bounds are those that the orders document; the shares are those of the README
of the policies: 0.6, 0.3 and 0.1.
"""

from __future__ import annotations

from itertools import pairwise
from statistics import mean

import pytest
from closed_loop import ClosedLoop, Record
from small_presets import small_preset, terms
from tiers import LONG

DAY_S = 86_400.0
FOR_S = 7 * DAY_S if LONG else DAY_S / 12
BRIEFLY_S = DAY_S / 12
SERVICE_S, SEATS = 5.0, 4
PER_S = SEATS / SERVICE_S
STEP_S = 60.0
SHARES = {"realtime": 0.6, "normal": 0.3, "batch": 0.1}


def flood(between: str, always_here: dict[str, int], for_s: float = FOR_S) -> list[Record]:
    """So many clients of each class, each asking again the moment it is answered."""
    classes = {
        name: terms(priority, places=10_000, queue_s=None, total_s=None)
        for name, priority in (("realtime", 3), ("normal", 2), ("batch", 1))
    }
    preset = small_preset(SEATS, most_waiting=10_000, classes=classes, between=between)
    ordering = preset.ordering.model_copy(update={"ageing_step_s": STEP_S})
    loop = ClosedLoop(preset.model_copy(update={"ordering": ordering}), lambda record: SERVICE_S)

    def again(record: Record) -> None:
        loop.ask(record.ticket.class_name, again, max_tokens=100)

    for name, clients in always_here.items():
        for _ in range(clients):
            loop.ask(name, again, max_tokens=100)
    loop.run(for_s)
    return loop.records


def waits_s(records: list[Record], name: str, for_s: float = FOR_S) -> list[float]:
    """The waits of a class, with those that still last."""
    mine = [record for record in records if record.ticket.class_name == name]
    return [one.wait_s if one.dispatched_s is not None else for_s - one.ticket.arrived_s for one in mine]


def test_each_class_that_waits_gets_its_share_of_the_tokens() -> None:
    """All three always wait: over every hour each has its share, within 5 %."""
    records = flood("weighted", dict.fromkeys(SHARES, 20))
    hours = int(FOR_S // 3600)
    for start_s, end_s in pairwise(range(0, (hours + 1) * 3600, 3600)):
        gone = [one for one in records if one.dispatched_s is not None and start_s <= one.dispatched_s < end_s]
        for name, share in SHARES.items():
            got = sum(one.ticket.class_name == name for one in gone) / len(gone)
            assert got == pytest.approx(share, rel=0.05), (name, start_s)


def test_under_weighted_shares_the_least_urgent_waits_no_longer_than_stated() -> None:
    """(2 + D/Q) * sum(Q) + sum(A) tokens may pass a class in debt D <= A = Q: that time is its worst wait."""
    records = flood("weighted", {"realtime": 40, "normal": 20, "batch": 1})
    quanta_of_others, largest_of_others = 6 + 3, 2  # in requests: all are of one size here, and the lowest quantum too
    passing = 3 * quanta_of_others + largest_of_others
    assert max(waits_s(records, "batch")) <= (passing + 1) / PER_S + SERVICE_S


def test_under_ageing_the_least_urgent_waits_no_longer_than_stated() -> None:
    """step_s * (levels - 1) + backlog ahead / rate: the backlog is what is there when that time is up."""
    records = flood("ageing", {"realtime": 40, "normal": 20, "batch": 1})
    backlog = 60
    assert max(waits_s(records, "batch")) <= STEP_S * 2 + backlog / PER_S + SERVICE_S


def test_under_strict_order_the_least_urgent_starves() -> None:
    """The control, and the weak spot that strict order states of itself."""
    records = flood("strict", {"realtime": 40, "batch": 1}, BRIEFLY_S)
    assert max(waits_s(records, "batch", BRIEFLY_S)) == pytest.approx(BRIEFLY_S, abs=SERVICE_S)


@pytest.mark.parametrize("between", ["weighted", "ageing"])
def test_the_most_urgent_is_served_best(between: str) -> None:
    """Shares are a lower bound for less urgent classes and no upper bound for the mean: more urgent classes wait
    less."""
    records = flood(between, dict.fromkeys(SHARES, 20), BRIEFLY_S)
    means_s = [mean(waits_s(records, name, BRIEFLY_S)) for name in SHARES]
    assert means_s == sorted(means_s)
