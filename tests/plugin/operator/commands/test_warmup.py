"""Orders of a warm-up beside the traffic: one at a time, only on an engine that serves, and never at its expense."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from engines import ServingEngine, TrippingEngine, installed
from small_presets import small_preset
from virtual_time import on_virtual_time

import headway
from headway.audit import Caller
from headway.engine.fake import FakeParams
from headway.errors import CommandConflictError, NoWarmupError
from headway.operator import Control
from headway_policies import AdmissionState, Block
from headway_policies.engine.warmup import Warmup

ANN = Caller("ann", "operator")
SEATS = 4


class Program:
    """A fake engine that a program has wrapped with the requests of a warm-up."""

    def __init__(self, *, fails: bool = False) -> None:
        self.plain, self.fails = ServingEngine(step_s=0.01), fails
        warmup = Warmup(output_tokens=10, max_rounds=1, timeout_s=60)
        preset = small_preset(SEATS).model_copy(update={"warmup": warmup})
        self.engine: Any = headway.wrap(self.plain, preset, warmup=self._start)
        self.control: Control = self.engine.headway

    def _start(self, request_id: str) -> Any:
        if self.fails:
            raise RuntimeError("no grammar")
        return self.plain.generate("text", FakeParams(10), request_id)

    async def ask(self, name: str, tokens: int = 3) -> int:
        """One request; the first waits for the first warm-up."""
        outputs = [output async for output in self.engine.generate("p", FakeParams(tokens), name)]
        return len(outputs[-1].tokens)

    def audit(self) -> list[str]:
        """The results of the ordered warm-ups, the oldest first."""
        lines = reversed(self.control.audit.entries(20))
        return [one.result for one in lines if one.action == "warm_up_engine"]


@on_virtual_time
async def test_a_warm_up_runs_beside_a_request_that_loses_nothing() -> None:
    """In the free seats; the server stays ready, the requests are served, and no count has those of the warm-up."""
    program = Program()
    assert await program.ask("first") == 3
    started = len(program.plain.started)
    running = asyncio.create_task(program.ask("beside", 100))
    await asyncio.sleep(0.05)
    begun = program.control.warmups.begin(ANN, "slow morning")
    assert (begun.batch_size, begun.running, begun.waiting) == (SEATS - 1, 1, 0)
    await asyncio.sleep(0.05)
    assert (program.control.not_ready(), program.control.status().warmup.ordered) == ([], True)
    assert await program.ask("new") == 3
    assert await running == 100
    await asyncio.sleep(5.0)
    own = [one for one in program.plain.started[started:] if one.startswith("headway-warm-up-")]
    assert len(own) == 1 + (SEATS - 1) + 1  # one alone, a batch of the free seats, one alone
    assert program.audit()[0] == "accepted: batches of at most 3"
    assert program.audit()[1].startswith("applied after ")
    status = program.control.status()
    assert (status.warmup.ordered, status.warmup.batch_size) == (False, SEATS - 1)
    assert [one.outcomes["completed"] for one in status.classes if one.arrived] == [3]
    program.engine.shutdown()


@on_virtual_time
async def test_a_warm_up_that_fails_costs_nothing() -> None:
    """The server stays ready, the last report stays, the audit says why, and nothing is tried again."""
    program = Program()
    await program.ask("first")
    before = program.control.status().warmup
    program.fails = True
    program.control.warmups.begin(ANN)
    await asyncio.sleep(1000.0)
    assert program.audit()[1:] == ["failed: single: RuntimeError: no grammar"]
    assert (program.control.status().warmup, program.control.not_ready()) == (before, [])
    assert await program.ask("second") == 3
    program.engine.shutdown()


@on_virtual_time
async def test_one_runs_at_a_time() -> None:
    """The second is refused, and recorded; after the end of the first another one may run."""
    program = Program()
    await program.ask("first")
    program.control.warmups.begin(ANN)
    with pytest.raises(CommandConflictError, match="a warm-up is under way: wait for its end"):
        program.control.warmups.begin(ANN)
    await asyncio.sleep(5.0)
    program.control.warmups.begin(ANN)
    await asyncio.sleep(5.0)
    assert [one.split(":")[0] for one in program.audit()] == [
        "accepted", "refused", "applied after 0.3 s", "accepted", "applied after 0.3 s",
    ]  # fmt: skip
    program.engine.shutdown()


async def _at_once(batch_size: int) -> str:
    return ""


def _dead(control: Control) -> None:
    control.gateway.gate.engine_lost()


def _cold(control: Control) -> None:
    control.warmup.report.state = "failed"


def _closing(control: Control) -> None:
    control.gateway.link.closing = True


def _asleep(control: Control) -> None:
    control.gateway.gate.pause(Block.ENGINE_ASLEEP)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_dead, "the engine is not running: another one is warmed up when it starts"),
        (_cold, "a warm-up is under way"),
        (_closing, "the server is closing"),
        (_asleep, "the engine is paused or asleep: wake it up first"),
    ],
)
@on_virtual_time
async def test_an_engine_that_cannot_serve_is_not_warmed_up(make: Callable[[Control], None], why: str) -> None:
    """With the reason, and what to do instead, in the audit too."""
    control, _ = installed(TrippingEngine(), small_preset(2), warm_beside_traffic=_at_once)
    make(control)
    with pytest.raises(CommandConflictError, match=why):
        control.warmups.begin(ANN)
    assert control.audit.entries(1)[0].result.startswith(f"refused: {why}")
    assert not control.warmups.running


@on_virtual_time
async def test_an_engine_whose_requests_nobody_knows_has_no_warm_up() -> None:
    """The program gave no function that starts one."""
    control, _ = installed(TrippingEngine(), small_preset(2))
    with pytest.raises(NoWarmupError, match="nothing says which requests it takes"):
        control.warmups.begin(ANN)
    assert control.audit.entries(1)[0].result.startswith("refused: this engine has no warm-up")


@on_virtual_time
async def test_a_paused_server_may_be_warmed_up() -> None:
    """Its requests wait, and those of the warm-up do not."""
    program = Program()
    await program.ask("first")
    program.control.admission.pause(ANN)
    program.control.warmups.begin(ANN)
    await asyncio.sleep(5.0)
    assert program.audit()[1].startswith("applied after ")
    assert program.control.gateway.gate.desk.mode.state is AdmissionState.PAUSED
    program.engine.shutdown()


@on_virtual_time
async def test_an_end_of_the_server_ends_it() -> None:
    """The audit says so."""
    program = Program()
    await program.ask("first")
    program.control.warmups.begin(ANN)
    await asyncio.sleep(0.05)
    program.engine.shutdown()
    await asyncio.sleep(1.0)
    assert program.audit()[-1] == "ended: the server closes"
