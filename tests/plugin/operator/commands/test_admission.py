"""Orders to pause, drain and resume: what becomes of the requests, what is refused, and what the audit says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engines import TrippingEngine, installed, outcomes
from small_presets import small_preset, terms
from virtual_time import on_virtual_time

from headway.api.schema import AdmissionChanged
from headway.audit import Caller
from headway.engine.fake import FakeParams
from headway.errors import CommandConflictError, Expired, Rejected
from headway_policies import AdmissionState, Block

ANN = Caller("ann", "operator")
BEN = Caller("ben", "operator")
STEP_S = 0.01


class Server:
    """A fake engine of two seats behind the gate, with an operator."""

    def __init__(self, *, queue_s: float = 10.0) -> None:
        preset = small_preset(2, classes={"normal": terms(1, queue_s=queue_s)})
        self.control, self.parts = installed(TrippingEngine(step_s=STEP_S), preset)
        self.orders, self.gate = self.control.admission, self.control.gateway.gate
        self.tasks: list[asyncio.Task[int]] = []

    async def _ask(self, name: str, tokens: int) -> int:
        engine: Any = self.control.gateway.link.engine
        outputs = [output async for output in engine.generate("p", FakeParams(tokens), name)]
        return len(outputs[-1].tokens)

    async def busy(self, number: int, tokens: int = 100) -> None:
        """So many requests more: two of them run."""
        first = len(self.tasks)
        self.tasks += [asyncio.create_task(self._ask(f"r{first + one}", tokens)) for one in range(number)]
        await asyncio.sleep(5 * STEP_S)

    async def answers(self) -> list[int | BaseException]:
        """What becomes of each request, in their order."""
        return await asyncio.gather(*self.tasks, return_exceptions=True)

    def audit(self) -> list[tuple[str, str, str, str]]:
        """Each line: the action, the state before and after, and the result; the oldest first."""
        return [(one.action, one.before, one.after, one.result) for one in reversed(self.control.audit.entries(20))]


def changed(state: str, holds: list[str], running: int, waiting: int, **moved: int) -> AdmissionChanged:
    return AdmissionChanged(state=state, holds=holds, running=running, waiting=waiting, **moved)


@on_virtual_time
async def test_a_paused_request_waits_and_is_served_after_the_resume() -> None:
    """Running ones finish meanwhile; nothing is refused, and the answers count the requests."""
    server = Server()
    await server.busy(3)
    assert server.orders.pause(ANN, "disk") == changed("paused", ["operator"], 2, 1)
    await asyncio.sleep(5.0)
    assert [task.done() for task in server.tasks] == [True, True, False]
    resumed = server.orders.resume(BEN)
    assert resumed == changed("open", [], 1, 0, dispatched=1)
    assert await server.answers() == [100, 100, 100]
    assert server.audit() == [
        ("pause_admission", "open", "paused", "applied: 2 running, 1 waiting"),
        ("resume_admission", "paused", "open", "applied: 1 running, 0 waiting, 1 dispatched"),
    ]


@on_virtual_time
async def test_time_outs_go_on_in_a_pause() -> None:
    """A request that waits for longer than its class allows is refused, paused or not."""
    server = Server(queue_s=3.0)
    server.orders.pause(ANN)
    await server.busy(1)
    await asyncio.sleep(4.0)
    (answer,) = await server.answers()
    assert isinstance(answer, Expired)


@on_virtual_time
async def test_a_drain_refuses_who_waits_and_finishes_who_runs() -> None:
    """With Retry-After; the audit says when the last running request has ended."""
    server = Server()
    await server.busy(5)
    drained = server.orders.drain(ANN, "update")
    assert drained == changed("draining", ["operator"], 2, 0, refused=3)
    await server.busy(1)
    answers = await server.answers()
    await asyncio.sleep(1.0)
    assert answers[:2] == [100, 100]
    assert [type(one) for one in answers[2:]] == [Rejected] * 4
    assert all(isinstance(one, Rejected) and one.retry and one.retry_after_s >= 1 for one in answers[2:])
    assert outcomes(server.control) == {"completed": 2, "drained": 4}
    applied, done = server.audit()
    assert applied == ("drain_admission", "open", "draining", "applied: 2 running, 0 waiting, 3 refused")
    assert done[:3] == ("drain_admission", "draining", "draining")
    assert done[3].startswith("done after 1.")
    assert done[3].endswith(" s: no request runs")


@on_virtual_time
async def test_a_resume_ends_a_drain_and_the_wait_for_its_end() -> None:
    """Requests are admitted again, and no end of the drain is recorded."""
    server = Server()
    await server.busy(2)
    server.orders.drain(ANN)
    server.orders.resume(BEN)
    await server.busy(1, tokens=3)
    assert await server.answers() == [100, 100, 3]
    await asyncio.sleep(1.0)
    assert [line[0] for line in server.audit()] == ["drain_admission", "resume_admission"]


@on_virtual_time
async def test_a_resume_ends_a_pause_and_the_drain_that_followed_it() -> None:
    """Both were ordered; nothing of them is left."""
    server = Server()
    server.orders.pause(ANN)
    server.orders.drain(ANN)
    assert server.orders.resume(ANN).state == "open"
    assert (server.orders.stop, server.control.not_ready()) == (None, [])


@pytest.mark.parametrize(
    ("before", "order", "why"),
    [
        ("", "resume", "no command blocks dispatch"),
        ("recycle", "resume", "no command blocks dispatch; the block by recycle ends by itself"),
        ("pause", "pause", "the server is paused already: resume ends the pause"),
        ("drain", "pause", "the server is draining, which stops more than a pause: resume ends the drain"),
        ("drain", "drain", "the server is draining already: resume ends the drain"),
        ("close", "pause", "the server is closing: start it again once it has ended"),
        ("close", "drain", "the server is closing: start it again once it has ended"),
        ("close", "resume", "the server is closing: start it again once it has ended"),
    ],
)
@on_virtual_time
async def test_what_is_so_already_is_refused_with_what_to_do(before: str, order: str, why: str) -> None:
    """Nothing changes, and the audit has the attempt with its reason."""
    server = Server()
    if before == "recycle":
        server.gate.pause(Block.RECYCLE)
    elif before == "close":
        server.control.gateway.link.closing = True
        server.gate.drain()
    elif before:
        getattr(server.orders, before)(ANN)
    await asyncio.sleep(1.0)  # what is drained has its end in the audit
    state, lines = server.gate.desk.mode.state, len(server.audit())
    with pytest.raises(CommandConflictError, match=f"^{why}$"):
        getattr(server.orders, order)(BEN, "again")
    assert server.gate.desk.mode.state is state
    (line,) = server.audit()[lines:]
    assert line[1:] == (state.value, state.value, f"refused: {why}")
    assert server.control.audit.entries(1)[0].reason == "again"


@on_virtual_time
async def test_a_resume_leaves_a_pause_for_another_cause() -> None:
    """A recycle ends by itself: the answer names it, and dispatches nothing."""
    server = Server()
    server.gate.pause(Block.RECYCLE)
    server.orders.pause(ANN)
    await server.busy(1, tokens=3)
    assert server.orders.resume(ANN) == changed("paused", ["recycle"], 0, 1)
    server.gate.resume(Block.RECYCLE)
    assert await server.answers() == [3]


@on_virtual_time
async def test_the_status_says_what_stops_dispatch_since_when_by_whom_and_why() -> None:
    """And readiness the reason; a pause by the program itself has no author."""
    server = Server()
    assert (server.control.status().holds, server.control.status().stopped) == ([], None)
    server.orders.pause(ANN, "disk\x1b[2J")
    await asyncio.sleep(90.0)
    status = server.control.status()
    assert (status.holds, status.reasons, status.ready) == (["operator"], ["paused by an operator"], False)
    assert status.stopped is not None
    assert status.stopped.since.endswith("Z")
    assert status.stopped.model_dump(exclude={"since"}) == {
        "state": "paused", "for_s": 90.0, "actor": "ann", "reason": "disk\\x1b[2J", "left_s": None,
    }  # fmt: skip
    server.orders.drain(BEN)
    assert server.control.status().stopped.actor == "ben"
    assert server.control.not_ready() == ["draining"]
    server.orders.resume(ANN)
    server.gate.pause()
    assert server.control.status().holds == ["operator"]


@on_virtual_time
async def test_a_pause_outlives_a_switch_of_the_preset() -> None:
    """A pause is no setting of a preset."""
    server = Server()
    server.control.catalogue.include(small_preset(4, name="other"))
    server.orders.pause(ANN)
    await server.control.switch("other", expected_revision=None, caller=ANN)
    assert server.gate.desk.mode.state is AdmissionState.PAUSED


# ---------------------------------------------------------------------- a pause with an end


@on_virtual_time
async def test_a_pause_ends_by_itself_and_says_so() -> None:
    """The status says when, requests that waited are served, and the audit has the server's own resume."""
    server = Server()
    server.orders.pause(ANN, "disk", 30.0)
    await asyncio.sleep(22.5)
    await server.busy(1, tokens=3)
    assert server.control.status().stopped.left_s == pytest.approx(7.5, abs=0.1)
    assert await server.answers() == [3]
    assert (server.orders.stop, server.control.not_ready()) == (None, [])
    assert server.audit() == [
        ("pause_admission", "open", "paused", "applied: 0 running, 0 waiting; for 30 s"),
        ("resume_admission", "paused", "open", "applied: 1 running, 0 waiting, 1 dispatched"),
    ]
    line = server.control.audit.entries(1)[0]
    assert (line.actor, line.reason) == ("headway", "the time of the command is over")


