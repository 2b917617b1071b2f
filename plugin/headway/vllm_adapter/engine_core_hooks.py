"""The general plugin: Headway's changes to vLLM in its processes (``patches``), and the methods added to EngineCore.

vLLM loads it in every process; it acts only where EngineCore lives. EngineCore answers utility calls on its own thread
between two steps (v1/engine/core.py), so a method added to it changes the scheduler without a race and without a
restart. The scheduler reads these attributes at every ``schedule()``.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from headway.checks.start import rust_front_end
from headway.errors import HeadwayError
from headway.patches import switched_off
from headway.vllm_adapter.logs.format import log_json_lines
from headway.vllm_adapter.logs.privacy import hide_engine_content
from headway.vllm_adapter.process.cpu_yield import yield_cpu
from headway.vllm_adapter.process.death_cause import listen_for_death_cause, listen_for_failed_starts
from headway.vllm_adapter.process.engine_sockets import remove_when_killed
from headway.vllm_adapter.process.interrupted_start import interruptible
from headway.vllm_adapter.process.limits_page import follow_limits_page
from headway.vllm_adapter.process.parent_watch import watch_starts
from headway.vllm_adapter.process.progress import (
    engine_of,
    prepare_progress,
    report_compilations,
    report_progress,
)
from headway.vllm_adapter.process.ranks import bind_ranks, most_active
from headway.vllm_adapter.process.worker_cache import clear_worker_caches
from headway.vllm_adapter.process.worker_memory import engine_memory
from headway.vllm_adapter.step_recorder import record_steps
from headway.vllm_adapter.step_shaper import shape_steps
from headway_policies import Block

GET_LIMITS = "headway_get_limits"
SET_LIMITS = "headway_set_limits"
CLEAR_WORKERS = "headway_clear_worker_caches"
GET_DISPATCH_BLOCKS = "headway_get_dispatch_blocks"
GET_MEMORY = "headway_get_memory"

#: The scheduler's attributes for the number of running sequences: by preference (0.31 and later, before).
_ACTIVE = ("max_num_active_reqs", "max_num_running_reqs")


def register() -> None:
    """Add the methods to EngineCore in its process, prepare starts of others, and yield the CPU where cores are few."""
    _refuse_rust_front_end()
    off = switched_off()
    hide_engine_content()
    log_json_lines()
    if "cpu-yield" not in off:
        yield_cpu()
    listen_for_failed_starts()
    manager = _class_of_starts("vllm.v1.engine.utils", "CoreEngineProcManager")
    if "process-watch" not in off:
        watch_starts(_class_of_starts("vllm.v1.engine.coordinator", "DPCoordinator"))
        watch_starts(manager, _prepare_start)
        watch_starts(getattr(sys.modules.get("vllm.v1.executor.multiproc_executor"), "MultiprocExecutor", None))
    if "ranks" not in off:
        bind_ranks(manager)
    _change_core(off)


def _change_core(off: frozenset[str]) -> None:
    """Add Headway's methods and reports to EngineCore, where this is its process."""
    module = sys.modules.get("vllm.v1.engine.core")
    core = getattr(module, "EngineCore", None)
    if core is None:
        return
    if not hasattr(core, SET_LIMITS):
        setattr(core, GET_LIMITS, get_limits)
        setattr(core, SET_LIMITS, set_limits)
        setattr(core, CLEAR_WORKERS, clear_worker_caches)
        setattr(core, GET_DISPATCH_BLOCKS, get_dispatch_blocks)
        setattr(core, GET_MEMORY, engine_memory)
    proc = getattr(module, "EngineCoreProc", None)
    if "limits-page" not in off:
        follow_limits_page(core, set_limits)
    if "step-ring" not in off:
        record_steps(core)  # before the first step is shaped, so that the ring has what the scheduler itself says
    if "progress" not in off:
        report_progress(core, proc)
    if "grammar-times" not in off:
        report_compilations(getattr(sys.modules.get("vllm.v1.structured_output"), "StructuredOutputManager", None))
    if proc is not None and "death-cause" not in off:
        listen_for_death_cause(proc)


def _refuse_rust_front_end() -> None:
    """Refuse to start behind Headway a front end that loads no plugins. Raises HeadwayError."""
    caution = rust_front_end(os.environ)
    if caution is not None and "headway" in os.environ.get("VLLM_PLUGINS", "").split(","):
        raise HeadwayError(str(caution))


def _prepare_start(config: Any) -> None:
    prepare_progress(engine_of(config))
    remove_when_killed()
    interruptible.listen()


def _class_of_starts(module: str, name: str) -> Any:
    """A class of vLLM's that starts engine processes; None in a process without the arguments of vLLM's engine."""
    if "vllm.engine.arg_utils" not in sys.modules:
        return None
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def get_limits(core: Any) -> dict[str, Any]:
    """The scheduler's live limits."""
    scheduler = core.scheduler
    return {"max_num_active_reqs": int(getattr(scheduler, _active_name(scheduler)))}


def get_dispatch_blocks(core: Any) -> list[str]:
    """The reasons why the engine does not run: a pause of its scheduler, or sleep."""
    paused = getattr(core, "is_scheduler_paused", bool)()
    asleep = bool(getattr(core.model_executor, "is_sleeping", False))
    blocked = {Block.ENGINE_PAUSED: paused, Block.ENGINE_ASLEEP: asleep}
    return [block.value for block, there in blocked.items() if there]


def set_limits(core: Any, limits: dict[str, Any]) -> None:
    """Set the given limits of the scheduler, at most what the engine was started for, and the step policy."""
    scheduler = core.scheduler
    if "max_num_active_reqs" in limits:
        most = most_active(scheduler.scheduler_config)
        setattr(scheduler, _active_name(scheduler), max(1, min(int(limits["max_num_active_reqs"]), most)))
    if "step" in limits and "steps" not in switched_off():
        shape_steps(core, limits["step"])


def _active_name(scheduler: Any) -> str:
    return next(name for name in _ACTIVE if hasattr(scheduler, name))
