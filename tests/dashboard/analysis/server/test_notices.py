"""The notices at the top of a page: a sentence for each condition, with a token and without."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.api.schema import EngineStatus, OperatorStop, TrialEnds, WarmupStatus
from headway_dashboard.analysis.server.notices import Situation, notices
from headway_dashboard.analysis.server.status import Status

WELL = Status(
    known=True,
    engine=EngineStatus(state="up", max_restart_attempts=3),
    warmup=WarmupStatus(state="done", attempt=1),
)
QUEUED = Situation(ready=0, queued=7, since_s=12.0)
STOP = OperatorStop(state="paused", since="2026-01-01T00:00:00Z", for_s=300.0, actor="ann", reason="disk moved")
ENDING_STOP = STOP.model_copy(update={"left_s": 20.7})


def status_with(state: str, step: str = "", attempts: int = 0, **more: object) -> Status:
    """A server with a token's answer."""
    engine = EngineStatus(state=state, restart_step=step, restart_attempts=attempts, max_restart_attempts=3)
    return replace(WELL, engine=engine, **more)  # type: ignore[arg-type]  # fields of Status


@pytest.mark.parametrize(
    ("now", "status", "kind", "words"),
    [
        (
            replace(QUEUED, engine_state="silent"),
            Status(),
            "warning",
            ["unresponsive", "for 12\u00a0s", "7 requests wait"],
        ),
        (
            QUEUED,
            status_with("restarting", "starting another engine", 2),
            "warning",
            ["being restarted", "Attempt 2 of 3: starting another engine, for 12\u00a0s", "7 requests wait for it"],
        ),
        (
            replace(QUEUED, engine_state="restarting", deaths=2.0),
            Status(reasons=("the engine is being replaced: warming it up",)),
            "warning",
            ["Death number 2 since the server started: warming it up"],
        ),
        (replace(QUEUED, engine_state="restarting", queued=1.0), Status(), "warning", ["1 request waits for it"]),
        (
            QUEUED,
            status_with("restarting", "starting another engine", 1, recycling=True),
            "info",
            ["Recycle", "Time-outs keep running"],
        ),
        (QUEUED, status_with("up", recycling=True, seats_taken=5), "info", ["Recycle", "5 seats are still taken"]),
        (QUEUED, status_with("up", recycling=True), "info", ["no seat is taken any more"]),
        (
            Situation(),
            replace(WELL, preset="latency", trial=TrialEnds(back_to="balanced", left_s=250.0)),
            "info",
            ["The preset latency is on trial", "within 4\u00a0min 10\u00a0s", "balanced may return"],
        ),
        (QUEUED, status_with("up", recycling=True, admission="open"), "info", ["Recycle", "goes on serving"]),
        (QUEUED, status_with("lost", "pausing for 5 s", 2), "error", ["Attempt 2 of 3", "New requests are refused"]),
        (
            QUEUED,
            status_with("up", order_error="head raised KeyError"),
            "warning",
            ["disabled", "Its head raised KeyError."],
        ),
        (
            QUEUED,
            status_with("up", window_error="length_s raised KeyError"),
            "warning",
            ["disabled", "Its length_s raised KeyError."],
        ),
        (QUEUED, status_with("lost"), "error", ["All 3 restart attempts failed", "no request is admitted"]),
        (QUEUED, replace(WELL, engine=EngineStatus(state="lost")), "error", ["cannot replace its engine"]),
        (replace(QUEUED, engine_state="lost"), Status(reasons=("warm-up running",)), "error", ["warm-up running"]),
        (
            QUEUED,
            replace(status_with("lost"), warmup=WarmupStatus(state="running", attempt=1)),
            "info",
            ["nothing yet"],
        ),
        (
            QUEUED,
            replace(
                status_with("lost"), warmup=WarmupStatus(state="failed", reason="batch: no end within 300 s", attempt=2)
            ),
            "error",
            ["warm-up failed", "Attempt 2: batch: no end within 300 s.", "tried again"],
        ),
        (
            QUEUED,
            replace(
                WELL,
                warmup=WarmupStatus(
                    state="running",
                    reason="again, after batch: boom",
                    attempt=2,
                    batch_size=8,
                    stages={"single": [0.4], "batch": [2.0, 1.9]},
                ),
            ),
            "info",
            ["attempt 2", "one request alone, 2 full batches", "Again, after batch: boom."],
        ),
        (QUEUED, replace(WELL, warmup=WarmupStatus(state="pending")), "info", ["waits for its warm-up"]),
        (replace(QUEUED, engine_state="up"), Status(reasons=("draining",)), "warning", ["Reasons: draining."]),
        (
            QUEUED,
            status_with("up", admission="paused", blocks=("operator",), stopped=STOP),
            "warning",
            [
                "server is paused",
                "Commanded by ann, 5\u00a0min",
                "ago: disk moved. ",
                "7 requests wait",
                "headway resume",
            ],
        ),
        (
            QUEUED,
            status_with("up", admission="paused", blocks=("operator",), stopped=ENDING_STOP),
            "warning",
            ["go on. The command ends by itself in 21\u00a0s. Resume it on the page Control"],
        ),
        (QUEUED, status_with("up", admission="paused", blocks=("operator",)), "warning", ["paused. No request is"]),
        (
            QUEUED,
            status_with("up", admission="draining", blocks=("operator",), stopped=STOP, seats_taken=5),
            "warning",
            ["server is draining", "Commanded by ann", "5 seats are still taken", "headway resume"],
        ),
        (
            QUEUED,
            status_with("up", admission="draining"),
            "info",
            ["server is closing. New and waiting requests are refused; no seat is taken any more."],
        ),
        (
            QUEUED,
            replace(WELL, warmup=WarmupStatus(state="done", ordered=True)),
            "info",
            ["warm-up runs beside the traffic", "stays ready"],
        ),
    ],
    ids=[
        "silent, by the numbers",
        "restarting",
        "restarting, without a token",
        "one waits",
        "recycle, being replaced",
        "recycle, still empties",
        "recycle, empty",
        "a trial",
        "recycle, the old engine serves",
        "lost for now",
        "a disabled order",
        "a disabled window",
        "lost for good",
        "no way to replace it",
        "lost, without a token",
        "first warm-up",
        "warm-up failed",
        "warm-up, second attempt",
        "warm-up pending",
        "draining, without a token",
        "paused by an order",
        "paused for a time",
        "paused by a program",
        "draining by an order",
        "draining at its end",
        "a warm-up by an order",
    ],
)
def test_one_notice_for_each_thing(now: Situation, status: Status, kind: str, words: list[str]) -> None:
    """Exactly one, of the right loudness, with what an operator needs."""
    (found,) = notices(now, status)
    assert found.kind == kind
    for word in words:
        assert word in f"{found.title}. {found.text}"