@on_virtual_time
async def test_a_pause_is_renewed_by_another_one() -> None:
    """Its end moves, earlier too; it began when it did, and the renewals of one author are no lines of the audit."""
    server = Server()
    for expires_s in (30.0, 30.0, 5.0):
        server.orders.pause(ANN, "share", expires_s)
        await asyncio.sleep(4.0)
    stopped = server.control.status().stopped
    assert (stopped.for_s, stopped.left_s) == (12.0, 1.0)
    await asyncio.sleep(1.5)
    assert server.gate.desk.mode.state is AdmissionState.OPEN
    assert [line[0] for line in server.audit()] == ["pause_admission", "resume_admission"]


@on_virtual_time
async def test_a_pause_with_an_end_is_replaced_by_that_of_another_author() -> None:
    """At the same moment too; one without an end stays until the resume, and is not shortened afterwards."""
    server = Server()
    server.orders.pause(ANN, "share", 30.0)
    server.orders.pause(BEN, "disk")
    with pytest.raises(CommandConflictError, match="paused already"):
        server.orders.pause(ANN, "share", 30.0)
    await asyncio.sleep(60.0)
    assert server.orders.stop is not None
    assert (server.gate.desk.mode.state, server.orders.stop.actor) == (AdmissionState.PAUSED, "ben")
    assert [line[3] for line in server.audit()] == [
        "applied: 0 running, 0 waiting; for 30 s",
        "applied: 0 running, 0 waiting",
        "refused: the server is paused already: resume ends the pause",
    ]


