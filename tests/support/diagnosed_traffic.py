"""Traffic on a server that diagnoses itself, on virtual time: what clients ask for, and what the engine reports."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from engines import ServingEngine, installed
from small_presets import small_preset

from headway.errors import Refused
from headway.operator.control import Control
from headway.supervision import EngineActivity
from headway_policies import Ending, Load, Preset
from headway_policies.diagnosis import Bottleneck, Diagnosis, Severity

PROMPT_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for, and how the engine serves it: a first token, then one each ``pace_s``."""

    class_name: str = "normal"
    first_s: float = 0.1
    pace_s: float = 0.02
    tokens: int = 21
    seats: int = 1
    ending: Ending = Ending.COMPLETED
    adapter: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A server and its traffic: a request each ``every_s``, ``burst`` at once; what the engine reports of a step."""

    bottleneck: Bottleneck
    severity: Severity
    words: str
    request: Request = field(default_factory=Request)
    every_s: float = 1.0
    burst: int = 1
    preset: Preset = field(default_factory=lambda: small_preset(4))
    ceiling: int = 64
    begin: Callable[[Control], None] = lambda control: None
    step: Callable[[int], Load] | None = None
    others: tuple[Request, ...] = ()


async def serve(control: Control, request: Request) -> None:
    """One request, from its arrival to its end."""
    gate = control.gateway.gate
    try:
        permit = gate.enter(
            request.class_name,
            seats=request.seats,
            prompt_tokens=PROMPT_TOKENS,
            max_tokens=request.tokens,
            adapter=request.adapter,
        )
    except Refused:
        return
    try:
        await permit.admitted()
        await asyncio.sleep(request.first_s)
        permit.first_token()
        await asyncio.sleep(request.pace_s * (request.tokens - 1))
        permit.check()
    except Refused:
        permit.leave(Ending.FAILED)
        return
    permit.use(PROMPT_TOKENS, request.tokens * request.seats)
    permit.leave(request.ending)


async def arrivals(control: Control, scenario: Scenario, calls: set[asyncio.Task[None]]) -> None:
    """The traffic of a scenario, without end."""
    for one in scenario.others:
        calls.add(asyncio.create_task(serve(control, one)))
    while True:
        for _ in range(scenario.burst):
            calls.add(asyncio.create_task(serve(control, scenario.request)))
        await asyncio.sleep(scenario.every_s)


async def steps(control: Control, activity: EngineActivity, step: Callable[[int], Load]) -> None:
    """The engine's reports, twenty a second while anything runs."""
    while True:
        await asyncio.sleep(0.05)
        taken = control.gateway.gate.desk.seats_taken
        if taken:
            activity.step(step(taken), taken, ())


@contextlib.asynccontextmanager
async def playing(scenario: Scenario) -> AsyncIterator[Control]:
    """A server that runs its diagnostics under the scenario's traffic; its engine runs one adapter at a time."""
    engine = ServingEngine(max_num_seqs=scenario.ceiling)
    engine.max_loras = 1
    control, parts = installed(engine, scenario.preset)
    calls = set[asyncio.Task[None]]()
    work = [
        asyncio.create_task(control.diagnostics.run()),
        asyncio.create_task(arrivals(control, scenario, calls)),
    ]
    if scenario.step is not None:
        work.append(asyncio.create_task(steps(control, parts.activity, scenario.step)))
    scenario.begin(control)
    try:
        yield control
    finally:
        for one in (*work, *calls):
            one.cancel()
        await asyncio.gather(*work, *calls, return_exceptions=True)


async def found_in(scenario: Scenario) -> list[Diagnosis]:
    """Every diagnosis of a minute, once the first minute is over."""
    async with playing(scenario) as control:
        await asyncio.sleep(60.0)
        found = []
        for _ in range(12):
            await asyncio.sleep(5.0)
            found.append(control.diagnostics.last)
    return found
