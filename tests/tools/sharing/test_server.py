"""One server that shares a machine, with Headway's own admission and admin API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest
import requests
from live_stand_in import TOKEN, LiveStandIn
from running_server import wait_until

from headway.api import AdminClient, ClassStatus, RefusedError, StaleError, Status
from headway.api.schema import ClassObjectives
from headway.audit import Caller
from headway_policies import bundled_presets
from headway_policies.trial import TrialTerms
from headway_tools.sharing.reading import REASON, late_ratio
from headway_tools.sharing.server import SharedServer

OTHER = Caller("ann", "operator")
BALANCED = bundled_presets()["balanced"]


@pytest.fixture
def server() -> Iterator[LiveStandIn]:
    """A server at rest, for each test its own."""
    with LiveStandIn() as running:
        yield running


@pytest.fixture
def shared(server: LiveStandIn) -> Iterator[SharedServer]:
    """The arbiter's view of it, under `balanced`."""
    server.call(server.control.switch("balanced", expected_revision=None, caller=OTHER))
    with AdminClient(server.url, TOKEN) as client:
        yield SharedServer(client, 2.0, urgent=True, actor="arbiter")


def test_it_reads_the_limit_and_the_load(shared: SharedServer) -> None:
    """Of an idle server, whose engine has 64 seats."""
    seen = shared.look()
    assert (seen.limit, seen.taken, seen.ordered, seen.left_alone) == (32, 0, False, "")
    assert (seen.load.most_seats, seen.load.demand_seats, seen.load.weight, seen.load.urgent) == (64, 0, 2.0, True)


def test_an_order_is_given_renewed_and_given_back(server: LiveStandIn, shared: SharedServer) -> None:
    """A renewal leaves the revision, and no line in the audit log."""
    shared.look()
    before = len(server.orders)
    for seats in (8, 8, 12):
        shared.set_limit(seats)
        seen = shared.look()
        assert (seen.limit, seen.ordered, seen.left_alone) == (seats, True, "")
    assert len(server.orders) == before + 2
    shared.give_back()
    assert (server.preset, server.control.limits.in_force) == (BALANCED, None)


