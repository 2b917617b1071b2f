"""Headway's policies: pure decisions, with no clock, no I/O and no engine.

``Desk`` maps (event, now) to effects; every other module answers the one question in its first line.
"""

from headway_policies.batching import Batching
from headway_policies.classes import PriorityClass
from headway_policies.describe import dump
from headway_policies.desk import Desk
from headway_policies.effects import Abort, Degrade, Dispatch, Effect, Expire, Recall, Reject, WakeAt
from headway_policies.entry import Phase
from headway_policies.ledger import ClassLedger, Ledger
from headway_policies.limits import FixedLimit, Limit, Load, Signals
from headway_policies.opening import Cautious
from headway_policies.ordering import Order, StrictOrder
from headway_policies.outcome import Decision, Ending, Outcome, Reason
from headway_policies.prediction import Accuracy
from headway_policies.preset import (
    Change,
    Preset,
    PresetError,
    bundled_presets,
    changes,
    load_preset,
    parse_preset,
)
from headway_policies.recovery import Cause, Recovery, Restart, Restarts
from headway_policies.regime import Hold, State
from headway_policies.standing import Standing
from headway_policies.ticket import Ticket, Timeouts, Usage
from headway_policies.watchdog import Progress, Watchdog

__all__ = [
    "Abort",
    "Accuracy",
    "Batching",
    "Cause",
    "Cautious",
    "Change",
    "ClassLedger",
    "Decision",
    "Degrade",
    "Desk",
    "Dispatch",
    "Effect",
    "Ending",
    "Expire",
    "FixedLimit",
    "Hold",
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
    "Restart",
    "Restarts",
    "Signals",
    "Standing",
    "State",
    "StrictOrder",
    "Ticket",
    "Timeouts",
    "Usage",
    "WakeAt",
    "Watchdog",
    "bundled_presets",
    "changes",
    "dump",
    "load_preset",
    "parse_preset",
]
