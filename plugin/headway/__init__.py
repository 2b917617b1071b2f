"""Headway: admission control and priority scheduling for vLLM.

    engine = headway.wrap(engine, preset="balanced")

puts an engine of your own program behind priority classes, bounded queues and time-outs; ``headway serve`` does it for
a whole server. Importing this package needs no vLLM.

A name is imported when it is first used (PEP 562), so that ``import headway.api`` stays light.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from headway.admission import Gate, Permit
    from headway.audit import Caller
    from headway.batcher import (
        BatchConfig,
        Batcher,
        BatcherStats,
        InferenceRequest,
        PrioritizedRequest,
        PriorityRequestQueue,
        SyncBatcher,
    )
    from headway.errors import (
        BatchFunctionError,
        CommandConflictError,
        Expired,
        HeadwayError,
        LimitCommandError,
        NoEngineError,
        NoTrialError,
        NoWarmupError,
        Refused,
        Rejected,
        StaleRevisionError,
        TimedOut,
        TooWideError,
        UnknownClassError,
        UnknownPresetError,
        UnknownRevisionError,
        UnknownRungError,
        UnusablePresetError,
    )
    from headway.operator import Control
    from headway.wrapping import WrappedEngine, wrap
    from headway_policies import Outcome, Preset, PresetError, Reason, Timeouts, load_preset

    __version__: str

_MODULES = {
    "headway.admission": ("Gate", "Permit"),
    "headway.audit": ("Caller",),
    "headway.batcher": (
        "BatchConfig",
        "Batcher",
        "BatcherStats",
        "InferenceRequest",
        "PrioritizedRequest",
        "PriorityRequestQueue",
        "SyncBatcher",
    ),
    "headway.errors": (
        "BatchFunctionError",
        "Expired",
        "HeadwayError",
        "LimitCommandError",
        "NoEngineError",
        "NoTrialError",
        "NoWarmupError",
        "CommandConflictError",
        "Refused",
        "Rejected",
        "StaleRevisionError",
        "TimedOut",
        "TooWideError",
        "UnknownClassError",
        "UnknownPresetError",
        "UnknownRevisionError",
        "UnknownRungError",
        "UnusablePresetError",
    ),
    "headway.operator": ("Control",),
    "headway.wrapping": ("WrappedEngine", "wrap"),
    "headway_policies": ("Outcome", "Preset", "PresetError", "Reason", "Timeouts", "load_preset"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "BatchConfig",
    "BatchFunctionError",
    "Batcher",
    "BatcherStats",
    "Caller",
    "CommandConflictError",
    "Control",
    "Expired",
    "Gate",
    "HeadwayError",
    "InferenceRequest",
    "LimitCommandError",
    "NoEngineError",
    "NoTrialError",
    "NoWarmupError",
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
    "UnknownRevisionError",
    "UnknownRungError",
    "UnusablePresetError",
    "WrappedEngine",
    "load_preset",
    "wrap",
]


if not typing.TYPE_CHECKING:  # a type checker would take every name for one of the package

    def __getattr__(name: str) -> object:
        """Import a name of the package at its first use, and keep it."""
        if name == "__version__":
            value = importlib.import_module("headway.release").version()
        elif name in _MODULE_OF:
            value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
