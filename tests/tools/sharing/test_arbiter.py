"""The arbiter's steps, on servers of a given clock: what is ordered, in which order, and what always holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_stand_in import SharedStandIn

from headway.api import RoleError
from headway_policies.sharing import PauseTerms, SeatShares
from headway_tools.sharing.arbiter import RENEW_PAUSE_S, Arbiter
from headway_tools.sharing.server import EXPIRES_S

TOTAL = 16


def held(servers: list[SharedStandIn]) -> int:
    """The seats that requests hold or may take."""
    return sum(max(server.limit, server.taken) for server in servers)


def limits(servers: list[SharedStandIn]) -> list[int]:
    return [server.limit for server in servers]


def go(arbiter: Arbiter, servers: list[SharedStandIn], from_s: int, to_s: int, *, ended: int = 0) -> None:
    """A step every second."""
    for now_s in range(from_s, to_s):
        for server in servers:
            server.pass_time(float(now_s), ended=ended)
        arbiter.step(float(now_s))


def test_two_idle_servers_share_by_half_and_demand_moves_the_rest() -> None:
    """A busy one gets all but the seat of the idle one."""
    servers = [SharedStandIn("a", own_limit=64), SharedStandIn("b", own_limit=64)]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 1)
    assert limits(servers) == [8, 8]
    servers[0].queued = 40
    go(arbiter, servers, 1, 6)
    assert limits(servers) == [15, 1]  # both in one step, since nothing had to drain


def test_a_limit_is_raised_only_into_seats_that_nobody_holds() -> None:
    """Running requests of the other server finish first, whatever its new limit."""
    servers = [SharedStandIn("a"), SharedStandIn("b", queued=40)]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 20)
    assert limits(servers) == [1, 15]
    servers[0].queued, servers[1].queued = 40, 0
    go(arbiter, servers, 20, 50)
    assert (limits(servers), servers[1].taken) == ([1, 8], 15)
    servers[1].taken = 6
    go(arbiter, servers, 50, 70)
    assert limits(servers) == [10, 6]
    servers[1].taken = 0
    go(arbiter, servers, 70, 90)
    assert limits(servers) == [15, 1]


@given(
    seconds=st.lists(
        st.tuples(
            st.floats(0.2, 3.0),
            st.lists(
                st.tuples(st.integers(0, 30), st.integers(0, 30), st.floats(0.0, 2.0), st.booleans()),
                min_size=3,
                max_size=3,
            ),
        ),
        max_size=40,
    )
)
def test_the_seats_never_pass_the_total(seconds: list[tuple[float, list[tuple[int, int, float, bool]]]]) -> None:
    """At no moment, between two orders of one step either, and though answers to orders are lost."""
    servers = [SharedStandIn("a", urgent=True), SharedStandIn("b", may_pause=True), SharedStandIn("c", weight=3.0)]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 1)

    def check() -> None:
        assert held(servers) <= TOTAL
        assert all(server.limit >= 1 for server in servers)

    for server in servers:
        server.after_order = check
    now_s = 1.0
    for pass_s, happened in seconds:
        now_s += pass_s
        for one, (arrived, ended, late_ratio, one.loses_answers) in zip(servers, happened, strict=True):
            one.pass_time(now_s, arrived, ended)
            one.late_ratio = late_ratio if one.queued else 0.0
        arbiter.step(now_s)
        check()


def test_an_order_whose_answer_was_lost_counts_as_given() -> None:
    """The next server of the same step is not given the same seats."""
    servers = [SharedStandIn("a"), SharedStandIn("b", queued=14), SharedStandIn("c")]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 20)
    assert limits(servers) == [1, 14, 1]
    servers[1].taken = 10  # more than its next share: they have to drain
    servers[0].queued = servers[2].queued = 40
    for server in servers:
        server.loses_answers = True
        server.after_order = lambda: None if held(servers) <= TOTAL else pytest.fail(f"{limits(servers)}")
    go(arbiter, servers, 20, 30)
    assert limits(servers)[0] == 5


def test_a_server_that_is_lost_after_its_limit_was_raised_keeps_the_raised_one() -> None:
    """Its last reading is older than its order."""
    servers = [SharedStandIn("a"), SharedStandIn("b")]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 1)
    servers[0].queued = 40
    servers[0].after_order = lambda: setattr(servers[0], "answers", limits(servers)[0] < 15)
    go(arbiter, servers, 1, 6)
    assert (limits(servers), servers[0].answers) == ([15, 1], False)
    servers[1].queued = 40
    go(arbiter, servers, 6, 30)
    assert limits(servers) == [15, 1]


def test_a_server_that_drains_one_by_one_does_not_cost_an_order_for_each() -> None:
    """The other one is raised every four seconds."""
    servers = [SharedStandIn("a"), SharedStandIn("b", queued=15)]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 20)
    servers[0].urgent, servers[0].late_ratio, servers[0].queued = True, 1.0, 400
    before = len(servers[0].orders)
    for now_s in range(20, 40):
        servers[1].pass_time(float(now_s), ended=1)
        servers[0].pass_time(float(now_s))
        arbiter.step(float(now_s))
    assert limits(servers) == [15, 1]
    assert len(servers[0].orders) - before <= 6


def test_orders_are_renewed_before_they_expire_and_rarely_enough() -> None:
    """Each change is a revision and a line of the audit, and a demand that sways must not fill it."""
    servers = [SharedStandIn("a"), SharedStandIn("b")]
    arbiter = Arbiter(servers, TOTAL)
    for now_s in range(600):
        for place, server in enumerate(servers):
            server.queued = 40 if now_s // 12 % 2 == place else 0
            server.pass_time(float(now_s), ended=20)
        arbiter.step(float(now_s))
        assert None not in [server.ordered for server in servers]
    assert all(600 / EXPIRES_S < len(server.orders) <= 150 for server in servers)


def test_a_late_urgent_server_takes_from_the_others_and_the_pausable_one_waits() -> None:
    """For half a minute; then the paused one goes on although the other is still late."""
    servers = [SharedStandIn("a", urgent=True, queued=400), SharedStandIn("b", may_pause=True, queued=40)]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 6)
    assert (limits(servers), servers[1].paused) == ([8, 8], False)
    servers[0].late_ratio = 0.9
    go(arbiter, servers, 6, 12, ended=8)
    assert (limits(servers), servers[1].paused) == ([15, 1], True)
    assert servers[1].taken == 0
    servers[1].queued = 40
    go(arbiter, servers, 12, 37)
    assert not servers[1].paused
    assert servers[1].taken == 1


def test_a_long_pause_is_renewed_and_ends_by_itself_without_the_arbiter() -> None:
    """At no moment of the pause does the server go on; each renewal comes when half of the time is left."""
    servers = [SharedStandIn("a", urgent=True, late_ratio=1.0, queued=400), SharedStandIn("b", may_pause=True)]
    arbiter = Arbiter(servers, TOTAL, SeatShares(pauses=PauseTerms(longest_s=300.0)))
    for now_s in range(100):
        go(arbiter, servers, now_s, now_s + 1)
        assert servers[1].paused
    assert 100 / EXPIRES_S < servers[1].pauses <= 1 + 100 / (EXPIRES_S - RENEW_PAUSE_S)
    for server in servers:
        server.pass_time(99 + EXPIRES_S)
    assert not servers[1].paused


def test_a_pause_ends_where_the_server_is_left_alone() -> None:
    """The pause is the arbiter's own, and nothing else would end it."""
    servers = [SharedStandIn("a", urgent=True, late_ratio=1.0, queued=400), SharedStandIn("b", may_pause=True)]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 5)
    assert servers[1].paused
    servers[1].left_alone = "another client has ordered a limit there"
    go(arbiter, servers, 5, 6)
    assert not servers[1].paused


