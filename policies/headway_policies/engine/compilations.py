"""Grammars that the engine compiles for structured outputs, and when they take too long.

vLLM compiles them in a small pool of threads beside its steps and cancels none. A compilation that takes hours is no
hang: the other requests are served. Requests with a grammar of their own wait until a thread is free.

    named           after ``hang_after_s``: a grammar has been compiling for so long
    engine replaced after ``slow_step_after_s``: grammars wait, and none has begun or ended for so long

Only another engine ends such a compilation, so ``restart_hung`` need not be set.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway_policies.engine.restart_policy import Recovery
from headway_policies.engine.watchdog import Progress


def slow_compilation_s(compiling_s: float, config: Recovery) -> float:
    """The age of the longest compilation in seconds; 0 where it has not taken too long."""
    return compiling_s if compiling_s > config.hang_after_s else 0.0


def compilations_stuck(reports: Iterable[Progress], config: Recovery) -> bool:
    """Whether the compilations of one engine keep others waiting for so long that it is to be replaced."""
    return any(report.compilations_held_s > max(config.hang_after_s, config.slow_step_after_s) for report in reports)
