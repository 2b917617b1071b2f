"""What an overload refuses, and that a ticket is served whatever it waits outside of one."""

from __future__ import annotations

import pytest
from small_presets import small_preset, terms

from headway_policies import Desk, Dispatch, Effect, Ending, Reason, Reject, Ticket, Usage

SLO_S = 1.0


def refused(effects: list[Effect]) -> list[Reason]:
    return [one.reason for one in effects if isinstance(one, Reject)]


class OneSeat:
    """A desk with one seat, whose running ticket ends when it is told to."""

    def __init__(self) -> None:
        classes = {"normal": terms(2, places=1000, queue_s=None, total_s=None, ttft_slo_s=SLO_S)}
        self.desk = Desk(small_preset(1, most_waiting=1000, classes=classes))
        self.running: int | None = None
        self.made = 0

    def comes(self, now_s: float) -> list[Effect]:
        self.made += 1
        return self._seen(self.desk.arrive(Ticket(self.made, "normal", now_s), now_s))

    def ends(self, now_s: float) -> list[Effect]:
        assert self.running is not None
        ended, self.running = self.running, None
        return self._seen(self.desk.leave(ended, Ending.COMPLETED, now_s, Usage(10, 10)))

    def overload(self) -> None:
        """Twenty seconds in which ten tickets come and two end in each; then all are gone."""
        for tenth in range(200):
            self.comes(tenth / 10)
            if tenth % 5 == 4 and self.running is not None:
                self.ends(tenth / 10)
        for ticket_id in range(1, self.made + 1):
            if ticket_id != self.running:
                self.desk.leave(ticket_id, Ending.CANCELLED, 20.0)
        self.ends(20.0)

    def _seen(self, effects: list[Effect]) -> list[Effect]:
        for one in effects:
            if isinstance(one, Dispatch):
                self.running = one.ticket_id
        return effects


def test_the_last_one_waiting_goes_late_where_nothing_is_overloaded() -> None:
    """No queue has stood: a ticket that waited for three objectives is served."""
    desk = OneSeat()
    desk.comes(0.0)
    desk.comes(0.1)
    assert refused(desk.ends(3 * SLO_S)) == []
    assert desk.running == 2


def test_the_last_one_waiting_is_refused_late_in_an_overload() -> None:
    """The next arrival makes better use of the seat, although it is not there yet."""
    desk = OneSeat()
    desk.overload()
    desk.comes(20.5)
    desk.comes(20.6)
    assert refused(desk.ends(20.6 + 1.1 * SLO_S)) == [Reason.OBJECTIVE_UNREACHABLE]
    assert desk.running is None
    desk.comes(22.0)
    assert desk.running == desk.made


@pytest.mark.parametrize(("at_s", "goes"), [(30.0, False), (38.0, True)])
def test_a_prediction_refuses_only_as_long_as_an_overload_is_remembered(at_s: float, goes: bool) -> None:
    """First tokens have taken two objectives: shortly after an overload an arrival that would have to wait is refused
    for that; sixteen objectives later it is not, for that is learnt anew only from tickets that are dispatched.
    """
    desk = OneSeat()
    desk.overload()
    for second in range(21, 29):
        desk.comes(float(second))
        desk.desk.first_token(desk.made, second + 2 * SLO_S)
        if desk.running == desk.made:
            desk.ends(second + 2 * SLO_S)
    desk.comes(at_s)
    assert (refused(desk.comes(at_s + 0.5)) == []) is goes
    desk.ends(at_s + 0.9)
    assert (desk.running == desk.made) is goes


def test_lonely_tickets_do_not_prolong_what_refuses_them() -> None:
    """Sixteen objectives after the last refusal beside others, a late ticket that nothing competes with is served."""
    desk = OneSeat()
    desk.overload()
    outcomes = []
    for at_s in (24.0, 29.0, 34.0, 39.0, 44.0):
        desk.comes(at_s)
        desk.comes(at_s + 0.1)
        outcomes.append(refused(desk.ends(at_s + 1.5 * SLO_S)) == [])
        if desk.running is not None:
            desk.ends(at_s + 1.6 * SLO_S)
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert outcomes == sorted(outcomes)
