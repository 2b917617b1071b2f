"""What becomes of everybody when the engine falls silent, dies, and is there again; the oracle watches every step."""

from __future__ import annotations

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds

from headway_policies import (
    Abort,
    Cautious,
    Dispatch,
    Effect,
    Ending,
    Expire,
    Preset,
    Reason,
    Recall,
    Recovery,
    Reject,
    Standing,
    Timeouts,
)
from headway_policies.warmup import Warmup

ALONE_S = 10.0


def preset(seats: int = 2, *, ramp_s: float = 0.0, **keys: object) -> Preset:
    """Small, with ten seconds alone for a suspect."""
    parts = {"recovery": Recovery(alone_s=ALONE_S), "warmup": Warmup(ramp_s=ramp_s)}
    return small_preset(seats, **keys).model_copy(update=parts)  # type: ignore[arg-type]  # keys of small_preset


def kinds(effects: list[Effect]) -> list[tuple[str, int]]:
    """Kind and ticket of each deed."""
    return [(type(one).__name__, one.ticket_id) for one in deeds(effects)]  # type: ignore[union-attr]  # deeds of tickets


def test_a_silent_engine_gets_nobody_and_keeps_whom_it_has() -> None:
    """Who runs may end, who comes waits and expires on time; when it is back the next goes."""
    it = WatchedDesk(preset(1))
    it.comes()
    assert deeds(it.does("engine_silent")) == []
    assert it.desk.engine is Standing.SILENT
    assert deeds(it.comes()) == []
    it.passes(5.0)
    assert deeds(it.comes()) == []
    assert kinds(it.leaves(1)) == []
    assert kinds(it.passes(5.5)) == [("Expire", 2)]
    assert kinds(it.does("engine_back")) == [("Dispatch", 3)]


def test_silence_of_an_engine_that_is_gone_is_no_news() -> None:
    """Only one that is up can fall silent."""
    it = WatchedDesk(preset())
    it.does("engine_lost")
    it.does("engine_silent")
    assert it.desk.engine is Standing.LOST


def test_the_dead_engine_s_people_are_told_apart() -> None:
    """What has shown nothing waits again, what has is given up, who waited keeps its place, who comes waits too."""
    it = WatchedDesk(preset(2))
    for _ in range(3):
        it.comes()
    assert deeds(it.does("engine_restarting", {1})) == [Recall(1), Abort(2, Reason.ENGINE_LOST)]
    assert it.counts() == (3, 2, 0, {"engine_lost": 1})
    assert it.desk.ledger.classes["normal"].replays == 1
    assert deeds(it.comes()) == []
    assert kinds(it.does("engine_back")) == [("Dispatch", 1)]
    assert kinds(it.leaves(1)) == [("Dispatch", 3), ("Dispatch", 4)]


def test_suspects_go_one_after_another_the_most_urgent_first() -> None:
    """Each is cleared by its end, or by ten seconds without harm; only then does anybody else go."""
    it = WatchedDesk(preset(4))
    for name in ("batch", "normal", "realtime"):
        it.comes(name)
    assert kinds(it.does("engine_restarting", {1, 2, 3})) == [("Recall", 3), ("Recall", 2), ("Recall", 1)]
    it.comes("realtime", asked=Timeouts(queue_s=None))
    assert it.desk.suspects == 3
    assert kinds(it.does("engine_back")) == [("Dispatch", 3)]
    assert kinds(it.passes(9.0)) == []
    assert kinds(it.leaves(3)) == [("Dispatch", 2)]
    assert kinds(it.passes(ALONE_S)) == [("Expire", 4), ("Dispatch", 1)]
    assert kinds(it.comes("realtime")) == []
    assert kinds(it.leaves(1)) == [("Dispatch", 5)]
    assert it.desk.suspects == 0


def test_whoever_is_there_at_two_crashes_in_a_row_is_given_up() -> None:
    """It ran alone the second time, so it was its fault; the one that did not run goes again."""
    it = WatchedDesk(preset(2))
    it.comes()
    it.comes()
    it.does("engine_restarting", {1, 2})
    assert kinds(it.does("engine_back")) == [("Dispatch", 1)]
    assert deeds(it.does("engine_restarting", {1, 2})) == [Abort(1, Reason.POISON)]
    assert kinds(it.does("engine_back")) == [("Dispatch", 2)]
    assert it.counts()[3] == {"engine_lost": 1}


def test_two_crashes_that_are_not_in_a_row_are_no_proof() -> None:
    """Whoever waited while another one crashed the engine has a clean record again."""
    it = WatchedDesk(preset(1, classes={"normal": terms(2, queue_s=None, total_s=None)}))
    for _ in range(3):
        it.comes()
    it.does("engine_restarting", {1})
    it.does("engine_back")
    it.passes(ALONE_S)
    it.leaves(1)
    assert kinds(it.does("engine_restarting", {2})) == [("Recall", 2)]


