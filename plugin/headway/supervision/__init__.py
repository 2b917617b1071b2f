"""Supervision of the engine and of memory: restarts, recycles, warm-up reports, caches and Python's collector.

Each part takes what it uses by its constructor, runs as a background task, and acts through the gateway.
"""

from headway.supervision.cache_file import CacheFile, cache_folder
from headway.supervision.engine_activity import EngineActivity
from headway.supervision.engine_recycle import CannotReplaceError, EngineRecycle, NotNowError
from headway.supervision.factory_replacer import EngineFactory, FactoryReplacer
from headway.supervision.learnt_limit import LearntLimit, learnt_limit_file
from headway.supervision.loop_lag import watch_loop
from headway.supervision.memory.maintenance import MemoryMaintenance
from headway.supervision.memory.probe import Gpu, Gpus, MemoryProbe
from headway.supervision.memory.processes import ProcessorUse, all_pids, memory_limit_bytes, read_processes
from headway.supervision.memory.report import TRIGGERS, MemoryReport
from headway.supervision.objectives_log import ObjectivesLog
from headway.supervision.overload_log import LOG_EVERY_S, OverloadLog
from headway.supervision.readiness import not_ready
from headway.supervision.spare_engine import SpareStarter
from headway.supervision.supervisor import Replacer, Supervisor
from headway.supervision.warmup_report import WarmupReport, WarmupState
from headway.supervision.window_log import WindowLog

__all__ = [
    "LOG_EVERY_S",
    "TRIGGERS",
    "CacheFile",
    "CannotReplaceError",
    "EngineActivity",
    "EngineFactory",
    "EngineRecycle",
    "FactoryReplacer",
    "Gpu",
    "Gpus",
    "LearntLimit",
    "MemoryMaintenance",
    "MemoryProbe",
    "MemoryReport",
    "NotNowError",
    "ObjectivesLog",
    "OverloadLog",
    "ProcessorUse",
    "Replacer",
    "SpareStarter",
    "Supervisor",
    "WarmupReport",
    "WarmupState",
    "WindowLog",
    "all_pids",
    "cache_folder",
    "learnt_limit_file",
    "memory_limit_bytes",
    "not_ready",
    "read_processes",
    "watch_loop",
]
