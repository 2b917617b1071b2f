"""Headway's policies: pure decisions, with no clock, no I/O and no engine.

``Desk`` maps (event, now) to effects. The other modules are the policies that it uses.
"""

from headway_policies.batching import Batching
from headway_policies.desk import (
    Abort,
    AdmissionState,
    Block,
    CapReason,
    ClassLedger,
    Degrade,
    Desk,
    Dispatch,
    Effect,
    Expire,
    Ledger,
    Phase,
    Recall,
    Reject,
    Requeue,
    WakeAt,
    dump,
)
from headway_policies.engine import (
    Cause,
    EngineState,
    Progress,
    Recovery,
    Restart,
    RestartPolicy,
    Watchdog,
    compilations_stuck,
    slow_compilation_s,
)
from headway_policies.limits import FixedLimit, Limit, Load, Signals
from headway_policies.prediction import Accuracy
from headway_policies.preset import Change, Preset, PresetError, bundled_presets, changes, load_preset, parse_preset
from headway_policies.queueing import Order, StrictOrder
from headway_policies.request import Decision, Ending, Outcome, PriorityClass, Reason, Ticket, Timeouts, Usage

__all__ = [
    "Abort",
    "Accuracy",
    "AdmissionState",
    "Batching",
    "Block",
    "CapReason",
    "Cause",
    "Change",
    "ClassLedger",
    "Decision",
    "Degrade",
    "Desk",
    "Dispatch",
    "Effect",
    "Ending",
    "EngineState",
    "Expire",
    "FixedLimit",
    "Ledger",
    "Limit",
    "Load",
    "Order",
    "Outcome",
    "Phase",
    "Preset",
    "PresetError",
    "PriorityClass",
    "Progress",
    "Reason",
    "Recall",
    "Recovery",
    "Reject",
    "Requeue",
    "Restart",
    "RestartPolicy",
    "Signals",
    "StrictOrder",
    "Ticket",
    "Timeouts",
    "Usage",
    "WakeAt",
    "Watchdog",
    "bundled_presets",
    "changes",
    "compilations_stuck",
    "dump",
    "load_preset",
    "parse_preset",
    "slow_compilation_s",
]
