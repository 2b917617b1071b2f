"""The engine's life: its state, the hang watchdog, restarts, warm-up plans, and the suspects of a crash.

Each is a function of events and the time; none of them knows how an engine is started or asked.
"""

from headway_policies.engine.crash_suspects import CrashSuspects
from headway_policies.engine.restart_policy import Cause, Recovery, Restart, RestartPolicy
from headway_policies.engine.state import EngineState
from headway_policies.engine.warmup import Ramp, Stage, Warmup, WarmupPlan, keep_warm_due, retry_after_s
from headway_policies.engine.watchdog import Progress, Watchdog

__all__ = [
    "Cause",
    "CrashSuspects",
    "EngineState",
    "Progress",
    "Ramp",
    "Recovery",
    "Restart",
    "RestartPolicy",
    "Stage",
    "Warmup",
    "WarmupPlan",
    "Watchdog",
    "keep_warm_due",
    "retry_after_s",
]
