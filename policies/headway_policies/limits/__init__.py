"""Concurrency limits: how many sequences may run in the engine at once.

A limit policy proposes, the governor bounds the proposal; both learn from engine steps.
"""

from headway_policies.limits.equal_steps import EqualSteps, StepReport
from headway_policies.limits.fit.engine_fit import EngineFit, Unloaded
from headway_policies.limits.fit.step_time import StepTime, StepTimeFit
from headway_policies.limits.governor import (
    MEMORY_WHYS,
    WHYS,
    Governor,
    LimitFailure,
    LimitPolicy,
    make_limit,
)
from headway_policies.limits.interval import IntervalMeter
from headway_policies.limits.learnt import Learns, Learnt
from headway_policies.limits.limit import FixedLimit, Interval, Limit, LimitSettings, Load, RankLoad, Signals
from headway_policies.limits.objectives_now import ObjectivesNow
from headway_policies.limits.pacing import PrefillPacer
from headway_policies.limits.resolved import Resolved, resolved

__all__ = [
    "MEMORY_WHYS",
    "WHYS",
    "EngineFit",
    "EqualSteps",
    "FixedLimit",
    "Governor",
    "Interval",
    "IntervalMeter",
    "Learns",
    "Learnt",
    "Limit",
    "LimitFailure",
    "LimitPolicy",
    "LimitSettings",
    "Load",
    "ObjectivesNow",
    "PrefillPacer",
    "RankLoad",
    "Resolved",
    "Signals",
    "StepReport",
    "StepTime",
    "StepTimeFit",
    "Unloaded",
    "make_limit",
    "resolved",
]
