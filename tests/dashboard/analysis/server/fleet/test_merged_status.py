"""The status of several servers as one."""

from __future__ import annotations

from dataclasses import replace

from headway.api.schema import BatchStatus, Diagnosis, FallbackState, Silence
from headway_dashboard.analysis.server.fleet.merged_status import merged_status
from headway_dashboard.analysis.server.objectives import ClassObjectives
from headway_dashboard.analysis.server.status import Status

BATCH = BatchStatus(
    id="a", tenant="", state="validating", completed=0, failed=0, total=0, expires="2026-11-22T10:11:12Z"
)
FIRST = Status(
    known=True,
    version="0.1.0",
    model="m",
    uptime_s=100.0,
    seats_taken=3,
    queued=5,
    preset="balanced",
    admission="open",
    ladder=FallbackState(rung="normal"),
    objectives={"realtime": ClassObjectives(ttft_slo_s=1.0)},
    diagnosis=Diagnosis(severity="ok", bottleneck="none", statement="Fine."),
    batches=(BATCH,),
)
SECOND = Status(
    known=True,
    version="0.1.0",
    model="other",
    uptime_s=50.0,
    reasons=("warm-up running",),
    seats_taken=2,
    preset="latency",
    admission="draining",
    ladder=FallbackState(rung="shed"),
    objectives={"realtime": ClassObjectives(ttft_slo_s=1.0)},
    batches=(BATCH,),
)


def test_one_status_is_left_as_it_is() -> None:
    """A single server is not merged."""
    assert merged_status({"a": FIRST}) is FIRST


def test_servers_that_all_stand_still_are_not_open() -> None:
    """What stops them all is said of all: each could be resumed."""
    drained = replace(SECOND, blocks=("operator",))
    found = merged_status({"a": drained, "b": replace(drained, blocks=("operator", "recycle"))})
    assert (found.admission, found.blocks) == ("draining", ("operator",))
    assert merged_status({"a": drained, "b": replace(FIRST, admission="paused")}).admission == "draining"
    assert merged_status({"a": drained, "b": FIRST}).admission == "open"


def test_counts_are_summed_and_differences_left_out() -> None:
    """A part of one server, such as its diagnosis, is not said of all."""
    found = merged_status({"a": FIRST, "b": SECOND})
    assert (found.known, found.seats_taken, found.queued, found.uptime_s) == (True, 5, 5, 50.0)
    assert (found.version, found.model, found.preset) == ("0.1.0", "", "")
    assert found.ladder.rung == "shed"
    assert found.objectives == FIRST.objectives
    assert found.diagnosis is None
    assert len(found.batches) == 2
    assert found.servers == {"a": FIRST, "b": SECOND}


def test_one_server_that_takes_requests_is_enough() -> None:
    """Its reasons count only where every server has one; one that drains does not stop the others."""
    found = merged_status({"a": FIRST, "b": SECOND})
    assert (found.reasons, found.admission) == ((), "open")
    assert merged_status({"a": SECOND, "b": SECOND}).reasons == ("warm-up running",)


def test_servers_that_tell_nothing_are_no_status() -> None:
    """Without a token there are at most reasons."""
    assert merged_status({"a": Status(), "b": Status()}) == Status(servers={"a": Status(), "b": Status()})
    assert merged_status({}) == Status()
    assert merged_status({"a": FIRST, "b": Status()}).seats_taken == 3


def test_an_alert_is_silent_where_every_server_has_silenced_it() -> None:
    """Until the first of these silences ends."""

    def silence(alert: str, ends: str) -> Silence:
        return Silence(alert=alert, since="2026-01-01T00:00:00Z", ends=ends, actor="ann")

    late, soon, other = silence("A", "2026-01-01T09"), silence("A", "2026-01-01T01"), silence("B", "2026-01-01T02")
    servers = {"a": replace(FIRST, silences=(late, other)), "b": replace(SECOND, silences=(soon,))}
    assert merged_status(servers).silences == (soon,)
