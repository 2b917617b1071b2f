"""The general plugin: knobs inside EngineCore.

vLLM loads it in every process; it acts only where EngineCore lives. EngineCore answers utility calls on its own thread
between two steps (v1/engine/core.py), so a method added to it changes the scheduler without a race and without a
restart. The scheduler reads these attributes at every ``schedule()``.
"""

from __future__ import annotations

import sys
from typing import Any

from headway.vllm_adapter.courtesy import be_courteous
from headway.vllm_adapter.last_words import listen_for_last_words
from headway.vllm_adapter.orphans import end_with_parent
from headway.vllm_adapter.worker_cache import clear_worker_caches

GET_LIMITS = "headway_get_limits"
SET_LIMITS = "headway_set_limits"
CLEAR_WORKERS = "headway_clear_worker_caches"

#: The scheduler's attributes for the number of running sequences: by preference (0.31 and later, before).
_ACTIVE = ("max_num_active_reqs", "max_num_running_reqs")


def register() -> None:
    """Add the knobs to EngineCore, in the process that has one; on a small CPU machine, leave the others some CPU."""
    be_courteous()
    end_with_parent()
    module = sys.modules.get("vllm.v1.engine.core")
    core = getattr(module, "EngineCore", None)
    if core is not None and not hasattr(core, SET_LIMITS):
        setattr(core, GET_LIMITS, get_limits)
        setattr(core, SET_LIMITS, set_limits)
        setattr(core, CLEAR_WORKERS, clear_worker_caches)
    proc = getattr(module, "EngineCoreProc", None)
    if proc is not None:
        listen_for_last_words(proc)


def get_limits(core: Any) -> dict[str, int]:
    """The scheduler's live limits."""
    return {"max_num_active_reqs": int(getattr(core.scheduler, _active_name(core.scheduler)))}


def set_limits(core: Any, limits: dict[str, int]) -> None:
    """Set the scheduler's live limits, never above what the model runner was started for."""
    scheduler = core.scheduler
    most = int(scheduler.scheduler_config.max_num_seqs)
    setattr(scheduler, _active_name(scheduler), max(1, min(int(limits["max_num_active_reqs"]), most)))


def _active_name(scheduler: Any) -> str:
    return next(name for name in _ACTIVE if hasattr(scheduler, name))
