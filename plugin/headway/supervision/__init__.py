"""Supervision of the engine and of memory: restarts, recycles, warm-up reports, caches and Python's collector.

Each part runs as a background task and acts through the gateway.
"""

from headway.supervision.engine_recycle import CannotReplaceError, NotNowError
from headway.supervision.memory_maintenance import start_memory_maintenance
from headway.supervision.memory_probe import Gpus, resident_bytes
from headway.supervision.memory_report import TRIGGERS, MemoryReport
from headway.supervision.supervisor import Supervisor
from headway.supervision.warmup_report import WarmupReport

__all__ = [
    "TRIGGERS",
    "CannotReplaceError",
    "Gpus",
    "MemoryReport",
    "NotNowError",
    "Supervisor",
    "WarmupReport",
    "resident_bytes",
    "start_memory_maintenance",
]
