"""Early refusal: no request gains by what it claims, and no prediction closes admission permanently."""

from __future__ import annotations

from collections import Counter

import pytest
from closed_loop import ClosedLoop
from small_presets import small_preset, terms
from watched_desk import dispatched

from headway_policies import Desk, Effect, Ending, Load, Preset, Reason, Reject, Ticket, Usage
from headway_policies.limits.limit import LimitSettings


def refused(effects: list[Effect]) -> list[Reason]:
    return [one.reason for one in effects if isinstance(one, Reject)]


def roomy(name: str = "normal", **more: object) -> dict[str, object]:
    return {name: terms(2, places=100_000, queue_s=None, total_s=None, **more)}


class Counted:
    """A desk, its running tickets, and the client of each."""

    def __init__(self, preset: Preset) -> None:
        self.desk, self.now_s, self.made = Desk(preset), 0.0, 0
        self.running: list[int] = []
        self.of: dict[int, str] = {}

    def comes(self, class_name: str, tenant: str = "", **more: object) -> list[Effect]:
        self.made += 1
        self.of[self.made] = f"{class_name}{tenant}"
        sizes = {"prompt_tokens": 100, "max_tokens": 200} | more
        effects = self.desk.arrive(Ticket(self.made, class_name, self.now_s, tenant, **sizes), self.now_s)  # type: ignore[arg-type]  # keywords
        self.running += dispatched(effects)
        return effects

    def ends(self, ticket_id: int, ending: Ending = Ending.COMPLETED, usage: Usage | None = None) -> list[Effect]:
        if ticket_id in self.running:
            self.running.remove(ticket_id)
        effects = self.desk.leave(ticket_id, ending, self.now_s, usage)
        self.running += dispatched(effects)
        return effects

    def served(self, number: int) -> Counter[str]:
        """Whose tickets run to their end next, one after the other, each exactly as it was expected to."""
        whose = Counter[str]()
        for _ in range(number):
            self.now_s += 0.01
            ticket_id = self.running[0]
            whose[self.of[ticket_id]] += 1
            self.ends(ticket_id, usage=Usage(100, 200))
        return whose


@pytest.mark.parametrize("claimed_tokens", [200, 999_999_999])
def test_a_claim_of_many_tokens_buys_a_class_no_share(claimed_tokens: int) -> None:
    """One refused request that claimed a thousand million tokens has no effect on which requests are served
    afterwards."""
    classes = {name: terms(rank, places=100_000, queue_s=None, total_s=None)
               for rank, name in enumerate(("batch", "normal", "realtime"))}  # fmt: skip
    counted = Counted(small_preset(1, most_waiting=100_000, classes=classes, between="weighted"))
    counted.comes("realtime", max_tokens=claimed_tokens)
    counted.ends(1, Ending.INVALID)
    for name in classes:
        for _ in range(2500):
            counted.comes(name)
    whose = counted.served(3000)
    assert whose["batch"] == pytest.approx(300, abs=30)
    assert whose["normal"] == pytest.approx(900, abs=60)


@pytest.mark.parametrize("claimed_tokens", [200, 999_999_999])
def test_a_claim_of_many_tokens_buys_a_tenant_no_share(claimed_tokens: int) -> None:
    """A tenant whose one huge claim was cancelled and refunded is served as much as the other, not more."""
    counted = Counted(small_preset(2, most_waiting=100_000, classes=roomy(), inside="fair"))
    counted.comes("normal", "cheat", max_tokens=claimed_tokens)
    for _ in range(1500):
        counted.comes("normal", "honest")
        counted.comes("normal", "cheat")
    counted.ends(1, Ending.CANCELLED, Usage(100, 1))
    whose = counted.served(1000)
    assert whose["normalhonest"] == pytest.approx(500, abs=10)