@on_virtual_time
async def test_a_resume_ends_a_pause_before_its_own_end() -> None:
    """Which then ends no later pause."""
    server = Server()
    server.orders.pause(ANN, expires_s=10.0)
    await asyncio.sleep(5.0)
    server.orders.resume(ANN)
    server.orders.pause(BEN)
    await asyncio.sleep(20.0)
    assert server.gate.desk.mode.state is AdmissionState.PAUSED


@pytest.mark.parametrize("order", ["drain", "close"])
@on_virtual_time
async def test_the_end_of_a_pause_changes_nothing_of_what_follows_it(order: str) -> None:
    """A drain holds until a resume, and a server that closes stays closed."""
    server = Server()
    server.orders.pause(ANN, expires_s=10.0)
    if order == "drain":
        server.orders.drain(BEN)
    else:
        server.control.gateway.link.closing = True
        server.gate.drain()
    await asyncio.sleep(20.0)
    assert server.gate.desk.mode.state is AdmissionState.DRAINING
    assert "resume_admission" not in [line[0] for line in server.audit()]


@on_virtual_time
async def test_the_end_of_a_pause_leaves_one_for_another_cause() -> None:
    """A recycle goes on."""
    server = Server()
    server.gate.pause(Block.RECYCLE)
    server.orders.pause(ANN, expires_s=10.0)
    await asyncio.sleep(11.0)
    assert (server.gate.desk.mode.state, set(server.gate.desk.mode.blocks)) == (AdmissionState.PAUSED, {Block.RECYCLE})


@on_virtual_time
async def test_a_pause_by_the_program_itself_is_not_ended_by_an_order_of_before() -> None:
    """The pause has no author, and no end."""
    server = Server()
    server.orders.pause(ANN, expires_s=10.0)
    server.gate.resume()
    server.gate.pause()
    server.orders.resume(ANN)
    server.gate.pause()
    await asyncio.sleep(20.0)
    assert (server.gate.desk.mode.state, server.orders.stop) == (AdmissionState.PAUSED, None)
