"""Engine cores that are processes which only sleep, and as much of vLLM's clients of them as is looked at."""

from __future__ import annotations

import multiprocessing
import time
from types import SimpleNamespace
from typing import Any

Child = multiprocessing.process.BaseProcess


def sleeping_core(name: str = "EngineCore") -> Child:
    """A child with the name that vLLM gives its engine cores."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), name=name, daemon=True)
    child.start()
    return child


def end(children: list[Child]) -> None:
    """Kill those that are left."""
    for one in children:
        one.kill()  # type: ignore[attr-defined]  # of every context's process
        one.join()


def core_client(process: Child) -> Any:
    """The client of an engine core."""
    resources = SimpleNamespace(engine_manager=SimpleNamespace(processes=[process]), engine_dead=False)
    return SimpleNamespace(resources=resources, shutdown=lambda timeout: None)


def async_llm(core: Any) -> Any:
    """The engine of a program with this client."""
    return SimpleNamespace(
        engine_core=core,
        output_handler=None,
        output_processor=SimpleNamespace(request_states={}, abort_requests=lambda ids, internal: None),
        _run_output_handler=lambda: None,
    )
