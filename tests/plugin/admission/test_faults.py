"""Every fault in every phase of a request, with one seat: one outcome, no residue, and the next request is served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from engines import TrippingEngine, assert_no_residue, outcomes
from small_presets import small_preset
from virtual_time import on_virtual_time

import headway
from headway.admission.gate import Permit
from headway.engine.fake import FakeParams
from headway.errors import Expired, Rejected, TimedOut
from headway_policies import Ending

ADD_S, STEP_S, TOKENS = 2.0, 1.0, 4
LAST_S = ADD_S + TOKENS * STEP_S

#: How long after the dispatch the fault strikes; None while the request still waits.
PHASES: dict[str, float | None] = {
    "waiting": None,
    "at dispatch": 0.0,
    "in add": 0.5 * ADD_S,
    "before first token": ADD_S + 0.5 * STEP_S,
    "mid stream": ADD_S + 2.5 * STEP_S,
    "last token": LAST_S + 0.5 * STEP_S,
}
WAIT_S = 3.0

#: What becomes of the request: (while it waits, at the dispatch, later).
EXPECTED = {
    "cancel": ("cancelled_queued", "cancelled_running", "cancelled_running"),
    "deadline": ("expired_queued", "expired_queued", "expired_running"),
    "engine exception": ("failed", "failed", "failed"),
    "drain": ("drained", "completed", "completed"),
    "preset switch": ("completed", "completed", "completed"),
    "engine death": ("engine_lost", "engine_lost", "engine_lost"),
}
RAISED: dict[str, type[BaseException] | None] = {
    "cancelled_queued": asyncio.CancelledError,
    "cancelled_running": asyncio.CancelledError,
    "expired_queued": Expired,
    "expired_running": TimedOut,
    "failed": RuntimeError,
    "drained": Rejected,
    "engine_lost": Rejected,
    "completed": None,
}


@dataclass
class Scene:
    """One engine with one seat, the request that holds it, and the request to which the fault happens."""

    engine: Any = field(
        default_factory=lambda: headway.wrap(
            TrippingEngine(max_num_seqs=1, step_s=STEP_S, add_s=ADD_S), small_preset(1)
        )
    )
    holder: Permit | None = None
    victim: asyncio.Task[int] | None = None

    @property
    def control(self) -> headway.Control:
        control: headway.Control = self.engine.headway
        return control

    async def request(self, request_id: str, timeout_s: float | None = None) -> int:
        """Read one answer to its end, lingering over the last token; returns the number of tokens."""
        tokens = 0
        async for output in self.engine.generate("text", FakeParams(TOKENS), request_id, timeout_s=timeout_s):
            tokens = len(output.tokens)
            if output.finished:
                await asyncio.sleep(STEP_S)
        return tokens

    def cancel(self) -> None:
        assert self.victim is not None
        self.victim.cancel()

    def context(self) -> None:
        self.engine.trips_over.add("victim")

    def drain(self) -> None:
        self.control.gateway.gate.drain()

    def switch(self) -> None:
        self.control.gateway.gate.switch(small_preset(1, name="other"))

    def die(self) -> None:
        self.engine.die()
        self.control.gateway.link.check_engine()  # as the supervisor's next round does
        assert "the engine is not running" in self.control.not_ready()


STRIKES: dict[str, Callable[[Scene], None]] = {
    "cancel": Scene.cancel,
    "deadline": lambda scene: None,
    "engine exception": Scene.context,
    "drain": Scene.drain,
    "preset switch": Scene.switch,
    "engine death": Scene.die,
}


@pytest.mark.parametrize("fault", EXPECTED)
@pytest.mark.parametrize("phase", PHASES)
@on_virtual_time
async def test_whatever_happens_whenever_the_next_request_is_served(phase: str, fault: str) -> None:
    """The request ends once, as the table says; no state of it remains, and with one seat the next one completes."""
    scene, after_s = Scene(), PHASES[phase]
    begun_s = asyncio.get_running_loop().time()
    scene.holder = scene.control.gateway.gate.enter()
    strike_s = WAIT_S if after_s is None else WAIT_S + after_s
    scene.victim = asyncio.create_task(scene.request("victim", strike_s if fault == "deadline" else None))

    await asyncio.sleep(WAIT_S)
    assert asyncio.get_running_loop().time() - begun_s == pytest.approx(WAIT_S)
    if after_s is not None:
        scene.holder.leave(Ending.COMPLETED)
        await asyncio.sleep(after_s) if after_s else None
    STRIKES[fault](scene)
    await asyncio.sleep(0.01)
    scene.holder.leave(Ending.COMPLETED)
    [result] = await asyncio.gather(scene.victim, return_exceptions=True)

    expected = EXPECTED[fault][0 if after_s is None else 1 if after_s == 0 else 2]
    error_type = RAISED[expected]
    assert (result == TOKENS) if error_type is None else (type(result) is error_type), result
    counted = outcomes(scene.control)
    held = "engine_lost" if (phase, fault) == ("waiting", "engine death") else "completed"
    assert sum(counted.values()) == 2
    assert counted == ({expected: 2} if expected == held else {expected: 1, held: 1})
    await assert_no_residue(scene.control)
    assert scene.engine.most_running <= 1

    scene.engine.revive()
    scene.control.gateway.link.engine_back()
    scene.control.gateway.gate.resume()
    assert await asyncio.wait_for(scene.request("next"), 60.0) == TOKENS
    assert outcomes(scene.control)["completed"] == counted.get("completed", 0) + 1
    await assert_no_residue(scene.control)


@pytest.mark.parametrize("phase", [phase for phase, after_s in PHASES.items() if after_s is not None])
@pytest.mark.parametrize("fault", ["cancel", "deadline"])
@on_virtual_time
async def test_what_the_engine_may_have_is_aborted_there(phase: str, fault: str) -> None:
    """An early end is followed by an abort whenever the engine was asked, and only then."""
    scene, after_s = Scene(), PHASES[phase]
    assert after_s is not None
    scene.victim = asyncio.create_task(scene.request("victim", after_s or 0.001 if fault == "deadline" else None))
    await asyncio.sleep(after_s)
    if fault == "cancel":
        scene.cancel()
    await asyncio.gather(scene.victim, return_exceptions=True)
    await assert_no_residue(scene.control)
    assert ("victim" in scene.engine.aborted) == ("victim" in scene.engine.started)
