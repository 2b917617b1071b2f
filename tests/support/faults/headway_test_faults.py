"""Faults on demand inside a server: a vLLM plugin of the tests' own, put on the path of the servers they start.

The file named by HEADWAY_TEST_FAULT holds the order: ``oom N`` makes the next N steps with work run out of memory,
``poison T`` kills the engine whenever a request with ``max_tokens == T`` is about to run, ``clock S`` puts the wall
clock of all its processes S seconds ahead (``time.time``, the only one that is read here), ``slow S`` makes the worker
compute for S seconds in its next step, ``admit nothing`` keeps the scheduler from admitting any request for as long as
the file says so. No file, no fault.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any


def register() -> None:
    """Wrap every step of EngineCore, and every reading of the wall clock, with the ordered faults."""
    if "HEADWAY_TEST_FAULT" not in os.environ:
        return
    time.time = _wrong(time.time)
    worker = getattr(sys.modules.get("vllm.v1.worker.worker_base"), "WorkerWrapperBase", None)
    if worker is not None:
        worker.execute_model = _slowed(worker.execute_model)
    core = getattr(sys.modules.get("vllm.v1.engine.core"), "EngineCore", None)
    if core is None:
        return
    for name in ("step", "step_with_batch_queue"):
        setattr(core, name, _tripping(getattr(core, name)))


def _tripping(step: Any) -> Any:
    def tripped(self: Any, *arguments: Any, **options: Any) -> Any:
        orders = Path(os.environ["HEADWAY_TEST_FAULT"])
        _obey(orders, self.scheduler)
        _admit(self.scheduler, nothing=_read(orders) == ("admit", "nothing"))
        return step(self, *arguments, **options)

    return tripped


def _admit(scheduler: Any, *, nothing: bool) -> None:
    if nothing:
        scheduler.max_num_active_reqs = 0
    elif not scheduler.max_num_active_reqs:
        scheduler.max_num_active_reqs = scheduler.max_num_running_reqs


def _slowed(execute: Any) -> Any:
    orders = Path(os.environ["HEADWAY_TEST_FAULT"])

    def slowed(self: Any, *arguments: Any, **options: Any) -> Any:
        what, number = _read(orders)
        if what == "slow":
            orders.unlink()
            until_s = time.monotonic() + float(number)
            while time.monotonic() < until_s:
                pass
        return execute(self, *arguments, **options)

    return slowed


def _wrong(clock: Any) -> Any:
    orders = Path(os.environ["HEADWAY_TEST_FAULT"])

    def wrong() -> float:
        what, number = _read(orders)
        return float(clock()) + (float(number) if what == "clock" else 0.0)

    return wrong


def _obey(orders: Path, scheduler: Any) -> None:
    if not scheduler.has_requests():
        return
    what, number = _read(orders)
    if what == "oom":
        left = int(number) - 1
        orders.write_text(f"oom {left}") if left else orders.unlink()
        import torch

        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB (a test's fault)")
    if what == "poison" and any(one.max_tokens == int(number) for one in scheduler.requests.values()):
        raise RuntimeError("poisoned (a test's fault)")


def _read(orders: Path) -> tuple[str, str]:
    """The first word of the order and the rest; empty without an order, which a test may take away at any time."""
    try:
        what, _, rest = orders.read_text().partition(" ")
    except FileNotFoundError:
        return "", ""
    return what, rest