@pytest.mark.parametrize("status", [WELL, Status()])
def test_nothing_is_said_while_all_is_well(status: Status) -> None:
    """An engine that is up needs no notice."""
    assert notices(Situation(ready=1, engine_state="up", queued=9), status) == []


@pytest.mark.parametrize(
    ("trying", "step", "progress"),
    [
        ("pausing for 5 s", "Step 1 of 3", 1 / 6),
        ("starting another engine", "Step 2 of 3", 0.5),
        ("warming it up", "Step 3 of 3", 5 / 6),
        ("something new", "", None),
    ],
)
def test_a_restart_shows_its_progress(trying: str, step: str, progress: float | None) -> None:
    """Three steps; what is not one of them draws no bar rather than a wrong one."""
    (found,) = notices(QUEUED, status_with("restarting", trying, 1))
    assert found.step.startswith(step)
    assert found.progress == (None if progress is None else pytest.approx(progress))


words = st.sampled_from(["", "up", "silent", "restarting", "lost", "pending", "running", "failed", "done", "odd"])


@given(
    engine_state=words,
    warmup_state=words,
    trying=st.text(max_size=20).filter(lambda text: "none" not in text.lower()),
    rounds=st.lists(st.floats(0, 100), max_size=30),
    tries=st.integers(0, 9),
    recycling=st.booleans(),
    number=st.none() | st.floats(0, 1e4),
)
def test_notices_always_are_whole_sentences(
    engine_state: str,
    warmup_state: str,
    trying: str,
    rounds: list[float],
    tries: int,
    recycling: bool,
    number: float | None,
) -> None:
    """Whatever a server says or leaves out: no None on the page, and no bar beyond its ends."""
    warmup = WarmupStatus(state=warmup_state, attempt=tries, stages={"batch": rounds} if rounds else {})
    engine = EngineStatus(state=engine_state, restart_step=trying, restart_attempts=tries, max_restart_attempts=3)
    status = Status(True, engine=engine, warmup=warmup, recycling=recycling)
    for one in notices(Situation(0, engine_state, number, number, number), status):
        assert one.text.endswith((".", "!", "?"))
        assert "None" not in one.text
        assert one.progress is None or 0 <= one.progress < 1