def test_a_reserve_below_a_wide_head_does_not_let_its_class_pass() -> None:
    """The urgent request of four waits for four seats; those of the class below may not take one after the other."""
    classes = {"urgent": terms(3), "middle": terms(2, reserved_seats=2), "low": terms(1)}
    counted = Counted(small_preset(4, classes=classes))
    for _ in range(4):
        counted.comes("middle")
    counted.comes("urgent", seats=4)
    for _ in range(6):
        counted.comes("middle")
    for ticket_id in (1, 2, 3):
        assert dispatched(counted.ends(ticket_id)) == []
    assert dispatched(counted.ends(4)) == [5]


def test_a_heavy_tenant_does_not_shut_the_door_on_a_light_one() -> None:
    """Under fair share the predicted wait of an arrival counts the requests of its own tenant, not the whole class."""
    classes = {"normal": terms(2, places=1000, queue_s=12.0, total_s=None)}
    counted = Counted(small_preset(2, most_waiting=1000, classes=classes, inside="fair",
                                   queue={"refuse_infeasible": True}))  # fmt: skip
    for _ in range(30):  # each holds its seat for 2 s
        counted.comes("normal", "heavy")
        counted.now_s += 1.0
        if len(counted.running) == 2:
            counted.ends(counted.running[0], usage=Usage(100, 200))
    answers = [refused(counted.comes("normal", "heavy")) for _ in range(30)]
    assert answers[-1] == [Reason.DEADLINE_INFEASIBLE]
    assert refused(counted.comes("normal", "light")) == []


@pytest.mark.parametrize(("between", "answer"), [("weighted", []), ("strict", [Reason.DEADLINE_INFEASIBLE])])
def test_a_class_with_a_share_waits_for_no_more_than_the_shares_of_those_above_it(
    between: str, answer: list[Reason]
) -> None:
    """A line of a hundred seconds in the class above: under shares its own turn comes within seconds all the same."""
    classes = {"chat": terms(2, places=1000, queue_s=None, total_s=None), "bulk": terms(1, queue_s=10.0, total_s=None)}
    counted = Counted(small_preset(2, most_waiting=1000, classes=classes, between=between,
                                   queue={"refuse_infeasible": True}))  # fmt: skip
    for _ in range(30):  # each holds its seat for 2 s
        counted.comes("chat")
        counted.now_s += 1.0
        if len(counted.running) == 2:
            counted.ends(counted.running[0], usage=Usage(100, 200))
    for _ in range(100):
        counted.comes("chat")
    assert refused(counted.comes("bulk")) == answer


def slow_first_tokens(counted: Counted, class_name: str, delay_s: float, number: int) -> None:
    """So many requests of a class run alone, each with its first token after a while."""
    for _ in range(number):
        counted.comes(class_name)
        counted.now_s += delay_s
        counted.desk.first_token(counted.running[0], counted.now_s)
        counted.ends(counted.running[0], usage=Usage(100, 200))


def test_slow_first_tokens_of_one_class_shed_no_other() -> None:
    """An engine that serves batch work last says nothing about how soon realtime work has its first token."""
    classes = {
        "realtime": terms(3, first_token_timeout_s=15.0),
        "batch": terms(1, queue_s=None, total_s=None, first_token_timeout_s=600.0),
    }
    counted = Counted(small_preset(1, classes=classes, queue={"shed_unreachable": True}))
    slow_first_tokens(counted, "batch", 20.0, 50)
    counted.comes("batch")
    for _ in range(3):
        counted.comes("realtime")
    counted.now_s += 1.0
    effects = counted.ends(counted.running[0])
    assert (len(dispatched(effects)), refused(effects)) == (1, [])


