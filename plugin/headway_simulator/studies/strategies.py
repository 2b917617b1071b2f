"""Presets with nothing but a batching strategy, to compare the strategies.

The presets have one class, no time-outs and an unbounded queue, so two runs differ by the strategy alone. The reference
point is ``serial`` (one at a time); ``padded`` is a static batch in which an ended sequence keeps its place until the
longest has ended, as without iteration-level scheduling.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from headway_policies import Batching, Preset, PriorityClass
from headway_policies.queueing import OrderSettings, QueueSettings
from headway_simulator.engine_model.engine import EngineModel

Strategy = Literal["static", "dynamic", "continuous"]
_ENDLESS = 1_000_000
_FLUSH_S = 60.0


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of the comparison: its name, its preset (None: the engine alone) and the engine under it."""

    name: str
    preset: Preset | None
    model: EngineModel


def plain(strategy: Strategy, seats: int, *, window_ms: float = 50.0, flush_after_s: float | None = _FLUSH_S) -> Preset:
    """A preset that is its strategy and nothing else."""
    static = strategy == "static"
    return Preset(
        name=f"{strategy}-{seats}",
        default_class="normal",
        batching=Batching(
            strategy=strategy,
            seats=seats,
            window_ms=window_ms,
            flush_after_s=flush_after_s if static else None,
        ),
        ordering=OrderSettings(between="strict", inside="fifo"),
        queue=QueueSettings(max_waiting=_ENDLESS),
        classes={"normal": PriorityClass(priority=0, max_waiting=_ENDLESS)},
    )


def strategy_arms(seats: int, model: EngineModel) -> list[Arm]:
    """Serial, padded static, static, dynamic and continuous on one engine."""
    arms = [Arm("serial", plain("continuous", 1), model)]
    arms.append(Arm(f"padded-{seats}", plain("static", seats), replace(model, padded=True)))
    for strategy in ("static", "dynamic", "continuous"):
        preset = plain(strategy, seats)
        arms.append(Arm(preset.name, preset, model))
    return arms
