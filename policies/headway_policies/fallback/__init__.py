"""The fallback ladder: its rungs and triggers, how each rung degrades requests, and the circuit breaker.

A rung degrades only requests of classes that allow it.
"""

from headway_policies.fallback.circuit_breaker import BreakerState, CircuitBreaker, Verdict
from headway_policies.fallback.degradation import (
    Degradation,
    bypasses,
    capped_tokens,
    diverts,
    pauses,
    queue_age_s,
    sheds,
)
from headway_policies.fallback.error_rate import ErrorRate
from headway_policies.fallback.ladder import Ladder
from headway_policies.fallback.rungs import RUNG_TRIGGERS, Fallback, FallbackSignals, Rung, Trigger

__all__ = [
    "RUNG_TRIGGERS",
    "BreakerState",
    "CircuitBreaker",
    "Degradation",
    "ErrorRate",
    "Fallback",
    "FallbackSignals",
    "Ladder",
    "Rung",
    "Trigger",
    "Verdict",
    "bypasses",
    "capped_tokens",
    "diverts",
    "pauses",
    "queue_age_s",
    "sheds",
]
