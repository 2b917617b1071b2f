"""The engine's life cycle: state, hang and stuck watch, slow compilations, restarts, warm-up plans, crash suspects.

Pure functions of events and time; none of them knows how an engine is started or queried.
"""

from headway_policies.engine.compilations import compilations_stuck, slow_compilation_s
from headway_policies.engine.crash_suspects import CrashSuspects
from headway_policies.engine.restart_policy import Cause, Recovery, Restart, RestartPolicy
from headway_policies.engine.state import EngineState
from headway_policies.engine.stuck import STUCK_WORDS, StuckCause, StuckWatch
from headway_policies.engine.warmup import Ramp, Stage, Warmup, WarmupPlan, keep_warm_due, retry_after_s
from headway_policies.engine.watchdog import Progress, Watchdog

__all__ = [
    "STUCK_WORDS",
    "Cause",
    "CrashSuspects",
    "EngineState",
    "Progress",
    "Ramp",
    "Recovery",
    "Restart",
    "RestartPolicy",
    "Stage",
    "StuckCause",
    "StuckWatch",
    "Warmup",
    "WarmupPlan",
    "Watchdog",
    "compilations_stuck",
    "keep_warm_due",
    "retry_after_s",
    "slow_compilation_s",
]
