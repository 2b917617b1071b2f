"""Headway: a timetable for vLLM.

    engine = headway.wrap(engine, preset="balanced")

puts an engine of your own program behind priority classes, bounded queues and time-outs; ``headway serve`` does it for
a whole server. Importing this package needs no vLLM.
"""

from headway.admission import Gate, Permit
from headway.audit import Caller
from headway.batcher import Batcher, BatcherStats, PrioritizedRequest, PriorityRequestQueue, SyncBatcher
from headway.errors import (
    BatchFunctionError,
    Expired,
    HeadwayError,
    NoEngineError,
    Refused,
    Rejected,
    StaleRevisionError,
    TimedOut,
    TooWideError,
    UnknownClassError,
    UnknownPresetError,
    UnknownRungError,
    UnusablePresetError,
)
from headway.operator import Control
from headway.release import version
from headway.wrap import wrap
from headway_policies import Outcome, Preset, PresetError, Reason, Timeouts, load_preset

__version__ = version()

__all__ = [
    "BatchFunctionError",
    "Batcher",
    "BatcherStats",
    "Caller",
    "Control",
    "Expired",
    "Gate",
    "HeadwayError",
    "NoEngineError",
    "Outcome",
    "Permit",
    "Preset",
    "PresetError",
    "PrioritizedRequest",
    "PriorityRequestQueue",
    "Reason",
    "Refused",
    "Rejected",
    "StaleRevisionError",
    "SyncBatcher",
    "TimedOut",
    "Timeouts",
    "TooWideError",
    "UnknownClassError",
    "UnknownPresetError",
    "UnknownRungError",
    "UnusablePresetError",
    "load_preset",
    "wrap",
]
