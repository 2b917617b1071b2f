"""Readiness: the reasons why the server should receive no traffic.

A pure function of the known state. Reading it changes nothing: the supervisor's own round, or a call that fails,
discovers that an engine died.
"""

from __future__ import annotations

from headway.supervision.supervisor import Supervisor
from headway.supervision.warmup_report import WarmupReport
from headway_policies import AdmissionState, Block, Desk, EngineState, Reason
from headway_policies.diagnosis import NO_INSTANCE
from headway_policies.engine import STUCK_WORDS

_STATES = {
    EngineState.SILENT: "the engine is unresponsive",
    EngineState.RESTARTING: "the engine is being replaced",
    EngineState.LOST: "the engine is not running",
}

_BLOCKS = {
    Block.ENGINE_PAUSED: "the engine is paused",
    Block.ENGINE_ASLEEP: "the engine is asleep",
    Block.NO_INSTANCE: NO_INSTANCE,
}


def not_ready(desk: Desk, warmup: WarmupReport, supervisor: Supervisor | None = None) -> list[str]:
    """The reasons, one sentence each, with the supervisor's present step; empty when the server is ready."""
    reasons, trying = list[str](), "" if supervisor is None else supervisor.trying
    if desk.mode.engine is not EngineState.UP and (warmup.warm or desk.mode.lost_why is not Reason.NOT_READY):
        reasons.append(_STATES[desk.mode.engine] + (f": {trying}" if trying else ""))
    if supervisor is not None and supervisor.stuck is not None and supervisor.stuck.blocks_others:
        reasons.append(STUCK_WORDS[supervisor.stuck])
    if not warmup.warm:
        reasons.append(f"warm-up {warmup.state}" + (f": {warmup.reason}" if warmup.reason else ""))
    reasons += [text for block, text in _BLOCKS.items() if block in desk.mode.blocks]
    if desk.mode.state is AdmissionState.DRAINING:
        reasons.append("draining")
    elif Block.OPERATOR in desk.mode.blocks:
        reasons.append("paused by an operator")
    return reasons
