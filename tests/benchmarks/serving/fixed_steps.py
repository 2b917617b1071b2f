"""Two settings of vLLM's for long prompts, changed between two blocks: ``--max-num-batched-tokens`` and
``--long-prefill-token-threshold``.

The scheduler reads both anew in every ``schedule()``, so one engine plays all of their arms in turn with the others. A
method is added to EngineCore: a process that is forked has it from here, a spawned one loads it as a plugin of vLLM's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

FIX = "bench_fix_steps"


def install(folder: Path) -> None:
    """Before an engine is started: have its process know the method. ``folder`` is to last as long as the engine."""
    found = folder / "bench_steps-0.dist-info"
    found.mkdir()
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: bench-steps\nVersion: 0\n", encoding="utf-8")
    plugin = f"[vllm.general_plugins]\nbench_steps = {__name__}:register\n"
    (found / "entry_points.txt").write_text(plugin, encoding="utf-8")
    sys.path.append(str(folder))
    register()


def register() -> None:
    """Add the method."""
    from vllm.v1.engine.core import EngineCore

    setattr(EngineCore, FIX, fix_steps)


def fix_steps(core: Any, budget: int | None, threshold: int | None) -> None:
    """Set both from the next step on; None: as the engine was started."""
    scheduler = core.scheduler
    started_with: int = core.__dict__.setdefault("bench_started_with", scheduler.max_num_scheduled_tokens)
    scheduler.max_num_scheduled_tokens = min(budget or started_with, started_with)
    scheduler.scheduler_config.long_prefill_token_threshold = threshold or 0
