"""Queries to the desk: the dump, the oldest wait, the waiting tickets."""

from __future__ import annotations

from small_presets import small_preset, terms
from watched_desk import WatchedDesk

from headway_policies import Desk, Ending, Phase, Ticket
from headway_policies.desk.dump import dump


def test_the_dump_shows_ids_classes_and_times_and_nothing_of_the_content() -> None:
    """The dump of each ticket is a closed list of keys."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.comes("batch")
    it.passes(2.0)
    seen = dump(it.desk, it.now_s)
    assert seen["waiting"] == [
        {"id": 2, "class": "batch", "tenant": "", "adapter": None, "seats": 1, "waited_s": 2.0, "expires_in_s": 8.0}
    ]
    assert seen["running"] == [
        {"id": 1, "class": "normal", "tenant": "", "adapter": None, "phase": Phase.RUNNING.value, "seats": 1,
         "revision": 1, "running_s": 2.0}
    ]  # fmt: skip
    assert seen["ledger"]["normal"] == {"arrived": 1, "queued": 0, "in_flight": 1, "outcomes": {}}


def test_the_dump_is_short_however_many_wait() -> None:
    """An operator asks in the middle of an overload: the answer holds a hundred of each."""
    desk = Desk(small_preset(200, most_waiting=1_000, classes={"normal": terms(1, places=1_000)}))
    for number in range(600):
        desk.arrive(Ticket(number, "normal", 0.0), 0.0)
    seen = dump(desk, 0.0)
    assert (len(seen["waiting"]), len(seen["running"])) == (100, 100)


def test_the_oldest_wait_is_that_of_the_first_in_each_line() -> None:
    """Each class shows how long its first has waited, and nothing where none waits."""
    it = WatchedDesk(small_preset())
    it.comes()
    it.comes("batch")
    it.passes(3.0)
    it.comes("batch")
    assert it.desk.read(4.0).oldest_wait_s == {"realtime": 0.0, "normal": 0.0, "batch": 4.0}


def test_the_oldest_wait_shows_a_class_that_went_away_with_a_switch() -> None:
    """A ticket that waits in the queue of another class counts for its own."""
    it = WatchedDesk(small_preset())
    it.passes(1.0)
    for name in ("normal", "normal", "realtime"):
        it.comes(name)
    it.passes(2.0)
    it.does("switch", small_preset(classes={"normal": terms(1)}))
    it.comes("normal")
    assert it.desk.read(4.0).oldest_wait_s == {"realtime": 3.0, "normal": 3.0, "batch": 0.0}
    it.leaves(3, Ending.CANCELLED)
    assert it.desk.read(4.0).oldest_wait_s == {"realtime": 0.0, "normal": 3.0, "batch": 0.0}


def test_a_query_gets_the_same_retry_after_as_the_refused() -> None:
    """The answer grows with the queue."""
    desk = Desk(small_preset(1, most_waiting=1_000, classes={"normal": terms(1, places=1_000, queue_s=None)}))
    desk.arrive(Ticket(0, "normal", 0.0), 0.0)
    soon_s = desk.retry_after_s(0.0)
    for number in range(1, 500):
        desk.arrive(Ticket(number, "normal", 0.0), 0.0)
    for number in range(5):
        desk.leave(number, Ending.COMPLETED, 1.0 + number)
    assert desk.retry_after_s(6.0) > soon_s >= 1
