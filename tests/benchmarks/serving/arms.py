"""What is compared: vLLM by itself, vLLM with the settings it has for an overload, and Headway's presets.

The seats and the cap of vLLM's own arms are the best for this workload on this machine, taken from the fluid ceiling of
the constants measured in the run; the caps of a machine of half and of double the speed show what such a number is
worth on another day. ``objective`` is the preset ``interactive`` with nothing set but the objectives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from headway.simulator.engine_model.capacity import Slo, ceiling
from headway.simulator.engine_model.engine import EngineModel
from headway.simulator.traffic.workload import Workload
from headway_policies import Preset, bundled_presets
from headway_policies.batching import Batching
from headway_policies.fallback import Fallback
from serving.client import Engine, Send

#: How a machine of another speed differs: the factor of its step times.
_SLOWER, _FASTER = 2.0, 0.5
BUNDLED = ("serial", "latency", "interactive", "balanced", "dynamic", "offline", "throughput")


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: how its requests are sent, and vLLM's cap or Headway's preset. ``own_seats``: on the small engine."""

    name: str
    words: str
    send: Callable[[Engine], Send]
    preset: Preset | None = None
    cap: int | None = None
    own_seats: bool = False

    def preset_on(self, seats: int) -> Preset:
        """What is in force during its block, on an engine with so many seats: vLLM alone has them all.

        A preset's seats bound what the engine runs, also past the gate.
        """
        return self.preset or without_bounds(Batching(seats=seats, window_ms=0))


def best_seats(workload: Workload, model: EngineModel, slo: Slo, factor: float = 1.0) -> int:
    """The sequences in flight at the fluid ceiling of the first phase, on a machine whose steps take ``factor``."""
    phase = workload.phases[0]
    scaled = replace(
        model, base_s=model.base_s * factor, seat_s=model.seat_s * factor, prefill_s=model.prefill_s * factor
    )
    return ceiling(scaled, phase.prompt.mean_tokens, phase.output.mean_tokens, slo).seats


def all_arms(workload: Workload, model: EngineModel, slo: Slo, grid: tuple[float, ...]) -> dict[str, Arm]:
    """Every arm by its name; ``grid``: the caps tried, as multiples of the best seats."""
    seats = best_seats(workload, model, slo)
    half, double = (best_seats(workload, model, slo, factor) for factor in (_SLOWER, _FASTER))
    found = [
        Arm("plain", "vLLM, as it comes", lambda engine: engine.bare),
        Arm("priority", f"vLLM, priority policy, --max-num-seqs {seats}", lambda engine: engine.ranked, own_seats=True),
        Arm("cap", f"vLLM, --max-num-queued-reqs {seats}: the best here", lambda engine: engine.bare, cap=seats),
        Arm("cap-half", f"the same, {half}: the best at half the speed", lambda engine: engine.bare, cap=half),
        Arm("cap-double", f"the same, {double}: the best at double the speed", lambda engine: engine.bare, cap=double),
        Arm("objective", "Headway, objectives stated, nothing tuned", lambda engine: engine.gated, stated(slo)),
    ]
    for name in BUNDLED:
        words = f"Headway, {name}, as it comes"
        found.append(Arm(name, words, lambda engine: engine.gated, bundled_presets()[name]))
    for factor in grid:
        cap = max(1, round(factor * seats))
        found.append(Arm(f"cap-x{factor:g}", f"the same, {cap}", lambda engine: engine.bare, cap=cap))
    return {one.name: one for one in found}


def without_bounds(batching: Batching, inside: str = "fifo") -> Preset:
    """This strategy and this order alone: no objective, no time-out and no rung that could refuse a request."""
    preset = bundled_presets()["throughput"]
    free = {"ttft_slo_s": None, "queue_timeout_s": 600.0, "total_timeout_s": 900.0, "first_token_timeout_s": None}
    changes = {
        "name": f"{batching.strategy}-{batching.seats}-{inside}",
        "batching": batching,
        "ordering": preset.ordering.model_copy(update={"inside": inside}),
        "classes": {name: one.model_copy(update=free) for name, one in preset.classes.items()},
        "fallback": Fallback(),
    }
    return preset.model_copy(update=changes)


def stated(slo: Slo) -> Preset:
    """``interactive`` with these objectives for all classes."""
    preset = bundled_presets()["interactive"]
    terms: Mapping[str, object] = {"ttft_slo_s": slo.ttft_s, "inter_token_slo_ms": 1000 * slo.inter_token_s}
    classes = {name: one.model_copy(update=dict(terms)) for name, one in preset.classes.items()}
    limit = preset.limit.model_copy(update={"inter_token_slo_ms": 1000 * slo.inter_token_s})  # as it follows in a file
    return preset.model_copy(update={"name": "objective", "classes": classes, "limit": limit})