def test_a_server_that_does_not_answer_keeps_its_seats_until_its_order_ends() -> None:
    """Then the others get them; once it answers again, it gets its share back."""
    servers = [SharedStandIn("a", queued=400), SharedStandIn("b", queued=400)]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 1)
    servers[1].answers = False
    go(arbiter, servers, 1, int(EXPIRES_S))
    assert limits(servers) == [8, 8]
    servers[1].taken = 0  # it has died
    standing = arbiter.step(EXPIRES_S)
    assert standing["b"].problem == "The server is not reachable."
    assert limits(servers)[0] == 16
    servers[1].answers = True
    go(arbiter, servers, 31, 45, ended=8)
    assert limits(servers) == [8, 8]


def test_a_server_that_another_client_has_ordered_is_left_alone() -> None:
    """The server keeps what it has, and the other one shares the rest."""
    servers = [SharedStandIn("a", queued=40), SharedStandIn("b", own_limit=6, left_alone="a trial")]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 20)
    assert limits(servers) == [10, 6]
    assert servers[1].orders == []


def test_the_end_gives_every_limit_back() -> None:
    """And says which one it could not."""
    servers = [SharedStandIn("a", 30, urgent=True, late_ratio=1.0, queued=40), SharedStandIn("b", 30, may_pause=True)]
    arbiter = Arbiter(servers, TOTAL)
    go(arbiter, servers, 0, 1)
    assert servers[1].paused
    assert arbiter.give_back() == {}
    assert limits(servers) == [30, 30]
    assert not servers[1].paused
    go(arbiter, servers, 10, 11)
    servers[0].answers = False
    assert arbiter.give_back() == {"a": "The server is not reachable."}
    assert limits(servers)[1] == 30


def test_a_token_that_may_only_read_ends_it() -> None:
    """No later step could order anything."""
    servers = [SharedStandIn("a"), SharedStandIn("b")]

    def refuse() -> None:
        raise RoleError("This token may read but not change anything.")

    servers[0].after_order = refuse
    with pytest.raises(RoleError):
        Arbiter(servers, TOTAL).step(0.0)


def test_more_servers_than_seats_are_refused() -> None:
    """Each needs one."""
    with pytest.raises(ValueError, match="2 servers need a seat each, and there are 1"):
        Arbiter([SharedStandIn("a"), SharedStandIn("b")], 1)