def test_a_wrong_prediction_sheds_at_most_one_for_each_that_goes() -> None:
    """Where every first token is predicted too late, half of the queue is served all the same, and corrects it."""
    classes = {"normal": terms(2, places=1000, queue_s=None, total_s=None, first_token_timeout_s=10.0)}
    counted = Counted(small_preset(1, most_waiting=1000, classes=classes, queue={"shed_unreachable": True}))
    slow_first_tokens(counted, "normal", 9.5, 20)
    for _ in range(100):
        counted.comes("normal")
    counted.now_s += 2.0
    for _ in range(10):
        effects = counted.ends(counted.running[0])
        assert len(dispatched(effects)) == 1
        assert refused(effects) == [Reason.DEADLINE_UNREACHABLE]
    counted.ends(counted.running[0])


def test_the_limit_goes_back_to_the_preset_when_the_engine_falls_silent_whatever_event_comes() -> None:
    """No tick is needed: an arrival after the silence already finds the preset's seats."""
    limit = LimitSettings(policy="aimd", max_seats=8, inter_token_slo_ms=50, stale_after_s=5)
    counted = Counted(small_preset(8, classes=roomy(), limit=limit))
    for _ in range(8):
        counted.comes("normal")
    for _ in range(400):
        counted.now_s += 0.2
        counted.desk.observe(Load(8, 0, 0.1, inter_token_s=0.2), counted.now_s)
    assert counted.desk.limit < 8
    counted.now_s += 60.0
    counted.comes("normal")
    assert counted.desk.limit == 8


def test_a_switch_that_cannot_be_made_changes_nothing() -> None:
    """A custom policy that raises when it is made leaves preset, revision and all tickets unchanged."""
    counted = Counted(small_preset(1))
    counted.comes("normal")
    counted.comes("normal")
    before = counted.desk.preset
    stubborn = small_preset(4).model_copy(
        update={"limit": LimitSettings(policy="builtins:object")}
    )  # was well when it was read
    with pytest.raises(TypeError):
        counted.desk.switch(stubborn, 1.0)
    assert (counted.desk.preset, counted.desk.mode.revision) == (before, 1)
    assert dispatched(counted.ends(1)) == [2]


def test_a_settled_ticket_takes_no_seats_again() -> None:
    """A call that closes after the engine was lost frees seats; it cannot take any."""
    counted = Counted(small_preset(4))
    counted.comes("normal", seats=3)
    counted.desk.engine_lost(1.0)
    counted.desk.reseat(1, 3, 1.0)
    assert counted.desk.seats_taken == 0


def test_a_wide_ticket_is_never_said_to_hold_more_than_it_was_given() -> None:
    """Of a request wider than the engine, the engine's own queue holds the rest: the limit and the reserves hold."""
    classes = {"urgent": terms(3, reserved_seats=2), "batch": terms(1)}
    counted = Counted(small_preset(8, classes=classes))
    counted.comes("batch", seats=100)
    counted.desk.reseat(1, 100, 0.0)
    assert counted.desk.seats_taken == 6
    assert dispatched(counted.comes("urgent")) == [2]


def test_the_queue_of_one_tenant_stands_while_another_one_is_served_at_once() -> None:
    """One tenant offers twice what the seats serve, the other a twentieth, between them: as long as they do, the
    objective of 1 s holds for both, and only the first one is refused. What is late then is served last.
    """
    preset = small_preset(4, classes=roomy(ttft_slo_s=1.0), inside="fair", most_waiting=100_000)
    loop = ClosedLoop(preset, lambda record: 0.5)
    for number in range(16 * 40):
        loop.at(number / 16, lambda: loop.ask("normal", tenant="heavy", max_tokens=50))
        if number % 20 == 0:
            loop.at(number / 16, lambda: loop.ask("normal", tenant="light", max_tokens=50))
    loop.run(60.0)
    served = [one for one in loop.records if one.completed and 5 < (one.dispatched_s or 0.0) <= 40]
    late = [one for one in served if one.wait_s > 1.0]
    refusals = Counter(one.ticket.tenant for one in loop.records if not one.completed)
    assert not late
    assert refusals.keys() == {"heavy"}
    assert refusals["heavy"] > 200