def test_an_order_ends_by_itself(server: LiveStandIn, shared: SharedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the arbiter has been killed."""
    monkeypatch.setattr("headway_tools.sharing.server.EXPIRES_S", 0.2)
    shared.look()
    shared.set_limit(8)
    wait_until(lambda: server.preset == BALANCED, "the order has expired")
    assert not shared.look().ordered


def test_an_order_whose_answer_was_never_read_is_known_and_given_back(
    server: LiveStandIn, shared: SharedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of that order is the arbiter's, and so is the one before it, should the order have failed."""
    shared.look()
    shared.set_limit(8)
    monkeypatch.setattr(shared, "_revision", 0)
    with pytest.raises(StaleError):
        shared.set_limit(12)
    assert shared.look().ordered
    unread = {"expires_s": 30, "expected_revision": None, "caller": OTHER, "reason": REASON}
    server.call(server.control.order_limit(8, **unread))
    assert shared.look().ordered
    shared.give_back()
    assert server.preset == BALANCED


@pytest.mark.parametrize("expires_s", [None, 60.0], ids=["standing", "for a time"])
def test_a_limit_that_another_client_has_ordered_stays(
    expires_s: float | None, server: LiveStandIn, shared: SharedServer
) -> None:
    """Also at the end."""
    shared.look()
    shared.set_limit(8)
    server.call(server.control.order_limit(24, expires_s=expires_s, expected_revision=None, caller=OTHER))
    assert "another client has set 24 seats" in shared.look().left_alone
    shared.give_back()
    assert server.preset.batching.seats == 24


def test_a_preset_on_trial_is_left_alone(server: LiveStandIn, shared: SharedServer) -> None:
    """An order would end the trial."""
    trial = TrialTerms(revert_after_s=60.0)
    server.call(server.control.switch("latency", expected_revision=None, caller=OTHER, trial=trial))
    assert "preset latency is on trial" in shared.look().left_alone


def test_a_pause_is_known_by_its_reason_and_given_back(server: LiveStandIn, shared: SharedServer) -> None:
    """One of another client is not the arbiter's: nothing is wanted of the server, and the end leaves it."""
    shared.look()
    shared.pause()
    seen = shared.look()
    assert (seen.paused, seen.can_pause) == (True, False)
    assert 20 < seen.pause_left_s <= 30
    shared.give_back()
    seen = shared.look()
    assert (seen.paused, seen.can_pause) == (False, True)
    with AdminClient(server.url, TOKEN) as other:
        other.pause(reason="the disk is moved")
        seen = shared.look()
        assert (seen.paused, seen.can_pause, seen.load.demand_seats) == (False, False, 0)
        shared.give_back()
        assert other.status().state == "paused"
        other.resume()


def test_a_pause_is_renewed_and_ends_by_itself(
    server: LiveStandIn, shared: SharedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the arbiter has been killed; one of another client without an end is not renewed."""
    monkeypatch.setattr("headway_tools.sharing.server.EXPIRES_S", 3.0)
    shared.pause()
    monkeypatch.setattr("headway_tools.sharing.server.EXPIRES_S", 0.5)
    shared.pause()
    assert shared.look().pause_left_s <= 0.5
    wait_until(lambda: shared.look().can_pause, "the pause has ended")
    with AdminClient(server.url, TOKEN) as other:
        other.pause(reason="the disk is moved")
        with pytest.raises(RefusedError, match="paused already"):
            shared.pause()
        assert shared.look().pause_left_s == inf
        other.resume()


def test_the_pause_of_another_arbiter_stays_while_its_order_does(server: LiveStandIn, shared: SharedServer) -> None:
    """One that was killed leaves both; its order ends by itself, and then its pause is ended here."""
    with AdminClient(server.url, TOKEN) as other:
        other.order_limit(9, revision=other.preset().revision, expires_s=60)
        other.pause(reason=REASON)
        assert not shared.look().paused
        other.order_limit(None, revision=other.preset().revision)
        assert shared.look().paused
        shared.resume()


def test_an_own_pause_is_ended_though_another_client_has_ordered_a_limit(
    server: LiveStandIn, shared: SharedServer
) -> None:
    """The limit stays."""
    shared.look()
    shared.pause()
    server.call(server.control.order_limit(24, expires_s=60, expected_revision=None, caller=OTHER))
    seen = shared.look()
    assert seen.paused
    assert seen.left_alone
    shared.give_back()
    assert not shared.look().paused
    assert server.preset.batching.seats == 24


def test_a_limit_of_another_client_with_the_same_seats_is_not_taken_over(
    server: LiveStandIn, shared: SharedServer
) -> None:
    """It is known by its reason."""
    shared.look()
    shared.set_limit(9)
    assert shared.look().ordered
    with AdminClient(server.url, TOKEN) as other:
        other.order_limit(9, revision=other.preset().revision, expires_s=600, reason="for the benchmark")
        seen = shared.look()
        assert (seen.ordered, "another client has set 9 seats" in seen.left_alone) == (False, True)
        shared.give_back()
        assert server.preset.batching.seats == 9


def test_the_longest_wait_is_measured_by_the_objective_of_its_class(server: LiveStandIn, shared: SharedServer) -> None:
    """A request that waits behind a pause, and a class whose first token is due in time."""
    objective_s = BALANCED.classes["batch"].ttft_slo_s
    assert isinstance(objective_s, float)
    shared.look()
    shared.pause()
    more: dict[str, Any] = {"json": {"max_tokens": 1}, "headers": {"x-headway-class": "batch"}}
    waiting = threading.Thread(target=requests.post, args=(f"{server.url}/v1/completions",), kwargs=more)
    waiting.start()
    try:
        wait_until(lambda: 0 < shared.look().load.late_ratio < 30 / objective_s, "the wait is seen")
        assert shared.look().load.demand_seats >= 1
    finally:
        shared.resume()
        waiting.join(30)


def test_a_wait_is_measured_by_the_objective_on_that_engine() -> None:
    """As its status has it, whatever stands in the preset; of an older server by the numbers of the preset."""
    waiting: dict[str, Any] = {
        "priority": 1, "queued": 1, "oldest_wait_s": 1.5, "in_flight": 0, "arrived": 1, "outcomes": {},
    }  # fmt: skip
    settings = {"classes.chat.ttft_slo_s": "8x", "classes.old.ttft_slo_s": 5.0}

    def late(name: str, objectives: ClassObjectives | None) -> float:
        one = ClassStatus(name=name, objectives=objectives, **waiting)
        return late_ratio(Status.model_construct(classes=[one]), settings)

    assert late("chat", ClassObjectives(ttft_s=0.6)) == pytest.approx(2.5)
    assert late("chat", ClassObjectives()) == 0
    assert late("chat", None) == 0
    assert late("old", None) == pytest.approx(0.3)


def test_a_server_that_closes_seats_for_its_memory_is_at_its_peak(server: LiveStandIn, shared: SharedServer) -> None:
    """By the rules of its own preset, whichever memory is short."""
    assert not shared.look().load.lacks_memory
    server.control.memory.cap_ratio = 0.8
    assert shared.look().load.lacks_memory


def test_the_memory_of_its_processes_is_read(server: LiveStandIn, shared: SharedServer) -> None:
    """As the server itself has found it."""
    server.control.memory.host_usage_ratio = 0.93
    assert shared.look().load.host_usage_ratio == 0.93
