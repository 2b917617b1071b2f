"""Concurrency limits: how many sequences may run in the engine at once.

A limit policy proposes, the governor bounds the proposal; both learn from engine steps.
"""

from headway_policies.limits.governor import WHYS, Governor, LimitFailure, LimitPolicy, make_limit
from headway_policies.limits.interval import Interval
from headway_policies.limits.learnt import Learns, Learnt
from headway_policies.limits.limit import FixedLimit, Limit, LimitSettings, Load, Signals

__all__ = [
    "WHYS",
    "FixedLimit",
    "Governor",
    "Interval",
    "Learns",
    "Learnt",
    "Limit",
    "LimitFailure",
    "LimitPolicy",
    "LimitSettings",
    "Load",
    "Signals",
    "make_limit",
]