def test_a_replay_has_had_its_turn_in_the_queue() -> None:
    """Its queue time-out is over and done with; the time-outs of a first token and of the whole go on."""
    it = WatchedDesk(preset(1))
    it.comes()
    it.comes(asked=Timeouts(queue_s=2.0))
    it.does("engine_restarting", {1})
    assert kinds(it.passes(3.0)) == [("Expire", 2)]
    assert kinds(it.passes(30.0)) == []
    it.does("engine_back")
    assert deeds(it.passes(30.0)) == [Abort(1, Reason.TOTAL_TIMEOUT)]


def test_a_replay_whose_time_is_over_is_not_sent() -> None:
    """The engine comes too late for it: it expires, and the next suspect goes."""
    it = WatchedDesk(preset(2))
    it.comes(asked=Timeouts(total_s=5.0))
    it.comes()
    it.does("engine_restarting", {1, 2})
    effects = it.passes(6.0) + it.does("engine_back")
    assert [type(one) for one in deeds(effects)] == [Expire, Dispatch]


def test_a_replay_costs_its_tenant_once() -> None:
    """What was charged for the first try is given back: the shares are as if there had been no crash."""

    def next_ones(*, crash: bool) -> list[tuple[str, int]]:
        it = WatchedDesk(preset(1, between="weighted", inside="fair"))
        it.comes(tenant="a", prompt_tokens=4000)
        if crash:
            it.does("engine_restarting", {1})
            it.does("engine_back")
        for tenant in "aabb":
            it.comes(tenant=tenant, prompt_tokens=4000)
        seen: list[tuple[str, int]] = []
        for ticket_id in (1, 2, 3, 4):
            it.oracle.left(seen[-1][1] if seen else ticket_id, Ending.COMPLETED)
            seen += kinds(it.does("leave", seen[-1][1] if seen else ticket_id, Ending.COMPLETED))
        return seen

    assert next_ones(crash=True) == next_ones(crash=False)


def test_while_it_is_lost_everybody_hears_why() -> None:
    """The reason it was lost for is the reason newcomers are given."""
    it = WatchedDesk(preset())
    it.does("engine_lost")
    it.desk.lost_why = Reason.OUT_OF_MEMORY
    [refused] = deeds(it.comes())
    assert isinstance(refused, Reject)
    assert refused.reason is Reason.OUT_OF_MEMORY


@pytest.mark.parametrize(("ratio", "seats"), [(1.0, 8), (0.5, 4), (0.3, 2), (0.01, 1)])
def test_a_share_of_the_seats_is_open(ratio: float, seats: int) -> None:
    """Rounded down, one at the least; nobody is ended, and opening them again fills them at once."""
    it = WatchedDesk(preset(8))
    it.does("open_seats", Cautious.MEMORY, ratio)
    for _ in range(10):
        it.comes()
    assert (it.desk.limit, it.desk.seats_taken) == (seats, seats)
    it.does("open_seats", Cautious.MEMORY, 1.0)
    assert it.desk.seats_taken == 8


def test_the_most_cautious_decides() -> None:
    """Half for the recovery's sake, three quarters for the memory's: half, until the recovery lets go."""
    it = WatchedDesk(preset(8))
    it.does("open_seats", Cautious.RECOVERY, 0.5)
    it.does("open_seats", Cautious.MEMORY, 0.75)
    assert it.desk.limit == 4
    it.does("open_seats", Cautious.RECOVERY, 1.0)
    assert it.desk.limit == 6


def test_after_a_warm_up_seats_open_by_themselves() -> None:
    """With a ramp of 60 s eight seats open one after another, each filled when it opens, without any other event."""
    it = WatchedDesk(preset(8, ramp_s=60.0, classes={"normal": terms(2, queue_s=None, total_s=None)}))
    it.does("warmed_up")
    for _ in range(8):
        it.comes()
    taken = [it.desk.seats_taken]
    for _ in range(6):
        it.passes(10.1)
        taken.append(it.desk.seats_taken)
    assert taken == [1, 1, 2, 2, 4, 5, 8]


def test_a_new_engine_climbs_the_ramp_and_a_silence_does_not() -> None:
    """What is cold opens slowly; what only held its breath goes on where it was."""
    it = WatchedDesk(preset(8, ramp_s=60.0))
    it.does("engine_silent")
    it.does("engine_back")
    assert it.desk.limit == 8
    it.does("engine_restarting", set())
    it.does("engine_back")
    assert it.desk.limit == 1
