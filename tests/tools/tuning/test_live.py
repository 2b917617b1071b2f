"""The server that is tuned: orders at a revision, and a way back from each state."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from live_stand_in import TOKEN, LiveStandIn

from headway.admission import Permit
from headway.api import AdminClient
from headway.audit import Caller
from headway_policies import Ending, bundled_presets
from headway_tools.tuning.live import Live, OvertakenError

OTHER = Caller("ann", "operator")
BALANCED = bundled_presets()["balanced"]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveStandIn]:
    """A server at rest."""
    with LiveStandIn() as running:
        yield running


@pytest.fixture
def live(server: LiveStandIn) -> Iterator[Live]:
    """The tuner's view of it, under `balanced`."""
    server.call(server.control.switch("balanced", expected_revision=None, caller=OTHER))
    with AdminClient(server.url, TOKEN) as client:
        yield Live.of(client)


def test_it_knows_where_it_began(live: Live) -> None:
    """The preset, its source and settings, the seats and the ceiling."""
    assert (live.name, live.source, live.current, live.ceiling) == ("balanced", "bundled", 32, 64)
    assert live.settings == BALANCED.settings()


def test_an_order_is_put_back(server: LiveStandIn, live: Live) -> None:
    """And putting back nothing is nothing."""
    assert live.restore()
    live.set_limit(8, None, 10)
    assert server.preset.batching.seats == 8
    assert live.restore()
    assert (server.preset, server.control.limits.in_force) == (BALANCED, None)


def test_an_order_whose_answer_was_never_read_is_put_back(server: LiveStandIn, live: Live) -> None:
    """An interruption between the order and its answer: the revision is not the one that the tuner knows."""
    live.set_limit(8, None, 10)
    live.set_limit(12, None, 10)
    live.revision -= 1
    assert live.restore()
    assert (server.preset, server.control.limits.in_force) == (BALANCED, None)


def test_an_order_that_has_expired_leaves_the_standing_one_of_another_client(
    server: LiveStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is what was in force before."""
    monkeypatch.setattr("headway_tools.tuning.live.GRACE_S", 0.1)
    server.call(server.control.switch("balanced", expected_revision=None, caller=OTHER))
    server.call(server.control.order_limit(10, expected_revision=None, caller=OTHER))
    with AdminClient(server.url, TOKEN) as client:
        live = Live.of(client)
        live.set_limit(15, None, 0.1)
        until_s = time.monotonic() + 60
        while server.preset.batching.seats != 10:
            assert time.monotonic() < until_s
            time.sleep(0.01)
        with pytest.raises(OvertakenError):
            live.check()
        assert live.restore()
    assert server.preset.batching.seats == 10
    assert server.control.limits.in_force is not None
    server.call(server.control.order_limit(None, expected_revision=None, caller=OTHER))


def test_an_order_that_has_expired_needs_no_way_back(
    server: LiveStandIn, live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has gone back by itself, and the sweep ends: what it measured were other seats."""
    monkeypatch.setattr("headway_tools.tuning.live.GRACE_S", 0.1)
    live.set_limit(8, None, 0.1)
    until_s = time.monotonic() + 10
    while server.preset != BALANCED:
        assert time.monotonic() < until_s
        time.sleep(0.02)
    with pytest.raises(OvertakenError, match="balanced is in force"):
        live.check()
    assert live.restore()
    assert server.preset == BALANCED


def test_a_step_of_fewer_seats_waits_until_they_have_drained(server: LiveStandIn, live: Live) -> None:
    """With its order renewed every five seconds: long answers do not make it expire."""
    held = server.call(_enter(server, 12))
    live.set_limit(8, None, 10)
    waits: list[float] = []
    live.now_s = lambda: 6.0 * len(waits)

    def leave(length_s: float) -> None:
        order = server.control.limits.in_force
        assert order is not None
        assert order.ends_s is not None
        waits.append(order.ends_s)
        server.call(_leave(held[3 * (len(waits) - 1) : 3 * len(waits)]))

    live.sleep = leave
    live.drained(8, None, 10)
    assert len(waits) == 2
    assert waits[0] < waits[1]
    server.call(_leave(held[6:]))
    assert live.restore()


async def _enter(server: LiveStandIn, number: int) -> list[Permit]:
    return [server.control.gateway.gate.enter() for _ in range(number)]


async def _leave(permits: list[Permit]) -> None:
    for permit in permits:
        permit.leave(Ending.COMPLETED)


@pytest.mark.parametrize("what", ["a switch", "an order"])
def test_what_somebody_else_has_done_stays(what: str, server: LiveStandIn, live: Live) -> None:
    """No further order, and no way back."""
    live.set_limit(8, None, 10)
    control = server.control
    if what == "a switch":
        server.call(control.switch("latency", expected_revision=None, caller=OTHER))
    else:
        server.call(control.order_limit(24, expires_s=60, expected_revision=None, caller=OTHER))
    before = server.preset
    for act in (live.check, lambda: live.set_limit(16, None, 10)):
        with pytest.raises(OvertakenError, match="the preset was changed meanwhile"):
            act()
    assert not live.restore()
    assert server.preset is before
