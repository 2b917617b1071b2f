"""Recycle: another engine in the place of a living one, and nobody lost.

1. Nobody goes to the engine any more; who comes waits, bounded and timed as always.
2. Who runs there finishes, within ``recycle_drain_s``; else it is given up, and everything goes on as before.
3. The engine is replaced, and the gate opens again. Where that fails, whoever watches the engine takes over; so it
   does when the engine dies on the way, and then there is nothing left to do here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from headway.audit import Who
from headway.errors import HeadwayError
from headway_policies import AdmissionState, Hold

if TYPE_CHECKING:
    from headway.operator.control import Control

log = logging.getLogger(__name__)

TASK = "recycle"
_LOOK_S = 0.05

Replace = Callable[[], Awaitable[None]]


class CannotReplaceError(HeadwayError):
    """This server has no way to put another engine in place."""


class NotNowError(HeadwayError):
    """A recycle is under way, or there is nothing to recycle."""


def begin(control: Control, who: Who, reason: str, trigger: str) -> None:
    """Start a recycle in the background. Raises CannotReplaceError or NotNowError; then nothing has changed."""
    try:
        replace = _replacer(control)
    except HeadwayError as error:
        _note(control, who, reason, f"refused: {error}")
        raise
    _note(control, who, reason, "accepted")
    control.tasks.start(TASK, _run(control, replace, who, reason, trigger))


def _replacer(control: Control) -> Replace:
    if control.replacer is None:
        raise CannotReplaceError("this server cannot replace its engine; restart it")
    desk = control.gateway.gate.desk
    if TASK in control.tasks:
        raise NotNowError("a recycle is under way")
    if desk.state is AdmissionState.DRAINING or not desk.engine_up:
        raise NotNowError("the server is draining, or its engine is not running")
    return control.replacer


async def _run(control: Control, replace: Replace, who: Who, reason: str, trigger: str) -> None:
    gate = control.gateway.gate
    began_s, deaths = gate.now_s(), _deaths(control)
    gate.pause(Hold.RECYCLE)
    try:
        drained = await _drained(control)
        if control.gateway.engine_gone or _deaths(control) != deaths:
            result = "overtaken: the engine died, and is replaced for that"
        elif drained:
            await replace()
            if not gate.desk.engine_up:
                raise HeadwayError("no other engine came")
            control.memory_report.recycled[trigger] += 1
            result = f"applied after {gate.now_s() - began_s:.1f} s"
        else:
            result = f"given up: {gate.desk.seats_taken} seats still taken after {gate.now_s() - began_s:.0f} s"
    except asyncio.CancelledError:
        _note(control, who, reason, "ended: the server closes")
        raise
    except Exception as error:
        log.exception("the engine could not be replaced")
        result = f"failed: {type(error).__name__}"
    finally:
        gate.resume(Hold.RECYCLE)
    _note(control, who, reason, result)


async def _drained(control: Control) -> bool:
    """Wait until nobody uses the engine. False when that takes too long."""
    try:
        async with asyncio.timeout(control.preset.memory.recycle_drain_s):
            while control.gateway.gate.desk.seats_taken or control.gateway.open_calls:  # noqa: ASYNC110 - two counts change
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        return False
    return True


def _deaths(control: Control) -> int:
    return 0 if control.supervisor is None else control.supervisor.deaths.total()


def _note(control: Control, who: Who, reason: str, result: str) -> None:
    name = control.preset.name
    control.audit.record(
        who, "recycle_engine", before=name, after=name, revision=control.revision, reason=reason, result=result
    )
